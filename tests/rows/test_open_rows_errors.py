"""Row sources of files that are missing, damaged or of the wrong kind: one clear error that names the file."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import pickle
import re

import h5py
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse
import zarr

from tests.helpers.common import blobs
from tests.helpers.row_files import FORMATS, frame, write
from ultraspec import USPEC, open_rows

X = blobs(900, 3, 3, seed=2)[0]
FILES = [name for name in FORMATS if "." in name and not name.endswith("zarr")]
BINARY = [name for name in FILES if not name.endswith((".csv", ".tsv", ".txt", ".jsonl"))]


def refused(path, *strings, error=ValueError, **options):
    """Check that a file is refused with a message that has its name and these strings; return the message."""
    with pytest.raises(error) as caught:
        open_rows(path, **options)
    message = str(caught.value)
    for text in (path.name, *strings):
        assert text in message
    return message


# Paths


def test_missing_files(tmp_path):
    for name in ("x.npy", "x.parquet", "x.zarr", "x.unknown", "no/folder/x.csv"):
        refused(tmp_path / name, "no file", error=FileNotFoundError)


def test_unknown_kinds_list_the_known_ones(tmp_path):
    for name in ("x.doc", "x", "x.pickle"):
        (tmp_path / name).write_text("1,2\n")
        refused(tmp_path / name, "unknown format", ".npy", ".csv", ".parquet", ".h5ad", ".zarr", ".arrow", ".jsonl")


def test_folders_without_rows(tmp_path):
    for name in ("folder", "x.npy", "x.parquet"):
        (tmp_path / name).mkdir()
        refused(tmp_path / name, "a folder without Zarr, Parquet, CSV files")
    (tmp_path / "folder" / "_temporary").mkdir()
    frame(X).to_parquet(tmp_path / "folder" / "_temporary" / "x.parquet")
    refused(tmp_path / "folder", "a folder without Zarr, Parquet, CSV files")
    (tmp_path / "x.zarr").mkdir()
    refused(tmp_path / "x.zarr", "cannot be read as a Zarr folder")
    with pytest.raises(TypeError):
        open_rows(7)


def test_delta_tables_are_not_read_as_folders(tmp_path):
    frame(X).to_parquet(tmp_path / "part.parquet")
    (tmp_path / "_delta_log").mkdir()
    refused(tmp_path, "Delta table")


@pytest.mark.parametrize("name", FILES)
def test_empty_files(tmp_path, name):
    (tmp_path / name).touch()
    refused(tmp_path / name, "is empty")


@pytest.mark.parametrize("name", BINARY)
def test_files_of_another_kind(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x89PNG and no rows at all" * 40)
    refused(tmp_path / name, "cannot be read as")


@pytest.mark.parametrize("name", BINARY)
def test_files_that_were_cut_off(tmp_path, name):
    path = write(tmp_path, name, X)
    data = path.read_bytes()
    for length in (len(data) - 100, len(data) // 2, 60):
        path.write_bytes(data[:length])
        message = refused(path)
        assert "damaged" in message or "incomplete" in message


def test_files_that_were_altered(tmp_path):
    for name in ("compressed.npz", "sums.parquet", "chunked.hdf5"):
        path = tmp_path / name
        if name == "sums.parquet":
            frame(X).to_parquet(path, write_page_checksum=True)
        else:
            write(tmp_path, name, X)
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 200] = b"\x7f" * 200
        path.write_bytes(data)
        with pytest.raises((ValueError, OSError), match=re.escape(name)):
            open_rows(path).read(0, len(X))


# Arrays


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.arange(5.0), ["2-d", "1-d", "5, float64"]),
        (np.zeros((2, 3, 4)), ["3-d", "2 x 3 x 4"]),
        (np.array(1.0), ["0-d"]),
        (np.zeros((3, 2), complex), ["complex"]),
        (np.array([["a", "b"]]), ["real numbers"]),
        (np.zeros((3, 2), "M8[s]"), ["real numbers"]),
        (np.zeros(3, [("a", float), ("b", int)]), ["real numbers"]),
        (np.zeros((0, 2)), ["no rows"]),
        (np.zeros((2, 0)), ["no columns"]),
    ],
)
def test_arrays_that_are_no_rows(tmp_path, array, words):
    np.save(tmp_path / "x.npy", array)
    refused(tmp_path / "x.npy", *words)
    np.savez(tmp_path / "x.npz", a=array)
    refused(tmp_path / "x.npz", *words)
    if array.dtype.kind in "fc":
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["a"] = array
        refused(tmp_path / "x.h5", *words)
        zarr.create_array(tmp_path / "x.zarr", data=array)
        refused(tmp_path / "x.zarr", *words)


def test_objects_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    array = np.array([[Bomb(), 1.0]], dtype=object)
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", X=array)
    np.savez(tmp_path / "sparse.npz", format=array, shape=array, data=array)
    refused(tmp_path / "x.npy", "Python objects", "never loaded")
    refused(tmp_path / "x.npz", "Python objects", "never loaded")
    refused(tmp_path / "sparse.npz", "cannot be read")
    assert not (tmp_path / "boom").exists()


def test_which_array(tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=X[:5], y=X[:, 0])
    refused(tmp_path / "x.npz", "more than one 2-d", "'a' (900 x 3, float64); 'b' (5 x 3, float64).", "array='a'")
    refused(tmp_path / "x.npz", "no array 'c'", "'b'", array="c")
    refused(tmp_path / "x.npz", "'y'", "1-d", array="y")
    np.savez(tmp_path / "y.npz", y=X[:, 0], z=X[:, 1])
    refused(tmp_path / "y.npz", "no 2-d array")
    with pytest.raises(TypeError, match="array must be the name"):
        open_rows(tmp_path / "x.npz", array=3)
    with h5py.File(tmp_path / "none.h5", "w") as file:
        file.create_group("g")
    refused(tmp_path / "none.h5", "It has no arrays")


def test_sparse_matrices_with_wild_indices(tmp_path):
    matrix = scipy.sparse.csr_array(np.eye(4))
    matrix.indices[2] = 10**6
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)
    refused(tmp_path / "x.npz", "cannot be read")
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_array((0, 4)))
    refused(tmp_path / "x.npz", "no rows")


# Tables


def a_table():
    return pd.DataFrame(
        {
            "a": [1.0, 2, 3],
            "name": ["x", "y", "z"],
            "day": [datetime.date(2026, 1, day) for day in (1, 2, 3)],
            "kind": pd.Categorical(["u", "v", "u"]),
            "b": [4, 5, 6],
            "truth": [True, False, True],
        }
    )


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_columns_without_numbers(tmp_path, name):
    path = tmp_path / name
    a_table().to_parquet(path) if name == "t.parquet" else a_table().to_csv(path, index=False)
    for options in ({}, {"columns": ["a", "name", "day", "kind"]}):
        refused(path, "'name' (", "'day' (date32[day])", "'kind' (", "columns=['a', 'b', 'truth']", **options)
    assert open_rows(path, ["truth", "a"]).read(0, 3).tolist() == [[1, 1], [0, 2], [1, 3]]


def test_categories_that_are_numbers(tmp_path):
    """As in frames: Parquet stores them as plain numbers, and says so in the metadata of pandas."""
    table = pd.DataFrame({"a": [1.0, 2, 3], "kind": pd.Categorical([7, 8, 7])})
    table.to_parquet(tmp_path / "t.parquet")
    table.to_feather(tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        for options in ({}, {"columns": ["a", "kind"]}):
            refused(tmp_path / name, "'kind' (dictionary<values=int64", "columns=['a']", **options)
        assert open_rows(tmp_path / name, ["a"]).n_rows == 3


@pytest.mark.parametrize("text", ["[1]", "{", "7", '{"columns": 3}', '{"index_columns": 3}'])
def test_damaged_metadata_of_pandas(tmp_path, text):
    table = pyarrow.table({"a": [1.0, 2.0]}).replace_schema_metadata({"pandas": text})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "cannot be read as a Parquet file")
    odd = {"columns": [1, {"name": ["a"], "pandas_type": "categorical"}]}
    pyarrow.parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(odd)}), tmp_path / "t.parquet")
    assert open_rows(tmp_path / "t.parquet").shape == (2, 1)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.npy"])
def test_columns_that_cannot_be_chosen(tmp_path, name):
    path, table = tmp_path / name, a_table()[["a", "b"]]
    if name == "t.npy":
        np.save(path, table.to_numpy())
        refused(path, "no column names", "0 to 1", columns=["a"])
    else:
        table.to_parquet(path) if name == "t.parquet" else table.to_csv(path, index=False)
        refused(path, "no column named 'c'", "'a', 'b'", columns=["a", "c"])
    refused(path, "no column 2", "0 to 1", columns=[2])
    refused(path, "no column -1", columns=[-1])
    for columns, error, words in (
        ("ab", TypeError, "must be a list of names or numbers"),
        (0, TypeError, "must be a list"),
        ([True], TypeError, "list of names or numbers, got True"),
        ([1.0], TypeError, "names or numbers"),
        ([], ValueError, "at least one column"),
        ([1, 0, 1], ValueError, "is repeated"),
    ):
        with pytest.raises(error, match=words):
            open_rows(path, columns)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3\n", ["Row #3", "Expected 2 columns, got 1"]),
        ("a,b\n1,2\n3,4,5\n", ["Row #3", "Expected 2 columns, got 3"]),
        ("a,b\n" + "1,2\n" * 400_000 + "1,x\n", ["column 'b'", "Row #400002", "'x'"]),
        ("a;b\n1;2\n", ["';'", "delimiter="]),
        ("a,a\n1,2\n", ["more than one column named 'a'"]),
        ("a,b\n", ["no rows"]),
        ("\n\n", ["no lines"]),
        ("\x00 no text", ["UTF-16 or no text at all"]),
        ("a;b\n1,5;2,5\n", ["Try delimiter=';' and decimal=','"]),
        ("a b\n1 2\n", ["Try delimiter=' '"]),
        ("# made by hand\na,b\n1,2\n", ["'# made by hand' looks like one", "grep -v '^#' t.csv"]),
        ("a,b\n1,2\n% end\n", ["'% end' looks like one"]),
        ("a,b\n\x1b[31m\n", ["got 1:  [31m"]),  # what a terminal would obey is not shown
    ],
)
def test_csv_files_that_are_no_tables(tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    refused(tmp_path / "t.csv", *words)


def test_csv_files_in_other_encodings(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n", encoding="utf-16")
    refused(tmp_path / "t.csv", "is not text in UTF-8, but in UTF-16", "iconv -f UTF-16 -t UTF-8 t.csv")
    (tmp_path / "t.csv").write_text("größe,b\n1,2\n", encoding="latin-1")
    refused(tmp_path / "t.csv", "is not text in UTF-8", "iconv -f LATIN1 -t UTF-8 t.csv")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("a;b\n1;2\n".encode("utf-16-le")))
    refused(tmp_path / "t.csv.gz", "UTF-16")


def test_decimal_commas(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1,5;2\n-3,25;1e3\n")
    refused(tmp_path / "t.csv", "Try decimal=','", delimiter=";")
    with pytest.raises(ValueError, match="decimal must be different from the delimiter, got ','"):
        open_rows(tmp_path / "t.csv", decimal=",")
    rows = open_rows(tmp_path / "t.csv", delimiter=";", decimal=",")
    assert rows.read(0, 9).tolist() == [[1.5, 2], [-3.25, 1000]]
    assert pickle.loads(pickle.dumps(rows)).read(0, 9).tolist() == rows.read(0, 9).tolist()
    (tmp_path / "t.tsv").write_text("a\tb\n1,5\t2,5\n")
    assert open_rows(tmp_path / "t.tsv", decimal=",").read(0, 9).tolist() == [[1.5, 2.5]]
    (tmp_path / "t.tsv").write_text("0,5\t0,25\n1,5\t2,5\n")
    assert open_rows(tmp_path / "t.tsv", decimal=",").read(0, 9).tolist() == [[0.5, 0.25], [1.5, 2.5]]


def test_damaged_gzip(tmp_path):
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    for number, damaged in enumerate((data[:-20], b"a,b\n1,2\n")):
        (tmp_path / f"{number}.csv.gz").write_bytes(damaged)
        refused(tmp_path / f"{number}.csv.gz", "may be damaged")


def test_options_of_other_formats(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    np.save(tmp_path / "t.npy", X)
    refused(tmp_path / "t.csv", "array='X' does not apply", array="X")
    refused(tmp_path / "t.npy", "delimiter=';' does not apply", delimiter=";")
    with pytest.raises(ValueError, match="one character"):
        open_rows(tmp_path / "t.csv", delimiter=", ")
    with pytest.raises(TypeError, match="header must be"):
        open_rows(tmp_path / "t.csv", header="a")


def test_tables_without_rows_or_columns(tmp_path):
    a_table()[["a", "b"]][:0].to_parquet(tmp_path / "rows.parquet")
    refused(tmp_path / "rows.parquet", "no rows")
    pd.DataFrame(index=[5, 3]).to_parquet(tmp_path / "columns.parquet")
    refused(tmp_path / "columns.parquet", "no columns")


def test_parts_with_other_columns(tmp_path):
    table = a_table()[["a", "b"]]
    table.to_parquet(tmp_path / "1.parquet")
    for other, options, words in (
        (table[["a"]], {}, ["1.parquet has 'b'", "2.parquet has not"]),
        (table.assign(c=1), {}, ["2.parquet has 'c'", "1.parquet has not"]),
        (table.assign(b="x"), {}, ["'b' is int64 in", "1.parquet", "2.parquet"]),
        (table[["b"]], {"columns": ["a"]}, ["1.parquet has 'a'", "2.parquet has not"]),
    ):
        other.to_parquet(tmp_path / "2.parquet")
        refused(tmp_path, *words, "must have the same columns", **options)
    table.assign(b="x").to_parquet(tmp_path / "2.parquet")
    assert open_rows(tmp_path, ["a"]).n_rows == 6


# Missing values


def with_gap(dtype, row):
    table = pd.DataFrame(X[:400], columns=["a", "b", "c"])
    table["b"] = (table["b"] > 0).astype(dtype)
    table.loc[row, "b"] = None
    return table


@pytest.mark.parametrize("dtype", ["Int64", "float32", "boolean"])
@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "folder"])
def test_missing_values_are_named_when_fitting(tmp_path, name, dtype):
    table, path = with_gap(dtype, 317), tmp_path / name
    if name == "t.csv":
        table.to_csv(path, index=False)
    elif name == "t.parquet":
        table.to_parquet(path, row_group_size=50)
    else:
        path.mkdir()
        table[:200].to_parquet(path / "1.parquet")
        table[200:].to_parquet(path / "2.parquet")
    with pytest.raises(ValueError, match="contains NaN in column 'b', row 317"):
        USPEC(3, random_state=0).fit(open_rows(path))
    USPEC(3, random_state=0).fit(open_rows(path, ["a", "c"]))


def test_missing_values_in_predict(tmp_path):
    model = USPEC(3, random_state=0).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    with_gap("Int64", 44).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="contains NaN in column 'b', row 44"):
        model.predict(open_rows(tmp_path / "t.parquet"))


def test_missing_integers_in_large_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("ultraspec.rows.parquet.MOST_CHUNK_BYTES", 100)
    with_gap("Int64", 7)[["b"]].to_parquet(tmp_path / "t.parquet")
    values = open_rows(tmp_path / "t.parquet").read(0, 400)[:, 0]
    assert np.flatnonzero(np.isnan(values)).tolist() == [7]
