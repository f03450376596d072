"""k-means on the binary rows of an ensemble, which KCC, ECC and SEC are: takes base clusters, gives labels.

A row is a vector with a one for each base cluster it is in. Whatever the distance, its costs of going to k centres are
sums of m rows of a table (k_c, k), so that a pass takes O(N m k) and no vector is ever formed.
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
from ultraspec.spectral.discretize import renumber

ZERO, ONE = np.zeros(1, dtype=np.float32), np.ones(1, dtype=np.float32)


class MembershipPoints(Points):
    """Rows of base clusters, for k-means.

    Parameters
    ----------
    ensemble : BaseClusterings
        Base clusterings of microclusters.
    """

    _scales: npt.NDArray[np.float32] = ONE
    _own: npt.NDArray[np.float32] = ZERO

    def __init__(self, ensemble: BaseClusterings) -> None:
        self.n_rows, self.n_sums, self.weights = len(ensemble), ensemble.n_columns, ensemble.weights
        self._ensemble = ensemble

    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""
        return self._ensemble.blocks()

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Dense rows."""
        columns = self._ensemble.columns[indices]
        rows = np.zeros((len(indices), self.n_sums), dtype=np.float32)
        places, votes = np.nonzero(columns >= 0)
        rows[places, columns[places, votes]] = 1
        return rows

    @abstractmethod
    def costs(self, centers: Centers) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """What each base cluster (k_c, k) adds to a row's cost, and what any row costs (k,)."""

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:  # noqa: ARG002
        """Costs from the rows' base clusters alone."""
        k = len(centers)
        part, whole = self.costs(centers)
        table = np.zeros((self.n_sums, -(-k // LANES) * LANES), dtype=np.float32)
        table[:, :k] = part
        base = np.full(table.shape[1], np.inf, dtype=np.float32)
        base[:k] = whole

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            here = slice(*span)
            columns = self._ensemble.columns[here]
            scales, own = (each[here] if len(each) > 1 else each for each in (self._scales, self._own))
            changed = assign_memberships(columns, scales, table, base, own, np.empty_like(base), labels, sq)
            add_memberships(columns, self._ensemble.weights[here], labels, sums)
            return int(changed)

        return assign


def membership_kmeans(
    points: MembershipPoints,
    ensemble: BaseClusterings,
    k: int,
    n_init: int,
    max_iter: int,
    random: np.random.Generator,
    engine: ThreadEngine,
) -> ConsensusLabels:
    """Labels of microclusters by the best of `n_init` runs, each from `k` random rows that differ."""
    chances = ensemble.weights / ensemble.weights.sum()
    best: Clustering | None = None
    for _ in range(n_init):
        start = random.choice(len(ensemble), k, replace=False, p=chances)
        found = lloyd(points, points.take(start), engine, max_iter=max_iter)
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    why = "some clusters lost all their rows, and none had one to spare. Raise n_init, or ask for fewer clusters."
    return ConsensusLabels(renumber(best, k, why).labels, best.n_iter)
