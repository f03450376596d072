"""Row sources of files in use: files that change, temporary files, missing libraries, and names of features."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd
import pytest

from tests.helpers.common import blobs
from tests.helpers.row_files import frame, write
from ultraspec import USPEC, open_rows
from ultraspec.rows import ArrayRows
from ultraspec.storage import temporary

X = blobs(900, 3, 3, seed=2)[0]


# Files that change


@pytest.mark.parametrize("name", ["c.npy", "stored.npz", "plain.parquet", "folder", "contiguous.h5"])
@pytest.mark.parametrize("change", ["append", "cut", "touch", "remove"])
def test_files_that_change_while_they_are_read(tmp_path, name, change):
    path = write(tmp_path, name, X)
    rows = open_rows(path)
    file = path / "part-1.parquet" if name == "folder" else path
    data = file.read_bytes()
    if change == "remove":
        file.unlink()
        if name in ("c.npy", "stored.npz"):  # the open file is still there
            assert np.array_equal(rows.read(0, len(X)), X)
            return
    elif change == "touch":
        os.utime(file, ns=(0, 0))
    else:
        file.write_bytes(data + data if change == "append" else data[: len(data) // 3])
    with pytest.raises(OSError, match=re.escape(file.name)) as caught:
        rows.read(0, len(X))
    assert re.search("was (changed|removed) while it was being read", str(caught.value))


@pytest.mark.parametrize("name", ["two.zarr", "three.zarr"])
@pytest.mark.parametrize("change", ["append", "cut", "remove"])
def test_chunks_that_change_while_they_are_read(tmp_path, name, change, monkeypatch):
    monkeypatch.setattr("ultraspec.rows.chunked.CACHE_BYTES", 0)
    monkeypatch.setattr("ultraspec.rows.array_files.CHUNK_BYTES", 2000)
    path = write(tmp_path, name, X)
    rows = open_rows(path)
    assert np.array_equal(rows.read(0, len(X)), X)
    chunk = path / "deep" / "X" / ("3.1" if name == "two.zarr" else "c/3/1")
    data = chunk.read_bytes()
    chunk.unlink()
    if change != "remove":
        chunk.write_bytes(data + b"x" if change == "append" else data[:9])
    with pytest.raises((OSError, ValueError), match=re.escape(name)):  # never the zeros of a chunk that is not there
        rows.read(0, len(X))


# Temporary files


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """An empty folder for temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("name", ["names.csv", "compressed.npz"])
def test_temporary_files_go_with_the_rows(tmp_path, scratch, name):
    path = write(tmp_path, name, X)
    rows = open_rows(path)
    fd = rows._file.fileno()
    other = rows.select([0])
    rows.close()
    assert np.array_equal(other.read(0, len(X)), X[:, [0]])
    os.fstat(fd)
    del rows, other
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(fd)
    assert not list(scratch.iterdir())


def test_temporary_files_go_when_opening_fails(tmp_path, scratch):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 400_000 + "1,x\n")
    with pytest.raises(ValueError, match="column 'b'"):
        open_rows(tmp_path / "t.csv")
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("name", ["names.csv", "compressed.npz", "plain.parquet"])
def test_too_little_space_for_temporary_files(tmp_path, scratch, name, monkeypatch):
    path = write(tmp_path, name, X)
    usage = temporary.shutil.disk_usage(scratch)
    monkeypatch.setattr("ultraspec.rows.parquet.MOST_CHUNK_BYTES", 1000)
    monkeypatch.setattr(temporary.shutil, "disk_usage", lambda folder: usage._replace(free=999))
    with pytest.raises(OSError, match=f"{name} .*{re.escape(str(scratch))}, which has 0.00 GB of free space.*TMPDIR"):
        open_rows(path)
    assert not list(scratch.iterdir())


def test_temporary_files_that_cannot_grow_name_their_folder(tmp_path, scratch, monkeypatch):
    path = write(tmp_path, "names.csv", X)

    def refuse(*_):
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(temporary.os, "pwrite", refuse)
    with pytest.raises(OSError, match=f"names.csv .*{re.escape(str(scratch))}: File too large. Set .* TMPDIR"):
        open_rows(path)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    ("name", "module"),
    [("names.csv", "pyarrow"), ("plain.parquet", "pyarrow"), ("contiguous.h5", "h5py"), ("two.zarr", "zarr")],
)
def test_missing_libraries(tmp_path, name, module, monkeypatch):
    path = write(tmp_path, name, X)
    for loaded in [key for key in sys.modules if key.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, loaded, None)
    with pytest.raises(ImportError, match=re.escape(f"needs {module}: pip install 'ultraspec[files]'")):
        open_rows(path)


# Names of features


@pytest.fixture(scope="module")
def model():
    return USPEC(3, n_representatives=50, random_state=0).fit(pd.DataFrame(X, columns=["c0", "c1", "c2"]))


def test_names_become_those_of_the_estimator(tmp_path, model):
    rows = open_rows(write(tmp_path, "plain.parquet", X))
    fresh = USPEC(3, n_representatives=50, random_state=0).fit(rows)
    assert fresh.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    assert fresh.feature_names_in_.dtype == object
    assert (fresh.predict(frame(X)) == model.labels_).all()
    fresh.fit(open_rows(write(tmp_path, "c.npy", X)))
    assert not hasattr(fresh, "feature_names_in_")


@pytest.mark.parametrize("name", ["names.csv", "plain.parquet", "folder"])
def test_columns_in_another_order_are_put_in_order(tmp_path, model, name):
    path = write(tmp_path, name, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for columns in (["c2", "c0", "c1"], None):
            assert (model.predict(open_rows(path, columns)) == model.labels_).all()


def test_other_names_are_refused(tmp_path, model):
    path = write(tmp_path, "plain.parquet", X)
    with pytest.raises(ValueError, match=r"(?s)should match.*seen at fit time, yet now missing:\n- c1"):
        model.predict(open_rows(path, ["c0", "c2"]))
    frame(X).rename(columns={"c1": "new"}).to_parquet(path)
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- new\n.*now missing:\n- c1"):
        model.predict(open_rows(path))


def test_rows_that_cannot_choose_columns_must_be_in_order(model):
    rows = ArrayRows(X)
    rows.names = ["c1", "c0", "c2"]
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(rows)
    with pytest.raises(TypeError, match="cannot choose columns"):
        rows.select(["c0"])


def test_names_on_one_side_only(tmp_path, model):
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert (model.predict(open_rows(write(tmp_path, "c.npy", X))) == model.labels_).all()
    unnamed = USPEC(3, n_representatives=50, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        unnamed.predict(open_rows(write(tmp_path, "plain.parquet", X)))
    with pytest.raises(ValueError, match="X has 2 features, but USPEC is expecting 3"):
        unnamed.predict(open_rows(tmp_path / "c.npy", [0, 1]))
