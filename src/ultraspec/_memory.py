"""How much memory the process holds."""

from __future__ import annotations

import os
import sys


def resident_bytes() -> int | None:
    """Resident memory of this process now, or None where the system does not tell."""
    if sys.platform.startswith("linux"):
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
