"""Numbers of clusters by size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.common import same_partition
from ultraspec.cluster.numbering import number_by_size


@given(labels=st.lists(st.integers(-1, 6), min_size=1, max_size=60))
def test_the_largest_cluster_is_the_first(labels):
    before = np.array(labels, dtype=np.int32)
    found = number_by_size(before)
    assert found.dtype == before.dtype
    assert ((found == -1) == (before == -1)).all()
    assigned = before >= 0
    if assigned.any():
        assert same_partition(found[assigned], before[assigned])
        sizes = np.bincount(found[assigned])
        assert (np.diff(sizes) <= 0).all()
        assert sizes.min() > 0  # numbers without rows come last, after all that are used


def test_clusters_of_equal_size_stay_in_order():
    labels = np.array([3, 1, 2, 0, 1, 2, 3, 0], dtype=np.int32)
    assert (number_by_size(labels) == labels).all()
    assert number_by_size(np.array([0, 1, 1, 2], dtype=np.int32)).tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_without_a_cluster_stay_without(dtype):
    assert number_by_size(np.array([-1, 1, 0, 1, -1], dtype=dtype)).tolist() == [-1, 0, 1, 0, -1]
    assert number_by_size(np.array([-1, -1], dtype=dtype)).tolist() == [-1, -1]


def test_numbers_by_size_stay():
    labels = np.random.default_rng(0).integers(5, size=300).astype(np.int32)
    once = number_by_size(labels)
    assert (number_by_size(once) == once).all()
