"""Agglomerative clustering of weighted rows, against SciPy's linkage of the objects behind them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as hierarchy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from tests.helpers.cases import SEEDS
from tests.helpers.common import same_partition
from ultraspec.cluster.linkage import METHODS, agglomerate

DTYPES = st.sampled_from([np.float32, np.float64])


def points(p, seed):
    return np.random.default_rng(seed).normal(size=(p, 3))


def expanded(D, sizes):
    """Linkage of all objects: copies of a row are at distance zero."""
    rows = np.repeat(np.arange(len(D)), sizes)
    return rows, squareform(D[np.ix_(rows, rows)], checks=False)


@settings(max_examples=150)
@given(p=st.integers(2, 40), method=st.sampled_from(list(METHODS)), dtype=DTYPES, seed=SEEDS)
def test_tree_is_scipys(p, method, dtype, seed):
    condensed = pdist(points(p, seed)).astype(dtype).astype(np.float64)
    D = squareform(condensed).astype(dtype)
    before = D.copy()
    tree = agglomerate(D, method=method)
    assert (before == D).all()
    theirs = hierarchy.linkage(condensed, method)
    np.testing.assert_allclose(tree.to_scipy(), theirs, rtol=1e-5)
    assert hierarchy.is_valid_linkage(tree.to_scipy())


@settings(max_examples=100)
@given(
    p=st.integers(1, 15),
    method=st.sampled_from(list(METHODS)),
    dtype=DTYPES,
    scale=st.sampled_from([1e-3, 1.0, 1e6]),
    seed=SEEDS,
)
def test_sizes_stand_for_copies(p, method, dtype, scale, seed):
    sizes = np.random.default_rng(seed).integers(1, 5, size=p)
    D = scale * squareform(pdist(points(p, seed))) if p > 1 else np.zeros((1, 1))
    tree = agglomerate(D.astype(dtype), sizes, method=method)
    rows, condensed = expanded(D, sizes)
    if len(rows) == 1:
        assert tree.n_leaves == 1
        return
    theirs = hierarchy.linkage(condensed, method)
    np.testing.assert_allclose(tree.heights, theirs[len(rows) - p :, 2], rtol=1e-5)
    assert p == 1 or tree.sizes[-1] == len(rows)
    for k in range(1, p + 1):
        labels = hierarchy.fcluster(theirs, k, "maxclust")
        assert same_partition(labels, tree.cut(k)[rows])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows(dtype):
    """Long chains, and rows that replay hundreds of merges."""
    condensed = pdist(points(700, 0)).astype(dtype).astype(np.float64)
    theirs = hierarchy.linkage(condensed, "average")
    tree = agglomerate(squareform(condensed).astype(dtype), overwrite=True)
    np.testing.assert_allclose(tree.heights, theirs[:, 2], rtol=1e-5)
    assert same_partition(tree.cut(20), hierarchy.fcluster(theirs, 20, "maxclust"))


def leaves(tree):
    """Leaves below each node of a tree."""
    below = [[i] for i in range(tree.n_leaves)]
    for left, right in tree.merges:
        below.append(below[left] + below[right])
    return below


@settings(max_examples=100)
@given(p=st.integers(2, 25), values=st.integers(1, 4), method=st.sampled_from(list(METHODS)), dtype=DTYPES, seed=SEEDS)
def test_ties_still_give_a_right_tree(p, values, method, dtype, seed):
    """Few distinct distances: any order of merges will do, but every height must be the two nodes' distance."""
    random = np.random.default_rng(seed)
    D = np.triu(random.integers(values, size=(p, p)), 1) / max(1, values - 1)
    D = (D + D.T).astype(dtype)
    sizes = random.integers(1, 4, size=p)
    tree = agglomerate(D, sizes, method=method)
    below = leaves(tree)
    assert sorted(below[-1]) == list(range(p))
    assert (np.diff(tree.heights) >= 0).all()
    of = {"average": np.average, "single": np.min, "complete": np.max}[method]
    for (left, right), height in zip(tree.merges, tree.heights, strict=True):
        a, b = below[left], below[right]
        weights = {"weights": np.outer(sizes[a], sizes[b])} if method == "average" else {}
        assert height == pytest.approx(of(D[np.ix_(a, b)].astype(np.float64), **weights), abs=1e-5)
    # No clusters that are left are nearer than those merged next.
    for k in range(2, p + 1):
        labels = tree.cut(k)
        assert sorted(set(labels)) == list(range(k))
        groups = [np.flatnonzero(labels == c) for c in range(k)]
        nearest = min(
            of(
                D[np.ix_(a, b)].astype(np.float64),
                **({"weights": np.outer(sizes[a], sizes[b])} if method == "average" else {}),
            )
            for i, a in enumerate(groups)
            for b in groups[:i]
        )
        assert tree.heights[p - k] == pytest.approx(nearest, abs=1e-5)


