"""Number of clusters from eigenvalues and from trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.cases import SEEDS
from ultraspec.cluster.linkage import agglomerate
from ultraspec.spectral.n_clusters import choose_by_eigengap, choose_by_tree, largest_eigengap, largest_fall


@pytest.mark.parametrize(
    ("eigenvalues", "k"),
    [
        ([1.0], 1),
        ([1.0, 0.5], 2),
        ([1.0, 0.99, 0.1], 2),
        ([1.0, 0.2, 0.1], 2),  # the gap after the first does not count: one cluster is no clustering
        ([1.0, 0.999, 0.99, 0.5, 0.4], 3),  # 1 - eigenvalue grows by 10, 50 and 1.2
        ([1.0, 1.0, 1.0, 1.0, 0.9, 0.1], 4),
        ([1.0, 1.0 - 1e-13, 1.0 - 1e-11, 0.9, 0.8], 3),  # growth by rounding is none
    ],
)
@pytest.mark.parametrize("tau", [0.0, 1e-3, 1e-1])
def test_largest_eigengap(eigenvalues, k, tau):
    eigenvalues = np.array(eigenvalues)
    eigenvalues[1:] /= 1 + tau  # what regularisation makes of them where degrees are equal
    assert largest_eigengap(eigenvalues, tau) == k


def test_eigenvalues_that_are_all_alike_are_warned_of():
    with pytest.warns(UserWarning, match="looks at 2 to 50 clusters, and their eigenvalues are all alike"):
        choose_by_eigengap(np.ones(60), 0.0)


def tree_of(*levels):
    """Tree of similarities of points in nested groups: `levels` are (similarity, group of each point)."""
    n = len(levels[0][1])
    S = np.full((n, n), 0.01)
    for similarity, groups in levels:
        groups = np.array(groups)
        S[groups[:, None] == groups] = similarity
    return agglomerate(S, similarity=True)


def test_the_largest_fall_of_a_tree():
    assert largest_fall(tree_of((9.0, [0, 0, 0, 1, 1, 1, 2, 2, 2]))) == 3
    assert largest_fall(tree_of((5.0, [0] * 6 + [1] * 3), (9.0, [0, 0, 0, 1, 1, 1, 2, 2, 2]))) == 2


def test_a_clear_eigengap_is_preferred_to_the_tree():
    tree = tree_of((9.0, [0, 0, 0, 1, 1, 1, 2, 2, 2]))
    assert choose_by_tree(tree, np.array([1.0, 1.0, 1.0, 1.0, 0.5, 0.4]), 0.0) == 4
    assert choose_by_tree(tree, np.array([1.0, 0.9, 0.8, 0.7, 0.6, 0.5]), 0.0) == 3


def between(C, labels):
    """Similarities of all pairs of clusters: means of C."""
    k = labels.max() + 1
    means = np.full((k, k), -np.inf)
    for a in range(k):
        for b in range(a):
            means[a, b] = C[np.ix_(labels == a, labels == b)].mean()
    return means


@settings(max_examples=60)
@given(seed=SEEDS, p=st.integers(1, 30))
def test_largest_fall_is_its_definition(seed, p):
    """Of k clusters, the two that are the most similar are merged."""
    C = np.random.default_rng(seed).random((p, p)) ** 3
    C = C + C.T
    tree = agglomerate(C, similarity=True)
    k = largest_fall(tree)
    if p < 3:
        assert k == p
        return
    falls = {}
    for n in range(2, p):
        left, further = between(C, tree.cut(n + 1)).max(), between(C, tree.cut(n)).max()
        falls[n] = (left + 0.1) / (further + 0.1)
    assert falls[k] == pytest.approx(max(falls.values()))


def test_no_more_than_fifty_clusters():
    """Two hundred pairs, all alike: the fall after the pairs is out of sight."""
    C = np.kron(np.eye(200), np.ones((2, 2)))
    assert largest_fall(agglomerate(C, similarity=True)) <= 50
