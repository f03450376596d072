"""LWGP, locally weighted graph partitioning (Huang, Wang & Lai, 2018): U-SENC's consensus with weighted clusters."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import estimator
from ultraspec.baselines._docs import document
from ultraspec.baselines._transfer_cut import cut_memberships
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.transfer_cut import check_columns

LEAST_WEIGHT = 1e-15  # of a base cluster: with much less, its float32 eigenvectors would overflow


@estimator
class LWGP(EnsembleBaseline):
    """Locally weighted graph partitioning (LWGP).

    Clusters the rows many times by k-means, weights each base cluster by how well the other clusterings agree with it,
    and cuts the graph of rows and base clusters as U-SENC does. It is the baseline closest to `ultraspec.USENC`, whose
    members are U-SPEC clusterings instead of k-means and so find clusters of any shape; use LWGP where k-means finds
    the clusters.

    Parameters
    ----------
    theta : float, default=0.4
        How little the weight of a base cluster depends on the agreement of the other clusterings. Large values give all
        base clusters the same weight.

    Notes
    -----
    LWGP takes O(N m^2) time for one or two passes over the rows, and a k-means of the embedding on groups of rows with
    equal base labels: the cost is linear in the number of rows. Memory is 10 m bytes per group of rows.

    Weights are divided by the largest, which changes no label and keeps a small `theta` from making all of them vanish.
    The paper and the program of the authors define the method completely. The sources do not say which k-means
    generated the members in the U-SPEC paper.

    References
    ----------
    D. Huang, C.-D. Wang, J.-H. Lai. "Locally Weighted Ensemble Clustering". IEEE Transactions on Cybernetics 48 (5),
    2018.
    """

    theta: float = 0.4
    n_init: int = 3
    max_iter: int = 100

    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        check_columns(clusterings.n_columns, k)
        weights = cluster_certainty(clusterings, float(self.theta), engine)
        return cut_memberships(clusterings, weights, k, self.n_init, self.max_iter, seed, engine)


@document(LWGP)
def lwgp(
    base_labels: Any,
    n_clusters: int,
    *,
    theta: float = 0.4,
    n_init: int = 3,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows by locally weighted graph partitioning (LWGP).

    Cuts the graph of rows and base clusters, as `ultraspec.consensus` does, after weighting each base cluster by how
    well the other clusterings agree with it. It is as fast. Prefer it if some base clusters are much less reliable than
    others.

    Parameters
    ----------
    base_labels : ...
        The row is then placed by the other clusterings. At most 20,000 clusters in all columns together.
    """
    return combine(LWGP, **locals())


def cluster_certainty(clusterings: BaseClusterings, theta: float, engine: ThreadEngine) -> npt.NDArray[np.float64]:
    """Return the weights (k_c,) of base clusters: the less, the more evenly other clusterings split them.

    The weight is exp(-H / (theta m)), where H is the entropy in bits of the distribution of the rows of the cluster
    over the clusters of a clustering, summed over all clusterings. Rows that a clustering does not assign are not
    counted there. Weights are divided by the largest.
    """
    shared = clusterings.contingency(engine)
    entropies = np.zeros(len(shared))
    for low, high in pairwise(clusterings.starts):
        counts = shared[:, low:high]
        totals = counts.sum(axis=1)
        shares = counts / np.where(totals > 0, totals, 1)[:, None]
        entropies -= (shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=1)
    weights = np.exp(-(entropies - entropies.min()) / (theta * clusterings.n_clusterings))
    return np.maximum(weights, LEAST_WEIGHT)
