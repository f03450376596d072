"""Selection of representatives (paper, section 3.1.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.cluster.kmeans import lloyd, random_centers
from ultraspec.cluster.points import RowPoints
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Rows, WeightedRows, sample_rows, subset, take_sample

KMEANS_ITERATIONS = 10
MOST_REPRESENTATIVES = 2**16 - 1  # ids are uint16; the p x p matrix would take 34 GB at this number
TWO_LEVEL_REPRESENTATIVES = (
    2000  # beyond this number, k-means runs in two levels: p^1.5 distances per row instead of p^2
)


def count_representatives(n_rows: int, n_representatives: int, n_clusters: int, n_neighbors: int) -> int:
    """Return the number of representatives for `n_rows` rows.

    At most a third of the rows: with p near N every row is its own representative, the graph has many tiny components
    and outliers are found instead of clusters. At least as many as clusters and neighbours need, if there are enough
    rows.
    """
    least = max(n_clusters, n_neighbors) + 1
    return min(n_rows, max(min(n_representatives, n_rows // 3), min(least, n_representatives)))


def select_representatives(
    rows: Rows,
    p: int,
    selection: str,
    candidate_factor: int,
    metric: str,
    rng: np.random.Generator,
    engine: ThreadEngine,
) -> npt.NDArray[np.float32]:
    """Select representatives.

    Parameters
    ----------
    rows : Rows
        Preprocessed rows.
    p : int
        Number of representatives; fewer are returned if there are fewer distinct rows. Beyond
        `TWO_LEVEL_REPRESENTATIVES`, "hybrid" may return a few more.
    selection : {"hybrid", "random", "kmeans"}
        k-means centres of `candidate_factor` * p sampled rows; sampled rows; k-means centres of all rows.
    candidate_factor : int
        Size of the sample relative to p (p' / p in the paper).
    metric : {"euclidean", "cosine"}
        Distance; "cosine" scales representatives to unit length.
    rng : numpy.random.Generator
        Source of randomness.
    engine : ThreadEngine
        Runs the passes.

    Returns
    -------
    ndarray of shape (about p, d), float32
    """
    if selection == "hybrid":
        rows = take_sample(rows, sample_rows(rows, candidate_factor * p, rng))
        return engine.apply(_select, rows, p, selection, metric, rng)
    return _select(rows, p, selection, metric, rng, engine)


def _select(
    rows: Rows, p: int, selection: str, metric: str, rng: np.random.Generator, engine: ThreadEngine
) -> npt.NDArray[np.float32]:
    """Return random rows, or the centres of k-means that starts from them."""
    if selection == "hybrid" and p > TWO_LEVEL_REPRESENTATIVES and not rows.sparse:
        selected = _two_level_centers(rows, p, rng, engine)
    else:
        selected = random_centers(rows, p, rng)
        if selection != "random":
            selected = _kmeans_centers(rows, selected, engine)
    if metric == "cosine":
        selected = selected / np.maximum(np.linalg.norm(selected, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.ascontiguousarray(_distinct(selected), dtype=np.float32)


def _kmeans_centers(rows: Rows, start: npt.NDArray[np.float32], engine: ThreadEngine) -> npt.NDArray[np.float32]:
    """Return the centres of a few iterations of k-means that have rows."""
    bound = ProjectionBound() if rows.sparse else ProjectionBound.fit(start)
    result = lloyd(RowPoints(rows, bound), start, engine, max_iter=KMEANS_ITERATIONS)
    return result.means[result.counts > 0]


def _two_level_centers(sample: Rows, p: int, rng: np.random.Generator, engine: ThreadEngine) -> npt.NDArray[np.float32]:
    """Divide the rows into sqrt(p) groups by k-means, and each group into its share of p clusters."""
    rows: Rows = ArrayRows(np.ascontiguousarray(sample.read(0, sample.n_rows)))
    if sample.weights is not None:
        rows = WeightedRows(rows, sample.weights)
    groups = lloyd(RowPoints(rows), random_centers(rows, int(np.sqrt(p)), rng), engine, max_iter=KMEANS_ITERATIONS)
    most = MOST_REPRESENTATIVES - len(groups.counts)  # each group gets one at least, which may add up to more than p
    sizes = np.bincount(groups.labels, minlength=len(groups.counts))
    shares = _whole_shares(groups.counts, sizes, min(p, most))
    order = np.argsort(groups.labels, kind="stable")
    bounds = np.cumsum(sizes)
    tasks = list(zip(np.split(order, bounds[:-1]), shares.tolist(), rng.spawn(len(shares)), strict=True))
    alone = engine.within(MemberReporter(engine.reporter), alone=True)  # groups are counted, not their passes

    def divide(task: tuple[npt.NDArray[np.int64], int, np.random.Generator]) -> npt.NDArray[np.float32]:
        members, k, chance = task
        part = subset(rows, members)
        return _kmeans_centers(part, random_centers(part, k, chance), alone)

    return np.concatenate(engine.map(divide, [task for task in tasks if task[1]]))


def _whole_shares(counts: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64], total: int) -> npt.NDArray[np.int64]:
    """Divide `total` in proportion to `counts`, in integers: at least one each, at most the size."""
    exact = counts / counts.sum() * total
    shares = np.floor(exact).astype(np.int64)
    largest = np.argsort(shares - exact, kind="stable")
    shares[largest[: total - shares.sum()]] += 1
    return np.minimum(np.maximum(shares, 1), sizes)


def _distinct(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Drop repeated points, keeping the order."""
    keys = np.ascontiguousarray(points + np.float32(0.0)).view(np.dtype((np.void, points.shape[1] * 4))).ravel()
    first = np.unique(keys, return_index=True)[1]
    return points[np.sort(first)]
