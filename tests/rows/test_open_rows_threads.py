"""Row sources of files: threads, and how much is decoded and kept."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.helpers.common import blobs, python
from tests.helpers.row_files import write
from ultraspec import USPEC, open_rows
from ultraspec.rows import array_files, chunked, parquet

NAMES = ("c.npy", "fortran.npy", "groups.parquet", "plain.parquet", "folder", "chunked.hdf5", "three.zarr")
X = blobs(1500, 4, 3, seed=1)[0]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows in several formats."""
    folder = tmp_path_factory.mktemp("rows")
    return {name: write(folder, name, X) for name in NAMES}


def gathered(rows):
    return np.concatenate([rows.read(*span) for span in rows.blocks()])


@pytest.mark.parametrize("name", NAMES)
def test_threads_read_at_once(files, name, monkeypatch):
    monkeypatch.setattr(chunked, "CACHE_BYTES", 3000)  # chunks come and go
    monkeypatch.setattr(chunked, "STRIP_BYTES", 500)
    monkeypatch.setattr(parquet, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(array_files, "CHUNK_BYTES", 3000)
    rows = open_rows(files[name])
    spans = [sorted(pair) for pair in np.random.default_rng(0).integers(0, len(X), (200, 2))]
    with ThreadPoolExecutor(8) as pool:
        for (low, high), block in zip(spans, pool.map(lambda span: rows.read(*span), spans), strict=True):
            assert np.array_equal(block, X[low:high])


class Counted:
    """Records every strip of a chunk that is decoded."""

    def __init__(self, rows, monkeypatch):
        self.chunks, decode, lock = [], rows._decode, threading.Lock()

        def counted(number, columns, buffer):
            with lock:
                self.chunks.append((number, columns.start))
            return decode(number, columns, buffer)

        monkeypatch.setattr(rows, "_decode", counted)


@pytest.mark.parametrize("name", ["groups.parquet", "chunked.hdf5", "three.zarr"])
def test_chunks_are_decoded_once_per_pass(files, name, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(array_files, "CHUNK_BYTES", 3000)
    rows = open_rows(files[name])
    n_chunks = len(rows._bounds) - 1
    assert n_chunks > 5
    counted = Counted(rows, monkeypatch)
    monkeypatch.setattr(chunked, "CACHE_BYTES", 0)  # a thread still keeps the chunk it is in
    for start in range(0, len(X), 10):
        rows.read(start, start + 10)
    crossings = sum(bound % 10 > 0 for bound in rows._bounds[1:-1].tolist())
    assert len(counted.chunks) <= n_chunks + crossings
    counted.chunks.clear()
    rows.take(np.arange(0, len(X), 2))
    assert len(set(counted.chunks)) == len(counted.chunks) <= n_chunks


def test_threads_share_the_work_on_a_chunk(files, monkeypatch):
    monkeypatch.setattr(chunked, "STRIP_BYTES", 1)
    rows = open_rows(files["plain.parquet"])
    counted = Counted(rows, monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(block, X[:9]) for block in pool.map(lambda _: rows.read(0, 9), range(8)))
    assert sorted(counted.chunks) == [(0, 0), (0, 1), (0, 2)]


def test_what_is_kept_is_bounded(files, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_BYTES", 3000)
    rows = open_rows(files["groups.parquet"])
    monkeypatch.setattr(chunked, "CACHE_BYTES", 6000)
    gathered(rows)
    assert sum(chunk.buffer.nbytes for chunk in rows._cache._alive.values()) <= 6000


@pytest.mark.parametrize("name", ["plain.parquet", "folder", "chunked.hdf5", "three.zarr"])
def test_large_chunks_are_written_out(files, name, monkeypatch):
    for module in (parquet, array_files):
        monkeypatch.setattr(module, "MOST_CHUNK_BYTES", 1000)
    rows = open_rows(files[name], [2, 0])
    assert "_file" in vars(rows)
    assert np.array_equal(gathered(rows), X[:, [2, 0]])
    assert np.array_equal(gathered(rows.select([1])), X[:, [0]])
    assert np.array_equal(gathered(pickle.loads(pickle.dumps(rows))), X[:, [2, 0]])
    model = USPEC(4, n_representatives=60, random_state=0)
    assert (model.fit_predict(open_rows(files[name])) == model.fit_predict(X)).all()


@pytest.mark.parametrize(("name", "limit"), [("x.npy", 40e6), ("x.parquet", 130e6)])
def test_memory_does_not_grow_with_the_file(tmp_path, name, limit):
    grown = python(
        """
        import json, os
        import numpy as np, psutil, pyarrow as pa, pyarrow.parquet as pq
        from ultraspec import open_rows

        path, n = os.environ["ROWS_FILE"], 25_000_000  # 200 MB
        column = np.arange(n, dtype=np.float32)
        if path.endswith("npy"):
            np.save(path, np.stack([column, column], axis=1))
        else:
            pq.write_table(pa.table({"a": column, "b": column}), path, use_dictionary=False)
        del column
        resident = lambda: psutil.Process().memory_info().rss
        rows = open_rows(path)
        rows.read(0, 65536)
        before, most = resident(), 0
        for span in rows.blocks():
            assert rows.read(*span)[0, 1] == np.float32(span[0])
            most = max(most, resident())
        print(json.dumps(most - before))
        """,
        ROWS_FILE=str(tmp_path / name),
    )
    assert grown < limit  # Parquet keeps 64 MB, and pyarrow some more
