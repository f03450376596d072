"""The memory guard: methods that compare all pairs say what they need before they allocate it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ultraspec._checks import check_integer

CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Memory that a process could still take without swapping, or None where the system does not tell."""
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


def check_max_pairs_bytes(value: int | None) -> None:
    """Raise unless the parameter `max_pairs_bytes` is None or a whole number."""
    if value is not None:
        check_integer("max_pairs_bytes", value, least=1, other=" or None")


def guard_pairs(method: str, what: str, n_bytes: int, max_pairs_bytes: int | None, instead: str) -> None:
    """Raise a MemoryError before too much is allocated.

    Parameters
    ----------
    method : str
        Whose memory it is.
    what : str
        What it is for, such as "the 70000 x 70000 co-association matrix".
    n_bytes : int
        Bytes needed.
    max_pairs_bytes : int or None
        Bytes allowed; None for half of what is available.
    instead : str
        What to use instead, such as "LWGP or U-SENC".

    Examples
    --------
    >>> guard_pairs("EAC", "the 70000 x 70000 co-association matrix", 8 * 70_000**2, 10**9, "LWGP or U-SENC")
    Traceback (most recent call last):
    MemoryError: EAC needs 39.2 GB for the 70000 x 70000 co-association matrix, and its limit is 1.0 GB. Use LWGP or
    U-SENC, pass fewer rows, or raise max_pairs_bytes.
    """
    guard_bytes(method, what, n_bytes, max_pairs_bytes, f"Use {instead}, pass fewer rows, or raise max_pairs_bytes.")


def guard_bytes(method: str, what: str, n_bytes: int, limit: int | None, what_to_do: str) -> None:
    """Raise a MemoryError that says `what_to_do` where `n_bytes` exceed the limit, or half of the memory available."""
    named = "its limit" if limit is not None else "its limit (half of the memory available now)"
    if limit is None:
        free = available_bytes()
        limit = None if free is None else free // 2
    if limit is not None and n_bytes > limit:
        raise MemoryError(
            f"{method} needs {n_bytes / 1e9:.1f} GB for {what}, and {named} is {limit / 1e9:.1f} GB. {what_to_do}"
        )
