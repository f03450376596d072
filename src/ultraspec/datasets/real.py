"""The paper's five real sets: takes a name, gives features as stored (uint8 or int16) and classes (int32).

A set is read from ``<name>.npz`` (arrays ``X`` and ``y``) in the folder of the environment variable ULTRASPEC_DATA, or
else in the user's cache, or else is downloaded through scikit-learn. Downloads are compared with a checksum before they
are cached; files that users provide are not.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ultraspec.storage.atomic import write_atomically

Labelled = tuple[NDArray[Any], NDArray[np.int32]]


class _Source(NamedTuple):
    """Size and type of a set, and its public source."""

    rows: int
    classes: int
    dtype: type[np.integer]
    first_class: str = ""  # name of class 0 in the public source
    openml_id: int | None = None  # None: scikit-learn has a special function, or there is no public source
    sha256: str = ""  # of the content, see _checksum; empty if there is no public source


_SOURCES = {
    "pendigits": _Source(
        10_992, 10, np.uint8, "0", 32, "753ccb73cf4a47af0463ba1ef1e61c6e2303fbf3d8ccfeb65e218018a397eaa0"
    ),
    "usps": _Source(11_000, 10, np.uint8),
    "letters": _Source(
        20_000, 26, np.uint8, "A", 6, "de817c13cd687e9da82f9bd65dd2288520d88c9642c6e5e9a894994abdb31fb8"
    ),
    "mnist": _Source(
        70_000, 10, np.uint8, "0", 554, "b5489881b2c6da79b88a517074b5612ff99b87bd672f3dc2926601fc17e81504"
    ),
    "covertype": _Source(
        581_012, 7, np.int16, "1", None, "9fed483a14424215629f0c6d2486b832e567d1bebc26fa0f3bd8da9b175bd5af"
    ),
}

N_CLASSES = MappingProxyType({name: source.classes for name, source in _SOURCES.items()})
PAPER_ROWS = MappingProxyType({name: source.rows for name, source in _SOURCES.items()})


def load(name: str) -> Labelled:
    """Load one of the paper's real sets from disk, or download it from its public source.

    Parameters
    ----------
    name : {"pendigits", "usps", "letters", "mnist", "covertype"}
        Name of the set.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features), uint8 or int16
        Features as stored.
    y : ndarray of shape (n_rows,), int32
        Classes, numbered from 0.

    Raises
    ------
    FileNotFoundError
        For "usps" without a file: the paper's 11,000 digits (1,100 per class) have no public source.
    OSError
        If the download fails.
    ValueError
        For an unknown name, a damaged file, or a download with unexpected content, which is not cached.

    Notes
    -----
    Sources, in this order: the folder ``$ULTRASPEC_DATA``; the cache (``$ULTRASPEC_CACHE``, else
    ``$XDG_CACHE_HOME/ultraspec``, else ``~/.cache/ultraspec``); OpenML (32, 6 and 554) or scikit-learn's Covertype. The
    checksum of a download does not depend on the order of the rows, which differs between copies of these sets.

    Examples
    --------
    Provide a file:

    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> import numpy as np
    >>> from ultraspec import datasets
    >>> with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ULTRASPEC_DATA=folder):
    ...     np.savez(os.path.join(folder, "usps.npz"), X=np.zeros((4, 256), np.uint8), y=[0, 1, 0, 1])
    ...     X, y = datasets.load("usps")
    >>> X.shape, y
    ((4, 256), array([0, 1, 0, 1], dtype=int32))
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if name not in _SOURCES:
        raise ValueError(f"unknown real set {name!r}; known are {', '.join(map(repr, _SOURCES))}")
    cache = _cache_folder()
    for folder in (os.environ.get("ULTRASPEC_DATA"), cache):
        if folder and (path := Path(folder).expanduser() / f"{name}.npz").is_file():
            return _read(path)
    if not _SOURCES[name].sha256:
        raise FileNotFoundError(
            f"the set {name!r} has no public copy to download ({_SOURCES[name].rows:,} rows in the paper). "
            + _how_to_provide(name)
        )
    X, y = _download(name)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        write_atomically(cache / f"{name}.npz", lambda file: np.savez_compressed(file, X=X, y=y))
    except OSError as error:  # such as a read-only home folder
        warnings.warn(f"{name} was downloaded but not cached: {error}", stacklevel=2)
    return X, y


