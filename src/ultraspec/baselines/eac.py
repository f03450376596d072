"""EAC, evidence accumulation clustering (Fred & Jain, 2005): average linkage of the co-association matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import estimator
from ultraspec.baselines._coassociation import link_microclusters
from ultraspec.baselines._docs import document
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine
from ultraspec.engines.threads import ThreadEngine


@estimator
class EAC(EnsembleBaseline):
    """Evidence accumulation clustering (EAC).

    Clusters the rows many times by k-means and combines the clusterings by average linkage, where the similarity of
    two rows is the fraction of clusterings that put them into the same cluster. Prefer `ultraspec.USENC`, whose cost is
    linear in the number of rows and whose members find clusters of any shape; EAC is the classic to compare with.

    Notes
    -----
    Rows with equal base labels form a microcluster. Their distance is zero, so they are merged first: average linkage
    of the M microclusters, weighted by their sizes, is exactly that of the rows. It takes O(N m + M^2 m) time and
    4 M^2 bytes instead of O(N^2 m) and 8 N^2. M is a few thousand for data of few dimensions, whatever N is, and never
    more than N.

    Similarities take only m + 1 values, so merges are often tied. Here the pair with the first row is merged first;
    other programs choose differently, and their clusters differ a little.

    The sources do not say which linkage the U-SPEC paper used (Fred and Jain propose single and average linkage; Huang
    et al. report average linkage elsewhere, and it agrees with their table), nor which k-means generated the members.
    Fred and Jain's rule for choosing the number of clusters is not implemented.

    References
    ----------
    A. L. N. Fred, A. K. Jain. "Combining Multiple Clusterings Using Evidence Accumulation". IEEE Transactions on
    Pattern Analysis and Machine Intelligence 27 (6), 2005.
    """

    linkage: str = "average"
    max_pairs_bytes: int | None = None

    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        return link_microclusters(clusterings, None, k, self, engine)


@document(EAC)
def eac(
    base_labels: Any,
    n_clusters: int,
    *,
    linkage: str = "average",
    max_pairs_bytes: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows by evidence accumulation clustering (EAC).

    The similarity of two rows is the fraction of clusterings that put them into the same cluster; agglomerative
    clustering merges the most similar ones until `n_clusters` are left. `ultraspec.consensus` uses the same information
    at a cost that is linear in the number of rows. Use EAC for comparison, or for clusters of very different sizes.

    Parameters
    ----------
    base_labels : ...
        Two rows are compared by the clusterings that assign both.
    random_state : Ignored
        Not used, because the method is deterministic. Present for a uniform interface.
    """
    return combine(EAC, **locals())
