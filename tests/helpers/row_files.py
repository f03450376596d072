"""Files of rows, in all formats, for the tests of row sources."""

from __future__ import annotations

import itertools

import h5py
import numpy as np
import pandas as pd
import zarr


def _npz(path, X):
    np.savez(path, X=X, y=X[:, 0])


def _npz_compressed(path, X):
    np.savez_compressed(path, X=X, y=X[:, 0])


def frame(X):
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])


def _parquet_folder(path, X):
    path.mkdir()
    bounds = np.linspace(0, len(X), 4).astype(int)
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        part = path / f"part-{number}.parquet" if number else path / "a=1" / "part.parquet"
        part.parent.mkdir(exist_ok=True)
        frame(X)[low:high].to_parquet(part)
    (path / "_SUCCESS").touch()
    (path / "notes.txt").write_text("not rows")


def _hdf5(path, X, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("group/X", data=X, **options)
        file["y"] = X[:, 0]


def _zarr(path, X, zarr_format):
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    rows = group.create_array("deep/X", shape=X.shape, dtype=X.dtype, chunks=(min(len(X), 77), 1))
    rows[:] = X
    group.create_array("y", shape=(len(X),), dtype=X.dtype)


# name -> write(path, X)
FORMATS = {
    "c.npy": np.save,
    "fortran.npy": lambda path, X: np.save(path, np.asfortranarray(X)),
    "stored.npz": _npz,
    "compressed.npz": _npz_compressed,
    "fortran.npz": lambda path, X: np.savez_compressed(path, np.asfortranarray(X)),
    "names.csv": lambda path, X: frame(X).to_csv(path, index=False),
    "index.csv.gz": lambda path, X: frame(X).to_csv(path),
    "numbers.csv": lambda path, X: np.savetxt(path, X, delimiter=","),
    "tabs.tsv": lambda path, X: frame(X).to_csv(path, index=False, sep="\t"),
    "plain.parquet": lambda path, X: frame(X).to_parquet(path),
    "groups.parquet": lambda path, X: frame(X).to_parquet(path, row_group_size=101),
    "folder": _parquet_folder,
    "contiguous.h5": _hdf5,
    "chunked.hdf5": lambda path, X: _hdf5(path, X, chunks=(min(len(X), 77), 1), compression="gzip"),
    "two.zarr": lambda path, X: _zarr(path, X, 2),
    "three.zarr": lambda path, X: _zarr(path, X, 3),
    "array.zarr": lambda path, X: zarr.save_array(path, X),
}
TABLES = ("names.csv", "index.csv.gz", "tabs.tsv", "plain.parquet", "groups.parquet", "folder")


def write(folder, name, X):
    """Write X in one of the formats; return the path."""
    path = folder / name
    FORMATS[name](path, X)
    return path