def _cache_folder() -> Path:
    if folder := os.environ.get("ULTRASPEC_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ultraspec"


def _how_to_provide(name: str) -> str:
    return (
        f"Put a file {name}.npz with arrays X (rows x features) and y (class numbers) into a folder "
        "and set the environment variable ULTRASPEC_DATA to that folder."
    )


def _read(path: Path) -> Labelled:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise ValueError("it is a single array, not an archive of X and y")
        with loaded as file:
            if missing := {"X", "y"} - set(file.files):
                raise ValueError(f"it has no array {' and no array '.join(sorted(missing))}")
            X, y = file["X"], file["y"]
        if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
            raise ValueError(f"X must be rows x features and y one class per row, but shapes are {X.shape}, {y.shape}")
        if X.dtype.kind not in "biuf" or y.dtype.kind not in "biu":
            raise ValueError(f"X must be numbers and y integers, but types are {X.dtype}, {y.dtype}")
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:  # cut, altered, pickled, ...
        raise ValueError(f"cannot use {path}: {error}") from error
    return np.ascontiguousarray(X), y.astype(np.int32)


def _download(name: str) -> Labelled:
    source = _SOURCES[name]
    try:
        # in a temporary folder: scikit-learn's cache would be a second copy, also of content that fails the check
        with _status(f"ultraspec: downloading {name} ({source.rows:,} rows)"), TemporaryDirectory() as folder:
            features, classes = _fetch(source, folder)
    except (OSError, ValueError) as error:  # scikit-learn raises ValueError for withdrawn or damaged sets
        raise OSError(f"the download of {name} failed ({error}). {_how_to_provide(name)}") from error
    with np.errstate(invalid="ignore"):  # NaN is found by the comparison below
        X = features.astype(source.dtype)
    y = _numbered(classes, source.first_class)
    if not np.array_equal(X, features) or _checksum(X, y) != source.sha256:
        raise ValueError(
            f"the download of {name} does not have the expected content (shape {features.shape}), nothing was cached. "
            + _how_to_provide(name)
        )
    return X, y


def _fetch(source: _Source, folder: str) -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import fetch_covtype, fetch_openml

    if source.openml_id is None:
        X, y = fetch_covtype(data_home=folder, return_X_y=True)
    else:
        # pandas parses many times faster but is not a dependency
        parser = "pandas" if find_spec("pandas") else "liac-arff"
        X, y = fetch_openml(data_id=source.openml_id, data_home=folder, return_X_y=True, as_frame=False, parser=parser)
    return np.asarray(X), np.asarray(y)


def _numbered(classes: NDArray[Any], first: str) -> NDArray[np.int32]:
    """Convert class names, which are digits or capital letters, to numbers from 0."""
    if classes.dtype.kind in "biuf":
        return classes.astype(np.int32) - (ord(first) - ord("0"))
    names, which = np.unique(classes.astype(str), return_inverse=True)
    return np.array([ord(name) - ord(first) if len(name) == 1 else -1 for name in names], np.int32)[which]


def _checksum(X: NDArray[Any], y: NDArray[Any]) -> str:
    """Hash each row (little-endian int16, the class last), then the sorted hashes: the order of rows is ignored."""
    rows = np.empty((len(X), X.shape[1] + 1), "<i2")
    rows[:, :-1] = X
    rows[:, -1] = y
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(row).digest() for row in rows))).hexdigest()


@contextmanager
def _status(text: str) -> Iterator[None]:
    """Show the elapsed time; scikit-learn's functions do not report how much they have downloaded."""
    if not (sys.stderr.isatty() and find_spec("rich")):
        print(text, file=sys.stderr, flush=True)
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(text, total=None)
        yield
