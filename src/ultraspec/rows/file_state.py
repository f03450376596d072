"""Files that are read: whether they change meanwhile, and errors that name them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ultraspec.rows.errors import UnreadableFile


@dataclass(frozen=True)
class FileState:
    """Size, modification time and inode of a file, to detect changes while it is read."""

    path: Path
    state: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, fd: int | None = None) -> FileState:
        """Return the current state of a file; of an open one if `fd` is given."""
        return cls(path, _state(path if fd is None else fd))

    def check(self, fd: int | None = None) -> None:
        """Raise if the file was changed or removed."""
        try:
            same = _state(self.path if fd is None else fd) == self.state
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path} was removed while it was being read.") from None
        if not same:
            raise file_changed(self.path)

    @contextlib.contextmanager
    def reading(self, kind: str, *errors: type[Exception]) -> Iterator[None]:
        """Turn what a library raises on a damaged file into `UnreadableFile`, or into an error about changes."""
        with reading(self.path, kind, *errors, state=self):
            yield
        self.check()


def file_changed(path: Path) -> OSError:
    """Return the error about a file that was changed while it was being read."""
    return OSError(f"{path} was changed while it was being read. Open it again when it is complete.")


def _state(file: Path | int) -> tuple[int, ...]:
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns, found.st_ino


@contextlib.contextmanager
def reading(path: Path, kind: str, *errors: type[Exception], state: FileState | None = None) -> Iterator[None]:
    """Turn what a library raises on a damaged file, by default OSError and ValueError, into `UnreadableFile`."""
    errors = errors or (OSError, ValueError)
    try:
        yield
    except PermissionError:
        raise
    except errors as error:
        if state is not None:
            state.check()
        raise UnreadableFile(path, kind, str(error) or type(error).__name__) from error
