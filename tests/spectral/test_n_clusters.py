"""Number of clusters from eigenvalues and from trees."""

from __future__ import annotations

import numpy as np
import pytest

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
