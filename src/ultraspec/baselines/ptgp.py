"""PTGP, probability trajectory based graph partitioning (Huang, Lai & Wang, 2016): random walks among microclusters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ultraspec._checks import check_integer
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._coassociation import PairSimilarity
from ultraspec.baselines._kernels.elite_neighbors import collect_elite, elite_thresholds
from ultraspec.baselines._kernels.random_walks import take_step
from ultraspec.baselines._transfer_cut import cut_affinities
from ultraspec.baselines.ensemble_baseline import BASE_CLUSTERS, EnsembleBaseline, Method, combine
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.combine import check_columns

MOST_STEPS = 20  # and neighbours, where the number of microclusters chooses them
ISOLATED = 1e-20  # similarity to a microcluster that no walk leaves
WALKS = 128  # that are run at once: their probabilities stay in cache
COLUMN_BYTES = 2**27  # of all steps for the base clusters that are handled at once

Floats = npt.NDArray[np.float32]
Span = tuple[int, int]


def ptgp(
    base_labels: Any,
    n_clusters: int,
    *,
    n_neighbors: int | None = None,
    n_steps: int | None = None,
    n_init: int = 3,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows into one by probability trajectories, PTGP.

    Short random walks among groups of rows with equal base labels tell which groups lead to the same places, and thus
    how near each group is to each base cluster; the graph of these is cut as `ultraspec.consensus` cuts its own. Far
    slower than that; for comparison, and for few, noisy base clusterings, whose uncertain links walks avoid.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering: any integers or strings. -1, None and NaN mean that the clustering does not assign
        the row; two
        rows are then compared by the clusterings that assign both.
        At most 20,000 clusters in all columns together.
    n_clusters : int
        Number of clusters.
    n_neighbors : int or None, default=None
        Nearest groups of rows that a walk may step to from each, ties included; None for half the root of the number
        of groups, but no more than 20.
    n_steps : int or None, default=None
        Steps of the walks; None for the same number.
    n_init : int, default=3
        Starts of the k-means that turns the embedding into labels; the best is kept.
    max_iter : int, default=100
        Iterations of that k-means, at most.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.

    Returns
    -------
    ndarray of shape (n_samples,), int32
        Cluster of each row; -1 for rows that no clustering assigns.

    See Also
    --------
    PTGP : Makes the base clusterings too, and tells more about the method.

    Examples
    --------
    >>> from ultraspec.baselines import ptgp
    >>> labels = ptgp([[0, "a"], [0, "b"], [1, "b"], [2, "c"], [2, "d"], [3, "d"]], 2, random_state=0)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False, False]
    """
    chosen = method(n_neighbors, n_steps, n_init, max_iter)
    return combine(base_labels, n_clusters, chosen, random_state=random_state, n_jobs=n_jobs)


