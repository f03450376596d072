"""Locks on files, which the operating system releases when the process ends, however it ends."""

from __future__ import annotations

from typing import IO, Any


def lock_file(file: IO[Any], *, wait: bool) -> None:
    """Lock an open file against other processes, where the operating system supports it.

    Parameters
    ----------
    file : file object
        Closing it releases the lock.
    wait : bool
        Whether to wait for a process that holds the lock; otherwise BlockingIOError is raised.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
