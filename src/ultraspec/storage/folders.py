"""Folders of small files that are whole or absent: on this machine, or behind any URL that fsspec can open."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ultraspec.storage.atomic import write_atomically

LOCK = "lock"


class Folder:
    """A folder of this machine.

    Parameters
    ----------
    folder : str or path
        As the user named it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.shown = str(folder)
        self._path = Path(folder).expanduser()

    def make(self) -> None:
        """Make the folder, if it is not there."""
        if self._path.exists() and not self._path.is_dir():
            raise ValueError(f"checkpoint={self.shown!r} is a file. Pass a folder, new or of an earlier run.")
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"The checkpoint folder {self.shown!r} cannot be made: {error.strerror}.") from error

    def has(self, name: str) -> bool:
        """Whether a file is there; the folder itself may not be."""
        return (self._path / name).exists()

    def names(self) -> list[str]:
        """Names of the complete files in it."""
        return sorted(name for name in os.listdir(self._path) if name != LOCK and not name.endswith(".tmp"))

    def path(self, name: str) -> str:
        """Where a file is, for messages."""
        return str(self._path / name)

    def open(self, name: str) -> Any:
        """Open a file to read its bytes."""
        return open(self._path / name, "rb")

    def write(self, name: str, fill: Callable[[BinaryIO], Any]) -> None:
        """Write a file, whole or not at all; the folder is this process's alone, so one other name will do."""
        path = self._path / name
        write_atomically(path, fill, scratch=path.with_name(path.name + ".tmp"))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out; the system lifts the lock when this one ends, however it ends."""
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        with open(self._path / LOCK, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ValueError(f"Another fit is using the checkpoint folder {self.shown!r} right now.") from error
            yield


class UrlFolder:
    """A folder behind a URL, such as ``s3://bucket/run``. Nothing keeps two fits from using it at once.

    Parameters
    ----------
    url : str
        As fsspec reads it.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(
                f"checkpoint={url!r} is a URL, which the package fsspec opens: pip install 'ultraspec[dask]'. For S3, "
                "Google Cloud or Azure install s3fs, gcsfs or adlfs too."
            ) from error
        self.shown = url
        with self._told():
            self._system, self._root = fsspec.core.url_to_fs(url)

    def make(self) -> None:
        """Make the folder, where folders are not made by their files alone."""
        with self._told():
            is_file = self._system.isfile(self._root)
        if is_file:
            raise ValueError(f"checkpoint={self.shown!r} is a file. Pass a folder, new or of an earlier run.")
        with self._told():
            self._system.makedirs(self._root, exist_ok=True)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say of errors that storages raise in their own words (keys, networks, names) what they are about."""
        try:
            yield
        except Exception as error:
            raise ValueError(
                f"checkpoint={self.shown!r} cannot be opened: {type(error).__name__}: {error}. Check the URL, and what "
                "its storage asks for (a package, credentials); a folder of this machine needs neither."
            ) from error

    def has(self, name: str) -> bool:
        """Whether a file is there; the folder itself may not be."""
        return bool(self._system.exists(self._at(name)))

    def names(self) -> list[str]:
        """Names of the complete files in it."""
        self._system.invalidate_cache()
        found = (path.rstrip("/").rpartition("/")[2] for path in self._system.ls(self._root, detail=False))
        return sorted(name for name in found if name and not name.endswith(".tmp"))

    def path(self, name: str) -> str:
        """Where a file is, for messages."""
        return f"{self.shown.rstrip('/')}/{name}"

    def open(self, name: str) -> Any:
        """Open a file to read its bytes."""
        return self._system.open(self._at(name), "rb")

    def write(self, name: str, fill: Callable[[BinaryIO], Any]) -> None:
        """Write a file, whole or not at all, as far as the system can; what is not whole is found by its checksum."""
        file = io.BytesIO()
        fill(file)
        self._system.pipe_file(self._at(name + ".tmp"), file.getvalue())
        if self._system.exists(self._at(name)):
            self._system.rm_file(self._at(name))
        self._system.mv(self._at(name + ".tmp"), self._at(name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """There are no locks behind URLs."""
        yield

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def folder_of(folder: str | os.PathLike[str]) -> Folder | UrlFolder:
    """The folder that a path or a URL names."""
    return UrlFolder(folder) if isinstance(folder, str) and "://" in folder else Folder(folder)
