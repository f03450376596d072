"""Locks against other processes. The operating system releases them when a process ends, however it ends."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any


def lock_file(file: IO[Any], *, wait: bool) -> None:
    """Lock an open file against other processes, where the operating system supports it, until it is closed.

    If another process holds the lock, `wait` for it, or raise BlockingIOError.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextlib.contextmanager
def claim(paths: Iterable[Path]) -> Iterator[None]:
    """Reserve files that will be written at the end of a long computation.

    Raise ValueError if another process on this machine has reserved one of them. The locks are empty files in the
    folder for temporary files, so that nothing appears beside the files of the user. Where there can be no locks,
    nothing is reserved.
    """
    with contextlib.ExitStack() as stack:
        for path in paths:
            try:
                stack.enter_context(_locked(_lock_path(path)))
            except BlockingIOError:
                raise ValueError(
                    f"Another run of ultraspec is going to write {path}. Wait until it is done, or name another file."
                ) from None
            except OSError:  # the folder for temporary files is full or read-only
                pass
        yield


def _lock_path(path: Path) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"ultraspec-locks-{user}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / hashlib.sha256(os.fsencode(path)).hexdigest()[:32]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock at a path; raise BlockingIOError if another process holds it."""
    with _open_locked(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is locked


def _open_locked(path: Path) -> IO[Any]:
    while True:
        file = open(path, "w")  # noqa: SIM115  the caller closes it
        try:
            lock_file(file, wait=False)
            same = path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())
        except BaseException:
            file.close()
            raise
        if same:
            return file
        file.close()  # another process has deleted it meanwhile
