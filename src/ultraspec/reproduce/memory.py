"""Memory of processes, and of the machine: None where the system does not tell."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ultraspec.engines.memory import available_bytes


def peak_bytes() -> int | None:
    """The most resident memory that this process ever had."""
    if sys.platform.startswith("linux"):  # getrusage's peak would begin with that of the parent
        facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(facts["VmHWM"].split()[0]) * 1024
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_of(pid: int) -> int | None:
    """Resident memory of another process now; None also where it has ended."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return None


def total_bytes() -> int | None:
    """Memory of the machine."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def usual_limit() -> int | None:
    """Memory that a run may take unless the user says otherwise: nine tenths of what is available now."""
    free = available_bytes()
    return None if free is None else free * 9 // 10
