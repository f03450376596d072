"""Data sets on disk: made once, as .npy files that every run maps into its memory."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec import datasets, open_rows
from ultraspec.reproduce.declarations import Dataset
from ultraspec.rows import check_path
from ultraspec.rows.label_files import read_label_file, split_column, table_columns
from ultraspec.storage.atomic import write_whole

LEAST_ROWS = 1000  # that are left of a data set at any scale, if it has so many
DATA_SEED = 0

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Prepared:
    """A data set on disk."""

    stem: str
    rows_file: str
    classes_file: str
    rows: int
    features: int
    clusters: int

    def open(self) -> tuple[Array, Array]:
        """Rows and classes; plain arrays on mapped memory, so that methods treat them as any array."""
        X, y = (np.load(file, mmap_mode="r").view(np.ndarray) for file in (self.rows_file, self.classes_file))
        return X, y


def prepare(dataset: Dataset, scale: float, folder: Path) -> Prepared:
    """A data set as files in a folder: those that are there, or new ones.

    Parameters
    ----------
    dataset : Dataset
    scale : float
        Share of the rows: synthetic sets are drawn smaller, of others random rows are kept.
    folder : Path
        Where files are kept.
    """
    stem = stem_of(dataset, scale)
    facts = folder / f"{stem}.json"
    if facts.exists():
        known = Prepared(**json.loads(facts.read_text()))
        if Path(known.rows_file).exists() and Path(known.classes_file).exists():
            return known
    folder.mkdir(parents=True, exist_ok=True)
    X, y = _read(dataset, scale)
    files = folder / f"{stem}-rows.npy", folder / f"{stem}-classes.npy"
    for path, array in zip(files, (X, y), strict=True):
        write_whole(path, lambda file, array=array: np.save(file, array))  # type: ignore[misc]
    found = Prepared(stem, str(files[0].resolve()), str(files[1].resolve()), len(X), X.shape[1], len(np.unique(y)))
    write_whole(facts, lambda file: file.write(json.dumps(asdict(found)).encode()))
    return found


def stem_of(dataset: Dataset, scale: float) -> str:
    """A name for the files of a data set, another one if a user's file changes."""
    share = "" if scale == 1 else f"-{scale}"
    if not dataset.own:
        return dataset.name + share
    path, _ = split_column(dataset.file)
    state = path.stat()
    text = f"{path.resolve()} {dataset.file} {state.st_size} {state.st_mtime_ns}"
    return f"own-{hashlib.sha256(text.encode()).hexdigest()[:16]}{share}"


def scaled(n_rows: int, scale: float) -> int:
    """Rows that are left at a scale.

    Examples
    --------
    >>> scaled(1_000_000, 0.01), scaled(20_000, 0.01), scaled(150, 0.5)
    (10000, 1000, 150)
    """
    return min(n_rows, max(LEAST_ROWS, round(n_rows * scale)))


def _read(dataset: Dataset, scale: float) -> tuple[Array, Array]:
    if dataset.reconstructed:
        return datasets.generate(dataset.name, scaled(datasets.N_ROWS[dataset.name], scale), random_state=DATA_SEED)
    X, y = read_file(dataset.file) if dataset.own else datasets.load(dataset.name)
    n = scaled(len(X), scale)
    if n < len(X):
        chosen = np.sort(np.random.default_rng(DATA_SEED).choice(len(X), n, replace=False))
        X, y = X[chosen], y[chosen]
    return np.ascontiguousarray(X), y


def read_file(text: str) -> tuple[Array, npt.NDArray[np.int32]]:
    """Rows and classes of a user's file, ``path:label``: all columns but the label are features.

    An .npz file has rows in its only 2-d array and classes in the array that is named.
    """
    path, label = split_column(text)
    check_path(path)
    if label is None or path.name.lower().endswith((".npy", ".h5", ".hdf5", ".zarr")) or path.is_dir():
        raise ValueError("name a table or an .npz file and what holds the classes in it, as in my.parquet:label.")
    y = np.unique(read_label_file(text), return_inverse=True)[1].astype(np.int32)
    if path.suffix.lower() == ".npz":
        with open_rows(path) as rows:
            X = rows.read(0, rows.n_rows)
    else:
        X = _features(path, label)
    if len(X) != len(y):
        raise ValueError(f"there are {len(X):,} rows and {len(y):,} classes.")
    if len(np.unique(y)) < 2:
        raise ValueError("all rows are of one class, so there is nothing to find.")
    if np.issubdtype(X.dtype, np.floating) and not np.isfinite(X).all():
        raise ValueError("some values are missing or infinite. Fill them in, or drop their rows.")
    return X, y


def _features(path: Path, label: str) -> Array:
    columns = [column for column in table_columns(path) if str(column) != label and not _is_index(column)]
    if not columns:
        raise ValueError(f"{path} has no column beside {label!r}.")
    with open_rows(path, columns) as rows:
        return rows.read(0, rows.n_rows)


def _is_index(column: str | int) -> bool:
    """Whether a column is the index that pandas writes: without a name in CSV files, with a reserved one in Parquet."""
    return column == "" or str(column).startswith("__index_level_")
