"""What the command line reads and writes beside data: columns in blocks, numbers as text."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.cli_tools import read_columns
from ultraspec.cli import _outputs, _writers
from ultraspec.cli._writers import write_columns

SUFFIXES = [".npy", ".npz", ".csv", ".parquet"]


class TestWriters:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    @given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6), group=st.integers(1, 50))
    def test_blocks_of_any_length(self, tmp_path_factory, suffix, lengths, group):
        rng = np.random.default_rng(sum(lengths))
        blocks = [(rng.integers(-5, 9, n).astype(np.int32), rng.random(n, np.float32)) for n in lengths]
        path = tmp_path_factory.mktemp("w") / f"f{suffix}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_writers, "GROUP_ROWS", group)
            types = {"label": np.int32, "confidence": np.float32}
            write_columns(path, sum(lengths), types, iter(blocks), force=False)
        found = read_columns(path)
        np.testing.assert_array_equal(found["label"], np.concatenate([a for a, _ in blocks]))
        if suffix != ".npy":
            np.testing.assert_array_equal(
                found["confidence"].astype(np.float32), np.concatenate([b for _, b in blocks])
            )

    def test_parquet_has_the_types_that_were_promised(self, tmp_path):
        types = {"label": np.int32, "confidence": np.float32}
        write_columns(tmp_path / "f.parquet", 2, types, [(np.array([1, 2]), np.array([0.5, 1.0]))], force=False)
        schema = pyarrow.parquet.read_schema(tmp_path / "f.parquet")
        assert schema.field("label").type == pyarrow.int32()
        assert schema.field("confidence").type == pyarrow.float32()

    def test_large_files_have_several_row_groups(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_writers, "GROUP_ROWS", 100)
        blocks = [(np.arange(60, dtype=np.int32),)] * 5
        write_columns(tmp_path / "f.parquet", 300, {"label": np.int32}, blocks, force=False)
        groups = pyarrow.parquet.ParquetFile(tmp_path / "f.parquet").metadata
        assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [120, 120, 60]

    @pytest.mark.parametrize("suffix", SUFFIXES)
    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_what_ends_early_leaves_nothing(self, tmp_path, suffix, error):
        def blocks():
            yield (np.zeros(10, np.int32),)
            raise error

        path = tmp_path / f"f{suffix}"
        path.write_bytes(b"old")
        with pytest.raises(error):
            write_columns(path, 20, {"label": np.int32}, blocks(), force=True)
        assert [p.name for p in tmp_path.iterdir()] == [path.name]
        assert path.read_bytes() == b"old"

    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_rows_that_are_missing_are_noticed(self, tmp_path, suffix):
        with pytest.raises(RuntimeError, match="10 of 20 rows"):
            write_columns(tmp_path / f"f{suffix}", 20, {"label": np.int32}, [(np.zeros(10, np.int32),)], force=False)
        assert list(tmp_path.iterdir()) == []

    def test_a_file_that_appeared_meanwhile_is_not_replaced_and_nothing_is_lost(self, tmp_path):
        path = tmp_path / "f.npy"
        (tmp_path / "f-2.npy").write_bytes(b"another's too")

        def blocks():
            yield (np.zeros(1, np.int32),)
            path.write_bytes(b"another's")

        with pytest.warns(UserWarning, match="written by another program meanwhile. The result of this run is in"):
            written = write_columns(path, 1, {"label": np.int32}, blocks(), force=False)
        assert path.read_bytes() == b"another's"
        assert written == tmp_path / "f-3.npy"
        assert np.load(written).tolist() == [0]
        assert sorted(each.name for each in tmp_path.iterdir()) == ["f-2.npy", "f-3.npy", "f.npy"]


class TestDiskSpace:
    def test_space_is_counted_per_disk(self, tmp_path):
        import shutil

        free = shutil.disk_usage(tmp_path).free
        _outputs.check_disk_space({tmp_path / "a.npy": 10})
        with pytest.raises(OSError, match="needs about"):
            _outputs.check_disk_space({tmp_path / "a.npy": int(free * 0.6), tmp_path / "b.npy": int(free * 0.6)})

    @pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
    @pytest.mark.parametrize("confidence", [False, True])
    def test_files_that_fit_are_not_refused(self, tmp_path, monkeypatch, suffix, confidence):
        """A disk with a little more space than the file takes will do (text: more digits); a third of it will not."""
        n, rng = 50_000, np.random.default_rng(0)
        columns = [rng.integers(40, size=n).astype(np.int32), (rng.integers(1, 21, size=n) / 20).astype(np.float32)]
        types = {"label": np.int32, "confidence": np.float32} if confidence else {"label": np.int32}
        path = tmp_path / f"l{suffix}"
        write_columns(path, n, types, [tuple(columns[: len(types)])], force=False)
        needed = path.stat().st_size + 4 * n * (suffix == ".npz" and confidence)
        if suffix == ".parquet":
            needed = 4 * n * len(types) * 1.1  # compressed by how much, nobody knows before
        sizes = {path: _outputs.label_bytes(path, n, confidence=confidence)}
        for share, fits in ((2.6 if suffix == ".csv" else 1.1, True), (0.3, False)):
            monkeypatch.setattr(
                _outputs.shutil, "disk_usage", lambda _, free=needed * share: SimpleNamespace(free=free)
            )
            with contextlib.nullcontext() if fits else pytest.raises(OSError, match="needs about"):
                _outputs.check_disk_space(sizes)
