"""Label files of every format, and what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ultraspec.rows.label_files import read_label_file, split_column


def test_numbers(tmp_path):
    y = np.array([3, 0, -1, 7])
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "column.npy", y[:, None].astype(float))
    np.savez_compressed(tmp_path / "y.npz", X=np.zeros((4, 2)), y=y.astype(np.int8))
    np.savez(tmp_path / "label.npz", label=y, confidence=np.ones(4))
    (tmp_path / "y.csv").write_text("3\n0\n-1\n7\n")
    (tmp_path / "named.csv").write_text("label,confidence\n3,.5\n0,.5\n-1,.5\n7,.5\n")
    (tmp_path / "two.tsv").write_text("1\t3\n2\t0\n3\t-1\n4\t7\n")
    (tmp_path / "y.csv.gz").write_bytes(gzip.compress(b"y\n3\n0\n-1\n7\n"))
    pyarrow.parquet.write_table(pyarrow.table({"y": y}), tmp_path / "y.parquet")
    names = [
        "y.npy",
        "column.npy",
        "y.npz",
        "label.npz",
        "y.csv",
        "named.csv",
        "two.tsv:1",
        "y.csv.gz",
        "y.parquet",
    ]
    for name in names:
        assert read_label_file(str(tmp_path / name)).tolist() == y.tolist(), name


def test_strings_become_numbers(tmp_path):
    words = ["b", "a", "b", "ä"]
    np.save(tmp_path / "w.npy", np.array(words))
    (tmp_path / "w.csv").write_text("word\n" + "\n".join(words) + "\n", encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.table({"word": words}), tmp_path / "w.parquet")
    coded = pyarrow.table({"word": pyarrow.array(words).dictionary_encode()})
    pyarrow.parquet.write_table(coded, tmp_path / "coded.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"truth": [True, False, True]}), tmp_path / "bool.parquet")
    for name in ("w.npy", "w.csv", "w.parquet", "coded.parquet"):
        found = read_label_file(str(tmp_path / name))
        assert found[0] == found[2] != found[1]
        assert len(set(found.tolist())) == 3
    assert read_label_file(str(tmp_path / "bool.parquet")).tolist() == [1, 0, 1]


def test_empty_strings_are_missing(tmp_path):
    (tmp_path / "w.csv").write_text("a,word\n1,x\n2,\n")
    with pytest.raises(ValueError, match="1 missing labels, the first in row 1"):
        read_label_file(f"{tmp_path}/w.csv:word")


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read"):
        read_label_file(str(tmp_path / "o.npy"))


def test_a_colon_in_the_name_of_a_file(tmp_path):
    path = tmp_path / "a:b.npy"
    np.save(path, np.arange(3))
    assert read_label_file(str(path)).tolist() == [0, 1, 2]
    assert split_column(f"{tmp_path}/t.parquet:c")[1] == "c"
    assert split_column("C:data.npy")[1] is None
