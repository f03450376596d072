"""Weights of rows: samples, draws and what they leave out."""

import numpy as np
import pytest
import scipy.sparse

from ultraspec.rows import (
    ArrayRows,
    InvalidWeight,
    LocalWeights,
    RowSample,
    SparseRows,
    WeightedRows,
    draw_rows,
    sample_rows,
    subset,
    take_draws,
    take_sample,
)
from ultraspec.rows.weights import PART_ROWS
from ultraspec.storage.spool import Spool


def random_weights(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, n) * rng.random(n)


def test_integers_stay_and_other_weights_are_scaled():
    assert LocalWeights.of(np.array([2.0, 0.0, 3.0])).read(0, 3).tolist() == [2, 0, 3]
    weights = LocalWeights.of(np.array([0.2, 0.0, 0.6]))
    assert weights.read(0, 3) == pytest.approx([0.5, 0, 1.5])
    assert weights.n_positive == 2
    assert weights.totals.sum() == pytest.approx(2)


def test_samples_draw_rows_by_weight():
    n = 3 * PART_ROWS + 7  # several parts
    values = random_weights(n)
    indices, counts = LocalWeights.of(values).sample(5000, np.random.default_rng(1))
    assert counts.sum() == 5000
    assert (np.diff(indices) > 0).all()
    assert values[indices].min() > 0
    mean = np.average(np.arange(n), weights=values)
    assert np.average(indices, weights=counts) == pytest.approx(mean, rel=1e-3)
    assert np.average(values[indices], weights=counts) == pytest.approx(np.average(values, weights=values), rel=0.02)


def test_a_row_as_heavy_as_all_others_is_half_of_a_sample():
    values = np.ones(10_001)
    values[77] = 10_000
    indices, counts = LocalWeights.of(values).sample(1000, np.random.default_rng(0))
    assert counts[indices == 77] == pytest.approx(500, abs=1)


def test_a_large_sample_is_all_rows_that_count():
    values = random_weights(1000)
    indices, weights = LocalWeights.of(values).sample(1000, np.random.default_rng(0))
    assert indices.tolist() == np.flatnonzero(values).tolist()
    assert weights == pytest.approx(values[indices] / values[indices].mean())


def test_draws_repeat_rows_of_integer_weights():
    rows = WeightedRows(ArrayRows(np.arange(4.0)[:, None]), LocalWeights.of(np.array([3.0, 0.0, 1.0, 2.0])))
    assert take_draws(rows, 6, np.random.default_rng(0)).ravel().tolist() == [0, 0, 0, 2, 3, 3]
    drawn = draw_rows(rows, 5, np.random.default_rng(0))  # fewer than their sum: at most one draw per row that counts
    assert drawn.weights.sum() == 3


@pytest.mark.parametrize("sparse", [False, True])
def test_subsets_keep_weights(sparse):
    X = np.arange(12.0).reshape(6, 2)
    source = SparseRows(scipy.sparse.csr_array(X)) if sparse else ArrayRows(X)
    rows = WeightedRows(source, LocalWeights.of(np.arange(6.0)))
    part = subset(rows, np.array([1, 4]))
    assert part.read_weights(0, 2).tolist() == [1, 4]
    block = part.read(0, 2)
    assert (block.toarray() if sparse else block).tolist() == X[[1, 4]].tolist()
    assert take_sample(rows, RowSample(np.array([1, 4]), np.array([2.0, 2.0]))).weights is None  # equal ones


def test_rows_without_weights_count_alike():
    rows = ArrayRows(np.zeros((5, 1)))
    assert rows.read_weights(0, 5).tolist() == [1]
    assert rows.n_counted == 5
    assert sample_rows(rows, 9, np.random.default_rng(0)).indices.tolist() == [0, 1, 2, 3, 4]


def test_weights_in_a_temporary_file_are_read_like_an_array():
    values = random_weights(PART_ROWS + 10)
    spool = Spool.columns(len(values), 1, np.float64)[0]
    spool[0 : len(values)] = values
    stored, here = LocalWeights.of(spool), LocalWeights.of(values)
    some = np.array([0, 5, PART_ROWS - 1, PART_ROWS, PART_ROWS + 3])
    assert stored.take(some).tolist() == here.take(some).tolist()
    assert stored.checksum() == here.checksum() != LocalWeights.of(values[::-1].copy()).checksum()
    for ours, theirs in zip(
        stored.sample(50, np.random.default_rng(0)), here.sample(50, np.random.default_rng(0)), strict=True
    ):
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 1e16])
def test_invalid_weights_name_the_row(bad):
    values = np.ones(PART_ROWS + 5)
    values[PART_ROWS + 2 :] = bad
    with pytest.raises(InvalidWeight, match=f"3 invalid weights, the first in row {PART_ROWS + 2}"):
        LocalWeights.of(values)


def test_a_weight_above_zero_is_needed():
    with pytest.raises(InvalidWeight, match="no weight above zero"):
        LocalWeights.of(np.zeros(4))
