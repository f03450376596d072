"""Data sets as .npy files: written once, and memory-mapped by every run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec import datasets, open_rows
from ultraspec.reproduce.declarations import Dataset
from ultraspec.rows import find_format
from ultraspec.rows.label_files import read_label_file, split_column, table_columns
from ultraspec.storage.atomic import write_atomically

MIN_ROWS = 1000  # of a data set at any scale, if it has as many
DATA_SEED = 0

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class CachedDataset:
    """A data set on disk."""

    stem: str
    rows_file: str
    classes_file: str
    rows: int
    features: int
    clusters: int

    def open(self) -> tuple[Array, Array]:
        """Map the rows and the classes into memory, as plain arrays."""
        X, y = (np.load(file, mmap_mode="r").view(np.ndarray) for file in (self.rows_file, self.classes_file))
        return X, y


def prepare(dataset: Dataset, scale: float, folder: Path) -> CachedDataset:
    """Write the files of a data set to a folder, unless they exist.

    If `scale` is less than 1, synthetic sets are generated with fewer rows, and others are sampled.
    """
    stem = cache_name(dataset, scale)
    facts = folder / f"{stem}.json"
    if facts.exists():
        known = CachedDataset(**json.loads(facts.read_text()))
        if Path(known.rows_file).exists() and Path(known.classes_file).exists():
            return known
    folder.mkdir(parents=True, exist_ok=True)
    X, y = _load(dataset, scale)
    files = [(folder / f"{stem}-{name}.npy").resolve() for name in ("rows", "classes")]
    for path, array in zip(files, (X, y), strict=True):
        write_atomically(path, partial(np.save, arr=array))
    cached = CachedDataset(stem, str(files[0]), str(files[1]), len(X), X.shape[1], len(np.unique(y)))
    write_atomically(facts, lambda file: file.write(json.dumps(asdict(cached)).encode()))
    return cached


def cache_name(dataset: Dataset, scale: float) -> str:
    """Return a name for the files of a data set; it changes if a user's file or the generator changes.

    Examples
    --------
    >>> cache_name(Dataset("SF-2M", "sf", generated=True, version=2), 0.01)
    'sf-v2-0.01'
    """
    share = "" if scale == 1 else f"-{scale}"
    if not dataset.custom:
        return dataset.name + (f"-v{dataset.version}" if dataset.version > 1 else "") + share
    path, _ = split_column(dataset.file)
    state = path.stat()
    text = f"{path.resolve()} {dataset.file} {state.st_size} {state.st_mtime_ns}"
    return f"own-{hashlib.sha256(text.encode()).hexdigest()[:16]}{share}"


def is_current(dataset: Dataset, data: str | None, scale: float) -> bool:
    """Return whether the data of a run (`cache_name` when it was run, None in the oldest stores) are the present ones.

    Examples
    --------
    >>> face = Dataset("SF-2M", "sf", generated=True, version=2)
    >>> is_current(face, "sf-v2", 1.0), is_current(face, "sf", 1.0), is_current(face, None, 1.0)
    (True, False, False)
    """
    return (cache_name(replace(dataset, version=1), scale) if data is None else data) == cache_name(dataset, scale)


def scaled(n_rows: int, scale: float) -> int:
    """Return the number of rows at a scale.

    Examples
    --------
    >>> scaled(1_000_000, 0.01), scaled(20_000, 0.01), scaled(150, 0.5)
    (10000, 1000, 150)
    """
    return min(n_rows, max(MIN_ROWS, round(n_rows * scale)))


def _load(dataset: Dataset, scale: float) -> tuple[Array, Array]:
    if dataset.generated:
        return datasets.generate(dataset.name, scaled(datasets.N_ROWS[dataset.name], scale), random_state=DATA_SEED)
    X, y = read_file(dataset.file) if dataset.custom else datasets.load(dataset.name)
    n = scaled(len(X), scale)
    if n < len(X):
        chosen = np.sort(np.random.default_rng(DATA_SEED).choice(len(X), n, replace=False))
        X, y = X[chosen], y[chosen]
    return np.ascontiguousarray(X), y


def read_file(text: str) -> tuple[Array, npt.NDArray[np.int32]]:
    """Read rows and classes of a user's file, ``path:label``: all columns except the label are features.

    In an .npz file the label is the name of the array of classes; the rows are the only 2-d array.
    """
    path, label = split_column(text)
    find_format(path)
    if label is None or path.name.lower().endswith((".npy", ".h5", ".hdf5", ".zarr")) or path.is_dir():
        raise ValueError("name a table or an .npz file, and its column or array of classes, as in my.parquet:label.")
    y = np.unique(read_label_file(text), return_inverse=True)[1].astype(np.int32)
    with open_rows(path, None if path.suffix.lower() == ".npz" else _features(path, label)) as rows:
        X = rows.read(0, rows.n_rows)
    if len(X) != len(y):
        raise ValueError(f"there are {len(X):,} rows and {len(y):,} classes.")
    if y.max() == 0:
        raise ValueError("all rows belong to one class, so there is nothing to cluster.")
    if np.issubdtype(X.dtype, np.floating) and not np.isfinite(X).all():
        raise ValueError("some values are missing or infinite. Fill them in, or drop their rows.")
    return X, y


def _features(path: Path, label: str) -> list[str | int]:
    """List the columns of a table without the label and the index that pandas writes."""
    columns = [
        column
        for column in table_columns(path)
        if str(column) not in (label, "") and not str(column).startswith("__index_level_")
    ]
    if not columns:
        raise ValueError(f"{path} has no column besides {label!r}.")
    return columns
