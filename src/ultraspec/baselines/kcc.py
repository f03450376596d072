"""KCC, k-means-based consensus clustering (Wu et al., 2015): k-means on base clusters, with a choice of distances."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameterType, check_choice
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import estimator
from ultraspec.baselines._docs import document
from ultraspec.baselines._membership_kmeans import MembershipPoints, membership_kmeans
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine
from ultraspec.cluster.points import Centers, Sums, Weights
from ultraspec.engines.threads import ThreadEngine

EPS = 2.220446049250313e-16  # added to shares under "entropy": an empty base cluster costs 52 bits instead of infinity

Floats = npt.NDArray[np.float64]


def _norms(M: Floats, p: int) -> Floats:
    """Return the p-norms of rows, or 1 for rows of zeros."""
    return np.where(M.any(axis=1), (M**p).sum(axis=1) ** (1 / p), 1.0)[:, None]


# Cost (k, k_i) of putting a row of base cluster l into a consensus cluster whose rows are distributed over the base
# clusters of one clustering by the shares M (k, k_i). With x the l-th unit vector and phi the utility, it is the
# divergence phi(x) - phi(M) - (x - M).grad phi(M), whose sum over the rows is smallest where the utility is largest.
COSTS: dict[str, Callable[[Floats], Floats]] = {
    "category": lambda M: 1 - 2 * M + (M**2).sum(axis=1)[:, None],
    "entropy": lambda M: -np.log2(M + EPS),
    "cosine": lambda M: 1 - M / _norms(M, 2),
    "l5": lambda M: 1 - (M / _norms(M, 5)) ** 4,
    "l8": lambda M: 1 - (M / _norms(M, 8)) ** 7,
}

# Utility of a base clustering with itself, from the shares (k_i,) of its clusters: the divisor if `normalized`.
NORMS: dict[str, Callable[[Floats], float]] = {
    "category": lambda P: float((P**2).sum()),
    "entropy": lambda P: float(-(P * np.log2(P)).sum()),
    "cosine": lambda P: float(np.sqrt((P**2).sum())),
    "l5": lambda P: float((P**5).sum() ** (1 / 5)),
    "l8": lambda P: float((P**8).sum() ** (1 / 8)),
}


@estimator
class KCC(EnsembleBaseline):
    """K-means-based consensus clustering (KCC).

    Clusters the rows many times by k-means and searches for the clustering that agrees best with all of these, by
    another k-means on the base clusters of the rows. Prefer `ultraspec.USENC`, which is as fast and whose consensus
    does not depend on random starts; use KCC for comparison.

    Parameters
    ----------
    utility : {"category", "entropy", "cosine", "l5", "l8"}, default="entropy"
        Measure of the agreement with a base clustering, see Notes.
    normalized : bool, default=False
        Whether the agreement with a base clustering is divided by the utility of this clustering with itself.

    Notes
    -----
    The rows of a consensus cluster are distributed over the clusters of one base clustering by shares M. The utility of
    the consensus cluster is the sum of squares of M ("category"), the negative entropy of M ("entropy", which is
    `ECC`), or the norm of M ("cosine" for the 2-norm, "l5" and "l8" for the 5-norm and 8-norm). For each of them there
    is a distance with which k-means maximises the utility.

    An iteration takes O(M m k) time for M groups of rows that differ in their base labels, M <= N, and there are up to
    ``n_init * max_iter`` iterations: the cost is linear in the number of rows. Memory is 4 m bytes per group of rows. A
    cluster that becomes empty is restarted at the row with the largest cost (at a random row in the authors' program).

    The sources do not say which utility and how many runs the U-SPEC paper used. The defaults are those of the authors'
    program, whose paper finds the entropy utilities most robust; its demonstrations use 10 runs of 40 iterations.
    ``benchmarks/BASELINES.md`` lists the scores of other settings.

    References
    ----------
    J. Wu, H. Liu, H. Xiong, J. Cao, J. Chen. "K-Means-Based Consensus Clustering: A Unified View". IEEE Transactions on
    Knowledge and Data Engineering 27 (1), 2015.
    """

    utility: str = "entropy"
    normalized: bool = False
    n_init: int = 5
    max_iter: int = 20

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("utility", self.utility, tuple(COSTS))
        if not isinstance(self.normalized, (bool, np.bool_)):
            raise InvalidParameterType("normalized", self.normalized, "True or False")

    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        points = UtilityPoints(clusterings, self.utility, bool(self.normalized))
        return membership_kmeans(points, k, self.n_init, self.max_iter, seed, engine)


@document(KCC)
def kcc(
    base_labels: Any,
    n_clusters: int,
    *,
    utility: str = "entropy",
    normalized: bool = False,
    n_init: int = 5,
    max_iter: int = 20,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows by k-means-based consensus clustering (KCC).

    Searches for the clustering that agrees best with all others, by k-means on the base clusters of the rows. The cost
    is linear in the number of rows, as that of `ultraspec.consensus`, which finds better clusters if the base
    clusterings are finer than these. Use KCC for comparison, or to choose the utility.

    Parameters
    ----------
    base_labels : ...
        The clustering then adds nothing to the cost of the row.
    """
    return combine(KCC, **locals())


class UtilityPoints(MembershipPoints):
    """Membership rows with the distance that belongs to a utility.

    A centre holds, for each clustering, the shares of its rows in the base clusters, among the rows that this
    clustering assigns.
    """

    def __init__(self, clusterings: BaseClusterings, utility: str, normalized: bool) -> None:
        super().__init__(clusterings)
        self._spans = [slice(*ends) for ends in pairwise(clusterings.starts) if ends[0] < ends[1]]
        self._cost = COSTS[utility]
        self._factors = [1.0] * len(self._spans)
        if normalized:
            shares = self.means(clusterings.sizes[None], np.ones(1))[0].astype(np.float64)
            norms = [NORMS[utility](shares[span]) for span in self._spans]
            self._factors = [1 / norm if norm > 0 else 0.0 for norm in norms]

    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Return the shares of the rows of each cluster in the base clusters of each clustering."""
        shares = np.empty_like(sums)
        for span in self._spans:
            totals = sums[:, span].sum(axis=1)
            shares[:, span] = sums[:, span] / np.where(totals > 0, totals, 1)[:, None]
        return shares.astype(np.float32)

    def costs(self, centers: Centers) -> tuple[Floats, Floats]:
        """Return the costs of the utility, clustering by clustering; no cost is common to all rows."""
        M = centers.astype(np.float64)
        parts = [factor * self._cost(M[:, span]) for factor, span in zip(self._factors, self._spans, strict=True)]
        return np.concatenate(parts, axis=1).T, np.zeros(len(centers))
