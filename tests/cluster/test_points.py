"""Points: every form of assignment against brute force, and what k-means needs of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import FEW, MANY, SEEDS, points, sparse_points, uneven_groups
from ultraspec._kernels.search import even_features
from ultraspec.cluster import points as points_module
from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.cluster.kmeans import lloyd
from ultraspec.cluster.points import FEW_FEATURES, RowAssigner, RowPoints, assign_direct
from ultraspec.rows import ArrayRows, SparseRows


def assigned(rows, centers, labels=None, moved=None, bound=None):
    """Assign all rows block by block; labels, squared distances, sums and the number of labels that changed."""
    of = RowPoints(rows, bound)
    sq = np.empty(rows.n_rows, dtype=np.float32)
    before = np.full(rows.n_rows, -1, dtype=np.int32) if labels is None else labels[0].copy()
    if labels is not None:
        sq[:] = labels[1]
    sums = np.zeros((len(centers), of.n_sums))
    assign = of.assign_to(centers, moved)
    changed = sum(assign(span, before[slice(*span)], sq[slice(*span)], sums) for span in of.blocks())
    return before, sq, sums, changed


def check_assignment(X, centers, labels, sq, sums):
    """Labels are nearest centres up to rounding, `sq` their distances, and `sums` the sums of their rows."""
    true = oracle.squared_distances(X, centers)
    sizes = (X.astype(float) ** 2).sum(axis=1) + (centers.astype(float) ** 2).sum(axis=1).max()
    own = true[np.arange(len(X)), labels]
    assert (own <= true.min(axis=1) + 1e-6 * sizes).all()
    assert (np.abs(sq - own) <= 1e-5 * own + 1e-6 * sizes).all()
    wanted = np.array([X[labels == c].sum(axis=0, dtype=np.float64) for c in range(len(centers))])
    np.testing.assert_allclose(sums, wanted, rtol=1e-9, atol=1e-9 * np.abs(X).sum())


@settings(max_examples=100)
@given(seed=SEEDS, d=FEW | MANY, n=st.integers(1, 600), k=st.integers(1, 30), sparse=st.booleans())
def test_rows_are_assigned_to_the_nearest_centre(seed, d, n, k, sparse):
    random = np.random.default_rng(seed)
    X = points("normal", n, d, random)
    rows = ArrayRows(X)
    if sparse:
        X, matrix = sparse_points(X, random)
        rows = SparseRows(matrix)
    centers = points("normal", k, d, random)
    labels, sq, sums, changed = assigned(rows, centers)
    assert changed == n
    check_assignment(X, centers, labels, sq, sums)
    again = assigned(rows, centers, (labels, sq))
    assert again[3] == 0
    assert (again[0] == labels).all()


@settings(max_examples=60)
@given(seed=SEEDS, d=MANY, n_moved=st.integers(0, 12))
def test_centres_that_rest_give_the_labels_of_a_full_assignment(seed, d, n_moved):
    random = np.random.default_rng(seed)
    X = points("clumps", 400, d, random)
    centers = points("clumps", 12, d, random)
    labels, sq, _, _ = assigned(ArrayRows(X), centers)
    moved = np.sort(random.permutation(12)[:n_moved])
    other = centers.copy()
    other[moved] += random.standard_normal((n_moved, d)).astype(np.float32)
    found = assigned(ArrayRows(X), other, (labels, sq), moved)
    full = assigned(ArrayRows(X), other)
    assert (found[0] == full[0]).all()
    assert found[3] == (found[0] != labels).sum()
    check_assignment(X, other, *found[:3])


def test_projections_change_no_label_and_are_stored_for_small_data(monkeypatch):
    random = np.random.default_rng(0)
    X = (random.standard_normal((700, 10)) @ random.standard_normal((10, 120))).astype(np.float32)
    bound = ProjectionBound.fit(X)
    assert bound.basis is not None
    plain, projected = assigned(ArrayRows(X), X[:50]), assigned(ArrayRows(X), X[:50], bound=bound)
    assert (plain[0] == projected[0]).all()
    of = RowPoints(ArrayRows(X), bound)
    span = of.blocks()[0]
    first = of.project(of.read(span), span)
    assert of.project(of.read(span), span)[0] is first[0]
    monkeypatch.setattr(points_module, "PROJECTED_ROWS", 699)
    assert of.project(of.read(span), span)[0] is not first[0]


def test_ties_go_to_the_first_centre():
    X = np.zeros((5, 3), dtype=np.float32)
    wide = np.zeros((5, 20), dtype=np.float32)
    for rows in (X, wide):
        centers = np.ones((4, rows.shape[1]), dtype=np.float32)
        assert not assigned(ArrayRows(rows), centers)[0].any()
        assert not assigned(SparseRows(scipy.sparse.csr_array(rows)), centers)[0].any()


def test_changed_labels_are_counted():
    X = np.array([[0.0], [1.0], [5.0]], dtype=np.float32)
    labels, sq = np.array([0, 1, 1], dtype=np.int32), np.empty(3, dtype=np.float32)
    assert assign_direct(X, even_features(X[[0, 2]]), labels, sq) == 1
    assert labels.tolist() == [0, 0, 1]
    assert sq.tolist() == [0, 1, 0]


def test_means_of_empty_clusters_are_zero():
    means = RowPoints(ArrayRows(np.ones((3, 2), dtype=np.float32))).means(
        np.array([[4.0, 2.0], [0, 0]]), np.array([2, 0])
    )
    assert means.dtype == np.float32
    assert means.tolist() == [[2, 1], [0, 0]]


def test_weights_of_rows():
    of = RowPoints(ArrayRows(np.ones((4, 2), dtype=np.float32)))
    assert of.weights_of(slice(1, 3)).tolist() == [1]  # one for every row
    of.weights = np.arange(4.0)
    assert of.weights_of(slice(1, 3)).tolist() == [1, 2]


@pytest.mark.parametrize("d", [8, 9, 40])
def test_only_moved_centres_are_compared(d, engine, monkeypatch):
    moved_counts = []
    by_moved = RowAssigner._by_moved

    def spy(self, block, moved, labels, sq):
        moved_counts.append(len(moved))
        return by_moved(self, block, moved, labels, sq)

    monkeypatch.setattr(RowAssigner, "_by_moved", spy)
    X, centers = uneven_groups(d, seed=0)
    found = lloyd(RowPoints(ArrayRows(X)), centers, engine, max_iter=100)
    assert (found.labels == oracle.assign(X, found.centers)).all()
    assert any(0 < m < len(centers) for m in moved_counts) == (d > FEW_FEATURES)


def test_taken_rows_are_copies():
    X = points("normal", 10, 3, np.random.default_rng(0))
    assert not np.shares_memory(RowPoints(ArrayRows(X)).take(np.arange(10)), X)