@settings(max_examples=50)
@given(p=st.integers(2, 25), dtype=DTYPES, seed=SEEDS)
def test_similarities_are_distances_upside_down(p, dtype, seed):
    D = squareform(pdist(points(p, seed))).astype(dtype)
    ours, theirs = agglomerate(1 - D, similarity=True), agglomerate(D)
    assert (ours.merges == theirs.merges).all()
    np.testing.assert_allclose(ours.heights, 1 - theirs.heights, atol=1e-5)


def test_clusters_are_numbered_by_their_first_rows():
    D = abs(np.subtract.outer([9.0, 0.0, 9.1, 5.0, 0.1], [9.0, 0.0, 9.1, 5.0, 0.1]))
    assert agglomerate(D).cut(3).tolist() == [0, 1, 0, 2, 1]


def test_bad_input():
    D = np.zeros((3, 3))
    with pytest.raises(ValueError, match="square"):
        agglomerate(D[:2])
    with pytest.raises(ValueError, match="square and not empty"):
        agglomerate(np.empty((0, 0)))
    with pytest.raises(ValueError, match="method must be one of"):
        agglomerate(D, method="ward")
    for sizes in ([1, 1], [1, 0, 1], [1, np.nan, 1]):
        with pytest.raises(ValueError, match="3 positive numbers"):
            agglomerate(D, np.array(sizes))
    for bad in (np.nan, np.inf):
        D[0, 1] = bad
        with pytest.raises(ValueError, match="finite"):
            agglomerate(D)
    with pytest.raises(ValueError, match="n_clusters must be an integer >= 1 and <= 2"):
        agglomerate(np.zeros((2, 2))).cut(3)


@settings(max_examples=50)
@given(p=st.integers(1, 25), seed=SEEDS, data=st.data())
def test_roots_are_the_nodes_of_the_clusters(p, seed, data):
    D = squareform(pdist(points(p, seed))) if p > 1 else np.zeros((1, 1))
    tree = agglomerate(D)
    k = data.draw(st.integers(1, p))
    labels, roots = tree.cut(k), tree.roots(k)
    assert roots.shape == (k,)
    below = leaves(tree)
    for c, root in enumerate(roots):
        assert sorted(below[root]) == np.flatnonzero(labels == c).tolist()


def test_roots_of_all_leaves_and_of_one_cluster():
    tree = agglomerate(squareform(pdist(points(6, 0))))
    assert tree.roots(6).tolist() == list(range(6))
    assert tree.roots(1).tolist() == [10]


def test_nodes_of_a_tree_become_clusters():
    x = np.array([0.0, 1.0, 10.0, 12.0, 40.0])
    tree = agglomerate(abs(x[:, None] - x))
    assert tree.merges.tolist() == [[0, 1], [2, 3], [5, 6], [4, 7]]
    assert tree.labels_of([4, 7]).tolist() == [0, 0, 0, 0, 1]
    assert tree.labels_of([4, 2, 3, 5]).tolist() == [0, 0, 1, 2, 3]  # numbered by their first leaves
    assert tree.labels_of([8]).tolist() == [0] * 5
    for k in range(1, 6):
        assert tree.labels_of(tree.roots(k)).tolist() == tree.cut(k).tolist()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([4, 5], "2 of its 5 leaves are below none of them, for example leaf 2"),
        ([4, 7, 5], "node 5 is below node 7"),
        ([4, 4, 7], "node 4 is there twice"),
        ([9], "nodes"),
        ([-1], "nodes"),
        ([], "5 of its 5 leaves"),
    ],
)
def test_nodes_that_are_no_cut_are_refused(nodes, message):
    x = np.array([0.0, 1.0, 10.0, 12.0, 40.0])
    with pytest.raises(ValueError, match=message):
        agglomerate(abs(x[:, None] - x)).labels_of(nodes)
