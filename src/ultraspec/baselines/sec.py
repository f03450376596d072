"""SEC, spectral ensemble clustering (Liu et al., 2015): normalised cuts of the co-association, by weighted k-means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import estimator
from ultraspec.baselines._docs import document
from ultraspec.baselines._membership_kmeans import MembershipPoints, membership_kmeans
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine
from ultraspec.cluster.points import Centers
from ultraspec.engines.threads import ThreadEngine


@estimator
class SEC(EnsembleBaseline):
    """Spectral ensemble clustering (SEC).

    Clusters the rows many times by k-means and searches for normalised cuts of the co-association matrix, by a weighted
    k-means on the base clusters of the rows. Prefer `ultraspec.USENC`: it is as fast, and its eigenvectors avoid the
    poor local optima in which the random starts of SEC end. Use SEC for comparison.

    Notes
    -----
    An iteration takes O(M m k) time for M groups of rows that differ in their base labels, M <= N, and there are up to
    ``n_init * max_iter`` iterations: the cost is linear in the number of rows. Memory is 4 m + 16 bytes per group of
    rows. A cluster that becomes empty is restarted at the row that is farthest from its centre.

    The equivalence of the cut and the weighted k-means determines everything but the starts, which the sources do not
    describe. Low scores are a property of the method: more runs raise them (see ``benchmarks/BASELINES.md``).

    References
    ----------
    H. Liu, T. Liu, J. Wu, D. Tao, Y. Fu. "Spectral Ensemble Clustering". KDD 2015.
    """

    n_init: int = 20
    max_iter: int = 100

    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        return membership_kmeans(DegreePoints(clusterings), k, self.n_init, self.max_iter, seed, engine)


@document(SEC)
def sec(
    base_labels: Any,
    n_clusters: int,
    *,
    n_init: int = 20,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows by spectral ensemble clustering (SEC).

    Searches for normalised cuts of the co-association matrix without forming it: they are a weighted k-means on the
    base clusters of the rows. The cost is linear in the number of rows, as that of `ultraspec.consensus`, which solves
    a similar problem by eigenvectors and avoids the poor local optima of SEC. Use SEC for comparison.

    Parameters
    ----------
    base_labels : ...
        The row is then placed by the other clusterings.
    """
    return combine(SEC, **locals())


class DegreePoints(MembershipPoints):
    """Membership rows divided by their degrees in the co-association matrix, which are also their weights.

    Normalised cuts of B B' are k-means of the rows b(x) / w(x) with the weights w(x) = b(x).sum_y b(y), see
    `ultraspec.baselines._kmeans.WeightedPoints`. Degrees are divided by their mean: this changes no label and brings
    the points close to 1, for float32. The weighted sum of b / w, of which means are taken, is the sum of b.
    """

    def __init__(self, clusterings: BaseClusterings) -> None:
        super().__init__(clusterings)
        sizes = np.append(clusterings.sizes, 0.0)  # the last entry is for -1
        weights = clusterings.weights
        degrees = np.zeros(len(clusterings))
        present = np.zeros(len(clusterings))
        for column in clusterings.columns.T:
            degrees += sizes[column]
            present += column >= 0
        degrees /= weights @ degrees / weights.sum()
        self.weights = weights * degrees
        self._scales = (1.0 / degrees).astype(np.float32)
        self._squared_lengths = (present / degrees**2).astype(np.float32)  # |b|^2 is the number of clusterings

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Return dense points at `indices`."""
        return super().take(indices) * self._scales[indices, None]

    def costs(self, centers: Centers) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the terms of |c - b / w|^2 = |c|^2 - 2 c.b / w + |b|^2 / w^2 that depend on the centre."""
        C = centers.astype(np.float64)
        return -2 * C.T, (C**2).sum(axis=1)
