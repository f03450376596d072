"""WCT, weighted connected triples (Iam-On et al., 2011): average linkage of a refined co-association matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_choice, check_number
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._coassociation import similarity_matrix
from ultraspec.baselines._memory_limit import check_max_pairs_bytes
from ultraspec.baselines.ensemble_baseline import BASE_CLUSTERS, EnsembleBaseline, Method, combine
from ultraspec.cluster.linkage import METHODS, agglomerate
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.combine import check_columns


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
    """Combine clusterings of the same rows into one by weighted connected triples, WCT.

    As `eac`, but two rows that a clustering puts into different clusters still count as somewhat alike if these
    clusters share their rows with the same clusters of other clusterings. `ultraspec.consensus` costs only time linear
    in the rows; WCT is for comparison, and where base clusterings are few or much finer than the clusters sought.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering: any integers or strings. -1, None and NaN mean that the clustering does not assign
        the row; two rows are then compared by the clusterings that assign both. At most 20,000 clusters in all
        columns together.
    n_clusters : int
        Number of clusters.
    decay : float, default=0.8
        Similarity of rows in the two most similar clusters of one clustering, from 0 (which is `eac`) to 1.
    linkage : {"average", "single", "complete"}, default="average"
        Distance between clusters: the mean over their pairs of rows, the smallest or the largest.
    max_pairs_bytes : int or None, default=None
        Most bytes that the matrix of pairs may take; None for half of the memory available.
    random_state : Ignored
        Nothing here is random; for the interface.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.

    Returns
    -------
    ndarray of shape (n_samples,), int32
        Cluster of each row; -1 for rows that no clustering assigns.

    Raises
    ------
    MemoryError
        Before anything is allocated, if the matrix of pairs needs more than `max_pairs_bytes`.

    See Also
    --------
    WCT : Makes the base clusterings too, and tells more about the method.

    Examples
    --------
    >>> from ultraspec.baselines import wct
    >>> wct([[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]], 2)
    array([0, 0, 0, 1, 1], dtype=int32)
    """
    chosen = method(decay, linkage, max_pairs_bytes)
    return combine(base_labels, n_clusters, chosen, random_state=random_state, n_jobs=n_jobs)


def method(decay: float, linkage: str, max_pairs_bytes: int | None) -> Method:
    """WCT with its parameters, which are checked."""
    check_number("decay", decay, least=0.0)
    if decay > 1:
        raise ValueError(f"decay must be a number from 0 to 1, got {decay!r}.")
    check_choice("linkage", linkage, tuple(METHODS))
    check_max_pairs_bytes(max_pairs_bytes)

    def run(ensemble: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine) -> ConsensusLabels:  # noqa: ARG001
        check_columns(ensemble.n_columns, 1)
        likeness = cluster_similarity(ensemble, float(decay), engine)
        similarities = similarity_matrix(ensemble, likeness, "WCT", max_pairs_bytes, engine)
        tree = agglomerate(similarities, ensemble.weights, method=linkage, similarity=True, overwrite=True)
        return ConsensusLabels(tree.cut(k))

    return run


def cluster_similarity(ensemble: BaseClusterings, decay: float, engine: ThreadEngine) -> npt.NDArray[np.float64]:
    """Similarity (k_c, k_c) of clusters of the same clustering: 1 to itself, `decay` for the pair most alike.

    Clusters are tied by the share of their rows that they have in common, and two of one clustering are alike as far
    as they are tied to the same others: each of these makes a triple, which weighs as much as its weaker tie.
    """
    shared = ensemble.contingency(engine)
    sizes = shared.diagonal()
    ties = shared / (sizes[:, None] + sizes - shared)
    np.fill_diagonal(ties, 0.0)
    starts = ensemble.starts

    def triples(j: int) -> npt.NDArray[np.float64]:
        own = ties[starts[j] : starts[j + 1]]
        return np.array([np.minimum(own, row).sum(axis=1) for row in own]).reshape(len(own), len(own))

    blocks = engine.map(triples, range(ensemble.n_clusterings))
    for block in blocks:
        np.fill_diagonal(block, 0.0)
    largest = max((block.max(initial=0.0) for block in blocks), default=0.0)
    likeness = np.eye(ensemble.n_columns)
    if largest > 0:
        for j, block in enumerate(blocks):
            here = slice(starts[j], starts[j + 1])
            likeness[here, here] += decay / largest * (block + block.T) / 2  # sums may differ by rounding
    return likeness


class WCT(EnsembleBaseline):
    """Ensemble clustering by weighted connected triples (WCT).

    As `EAC`, average linkage of k-means clusterings, but two rows that a clustering puts into different clusters still
    count as somewhat alike if these clusters share their rows with the same clusters of other clusterings. Prefer
    `ultraspec.USENC`, whose cost is linear in the rows and whose members see shapes; WCT is to compare with.

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
    decay : float, default=0.8
        Similarity of rows in the two most similar clusters of one clustering, from 0 (which is `EAC`) to 1.
    linkage : {"average", "single", "complete"}, default="average"
        Distance between clusters: the mean over their pairs of rows, the smallest or the largest.
    max_pairs_bytes : int or None, default=None
        Most bytes that the matrix of pairs may take; None for half of the memory available.
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
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.

    See Also
    --------
    wct : The second half alone, for label matrices from any clusterers.
    ultraspec.USENC : The ensemble of this library.

    Notes
    -----
    Rows with equal base labels form a microcluster; average linkage of the M microclusters, each with the size it has,
    is exactly that of the rows. O(N m^2 + M^2 m) time and 4 M^2 bytes; see `EAC`. The triples themselves take
    O(k_c^2 k) time for k_c base clusters in all, about k in each clustering.

    The similarity is that of the authors' published program. Their paper refines the matrix of rows and clusters
    and offers other ways to cut it; that the U-SPEC paper ran average linkage on pairs of rows is inferred from its
    authors' other papers and agrees with their table. The sources leave `decay` open (0.8 in the authors' program),
    and which k-means made the members.

    References
    ----------
    N. Iam-On, T. Boongoen, S. Garrett, C. Price. "A Link-Based Approach to the Cluster Ensemble Problem". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 33 (12), 2011.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import WCT
    >>> X, y = datasets.generate("sf", 2_000, random_state=0)
    >>> model = WCT(n_clusters=4, random_state=0).fit(X)
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
        decay: float = 0.8,
        linkage: str = "average",
        max_pairs_bytes: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.base_clusters = base_clusters
        self.base_max_iter = base_max_iter
        self.decay = decay
        self.linkage = linkage
        self.max_pairs_bytes = max_pairs_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _method(self) -> Method:
        return method(self.decay, self.linkage, self.max_pairs_bytes)
