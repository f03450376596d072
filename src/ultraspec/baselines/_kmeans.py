"""The k-means of the baselines, which run `ultraspec.cluster.kmeans.lloyd` from different starts.

`lite_kmeans` starts at random rows, `orthogonal_kmeans` at rows that are as orthogonal as possible. `WeightedPoints`
are rows with weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec.baselines._elkan import elkan_is_faster, elkan_kmeans
from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.cluster.kmeans import Clustering, lloyd
from ultraspec.cluster.points import Assign, Centers, Labels, Points, RowPoints, Squares, Sums, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Block, Rows, Span

MANY_ROWS = 2**18  # with more rows, several starts are compared on a sample
SAMPLE_ROWS = 2**16
LEAST_WEIGHT = 1e-3  # with smaller weights, float32 distances are too inexact for bounds
ORTHOGONAL_TOL = 1e-3  # relative change of the sum of squares at which the orthogonal k-means stops
TINY_LENGTH = 1e-20


class WeightedPoints(RowPoints):
    """Rows with weights, for k-means.

    Normalised cuts of an affinity that is a product of features, s(x, y) = f(x).f(y), are a weighted k-means: the
    points are f(x) / w(x), and the weights are their degrees, w(x) = f(x).sum_y f(y). A common factor of the weights,
    or of the points, changes no label; both should be close to 1, as points are float32. Weights must be positive.
    """

    def __init__(self, rows: Rows, weights: Weights) -> None:
        super().__init__(rows)
        self.weights = np.asarray(weights, dtype=np.float64)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:
        """Return a function that finds nearest centres by one matrix product per block."""
        table = np.ascontiguousarray(centers.T)
        half_norms = (0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)).astype(np.float32)

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            block = self.read(span)
            scores = half_norms - block @ table  # half of |x - c|^2 - |x|^2
            nearest = scores.argmin(axis=1).astype(np.int32)
            norms = block.multiply(block).sum(axis=1) if scipy.sparse.issparse(block) else (block * block).sum(axis=1)
            sq[:] = np.maximum(np.asarray(norms).ravel() + 2 * scores[np.arange(len(nearest)), nearest], 0)
            changed = int(np.count_nonzero(nearest != labels))
            labels[:] = nearest
            entries = labels, np.arange(len(labels))
            shares = scipy.sparse.csr_array((self.weights_of(slice(*span)), entries), shape=(len(centers), len(labels)))
            sums += to_dense(shares @ block)
            return changed

        return assign


def to_dense(block: Block) -> npt.NDArray[Any]:
    """Return a dense copy of a block."""
    return block.toarray() if scipy.sparse.issparse(block) else np.array(block)


def lite_kmeans(
    points: Rows | Points,
    k: int,
    *,
    max_iter: int = 100,
    n_init: int = 1,
    random: np.random.Generator,
    engine: ThreadEngine,
) -> Clustering:
    """Run k-means as the paper does, after Cai's litekmeans: from random rows, without k-means++.

    A run ends when labels repeat, or after `max_iter` iterations. The best of `n_init` runs is the one with the
    smallest sum of squares (the original compares sums of distances). With more than 2^18 rows, several runs are
    compared on a sample of 2^16 rows, and the best one is continued on all rows; the original uses all rows in each
    run. A cluster that becomes empty is restarted at a row far from its centre. If there are fewer rows than `k`, every
    row is an initial centre. If there are fewer distinct rows, some ``counts`` are zero, see
    `embedding.drop_empty_clusters`.
    """
    start: Centers | None = None
    if isinstance(points, Rows):
        start = random_start(RowPoints(points), k, random)
        points = RowPoints(points, ProjectionBound() if points.sparse else ProjectionBound.fit(start))
    sample = points if n_init == 1 or points.n_rows <= MANY_ROWS else _sample(points, random)

    def run(number: int) -> Clustering:
        centers = start if number == 0 and start is not None else random_start(sample, k, random)
        return _iterate(sample, centers, engine, max_iter)

    best = min(map(run, range(n_init)), key=lambda clustering: clustering.inertia)
    return best if sample is points else _iterate(points, best.means, engine, max_iter)


def _iterate(points: Points, centers: Centers, engine: ThreadEngine, max_iter: int) -> Clustering:
    """Run Lloyd's iterations, with Elkan's bounds if these are faster.

    Points with a weight close to zero are far from all others, see `WeightedPoints`: in float32 their distances to all
    centres are equal, and only inner products show which centre is nearest.
    """
    exact = points.weights.min() > LEAST_WEIGHT
    if exact and isinstance(points, RowPoints) and elkan_is_faster(points.rows, len(centers), max_iter):
        return elkan_kmeans(points, centers, engine, max_iter=max_iter)
    return lloyd(points, centers, engine, max_iter=max_iter)


def _sample(points: Points, random: np.random.Generator) -> Points:
    """Return a random sample of the points, in memory."""
    chosen = draw_indices(points.n_rows, SAMPLE_ROWS, random)
    rows = ArrayRows(points.take(chosen))
    return WeightedPoints(rows, points.weights[chosen]) if len(points.weights) > 1 else RowPoints(rows)


def random_start(points: Points, k: int, random: np.random.Generator) -> Centers:
    """Return `k` rows drawn without replacement, or all rows if there are no more."""
    return points.take(draw_indices(points.n_rows, k, random))


def draw_indices(n: int, size: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return sorted indices of `size` of `n` rows, drawn independently without replacement, or of all rows."""
    return np.sort(random.choice(n, size, replace=False, shuffle=False)) if size < n else np.arange(n)


