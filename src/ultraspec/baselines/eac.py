"""EAC, evidence accumulation clustering (Fred & Jain, 2005): average linkage of the co-association matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ultraspec._checks import check_choice
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._coassociation import similarity_matrix
from ultraspec.baselines._memory_limit import check_max_pairs_bytes
from ultraspec.baselines.ensemble_baseline import BASE_CLUSTERS, EnsembleBaseline, Method, combine
from ultraspec.cluster.linkage import METHODS, agglomerate
from ultraspec.engines.threads import ThreadEngine


def eac(
    base_labels: Any,
    n_clusters: int,
    *,
    linkage: str = "average",
    max_pairs_bytes: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows into one by evidence accumulation, EAC.

    Two rows are as near as the share of clusterings that put them together; agglomerative clustering joins the nearest
    until `n_clusters` are left. `ultraspec.consensus` asks the same of the clusterings at a cost linear in the rows;
    EAC is for comparison, and where a tree is wanted or clusters of very different sizes.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering: any integers or strings. -1, None and NaN mean that the clustering does not assign
        the row; two rows are then compared by the clusterings that assign both.
    n_clusters : int
        Number of clusters.
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
    EAC : Makes the base clusterings too, and tells more about the method.

    Examples
    --------
    >>> from ultraspec.baselines import eac
    >>> eac([[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]], 2)
    array([0, 0, 0, 1, 1], dtype=int32)
    """
    return combine(base_labels, n_clusters, method(linkage, max_pairs_bytes), random_state=random_state, n_jobs=n_jobs)


def method(linkage: str, max_pairs_bytes: int | None) -> Method:
    """EAC with its parameters, which are checked."""
    check_choice("linkage", linkage, tuple(METHODS))
    check_max_pairs_bytes(max_pairs_bytes)

    def run(ensemble: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine) -> ConsensusLabels:  # noqa: ARG001
        similarities = similarity_matrix(ensemble, None, "EAC", max_pairs_bytes, engine)
        tree = agglomerate(similarities, ensemble.weights, method=linkage, similarity=True, overwrite=True)
        return ConsensusLabels(tree.cut(k))

    return run


class EAC(EnsembleBaseline):
    """Evidence accumulation clustering (EAC).

    Clusters the rows many times by k-means and joins the clusterings by average linkage: two rows are as near as the
    share of clusterings that put them together. Prefer `ultraspec.USENC`, whose cost is linear in the rows and whose
    members see shapes; EAC is the classic to compare with.

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
    eac : The second half alone, for label matrices from any clusterers.
    ultraspec.USENC : The ensemble of this library.

    Notes
    -----
    Rows with equal base labels form a microcluster. They are at distance zero and are merged first, so average linkage
    of the M microclusters, each with the size it has, is exactly that of the rows: O(N m + M^2 m) time and 4 M^2 bytes
    instead of O(N^2 m) and 8 N^2. M is a few thousand for data of few dimensions, whatever N, and never more than N.

    Similarities take m + 1 values only, so that many merges are tied. Here the first row wins; other programs choose
    otherwise and their clusters differ a little.

    The sources leave open which linkage the U-SPEC paper used (Fred and Jain offer single and average linkage; Huang
    et al. report average linkage elsewhere, and it is what agrees with their table), and which k-means made the
    members. Fred and Jain's rule for choosing the number of clusters is not part of this class.

    References
    ----------
    A. L. N. Fred, A. K. Jain. "Combining Multiple Clusterings Using Evidence Accumulation". IEEE Transactions on
    Pattern Analysis and Machine Intelligence 27 (6), 2005.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import EAC
    >>> X, y = datasets.generate("sf", 2_000, random_state=0)
    >>> model = EAC(n_clusters=4, random_state=0).fit(X)
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
        self.linkage = linkage
        self.max_pairs_bytes = max_pairs_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _method(self) -> Method:
        return method(self.linkage, self.max_pairs_bytes)
