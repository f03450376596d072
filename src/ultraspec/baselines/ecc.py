"""ECC, entropy-based consensus clustering (Liu et al., 2017): KCC with the entropy utility."""

from __future__ import annotations

from typing import Any

import numpy as np

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import estimator
from ultraspec.baselines._docs import document
from ultraspec.baselines._membership_kmeans import membership_kmeans
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine
from ultraspec.baselines.kcc import UtilityPoints
from ultraspec.engines.threads import ThreadEngine


@estimator
class ECC(EnsembleBaseline):
    """Entropy-based consensus clustering (ECC).

    Clusters the rows many times by k-means and searches for the clustering that has the largest mutual information with
    all of these, by another k-means on the base clusters of the rows. Prefer `ultraspec.USENC`, which is as fast and
    whose consensus does not depend on random starts; use ECC for comparison.

    Notes
    -----
    This is `KCC` with ``utility="entropy"``; its notes describe the cost, which is linear in the number of rows. A base
    cluster that shares no row with a consensus cluster costs 52 bits instead of infinity, as in the authors' program;
    results depend on it.

    The sources do not say how many runs the U-SPEC paper used. Ten runs of 40 iterations are those of the authors'
    demonstration; the default of their program is 20 runs of 50.

    References
    ----------
    H. Liu, R. Zhao, H. Fang, F. Cheng, Y. Fu, Y.-Y. Liu. "Entropy-based consensus clustering for patient
    stratification". Bioinformatics 33 (17), 2017.
    """

    n_init: int = 10
    max_iter: int = 40

    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        points = UtilityPoints(clusterings, "entropy", normalized=False)
        return membership_kmeans(points, k, self.n_init, self.max_iter, seed, engine)


@document(ECC)
def ecc(
    base_labels: Any,
    n_clusters: int,
    *,
    n_init: int = 10,
    max_iter: int = 40,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows by entropy-based consensus clustering (ECC).

    Searches for the clustering that has the largest mutual information with all others, by k-means on the base clusters
    of the rows: `kcc` with ``utility="entropy"``. The cost is linear in the number of rows, as that of
    `ultraspec.consensus`, which finds better clusters if the base clusterings are finer than these. Use ECC for
    comparison, or to maximise the mutual information itself.

    Parameters
    ----------
    base_labels : ...
        The clustering then adds nothing to the cost of the row.
    """
    return combine(ECC, **locals())
