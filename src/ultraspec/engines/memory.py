"""Memory of the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Return the bytes that a process can still allocate without swapping, or None if the system does not report it."""
    if sys.platform.startswith("linux"):
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(facts["MemAvailable"].split()[0]) * 1024
        limit, used = CGROUP / "memory.max", CGROUP / "memory.current"  # a container may have less
        if limit.exists() and used.exists() and limit.read_text().strip() != "max":
            free = min(free, max(0, int(limit.read_text()) - int(used.read_text())))
        return free
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None
