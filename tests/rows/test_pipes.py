"""Standard input and named pipes; text files of every kind, JSON lines and Arrow files that are odd or hostile."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pickle
import threading

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc
import pytest

from tests.helpers.common import blobs
from tests.helpers.row_files import frame, write
from tests.helpers.standard_input import piped
from ultraspec import USPEC, open_rows
from ultraspec.rows import InvalidData

X = blobs(900, 3, 3, seed=2)[0]


def csv():
    return frame(X).to_csv(index=False).encode()


def arrow(new=pyarrow.ipc.new_stream):
    table = pyarrow.Table.from_pandas(frame(X))
    sink = io.BytesIO()
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=200)
    return sink.getvalue()


@pytest.mark.parametrize(
    "data", [csv(), gzip.compress(csv()), arrow(), arrow(pyarrow.ipc.new_file)], ids=["csv", "gz", "stream", "file"]
)
def test_standard_input(monkeypatch, data):
    piped(monkeypatch, data)
    rows = open_rows("-")
    assert rows.names == ["c0", "c1", "c2"]
    np.testing.assert_array_equal(rows.read(0, 900), X)
    with pytest.raises(OSError, match="standard input was a pipe, which can be read only once"):
        pickle.loads(pickle.dumps(rows))


def test_options_of_piped_text(monkeypatch):
    piped(monkeypatch, b"1,5;2\n3,5;4\n")
    rows = open_rows("-", [1, 0], header=False, delimiter=";", decimal=",")
    assert rows.read(0, 2).tolist() == [[2, 1.5], [4, 3.5]]
    piped(monkeypatch, arrow())
    with pytest.raises(ValueError, match="delimiter=';' does not apply to standard input"):
        open_rows("-", delimiter=";")
    piped(monkeypatch, csv())
    with pytest.raises(ValueError, match="array='X' does not apply"):
        open_rows("-", array="X")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "standard input is empty"),
        (b"PAR1 and more", "standard input is a Parquet file, which cannot be read from a pipe"),
        (b"a,b\n1,2\n3\n", "standard input cannot be read as a CSV file"),
        (b"a,b\n1,x\n", "standard input: column 'b'"),
        (b"a,b\n", "has no rows"),
        (b"\0\0\0\0\0\0", "is not text"),
        (gzip.compress(csv())[:-300], "standard input"),
        (arrow()[:1500], "cannot be read as an Arrow stream"),
        (arrow()[:9], "cannot be read as an Arrow stream"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 100, "cannot be read as an Arrow stream"),
    ],
)
def test_bad_pipes(monkeypatch, data, match):
    piped(monkeypatch, data)
    with pytest.raises(InvalidData, match=match):
        open_rows("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipes(tmp_path):
    os.mkfifo(tmp_path / "x")
    thread = threading.Thread(target=(tmp_path / "x").write_bytes, args=(csv(),))
    thread.start()
    rows = open_rows(tmp_path / "x")
    thread.join()
    np.testing.assert_array_equal(USPEC(3, random_state=0).fit_predict(rows), USPEC(3, random_state=0).fit_predict(X))


# Text


def test_delimiters_of_txt_files(tmp_path):
    for delimiter in "\t,;| ":
        (tmp_path / "x.txt").write_text(f"a{delimiter}b\n1{delimiter}2\n3{delimiter}4\n")
        assert open_rows(tmp_path / "x.txt").read(0, 2).tolist() == [[1, 2], [3, 4]]
    (tmp_path / "x.txt").write_text("Dear reader,\nthis is a letter.\n")
    with pytest.raises(InvalidData, match=r"x\.txt"):
        open_rows(tmp_path / "x.txt")


def test_folders_of_csv_files(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n4,3\n")
    assert open_rows(tmp_path).read(0, 2).tolist() == [[1, 2], [3, 4]]
    for text, match in (
        ("a\n1\n", r"1\.csv has 'b' and .*2\.csv has not"),
        ("a,b,c\n1,2,3\n", r"2\.csv has 'c' and .*1\.csv has not"),
        ("a,b\n1,x\n", r"2\.csv: column 'b'"),
        ("a,b\n1,2\n3\n", r"2\.csv cannot be read"),
    ):
        (tmp_path / "2.csv").write_text(text)
        with pytest.raises(InvalidData, match=match):
            open_rows(tmp_path)
    assert open_rows(tmp_path / "1.csv").n_rows == 1
    (tmp_path / "1.csv").write_text("1.5,2\n")
    (tmp_path / "2.csv").write_text("0,1\n")  # taken for numbers, as in the first file
    assert open_rows(tmp_path).read(0, 2).tolist() == [[1.5, 2], [0, 1]]
    (tmp_path / "2.csv").write_text("0,1,2\n")
    with pytest.raises(InvalidData, match=r"has 2 and .* has 3"):
        open_rows(tmp_path)


@pytest.mark.parametrize("name", ["names.csv.bz2", "names.csv.zst", "lines.ndjson.gz"])
def test_damaged_compressed_text(tmp_path, name):
    path = write(tmp_path, name, X)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for length in (len(data) - 1, len(data) // 2, 5, 1):
        path.write_bytes(data[:length])
        with pytest.raises(InvalidData, match=name):
            open_rows(path)
    for _ in range(20):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(broken)
        with contextlib.suppress(InvalidData):
            open_rows(path).read(0, 1)
    path.write_bytes(csv())  # not compressed at all
    with pytest.raises(InvalidData, match=name):
        open_rows(path)


# JSON lines


def test_json_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("ultraspec.rows.json_lines.BLOCK_BYTES", 64)
    path = tmp_path / "x.jsonl"
    lines = [f'{{"a": {i}, "b": {i / 3!r}, "yes": {str(i % 2 == 0).lower()}}}' for i in range(50)]
    path.write_text("\n".join([*lines, '{"b": 1, "more": "text"}', '{"a": null, "b": 2, "yes": true}', ""]))
    values = open_rows(path, ["yes", "a", "b"]).read(0, 99)
    assert values[:50].tolist() == [[i % 2 == 0, i, i / 3] for i in range(50)]
    np.testing.assert_array_equal(values[50:], [[np.nan, np.nan, 1], [1, np.nan, 2]])


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("\n\n", "has no lines"),
        ("[1, 2]\n", "cannot be read as JSON lines"),
        ('{"a": 1}\n{"a": \n', "cannot be read as JSON lines"),
        ('{"a": 1}\n{"a": "x"}\n', "cannot be read as JSON lines"),
        ('{"a": "x", "b": 1}\n', r"column 'a' \(string\) must hold numbers. Choose columns=\['b'\]"),
        ('{"a": [1, 2]}\n', r"column 'a' \(list"),
        ("not JSON at all\n", "cannot be read as JSON lines"),
        ('{"a": ' * 2000, "cannot be read as JSON lines"),
    ],
)
def test_bad_json_lines(tmp_path, text, match):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(InvalidData, match=match):
        open_rows(tmp_path / "x.jsonl")


# Arrow files


def test_missing_integers_and_large_batches(tmp_path, monkeypatch):
    table = pyarrow.table({"a": pyarrow.array([1, None, 3]), "b": [True, False, None], "c": [0.5, 1.5, 2.5]})
    for new in (pyarrow.ipc.new_file, pyarrow.ipc.new_stream):
        with new(tmp_path / "x.arrow", table.schema) as writer:
            writer.write_table(table)
        expected = [[1, 1, 0.5], [np.nan, 0, 1.5], [3, np.nan, 2.5]]
        np.testing.assert_array_equal(open_rows(tmp_path / "x.arrow").read(0, 3), expected)
    path = write(tmp_path, "file.arrow", X)
    monkeypatch.setattr("ultraspec.rows.arrow.MOST_CHUNK_BYTES", 100)
    np.testing.assert_array_equal(open_rows(path, ["c2", "c0"]).read(0, 900), X[:, [2, 0]])


def test_bad_arrow_files(tmp_path):
    def refused(table, match, **options):
        with pyarrow.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(InvalidData, match=match):
            open_rows(tmp_path / "x.arrow", **options)

    refused(pyarrow.table({"a": ["x"], "b": [1]}), r"column 'a' \(string\)")
    refused(pyarrow.table({"a": pyarrow.array([1]).dictionary_encode(), "b": [1]}), r"column 'a' \(dictionary")
    refused(pyarrow.table({"a": [1], "b": [1]}), "no column named 'c'", columns=["c"])
    refused(pyarrow.table([[1], [2]], names=["a", "a"]), "more than one column named 'a'")
    refused(pyarrow.table({"a": pyarrow.array([], "float64")}), "no rows")
    refused(pyarrow.table({}), "no columns")
    (tmp_path / "x.feather").write_bytes(b"FEA1" + b"x" * 100)
    with pytest.raises(InvalidData, match="Feather file of version 1"):
        open_rows(tmp_path / "x.feather")


def test_altered_arrow_files_never_crash(tmp_path):
    """Every byte of the metadata may be wrong."""
    path = write(tmp_path, "file.arrow", X[:60])
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = bytearray(data)
        for place in rng.integers(len(data), size=4):
            broken[place] = rng.integers(256)
        path.write_bytes(broken)
        with contextlib.suppress(InvalidData, OSError):
            open_rows(path).read(0, 60)


def test_names_that_are_no_text(tmp_path, monkeypatch):
    data = arrow().replace(b"c1", b"\xff1")
    (tmp_path / "x.ipc").write_bytes(data)
    piped(monkeypatch, data)
    for path in (tmp_path / "x.ipc", "-"):
        with pytest.raises(InvalidData, match="is damaged: the name of a column is not text in UTF-8"):
            open_rows(path)


def test_frames_are_equal_in_all_formats(tmp_path):
    table = pd.DataFrame({"a": [1, 2, 3], "b": [0.1, np.nan, 0.3]})
    table.to_feather(tmp_path / "x.feather")
    table.to_csv(tmp_path / "x.csv", index=False)
    for name in ("x.feather", "x.csv"):
        np.testing.assert_array_equal(open_rows(tmp_path / name).read(0, 3), table.to_numpy())
