"""Results with a value per row: in memory or in temporary files."""

from __future__ import annotations

import numpy as np

from ultraspec.rows import ArrayRows, allocate_matrix, allocate_rows, stays_in_memory
from ultraspec.storage.spool import Spool, SpooledMatrix, as_array, matrix_columns


def test_results_are_where_the_rows_are(monkeypatch):
    rows = ArrayRows(np.zeros((100, 2)))
    assert isinstance(allocate_rows(rows, np.int32), np.ndarray)
    rows.in_memory = False
    assert isinstance(allocate_rows(rows, np.int32), np.ndarray)  # small
    monkeypatch.setattr("ultraspec.rows.results.MOST_MEMORY_BYTES", 399)
    assert isinstance(allocate_rows(rows, np.int32), Spool)
    matrix = allocate_matrix(rows, 5, np.uint8)
    assert isinstance(matrix, SpooledMatrix)
    values = np.arange(500).reshape(100, 5).astype(np.uint8)
    matrix[10:60] = values[10:60]
    assert (as_array(matrix)[10:60] == values[10:60]).all()
    assert (matrix_columns(matrix)[2][10:60] == values[10:60, 2]).all()


def test_rows_on_a_cluster_have_no_results_here():
    rows = ArrayRows(np.zeros((100, 2)), in_memory=False)
    assert stays_in_memory(rows, 1)
    rows.remote = True
    assert not stays_in_memory(rows, 1)
