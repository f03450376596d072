"""The k-means of the baselines: takes row sources, gives clusterings. All of them are `ultraspec.cluster.kmeans.lloyd`.

They differ in how they start and stop: `lite_kmeans` starts at random rows, `orthogonal_kmeans` at rows that are as
orthogonal as can be. `WeightedPoints` are rows with weights, for either.
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

MANY_ROWS = 2**18  # beyond, several starts are compared on a sample
SAMPLE_ROWS = 2**16
LEAST_WEIGHT = 1e-3  # of points that are measured directly
ORTHOGONAL_TOL = 1e-3  # relative change of the sum of squares at which the orthogonal k-means stops


class WeightedPoints(RowPoints):
    """Rows that count as often as their weights say, for k-means.

    Normalised cuts of a similarity that is a product of features, s(x, y) = f(x).f(y), are such a k-means: the points
    are f(x) / w(x) and the weights their degrees, w(x) = f(x).sum_y f(y). A common factor of the weights, or of the
    points, changes no label; bring both near one, as points are float32.

    Parameters
    ----------
    rows : Rows
        The points: float32 blocks, dense or CSR.
    weights : ndarray of shape (n_rows,), float64
        Their weights, positive.
    """

    def __init__(self, rows: Rows, weights: Weights) -> None:
        super().__init__(rows)
        self.weights = np.asarray(weights, dtype=np.float64)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:  # noqa: ARG002
        """Nearest centres from one matrix product per block."""
        table = np.ascontiguousarray(centers.T)
        half_norms = (0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)).astype(np.float32)

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            block = self.read(span)
            scores = half_norms - block @ table
            nearest = scores.argmin(axis=1).astype(np.int32)
            norms = block.multiply(block).sum(axis=1) if scipy.sparse.issparse(block) else (block * block).sum(axis=1)
            sq[:] = np.maximum(np.asarray(norms).ravel() + 2 * scores[np.arange(len(nearest)), nearest], 0)
            changed = int(np.count_nonzero(nearest != labels))
            labels[:] = nearest
            members = labels, np.arange(len(labels))
            shares = scipy.sparse.csr_array((self.weights_of(slice(*span)), members), shape=(len(centers), len(labels)))
            sums += to_dense(shares @ block)
            return changed

        return assign


def to_dense(block: Block) -> npt.NDArray[Any]:
    """A block as an array of its own."""
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
    """k-means as the paper runs it, after Cai's litekmeans: random rows to start with, no k-means++.

    Ends when labels repeat, or after `max_iter` passes. Of `n_init` runs the one with the smallest sum of squares is
    kept (the original compares sums of plain distances). Of more than 2^18 rows, several runs are compared on a sample
    of 2^16, and the best goes on over all rows; the original takes all rows each time. A cluster that loses its rows
    starts anew at a row far from its centre. Where there are fewer distinct rows than `k`, some ``counts`` are zero:
    see `discretize.renumber`.

    Parameters
    ----------
    points : Rows or Points
        Prepared rows (float32 blocks), or what k-means can cluster.
    k : int
        Number of clusters; all rows start one each if there are no more.
    max_iter, n_init : int
        Passes of a run, and runs.
    random : numpy.random.Generator
        Source of randomness.
    engine : ThreadEngine
        Runs the passes.

    Returns
    -------
    Clustering
    """
    start: Centers | None = None
    if isinstance(points, Rows):
        start = random_start(RowPoints(points), k, random)
        points = RowPoints(points, ProjectionBound() if points.sparse else ProjectionBound.fit(start))
    sample = points if n_init == 1 or points.n_rows <= MANY_ROWS else _sample(points, random)
    best: Clustering | None = None
    for _ in range(n_init):
        start = random_start(sample, k, random) if start is None else start
        found = _settle(sample, start, engine, max_iter)
        start = None
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    return best if sample is points else _settle(points, best.means, engine, max_iter)


def _settle(points: Points, centers: Centers, engine: ThreadEngine, max_iter: int) -> Clustering:
    """Lloyd's iterations, with bounds where these are faster.

    Points with a weight near zero lie far out, see `WeightedPoints`: in float32 their distances to all centres are the
    same, and only products tell which is nearest.
    """
    near = points.weights.min() > LEAST_WEIGHT
    if near and isinstance(points, RowPoints) and elkan_is_faster(points.rows, len(centers), max_iter):
        return elkan_kmeans(points, centers, engine, max_iter=max_iter)
    return lloyd(points, centers, engine, max_iter=max_iter)


def _sample(points: Points, random: np.random.Generator) -> Points:
    """Some of the points, in memory."""
    chosen = draw_indices(points.n_rows, SAMPLE_ROWS, random)
    rows = ArrayRows(points.take(chosen))
    return WeightedPoints(rows, points.weights[chosen]) if len(points.weights) > 1 else RowPoints(rows)


def random_start(points: Points, k: int, random: np.random.Generator) -> Centers:
    """`k` rows drawn without replacement; all rows if there are no more."""
    return points.take(draw_indices(points.n_rows, k, random))


def draw_indices(n: int, size: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Sorted numbers of `size` of `n` rows, drawn without replacement and independently; all if there are no more."""
    return np.sort(random.choice(n, size, replace=False, shuffle=False)) if size < n else np.arange(n)


