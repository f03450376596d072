"""k-means on the binary rows of the membership matrix, which is the consensus of KCC, ECC and SEC.

A row is a vector with a one for each base cluster it is in. For each of the distances used, the cost of putting a row
into a cluster is a sum over its m base clusters, read from a table (k_c, k). An iteration takes O(N m k) time, and no
vector is ever formed.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from ultraspec._kernels.graph import LANES
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._kernels.membership_kmeans import add_memberships, assign_memberships
from ultraspec.cluster.kmeans import Clustering, lloyd
from ultraspec.cluster.points import Assign, Centers, Points, Squares, Sums
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Span
from ultraspec.spectral.embedding import drop_empty_clusters

Floats = npt.NDArray[np.float64]


class MembershipPoints(Points):
    """Rows of the membership matrix, for k-means."""

    # a factor of the table entries and a constant of the cost, one for all rows or one for each
    _scales: npt.NDArray[np.float32] = np.ones(1, dtype=np.float32)
    _squared_lengths: npt.NDArray[np.float32] = np.zeros(1, dtype=np.float32)

    def __init__(self, clusterings: BaseClusterings) -> None:
        self.n_rows = len(clusterings)
        self.n_sums = clusterings.n_columns
        self.weights = clusterings.weights
        self.clusterings = clusterings

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order."""
        return self.clusterings.blocks()

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Return dense rows at `indices`."""
        columns = self.clusterings.columns[indices]
        rows = np.zeros((len(indices), self.n_sums), dtype=np.float32)
        row, clustering = np.nonzero(columns >= 0)
        rows[row, columns[row, clustering]] = 1
        return rows

    @abstractmethod
    def costs(self, centers: Centers) -> tuple[Floats, Floats]:
        """Return the cost (k_c, k) that each base cluster adds to a row, and the cost (k,) that all rows have."""

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:
        """Return a function that labels blocks with the centres of least cost."""
        k = len(centers)
        per_base_cluster, constant = self.costs(centers)
        # k is padded to full SIMD lanes by clusters of infinite cost
        table = np.zeros((self.n_sums, -(-k // LANES) * LANES), dtype=np.float32)
        table[:, :k] = per_base_cluster
        base = np.full(table.shape[1], np.inf, dtype=np.float32)
        base[:k] = constant

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            here = slice(*span)
            columns = self.clusterings.columns[here]
            scales, lengths = (each[here] if len(each) > 1 else each for each in (self._scales, self._squared_lengths))
            changed = assign_memberships(columns, scales, table, base, lengths, np.empty_like(base), labels, sq)
            add_memberships(columns, self.clusterings.weights[here], labels, sums)
            return int(changed)

        return assign


def membership_kmeans(
    points: MembershipPoints, k: int, n_init: int, max_iter: int, seed: np.random.SeedSequence, engine: ThreadEngine
) -> ConsensusLabels:
    """Label microclusters by the best of `n_init` k-means runs, each from `k` different microclusters.

    A microcluster is drawn with a probability in proportion to its rows.
    """
    random = np.random.default_rng(seed)
    weights = points.clusterings.weights
    probabilities = weights / weights.sum()

    def run() -> Clustering:
        start = random.choice(points.n_rows, k, replace=False, p=probabilities)
        return lloyd(points, points.take(start), engine, max_iter=max_iter)

    best = min((run() for _ in range(n_init)), key=lambda clustering: clustering.inertia)
    why = "some clusters became empty and could not be restarted. Raise n_init, or ask for fewer clusters."
    return ConsensusLabels(drop_empty_clusters(best, k, why).labels, best.n_iter)
