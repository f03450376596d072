"""The nearest of some points by matrix products, against a sort of all distances."""

from __future__ import annotations

import numpy as np
import pytest

from ultraspec._kernels import products
from ultraspec._kernels.search import squared_distance
from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.spectral.neighbors import Table, TableRows

D = 11


def brute_force(X, points, K):
    """Sort the candidates of each row by distance; equal distances stay in the order of the candidates."""
    sq = np.array([[squared_distance(x, point) for point in points] for x in X], dtype=np.float32)
    ids = np.argsort(sq, axis=1, kind="stable")[:, :K]
    return ids, np.take_along_axis(sq, ids, axis=1)


def prepared(X, points):
    bound = ProjectionBound()
    return TableRows(X, *bound.project(X)), Table.of(points, bound), bound.slack


# one bin of each size, whole chunks, and a last chunk with fewer candidates than bins, with as many, with more
@pytest.mark.parametrize("m", [1, 7, 95, 96, 191, 193, 255, 256, 257, 383, 385, 767, 768, 800, 801])
@pytest.mark.parametrize("K", [1, 2, 5, 40])
@pytest.mark.parametrize("kind", ["normal", "sorted", "twins"])
def test_nearest_candidates(m, K, kind):
    random = np.random.default_rng(m)
    points = random.standard_normal((m, D)).astype(np.float32)
    if kind == "sorted":  # near points side by side
        points = points[np.argsort(points[:, 0])] * np.float32([10] + [0.1] * (D - 1))
    elif kind == "twins":
        points[m // 2 :] = points[: m - m // 2]
    X = points[random.integers(m, size=37)] + np.float32(0.1) * random.standard_normal((37, D)).astype(np.float32)
    K = min(K, m)
    rows, table, slack = prepared(X, points)
    ids, sq = np.empty((len(X), K), dtype=np.uint16), np.empty((len(X), K), dtype=np.float32)
    rows.search(table, ids, sq, slack)
    expected_ids, expected_sq = brute_force(X, points, K)
    assert ids.tolist() == expected_ids.tolist()
    assert sq.tobytes() == expected_sq.tobytes()
    if K == 1:
        assert rows.nearest(table, slack).tolist() == expected_ids[:, 0].tolist()


@pytest.mark.parametrize("K", [1, 5])
@pytest.mark.parametrize("m", [300, 801])
def test_products_that_are_not_kept(m, K, monkeypatch):
    monkeypatch.setattr(products, "KEPT_CANDIDATES", products.CHUNK)
    test_nearest_candidates(m, K, "twins")


def test_the_first_of_nearly_equal_points_is_nearest_without_distances():
    """`nearest` measures where products cannot tell which point is nearer."""
    random = np.random.default_rng(0)
    points = np.repeat(random.standard_normal((10, D)).astype(np.float32), 3, axis=0)
    points[1::3] = np.nextafter(points[1::3], np.float32(np.inf))
    X = (100 * random.standard_normal((300, D))).astype(np.float32)
    rows, table, slack = prepared(X, points)
    assert rows.nearest(table, slack).tolist() == brute_force(X, points, 1)[0][:, 0].tolist()


def test_groups_with_different_candidates():
    """Candidates of a group are a range of points, as those of a rep-cluster are, or any list."""
    random = np.random.default_rng(0)
    points = random.standard_normal((60, D)).astype(np.float32)
    lists = [np.arange(10, 40), random.permutation(60)[:20], np.array([4, 9, 6, 7]), np.arange(60)]
    X = random.standard_normal((90, D)).astype(np.float32)
    runs = np.array([0, 3, 50, 50, 90])
    order = np.concatenate([np.sort(part) for part in np.split(random.permutation(90), runs[1:-1])])
    rows, table, slack = prepared(X, points)
    ids, sq = np.empty((90, 3), dtype=np.uint16), np.empty((90, 3), dtype=np.float32)
    starts = np.concatenate([[0], np.cumsum([len(part) for part in lists])])
    rows.search(table, ids, sq, slack, order, runs, np.concatenate(lists).astype(np.uint16), starts)
    for candidates, low, high in zip(lists, runs[:-1], runs[1:], strict=True):
        mine = order[low:high]
        if len(mine):
            expected, expected_sq = brute_force(X[mine], points[candidates], 3)
            assert ids[mine].tolist() == candidates[expected].tolist()
            assert sq[mine].tobytes() == expected_sq.tobytes()


@pytest.mark.parametrize("d", [9, 70, 200, 500])
def test_few_rows_and_many_rows_agree(d):
    """Few rows are compared without a product, and rows of many features are not transposed."""
    random = np.random.default_rng(d)
    points = random.standard_normal((300, d)).astype(np.float32)
    rows, table, slack = prepared(random.standard_normal((60, d)).astype(np.float32), points)
    found = []
    for size in (60, 7, 2):
        ids, sq = np.empty((60, 5), dtype=np.uint16), np.empty((60, 5), dtype=np.float32)
        runs = np.minimum(np.arange(0, 60 + size, size), 60)
        groups = len(runs) - 1
        candidates = np.tile(np.arange(300, dtype=np.uint16), groups), 300 * np.arange(groups + 1)
        rows.search(table, ids, sq, slack, np.arange(60), runs, *candidates)
        found.append((ids.tobytes(), sq.tobytes()))
    assert found[0] == found[1] == found[2]
