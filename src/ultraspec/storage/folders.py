"""Folders of files that are complete or absent: on this machine, or at a URL that fsspec can open."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ultraspec.storage.atomic import write_atomically
from ultraspec.storage.locks import lock_file

LOCK = "lock"


class Folder:
    """A folder of this machine, by its path as the user passed it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.shown = str(folder)
        self._path = Path(folder).expanduser()

    def make(self) -> None:
        """Create the folder unless it exists."""
        if self._path.exists() and not self._path.is_dir():
            raise ValueError(f"checkpoint={self.shown!r} is a file. Pass a folder, new or of an earlier run.")
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"The checkpoint folder {self.shown!r} cannot be created: {error.strerror}.") from error

    def has(self, name: str) -> bool:
        """Return whether a file exists; the folder need not exist."""
        return (self._path / name).exists()

    def names(self) -> list[str]:
        """Return the names of the complete files in the folder."""
        return sorted(name for name in os.listdir(self._path) if name != LOCK and not name.endswith(".tmp"))

    def path(self, name: str) -> str:
        """Return the full path of a file, for messages."""
        return str(self._path / name)

    def open(self, name: str) -> Any:
        """Open a file to read its bytes."""
        return open(self._path / name, "rb")

    def write(self, name: str, fill: Callable[[BinaryIO], Any]) -> None:
        """Write a file completely or not at all.

        The folder is locked, so no other process uses the same temporary name.
        """
        path = self._path / name
        write_atomically(path, fill, scratch=path.with_name(path.name + ".tmp"))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other processes; the operating system releases the lock when this process ends."""
        with open(self._path / LOCK, "w") as file:
            try:
                lock_file(file, wait=False)
            except BlockingIOError as error:
                raise ValueError(f"Another fit is using the checkpoint folder {self.shown!r} right now.") from error
            yield


class UrlFolder:
    """A folder at a URL, such as ``s3://bucket/run``. It cannot be locked: nothing prevents its use by two fits."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(
                f"checkpoint={url!r} is a URL, which the package fsspec opens: pip install 'ultraspec[dask]'. For S3, "
                "Google Cloud or Azure install s3fs, gcsfs or adlfs too."
            ) from error
        self.shown = url
        with self._naming_errors():
            self._system, self._root = fsspec.core.url_to_fs(url)

    def make(self) -> None:
        """Create the folder; some storages create folders with their first file."""
        with self._naming_errors():
            is_file = self._system.isfile(self._root)
        if is_file:
            raise ValueError(f"checkpoint={self.shown!r} is a file. Pass a folder, new or of an earlier run.")
        with self._naming_errors():
            self._system.makedirs(self._root, exist_ok=True)

    @contextlib.contextmanager
    def _naming_errors(self) -> Iterator[None]:
        """Raise a ValueError that names the parameter for any error of a storage (credentials, network, names)."""
        try:
            yield
        except Exception as error:
            raise ValueError(
                f"checkpoint={self.shown!r} cannot be opened: {type(error).__name__}: {error}. Check the URL, and what "
                "its storage asks for (a package, credentials); a folder of this machine needs neither."
            ) from error

    def has(self, name: str) -> bool:
        """Return whether a file exists; the folder need not exist."""
        return bool(self._system.exists(self._at(name)))

    def names(self) -> list[str]:
        """Return the names of the complete files in the folder."""
        self._system.invalidate_cache()
        names = (path.rstrip("/").rpartition("/")[2] for path in self._system.ls(self._root, detail=False))
        return sorted(name for name in names if name and not name.endswith(".tmp"))

    def path(self, name: str) -> str:
        """Return the full path of a file, for messages."""
        return f"{self.shown.rstrip('/')}/{name}"

    def open(self, name: str) -> Any:
        """Open a file to read its bytes."""
        return self._system.open(self._at(name), "rb")

    def write(self, name: str, fill: Callable[[BinaryIO], Any]) -> None:
        """Write a file completely or not at all, as far as the storage can; readers check its checksum."""
        file = io.BytesIO()
        fill(file)
        self._system.pipe_file(self._at(name + ".tmp"), file.getvalue())
        if self._system.exists(self._at(name)):
            self._system.rm_file(self._at(name))
        self._system.mv(self._at(name + ".tmp"), self._at(name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Do nothing: URLs have no locks."""
        yield

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def folder_of(folder: str | os.PathLike[str]) -> Folder | UrlFolder:
    """Return the folder at a path or a URL."""
    return UrlFolder(folder) if isinstance(folder, str) and "://" in folder else Folder(folder)