def method(n_neighbors: int | None, n_steps: int | None, n_init: int, max_iter: int) -> Method:
    """PTGP with its parameters, which are checked."""
    for name, value in (("n_neighbors", n_neighbors), ("n_steps", n_steps)):
        if value is not None:
            check_integer(name, value, least=1, alternatives=(None,))
    check_integer("n_init", n_init, least=1)
    check_integer("max_iter", max_iter, least=1)

    def run(ensemble: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine) -> ConsensusLabels:
        check_columns(ensemble.n_columns, k)
        usual = max(1, min(MOST_STEPS, math.isqrt(len(ensemble) // 4)))
        W = elite_neighbor_graph(ensemble, min(n_neighbors or usual, len(ensemble) - 1), engine)
        B = trajectory_affinities(ensemble, W, n_steps or usual, engine)
        return cut_affinities(B, k, int(n_init), int(max_iter), seed, engine)

    return run


def elite_neighbor_graph(ensemble: BaseClusterings, n_neighbors: int, engine: ThreadEngine) -> scipy.sparse.csr_array:
    """Co-associations (M, M) of microclusters that are among each other's nearest, seen from either of the two."""
    n, similarity = len(ensemble), PairSimilarity(ensemble)

    def run(span: Span) -> scipy.sparse.csr_array:
        rows = np.empty((span[1] - span[0], n), dtype=np.float32)
        similarity.fill(slice(*span), rows)
        rows[np.arange(len(rows)), np.arange(*span)] = 0
        thresholds, counts = np.empty(len(rows), dtype=np.float32), np.empty(len(rows), dtype=np.int64)
        elite_thresholds(rows, thresholds, counts, np.empty(n_neighbors, dtype=np.float32))
        ends = np.concatenate([[0], np.cumsum(counts)])
        ids, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1], dtype=np.float32)
        collect_elite(rows, thresholds, ends, ids, values)
        return scipy.sparse.csr_array((values, ids, ends), shape=rows.shape)

    W = scipy.sparse.csr_array(scipy.sparse.vstack(engine.map(run, similarity.blocks()), format="csr"))
    return scipy.sparse.csr_array(W.maximum(W.T))


def trajectory_affinities(
    ensemble: BaseClusterings, W: scipy.sparse.csr_array, n_steps: int, engine: ThreadEngine
) -> Floats:
    """Affinities (M, k_c) of microclusters to base clusters: the mean similarity to the microclusters in these.

    Two microclusters are as similar as the cosine of their trajectories, [P, P^2, ... P^T] for transitions P. With
    G = P P' + ... + P^T P'^T that is G_uv / sqrt(G_uu G_vv). Only the diagonal of G and its product with k_c columns
    are needed, so G is never formed. Neighbours are numbered next to each other first, for the sake of the cache.
    """
    order = reverse_cuthill_mckee(W, symmetric_mode=True)
    W = W[order][:, order].astype(np.float64)
    W = W.multiply(ensemble.weights[order]).tocsr()  # a step leads to every row of a microcluster
    totals = W.sum(axis=1)
    isolated = totals == 0
    P = scipy.sparse.csr_array(W.multiply(1 / np.where(isolated, 1, totals)[:, None])).astype(np.float32)
    Q = scipy.sparse.csr_array(P.T)
    lengths = np.sqrt(trajectory_squared_lengths(P, Q, n_steps, engine))
    scale = np.where(isolated, 0, 1 / np.where(isolated, 1, lengths)).astype(np.float32)
    B = ensemble.memberships(slice(0, len(ensemble)))[order]
    counts = np.asarray(B.sum(axis=0), dtype=np.float32)  # of microclusters, not of rows: as the authors do
    shares = scipy.sparse.csc_array(B.multiply(1 / counts))
    apart = ISOLATED * (shares[isolated].sum(axis=0) if isolated.any() else np.zeros(len(counts)))
    out = np.empty((len(order), len(counts)), dtype=np.float32)
    step = max(8, COLUMN_BYTES // (4 * len(order) * n_steps))

    def run(span: Span) -> None:
        Y = scale[:, None] * shares[:, span[0] : span[1]].toarray()
        trail = []
        for _ in range(n_steps):
            Y = Q @ Y
            trail.append(Y)
        total = P @ trail.pop()
        while trail:
            total = P @ (trail.pop() + total)
        total *= scale[:, None]
        total += apart[span[0] : span[1]]
        total[isolated] = ISOLATED
        out[order, span[0] : span[1]] = total

    engine.map(run, [(low, min(low + step, len(counts))) for low in range(0, len(counts), step)])
    return out


def trajectory_squared_lengths(
    P: scipy.sparse.csr_array, Q: scipy.sparse.csr_array, n_steps: int, engine: ThreadEngine
) -> npt.NDArray[np.float64]:
    """Squared lengths (M,) of the trajectories [P, P^2, ...] from each microcluster; Q is the transpose of P."""
    n = P.shape[0]
    Q.sort_indices()

    def run(span: Span) -> npt.NDArray[np.float64]:
        walks = np.ascontiguousarray(P[span[0] : span[1]].toarray().T)
        total = np.einsum("ij,ij->j", walks, walks, dtype=np.float64)
        others, reached = np.empty_like(walks), np.flatnonzero(walks.any(axis=1))
        low, high = reached.min(initial=n), reached.max(initial=-1) + 1
        for _ in range(n_steps - 1):
            low, high = take_step(Q.indptr, Q.indices, Q.data, walks, low, high, others, total)
            walks, others = others, walks
        return total

    return np.concatenate(engine.map(run, [(low, min(low + WALKS, n)) for low in range(0, n, WALKS)]))


class PTGP(EnsembleBaseline):
    """Probability trajectory based graph partitioning (PTGP).

    Clusters the rows many times by k-means, lets short random walks among groups of rows with equal labels tell which
    of them belong together, and cuts the graph of groups and k-means clusters. Prefer `ultraspec.USENC`, which is far
    faster and sees shapes; PTGP is to compare with.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_estimators : int, default=20
        Members of the ensemble, m.
    base_clusters : tuple of two int, default=(20, 60)
        Each member has a number of clusters drawn from this range, both ends included. Below 3,600 rows the range is
        cut in proportion, to the root of the number of rows.
    base_max_iter : int, default=100
        Iterations of the members' k-means, at most.
    n_neighbors : int or None, default=None
        Nearest groups of rows that a walk may step to from each, ties included; None for half the root of the number
        of groups, but no more than 20.
    n_steps : int or None, default=None
        Steps of the walks; None for the same number.
    n_init : int, default=3
        Starts of the k-means that turns the embedding into labels; the best is kept.
    max_iter : int, default=100
        Iterations of that k-means, at most.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.
    verbose : int, default=0
        1 shows phases, members done and the time left on standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of each row.
    base_labels_ : ndarray of shape (n_samples, n_estimators), uint8 (uint16 above 256 base clusters)
        Labels by each member.
    n_clusters_ : int
        Number of clusters found.
    n_iter_ : int
        Passes that the best start of the last k-means made over all groups of rows with equal base labels; 0 if there
        are no more groups than clusters.
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.

    See Also
    --------
    ptgp : The second half alone, for label matrices from any clusterers.
    ultraspec.USENC : The ensemble of this library.

    Notes
    -----
    With M groups of rows, which differ in their base labels, and E links among them: O(N m + M^2 m + T M E) time for T
    steps, where the authors' form takes O(T M^3), for the same result up to rounding. No M x M matrix is formed; beside
    the links it takes 4 M k_c bytes, k_c being the number of base clusters. M is a few thousand for data of few
    dimensions, whatever N, and never more than N.

    The method is defined in full by its paper and the authors' program, where the two differ by it (the limit of 20
    neighbours and steps; groups, not rows, are counted when similarities are averaged). The sources leave open which
    k-means made the members in the U-SPEC paper.

    References
    ----------
    D. Huang, J.-H. Lai, C.-D. Wang. "Robust Ensemble Clustering Using Probability Trajectories". IEEE Transactions on
    Knowledge and Data Engineering 28 (5), 2016.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import PTGP
    >>> X, y = datasets.generate("sf", 2_000, random_state=0)
    >>> model = PTGP(n_clusters=4, random_state=0).fit(X)
    >>> model.base_labels_.shape
    (2000, 20)
    >>> len(set(model.labels_))
    4
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_estimators: int = 20,
        base_clusters: tuple[int, int] = BASE_CLUSTERS,
        base_max_iter: int = 100,
        n_neighbors: int | None = None,
        n_steps: int | None = None,
        n_init: int = 3,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.base_clusters = base_clusters
        self.base_max_iter = base_max_iter
        self.n_neighbors = n_neighbors
        self.n_steps = n_steps
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _method(self) -> Method:
        return method(self.n_neighbors, self.n_steps, self.n_init, self.max_iter)
