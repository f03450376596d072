"""Atomic writes: a file is complete or absent, whatever interrupts the process. Also checksums of arrays."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt


def check_target(
    path: Path, what: str, *, overwrite: bool | None, is_ours: Callable[[Path], bool], read: Iterable[Path] = ()
) -> Path:
    """Return the absolute path of a file to be written; raise if it must not be written.

    An existing file may be replaced if `overwrite` is True or, if it is None, if `is_ours` says that this package wrote
    it. Files that are being `read` are never replaced. A symbolic link is replaced, not what it points to.
    Messages call the file `what`: "model file".
    """
    target = own_path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, f"The path of a {what} is a folder", str(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"The folder of the {what} does not exist", str(target.parent))
    if any(os.path.realpath(other) == os.path.realpath(target) for other in read):
        raise ValueError(f"{str(path)!r} is the file that the rows are read from. Write the {what} to another file.")
    if not os.path.lexists(target) or overwrite is True:
        return target
    if overwrite is False:
        raise FileExistsError(errno.EEXIST, f"The {what} exists, and overwrite is False", str(target))
    if not target.is_file() or (target.stat().st_size > 0 and not is_ours(target)):
        raise FileExistsError(
            errno.EEXIST,
            f"This file exists and is no {what} of ultraspec; pass overwrite=True to replace it",
            str(target),
        )
    return target


def own_path(path: Path) -> Path:
    """Return a path without links, except that the file itself may be one."""
    path = path.expanduser()
    return Path(os.path.realpath(path.parent), path.name) if path.name not in ("", "..") else path.resolve()


def free_path(path: Path) -> Path:
    """Return a path that does not exist: this one, or with a number (``labels-2.csv`` for ``labels.csv``)."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(each for each in itertools.chain([path], numbered) if not os.path.lexists(each))


def write_atomically(
    path: Path,
    fill: Callable[[BinaryIO], Any],
    *,
    scratch: Path | None = None,
    overwrite: bool = True,
    aside: bool = False,
) -> Path:
    """Write a file without a name, flush it to disk and then give it its name.

    If the write is interrupted (by a full disk, Ctrl-C or a kill), the file at `path` is unchanged, and no other file
    is left. On systems without unnamed files, the file has the name `scratch` until it is complete; a process that is
    killed may leave it behind. By default no other process uses the same name.

    `fill` writes the content to an open file. Unless `overwrite`, FileExistsError is raised for an existing file, or
    with `aside` the file gets the name of `free_path`. The path of the file is returned.
    """
    if scratch is None:
        scratch = path.with_name(f".ultraspec-{secrets.token_hex(6)}.tmp")
    unnamed = _open_unnamed(path.parent)
    try:
        with open(scratch, "wb") if unnamed is None else os.fdopen(unnamed, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
            if unnamed is not None:
                _name(unnamed, scratch)
        if overwrite:
            os.replace(scratch, path)
            return path
        while True:
            target = free_path(path) if aside else path
            try:
                _rename_to_new(scratch, target)
                return target
            except FileExistsError:
                if not aside:
                    raise
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _name(unnamed: int, path: Path) -> None:
    """Name an unnamed file; replace a file of that name, which an interrupted run may have left."""
    path.unlink(missing_ok=True)
    descriptors = os.open("/proc/self/fd", os.O_RDONLY)  # relative to a folder, os.link follows symbolic links
    try:
        os.link(str(unnamed), path, src_dir_fd=descriptors, follow_symlinks=True)
    except OSError:  # the system has unnamed files but does not allow links to them
        with open(f"/proc/self/fd/{unnamed}", "rb") as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())
    finally:
        os.close(descriptors)


def _open_unnamed(folder: Path) -> int | None:
    """Create a file that is deleted when it is closed, unless it is named; return None if the system cannot."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:  # not all file systems support it; other problems are reported when a named file is created
        return None


def _rename_to_new(scratch: Path, path: Path) -> None:
    """Rename a file without replacing another one, even if that was created a moment ago."""
    try:
        os.link(scratch, path)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
    except OSError:  # a file system without links, such as FAT
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.replace(scratch, path)
        return
    scratch.unlink()


def digest(text: str, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return a checksum of a text and of arrays with their names, types and shapes, for any byte order."""
    checksum = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<"))
        checksum.update(f"{name} {array.dtype.str} {array.shape}".encode())
        checksum.update(array.data)
    return checksum.hexdigest()