def orthogonal_kmeans(
    embedding: npt.NDArray[np.float32],
    k: int,
    *,
    max_iter: int = 100,
    random: np.random.Generator,
    engine: ThreadEngine,
) -> Clustering:
    """Run k-means as Chen et al. do on rows of unit length: from orthogonal rows, and stopped early.

    It ends when the sum of squares changes by at most 0.1 %. A cluster that becomes empty is restarted at a random row.
    """
    points = RowPoints(ArrayRows(embedding))
    centers = orthogonal_start(embedding, k, random, engine)
    previous: float | None = None
    for iteration in range(1, max_iter + 1):
        clustering = replace(lloyd(points, centers, engine, max_iter=1), n_iter=iteration)
        if previous is not None and abs(previous - clustering.inertia) <= ORTHOGONAL_TOL * previous:
            break
        previous = clustering.inertia
        centers = clustering.means
        empty = np.flatnonzero(clustering.counts == 0)
        centers[empty] = embedding[random.integers(len(embedding), size=empty.size)]
    return clustering


def orthogonal_start(
    embedding: npt.NDArray[np.float32], k: int, random: np.random.Generator, engine: ThreadEngine
) -> Centers:
    """Return `k` rows: a random one, then repeatedly the row with the smallest sum of products with those before.

    Copies of a chosen row are not chosen, so fewer rows are returned if there are fewer distinct ones.
    """
    n = len(embedding)
    spans = ArrayRows(embedding).blocks()
    totals = np.zeros(n)
    chosen = [int(random.integers(n))]
    while len(chosen) < k:
        last = embedding[chosen[-1]]

        def add(span: Span, last: npt.NDArray[np.float32] = last) -> tuple[float, int]:
            here = slice(*span)
            block = embedding[here]
            total = totals[here]
            total += np.abs(block @ last)
            total[(block == last).all(axis=1)] = np.inf
            nearest = int(total.argmin())
            return float(total[nearest]), span[0] + nearest

        least, index = min(engine.map(add, spans))
        if least == np.inf:
            break
        chosen.append(index)
    return embedding[chosen]


def unit_rows(V: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Scale rows to unit length, in float32; rows of zeros are unchanged."""
    lengths = np.sqrt(np.einsum("ij,ij->i", V, V, dtype=np.float64))
    return (V / (lengths + TINY_LENGTH)[:, None]).astype(np.float32)
