"""Files that are whole or absent, and checksums of arrays."""

from __future__ import annotations

import errno
import hashlib
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
    """The real path of a file to be written; raises, before the work starts, unless it may be written there.

    Parameters
    ----------
    path : Path
        Where to write.
    what : str
        What is written, for messages: "model file".
    overwrite : bool or None
        Whether an existing file may be replaced; None: one of our own making only.
    is_ours : callable
        Whether a file is such.
    read : iterable of Path
        What is being read, and so never replaced.
    """
    target = Path(os.path.realpath(path.expanduser()))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, f"The path of a {what} is a folder", str(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"The folder of the {what} does not exist", str(target.parent))
    if any(os.path.realpath(other) == str(target) for other in read):
        raise ValueError(f"{str(path)!r} is the file that the rows come from. Write the {what} to another one.")
    if not target.exists() or overwrite is True:
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


def write_whole(
    path: Path, fill: Callable[[BinaryIO], Any], *, scratch: Path | None = None, overwrite: bool = True
) -> None:
    """Write a file without a name, flush it to disk and give it its name.

    `fill` gets the open file. Whatever ends it early (a full disk, Ctrl-C, a kill), the file under `path` is what it
    was, and nothing is left beside it. Where the system has no files without names, it has another name until it is
    complete: `scratch`, or one that no other process uses. A process that is killed outright may leave that behind.
    """
    if scratch is None:
        scratch = path.with_name(f".ultraspec-{secrets.token_hex(6)}.tmp")
    nameless = _open_nameless(path.parent)
    try:
        with open(scratch, "wb") if nameless is None else os.fdopen(nameless, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
            if nameless is not None:
                _name(nameless, scratch)
        if overwrite:
            os.replace(scratch, path)
        else:
            _rename_to_new(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _name(nameless: int, path: Path) -> None:
    """Give a file without a name one, in the place of what an earlier run may have left there."""
    path.unlink(missing_ok=True)
    numbers = os.open("/proc/self/fd", os.O_RDONLY)  # given as a folder, its links are followed
    try:
        os.link(str(nameless), path, src_dir_fd=numbers, follow_symlinks=True)
    except OSError:  # a system that has such files but does not let them be named
        with open(f"/proc/self/fd/{nameless}", "rb") as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())
    finally:
        os.close(numbers)


def _open_nameless(folder: Path) -> int | None:
    """A new file in a folder that is gone when it is closed, unless it is given a name; None where there is no such."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:  # not all file systems can; what else may be wrong will show when a name is tried
        return None


def _rename_to_new(scratch: Path, path: Path) -> None:
    """Rename a file, but not over another one, not even one that appeared a moment ago."""
    try:
        os.link(scratch, path)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
    except OSError:  # a file system without links, such as that of a USB stick
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.replace(scratch, path)
        return
    scratch.unlink()


def digest(text: str, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Checksum of a text and of arrays with their names, types and shapes; the same on machines of any byte order."""
    checksum = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<"))
        checksum.update(f"{name} {array.dtype.str} {array.shape}".encode())
        checksum.update(array.data)
    return checksum.hexdigest()
