"""Vectors and matrices in temporary files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ultraspec.storage.spool import (
    ArrayTuple,
    Spool,
    SpooledMatrix,
    allocate_like,
    as_array,
    fill_slice,
    matrix_columns,
)


@settings(max_examples=50)
@given(n=st.integers(0, 50), spans=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8))
def test_spool_is_an_array(n, spans):
    columns = Spool.columns(n, 3, np.int16)
    expected = np.zeros((n, 3), dtype=np.int16)
    for number, (low, high) in enumerate(spans):
        part = slice(min(low, high), max(low, high))
        columns[number % 3][part] = expected[part, number % 3] = number
        assert (columns[number % 3][part] == expected[part, number % 3]).all()
    assert all((column[:] == expected[:, j]).all() for j, column in enumerate(columns))
    if n:
        assert (columns[0].array(3) == expected).all()
        assert (columns[1].array() == expected[:, 1]).all()


def test_too_little_space_for_temporary_files(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 1000})())
    with pytest.raises(OSError, match=r"Storing results of 1,000 rows needs 0.00 GB .* TMPDIR"):
        Spool.columns(1000, 1, np.int32)


def test_a_vector_takes_at_most_half_of_the_free_space(monkeypatch):
    usage = type("Usage", (), {"free": 8000})()
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    assert len(Spool.if_space(1000, np.int32)) == 1000
    assert Spool.if_space(1001, np.int32) is None


def test_threads_write_and_read_at_once():
    spool = Spool.columns(100_000, 2, np.int64)[1]

    def write(start):
        spool[start : start + 100] = np.arange(start, start + 100)
        return (spool[start : start + 100] == np.arange(start, start + 100)).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(0, 100_000, 100)))
    assert (spool.array() == np.arange(100_000)).all()


def test_arrays_outlive_the_spool():
    spool = Spool.columns(10, 1, np.int32)[0]
    spool[:] = 7
    array = spool.array()
    del spool
    assert (array == 7).all()
    assert not array.flags.writeable


def test_matrices():
    values = np.arange(60).reshape(20, 3)
    matrix = SpooledMatrix(Spool.columns(20, 3, np.int16))
    for rows in (slice(0, 5), slice(5, 20)):
        matrix[rows] = values[rows]
    assert (as_array(matrix) == values).all()
    assert [column[2:4].tolist() for column in matrix_columns(matrix)] == values[2:4].T.tolist()
    array = values.copy()
    matrix_columns(array)[1][:] = -1
    assert (array[:, 1] == -1).all()
    assert matrix_columns(None) == []
    assert as_array(None) is None
    assert as_array(array) is array


@pytest.mark.parametrize("kind", [Spool, np.ndarray])
def test_code_for_arrays_and_spools(kind):
    values = Spool.columns(9, 1, np.int8)[0] if kind is Spool else np.zeros(9, dtype=np.int8)
    out = allocate_like(values, np.float32)
    assert isinstance(out, kind)
    assert (len(out), out.dtype) == (9, np.float32)

    def write(buffer):
        buffer[:] = np.arange(len(buffer))
        return "result"

    assert fill_slice(out, slice(2, 6), write) == "result"
    assert as_array(out)[2:6].tolist() == [0, 1, 2, 3]


def test_tuples_of_arrays_need_a_value_for_each():
    a, b = np.zeros(3), np.zeros(3)
    with pytest.raises(ValueError, match="zip"):
        ArrayTuple(a, b)[0:2] = (1,)
