"""PTGP, probability trajectory based graph partitioning (Huang, Lai & Wang, 2016): random walks among microclusters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import estimator
from ultraspec.baselines._coassociation import PairSimilarity
from ultraspec.baselines._docs import document
from ultraspec.baselines._kernels.ptgp import collect_elite, elite_thresholds, take_step
from ultraspec.baselines._transfer_cut import cut_affinities
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.transfer_cut import check_columns
from ultraspec.rows import Span, cut_span

MOST_STEPS = 20  # largest default number of steps and of neighbours
ISOLATED = 1e-20  # similarity to a microcluster without neighbours, which no walk leaves
WALKS = 128  # walks that are computed at once: their probabilities stay in the cache
COLUMN_BYTES = 2**27  # memory for all steps of the base clusters that are computed at once

Floats = npt.NDArray[np.float32]


@estimator
class PTGP(EnsembleBaseline):
    """Probability trajectory based graph partitioning (PTGP).

    Clusters the rows many times by k-means, compares groups of rows with equal labels by short random walks among these
    groups, and cuts the graph of groups and k-means clusters. Prefer `ultraspec.USENC`, which is far faster and finds
    clusters of any shape; use PTGP for comparison.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        Number of nearest groups of rows, ties included, that a walk can step to from each group. None uses half of the
        square root of the number of groups, but at most 20.
    n_steps : int or None, default=None
        Number of steps of the walks. None uses the default number of neighbours.

    Notes
    -----
    For M groups of rows that differ in their base labels, and E edges among them, PTGP takes O(N m + M^2 m + T M E)
    time for T steps. The form of the authors takes O(T M^3), for the same result up to rounding. No M x M matrix is
    formed; in addition to the edges it takes 4 M k_c bytes, where k_c is the number of base clusters. M is a few
    thousand for data of few dimensions, whatever N is, and never more than N.

    The paper and the program of the authors define the method completely; where they differ, the program is followed
    (at most 20 neighbours and steps; similarities are averaged over groups, not over rows). The sources do not say
    which k-means generated the members in the U-SPEC paper.

    References
    ----------
    D. Huang, J.-H. Lai, C.-D. Wang. "Robust Ensemble Clustering Using Probability Trajectories". IEEE Transactions on
    Knowledge and Data Engineering 28 (5), 2016.
    """

    n_neighbors: int | None = None
    n_steps: int | None = None
    n_init: int = 3
    max_iter: int = 100

    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        check_columns(clusterings.n_columns, k)
        default = max(1, min(MOST_STEPS, math.isqrt(len(clusterings) // 4)))
        W = elite_neighbor_graph(clusterings, min(self.n_neighbors or default, len(clusterings) - 1), engine)
        B = trajectory_affinities(clusterings, W, self.n_steps or default, engine)
        return cut_affinities(B, k, self.n_init, self.max_iter, seed, engine)


@document(PTGP)
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
    """Combine clusterings of the same rows by probability trajectory based graph partitioning (PTGP).

    Groups of rows with equal base labels are compared by short random walks among them. This gives the affinity of each
    group to each base cluster, and the graph of these affinities is cut as `ultraspec.consensus` cuts its graph. It is
    far slower than that function. Use PTGP for comparison, or for few and noisy base clusterings, whose uncertain edges
    the walks avoid.

    Parameters
    ----------
    base_labels : ...
        Two rows are compared by the clusterings that assign both. At most 20,000 clusters in all columns together.

    Examples
    --------
    >>> from ultraspec.baselines import ptgp
    >>> labels = ptgp([[0, "a"], [0, "b"], [1, "b"], [2, "c"], [2, "d"], [3, "d"]], 2, random_state=0)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False, False]
    """
    return combine(PTGP, **locals())


def elite_neighbor_graph(
    clusterings: BaseClusterings, n_neighbors: int, engine: ThreadEngine
) -> scipy.sparse.csr_array:
    """Return the co-associations (M, M) of microclusters, where at least one is among the nearest of the other."""
    n = len(clusterings)
    similarity = PairSimilarity(clusterings)

    def run(span: Span) -> scipy.sparse.csr_array:
        rows = np.empty((span[1] - span[0], n), dtype=np.float32)
        similarity.fill(slice(*span), rows)
        rows[np.arange(len(rows)), np.arange(*span)] = 0  # a microcluster is not a neighbour of itself
        thresholds = np.empty(len(rows), dtype=np.float32)
        counts = np.empty(len(rows), dtype=np.int64)
        elite_thresholds(rows, thresholds, counts, np.empty(n_neighbors, dtype=np.float32))
        ends = np.concatenate([[0], np.cumsum(counts)])
        ids = np.empty(ends[-1], dtype=np.int32)
        values = np.empty(ends[-1], dtype=np.float32)
        collect_elite(rows, thresholds, ends, ids, values)
        return scipy.sparse.csr_array((values, ids, ends), shape=rows.shape)

    W = scipy.sparse.csr_array(scipy.sparse.vstack(engine.map(run, similarity.blocks()), format="csr"))
    return scipy.sparse.csr_array(W.maximum(W.T))


def trajectory_affinities(
    clusterings: BaseClusterings, W: scipy.sparse.csr_array, n_steps: int, engine: ThreadEngine
) -> Floats:
    """Return the affinities (M, k_c) of microclusters to base clusters: the mean similarity to their microclusters.

    The similarity of two microclusters is the cosine of their trajectories [P, P^2, ..., P^T], where P holds the
    transition probabilities. With G = P P' + ... + P^T P'^T it is G_uv / sqrt(G_uu G_vv). Only the diagonal of G and
    its product with k_c columns are needed, so G is never formed.
    """
    order = reverse_cuthill_mckee(W, symmetric_mode=True)  # neighbours get close numbers, which uses the cache better
    W = W[order][:, order].astype(np.float64)
    W = W.multiply(clusterings.weights[order]).tocsr()  # a step can lead to every row of a microcluster
    totals = W.sum(axis=1)
    isolated = totals == 0
    P = scipy.sparse.csr_array(W.multiply(1 / np.where(isolated, 1, totals)[:, None])).astype(np.float32)
    Q = scipy.sparse.csr_array(P.T)
    lengths = np.sqrt(trajectory_squared_lengths(P, Q, n_steps, engine))
    scale = np.where(isolated, 0, 1 / np.where(isolated, 1, lengths)).astype(np.float32)
    B = clusterings.memberships(slice(0, len(clusterings)))[order]
    counts = np.asarray(B.sum(axis=0), dtype=np.float32)  # microclusters, not rows, as in the authors' program
    shares = scipy.sparse.csc_array(B.multiply(1 / counts))
    from_isolated = ISOLATED * (shares[isolated].sum(axis=0) if isolated.any() else np.zeros(len(counts)))
    out = np.empty((len(order), len(counts)), dtype=np.float32)
    step = max(8, COLUMN_BYTES // (4 * len(order) * n_steps))

    def run(span: Span) -> None:
        # G Y = P (Q Y + P (Q^2 Y + P (... Q^T Y))): T products with Q, kept, and then T products with P
        Y = scale[:, None] * shares[:, span[0] : span[1]].toarray()
        powers = []
        for _ in range(n_steps):
            Y = Q @ Y
            powers.append(Y)
        total = P @ powers.pop()
        while powers:
            total = P @ (powers.pop() + total)
        total *= scale[:, None]
        total += from_isolated[span[0] : span[1]]
        total[isolated] = ISOLATED
        out[order, span[0] : span[1]] = total

    engine.map(run, cut_span((0, len(counts)), step))
    return out


def trajectory_squared_lengths(
    P: scipy.sparse.csr_array, Q: scipy.sparse.csr_array, n_steps: int, engine: ThreadEngine
) -> npt.NDArray[np.float64]:
    """Return the squared lengths (M,) of the trajectories [P, P^2, ...]; Q is the transpose of P."""
    n = P.shape[0]
    Q.sort_indices()

    def run(span: Span) -> npt.NDArray[np.float64]:
        # column j holds the probabilities of the walk that started at the j-th microcluster of the span
        walks = np.ascontiguousarray(P[span[0] : span[1]].toarray().T)
        total = np.einsum("ij,ij->j", walks, walks, dtype=np.float64)
        buffer = np.empty_like(walks)
        reached = np.flatnonzero(walks.any(axis=1))
        low = reached.min(initial=n)
        high = reached.max(initial=-1) + 1
        for _ in range(n_steps - 1):
            low, high = take_step(Q.indptr, Q.indices, Q.data, walks, low, high, buffer, total)
            walks, buffer = buffer, walks
        return total

    return np.concatenate(engine.map(run, cut_span((0, n), WALKS)))
