"""Phase 1, representative selection (paper, section 3.1.1): takes rows, gives p representatives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.cluster.kmeans import lloyd, random_centers
from ultraspec.cluster.points import RowPoints
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, sample_indices, subset

KMEANS_ITERATIONS = 10


def count(n_rows: int, n_representatives: int, n_clusters: int, n_neighbors: int) -> int:
    """Number of representatives for `n_rows` rows.

    At most a third of the rows: with p near N every row is its own representative, the graph falls to crumbs and
    outliers are found instead of clusters. Never fewer than the clusters and neighbours need, where rows allow.
    """
    least = max(n_clusters, n_neighbors) + 1
    return min(n_rows, max(min(n_representatives, n_rows // 3), min(least, n_representatives)))


def select(
    rows: Rows,
    p: int,
    selection: str,
    candidate_factor: int,
    random: np.random.Generator,
    engine: ThreadEngine,
    *,
    unit: bool = False,
) -> npt.NDArray[np.float32]:
    """Choose representatives.

    Parameters
    ----------
    rows : Rows
        Prepared rows.
    p : int
        How many; fewer are returned where there are fewer distinct rows.
    selection : {"hybrid", "random", "kmeans"}
        k-means centres of `candidate_factor` * p sampled rows; sampled rows; k-means centres of all rows.
    candidate_factor : int
        p' / p.
    random : numpy.random.Generator
        Source of randomness.
    engine : ThreadEngine
        Runs the passes.
    unit : bool
        Scale the representatives to unit length (cosine metric).

    Returns
    -------
    ndarray of shape (<= p, d), float32
    """
    if selection == "hybrid":
        rows = subset(rows, sample_indices(rows.n_rows, candidate_factor * p, random))
        return engine.apply(_choose, rows, p, selection, random, unit)
    return _choose(rows, p, selection, random, unit, engine)


def _choose(
    rows: Rows, p: int, selection: str, random: np.random.Generator, unit: bool, engine: ThreadEngine
) -> npt.NDArray[np.float32]:
    """Random rows, or their k-means centres."""
    chosen = random_centers(rows, p, random)
    if selection != "random":
        bound = ProjectionBound() if rows.sparse else ProjectionBound.fit(chosen)
        found = lloyd(RowPoints(rows, bound), chosen, engine, max_iter=KMEANS_ITERATIONS)
        chosen = found.means[found.counts > 0]
    if unit:
        chosen = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.ascontiguousarray(_distinct(chosen), dtype=np.float32)


def _distinct(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The points without repetitions, in their order."""
    keys = np.ascontiguousarray(points + np.float32(0.0)).view(np.dtype((np.void, points.shape[1] * 4))).ravel()
    first = np.unique(keys, return_index=True)[1]
    return points[np.sort(first)]