def orthogonal_kmeans(
    embedding: npt.NDArray[np.float32],
    k: int,
    *,
    max_iter: int = 100,
    random: np.random.Generator,
    engine: ThreadEngine,
) -> Clustering:
    """k-means as Chen et al. run it on rows of unit length: an orthogonal start, and an early end.

    Ends when the sum of squares changes by at most a thousandth. A cluster that loses its rows starts anew at a random
    row.
    """
    points = RowPoints(ArrayRows(embedding))
    centers = orthogonal_start(embedding, k, random, engine)
    before: float | None = None
    for iteration in range(1, max_iter + 1):
        found = replace(lloyd(points, centers, engine, max_iter=1), n_iter=iteration)
        if before is not None and abs(before - found.inertia) <= ORTHOGONAL_TOL * before:
            break
        before, centers = found.inertia, found.means
        empty = np.flatnonzero(found.counts == 0)
        centers[empty] = embedding[random.integers(len(embedding), size=empty.size)]
    return found


def orthogonal_start(
    embedding: npt.NDArray[np.float32], k: int, random: np.random.Generator, engine: ThreadEngine
) -> Centers:
    """`k` rows: a random one, then each time the one whose products with those before are smallest in sum.

    Copies of a chosen row are not chosen; fewer rows come back if there are fewer distinct ones.
    """
    n = len(embedding)
    spans = ArrayRows(embedding).blocks()
    totals = np.zeros(n)
    chosen = [int(random.integers(n))]
    while len(chosen) < k:
        last = embedding[chosen[-1]]

        def add(span: Span, last: npt.NDArray[np.float32] = last) -> tuple[float, int]:
            here = slice(*span)
            block, total = embedding[here], totals[here]
            total += np.abs(block @ last)
            total[(block == last).all(axis=1)] = np.inf
            at = int(total.argmin())
            return float(total[at]), span[0] + at

        least, at = min(engine.map(add, spans))
        if least == np.inf:
            break
        chosen.append(at)
    return embedding[chosen]


def label_embedding(
    V: npt.NDArray[np.float32],
    k: int,
    assign_labels: str,
    *,
    max_iter: int,
    n_init: int,
    random: np.random.Generator,
    engine: ThreadEngine,
) -> Clustering:
    """Clusters of rows of unit length by "orthogonal" or plain "kmeans"."""
    if assign_labels == "orthogonal":
        return orthogonal_kmeans(V, k, max_iter=max_iter, random=random, engine=engine)
    return lite_kmeans(ArrayRows(V), k, max_iter=max_iter, n_init=n_init, random=random, engine=engine)


def unit_rows(V: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Rows scaled to unit length, in float32; rows of zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", V, V, dtype=np.float64))
    return (V / (lengths + 1e-20)[:, None]).astype(np.float32)
