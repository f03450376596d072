"""Files of rows, in all formats, for the tests of row sources."""

from __future__ import annotations

import importlib.util
import itertools
import json

import h5py
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc
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


def _csv_folder(path, X):
    path.mkdir()
    bounds = np.linspace(0, len(X), 4).astype(int)
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        columns = [f"c{i}" for i in range(X.shape[1])]
        part = path / f"part-{number}.csv" if number else path / "a=1" / "part.csv.gz"
        part.parent.mkdir(exist_ok=True)
        frame(X)[low:high][columns if number < 2 else columns[::-1]].to_csv(part, index=False)
    (path / "README.txt").write_text("not rows")


def _json_lines(path, X):
    lines = [json.dumps(dict(zip(frame(X).columns, row, strict=True))) for row in X.tolist()]
    _compress(path, "\n".join(lines).encode(), "gzip" if path.suffix == ".gz" else None)


def _compress(path, data, compression):
    with pyarrow.output_stream(path, compression=compression) as stream:
        stream.write(data)


def _arrow(path, X, new):
    table = pyarrow.Table.from_pandas(frame(X), preserve_index=False)
    with pyarrow.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=101)


def anndata(X):
    """Return an AnnData with these rows as X, and nothing else that is a matrix."""
    from anndata import AnnData

    return AnnData(X, var=pd.DataFrame(index=[f"c{i}" for i in range(X.shape[1])]))


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
    "spaces.txt": lambda path, X: np.savetxt(path, X),
    "bars.txt.gz": lambda path, X: frame(X).to_csv(path, index=False, sep="|"),
    "names.csv.bz2": lambda path, X: frame(X).to_csv(path, index=False),
    "names.csv.zst": lambda path, X: _compress(path, frame(X).to_csv(index=False).encode(), "zstd"),
    "csv-folder": _csv_folder,
    "lines.jsonl": _json_lines,
    "lines.ndjson.gz": _json_lines,
    "file.arrow": lambda path, X: _arrow(path, X, pyarrow.ipc.new_file),
    "stream.ipc": lambda path, X: _arrow(path, X, pyarrow.ipc.new_stream),
    "lz4.feather": lambda path, X: frame(X).to_feather(path, compression="lz4"),
    "plain.parquet": lambda path, X: frame(X).to_parquet(path),
    "groups.parquet": lambda path, X: frame(X).to_parquet(path, row_group_size=101),
    "folder": _parquet_folder,
    "contiguous.h5": _hdf5,
    "chunked.hdf5": lambda path, X: _hdf5(path, X, chunks=(min(len(X), 77), 1), compression="gzip"),
    "two.zarr": lambda path, X: _zarr(path, X, 2),
    "three.zarr": lambda path, X: _zarr(path, X, 3),
    "array.zarr": lambda path, X: zarr.save_array(path, X),
}
# Every environment of the tests has anndata but that of pandas 3, which anndata for Python 3.11 does not accept.
ANNDATA_FORMATS = {
    "dense.h5ad": lambda path, X: anndata(X).write_h5ad(path),
    "compressed.h5ad": lambda path, X: anndata(X).write_h5ad(path, compression="gzip"),
    "anndata.zarr": lambda path, X: anndata(X).write_zarr(path),
}
if importlib.util.find_spec("anndata") is None:
    ANNDATA_FORMATS = {}
FORMATS |= ANNDATA_FORMATS
TABLES = (
    "names.csv",
    "index.csv.gz",
    "tabs.tsv",
    "bars.txt.gz",
    "names.csv.bz2",
    "names.csv.zst",
    "csv-folder",
    "lines.jsonl",
    "lines.ndjson.gz",
    *ANNDATA_FORMATS,
    "file.arrow",
    "stream.ipc",
    "lz4.feather",
    "plain.parquet",
    "groups.parquet",
    "folder",
)


def write(folder, name, X):
    """Write X in one of the formats; return the path."""
    path = folder / name
    FORMATS[name](path, X)
    return path
