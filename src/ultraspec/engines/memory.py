"""Memory of processes and of the machine in bytes; None where the operating system does not report it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def resident_bytes(pid: int | None = None) -> int | None:
    """Return the resident memory of a process (by default this one) now; None also if it has ended."""
    try:
        with open(f"/proc/{'self' if pid is None else pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return None


def peak_bytes() -> int | None:
    """Return the largest resident memory that this process has had."""
    if sys.platform.startswith("linux"):  # getrusage would count the memory of the parent when this process was forked
        facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(facts["VmHWM"].split()[0]) * 1024
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def total_bytes() -> int | None:
    """Return the memory of the machine."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def available_bytes() -> int | None:
    """Return the memory that a process can still allocate without swapping; outside Linux, that of the machine."""
    if not sys.platform.startswith("linux"):
        return total_bytes()
    facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(facts["MemAvailable"].split()[0]) * 1024
    limit = CGROUP / "memory.max"  # a container may have less
    used = CGROUP / "memory.current"
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        free = min(free, max(0, int(limit.read_text()) - int(used.read_text())))
    return free
