"""WCT, weighted connected triples (Iam-On et al., 2011): average linkage of a refined co-association matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameter, check_number
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import estimator
from ultraspec.baselines._coassociation import link_microclusters
from ultraspec.baselines._docs import document
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.transfer_cut import check_columns


@estimator
class WCT(EnsembleBaseline):
    """Ensemble clustering by weighted connected triples (WCT).

    Clusters the rows many times by k-means and combines the clusterings by average linkage, as `EAC` does. In addition,
    two rows that a clustering puts into different clusters count as partly similar if these clusters overlap with the
    same clusters of other clusterings. Prefer `ultraspec.USENC`, whose cost is linear in the number of rows and whose
    members find clusters of any shape; use WCT for comparison.

    Parameters
    ----------
    decay : float, default=0.8
        Similarity of two rows in the most similar pair of clusters of one clustering, from 0 (which is EAC) to 1.

    Notes
    -----
    Rows with equal base labels form a microcluster; average linkage of the M microclusters, weighted by their sizes, is
    exactly that of the rows. It takes O(N m^2 + M^2 m) time and 4 M^2 bytes, see `EAC`. The triples themselves take
    O(k_c^2 k) time for k_c base clusters in total, about k in each clustering.

    The similarity is that of the authors' published program. Their paper refines the matrix of rows and clusters and
    offers other ways to cut it; that the U-SPEC paper ran average linkage on pairs of rows is inferred from other
    papers of its authors and agrees with their table. The sources do not say which `decay` was used (0.8 in the
    authors' program), nor which k-means generated the members.

    References
    ----------
    N. Iam-On, T. Boongoen, S. Garrett, C. Price. "A Link-Based Approach to the Cluster Ensemble Problem". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 33 (12), 2011.
    """

    decay: float = 0.8
    linkage: str = "average"
    max_pairs_bytes: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("decay", self.decay, least=0.0)
        if self.decay > 1:
            raise InvalidParameter("decay", self.decay, "a number from 0 to 1")

    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        check_columns(clusterings.n_columns, 1)
        similarity = cluster_similarity(clusterings, float(self.decay), engine)
        return link_microclusters(clusterings, similarity, k, self, engine)


@document(WCT)
def wct(
    base_labels: Any,
    n_clusters: int,
    *,
    decay: float = 0.8,
    linkage: str = "average",
    max_pairs_bytes: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows by weighted connected triples (WCT).

    Average linkage of the rows, as in `eac`. In addition, two rows that a clustering puts into different clusters count
    as partly similar if these clusters overlap with the same clusters of other clusterings. `ultraspec.consensus` takes
    only time linear in the number of rows. Use WCT for comparison, or if the base clusterings are few or much finer
    than the clusters.

    Parameters
    ----------
    base_labels : ...
        Two rows are compared by the clusterings that assign both. At most 20,000 clusters in all columns together.
    random_state : Ignored
        Not used, because the method is deterministic. Present for a uniform interface.
    """
    return combine(WCT, **locals())


def cluster_similarity(clusterings: BaseClusterings, decay: float, engine: ThreadEngine) -> npt.NDArray[np.float64]:
    """Return the similarity (k_c, k_c) of clusters of the same clustering, by weighted connected triples.

    It is 1 for a cluster and itself, and `decay` for the most similar pair of different clusters. The overlap of two
    base clusters is the Jaccard coefficient of their rows. Two clusters a and b of one clustering form a triple with
    each base cluster c, which counts the smaller of the overlaps of a with c and of b with c.
    """
    shared = clusterings.contingency(engine)
    sizes = shared.diagonal()
    overlaps = shared / (sizes[:, None] + sizes - shared)
    np.fill_diagonal(overlaps, 0.0)
    starts = clusterings.starts

    def triples(j: int) -> npt.NDArray[np.float64]:
        members = overlaps[starts[j] : starts[j + 1]]
        return np.array([np.minimum(members, row).sum(axis=1) for row in members]).reshape(len(members), len(members))

    blocks = engine.map(triples, range(clusterings.n_clusterings))
    for block in blocks:
        np.fill_diagonal(block, 0.0)
    largest = max((block.max(initial=0.0) for block in blocks), default=0.0)
    similarity = np.eye(clusterings.n_columns)
    if largest > 0:
        for j, block in enumerate(blocks):
            here = slice(starts[j], starts[j + 1])
            # symmetric up to the rounding of the sums, which the mean removes
            similarity[here, here] += decay / largest * (block + block.T) / 2
    return similarity
