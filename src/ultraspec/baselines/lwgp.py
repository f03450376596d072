"""LWGP, locally weighted graph partitioning (Huang, Wang & Lai, 2018): U-SENC's consensus with weighted clusters."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_integer, check_number
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._transfer_cut import cut_memberships
from ultraspec.baselines.ensemble_baseline import BASE_CLUSTERS, EnsembleBaseline, Method, combine
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.combine import check_columns

LEAST = 1e-15  # weight of a base cluster: far below, the float32 vectors of such clusters would overflow


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
    """Combine clusterings of the same rows into one by locally weighted graph partitioning, LWGP.

    Cuts the graph of rows and base clusters, as `ultraspec.consensus` does, after weighing each base cluster by how far
    the other clusterings agree that it is one cluster. As fast; prefer it where some base clusters are much less to be
    trusted than others.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering: any integers or strings. -1, None and NaN mean that the clustering does not assign
        the row;
        the row then rests on the other columns.
        At most 20,000 clusters in all columns together.
    n_clusters : int
        Number of clusters.
    theta : float, default=0.4
        How little the disagreement of others takes from a base cluster: large values weigh all alike.
    n_init : int, default=3
        Starts of the k-means that turns the embedding into labels; the best is kept.
    max_iter : int, default=100
        Iterations of that k-means, at most.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.

    Returns
    -------
    ndarray of shape (n_samples,), int32
        Cluster of each row; -1 for rows that no clustering assigns.

    See Also
    --------
    LWGP : Makes the base clusterings too, and tells more about the method.

    Examples
    --------
    >>> from ultraspec.baselines import lwgp
    >>> labels = lwgp([[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]], 2, random_state=0)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False]
    """
    chosen = method(theta, n_init, max_iter)
    return combine(base_labels, n_clusters, chosen, random_state=random_state, n_jobs=n_jobs)


def method(theta: float, n_init: int, max_iter: int) -> Method:
    """LWGP with its parameters, which are checked."""
    check_number("theta", theta, least=0.0)
    if theta == 0:
        raise ValueError("theta must be positive; 0.2 to 1 serve best, and large values weigh all base clusters alike.")
    check_integer("n_init", n_init, least=1)
    check_integer("max_iter", max_iter, least=1)

    def run(ensemble: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine) -> ConsensusLabels:
        check_columns(ensemble.n_columns, k)
        worth = cluster_certainty(ensemble, float(theta), engine)
        return cut_memberships(ensemble, worth, k, int(n_init), int(max_iter), seed, engine)

    return run


def cluster_certainty(ensemble: BaseClusterings, theta: float, engine: ThreadEngine) -> npt.NDArray[np.float64]:
    """Weight (k_c,) of base clusters, one for those that no clustering cuts, less the more evenly others cut them.

    It is exp(-H / (theta m)), H being the entropy in bits of the cluster's rows among the clusters of each clustering,
    summed over these. Rows that a clustering does not assign count for nothing there.
    """
    shared = ensemble.contingency(engine)
    entropies, starts = np.zeros(len(shared)), ensemble.starts
    for low, high in pairwise(starts):
        rows = shared[:, low:high]
        totals = rows.sum(axis=1)
        shares = rows / np.where(totals > 0, totals, 1)[:, None]
        entropies -= (shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=1)
    worth = np.exp(-(entropies - entropies.min()) / (theta * ensemble.n_clusterings))
    return np.maximum(worth, LEAST)


class LWGP(EnsembleBaseline):
    """Locally weighted graph partitioning (LWGP).

    Clusters the rows many times by k-means, weighs each of the clusters by how far the other clusterings agree with it,
    and cuts the graph of rows and clusters, as U-SENC does. The nearest relative of `ultraspec.USENC`, which takes
    U-SPEC for its members instead of k-means and so sees shapes; LWGP serves as well where k-means does.

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
    theta : float, default=0.4
        How little the disagreement of others takes from a base cluster: large values weigh all alike.
    n_init : int, default=3
        Starts of the k-means that turns the embedding into labels; the best is kept.
    max_iter : int, default=100
        Iterations of that k-means, at most.
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
    n_iter_ : int
        Passes that the last k-means made over all groups of rows with equal base labels; 0 if there
        are no more groups than clusters.
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.

    See Also
    --------
    lwgp : The second half alone, for label matrices from any clusterers.
    ultraspec.USENC : The ensemble of this library.

    Notes
    -----
    O(N m^2) time, a pass or two over the rows beside the k-means of the embedding, which works on groups of rows with
    equal base labels: linear in the rows. 10 m bytes per such group.

    Weights are divided by the largest, which changes nothing but keeps a small `theta` from making all of them vanish.
    The method is defined in full by its paper and the authors' program. The sources leave open which k-means made the
    members in the U-SPEC paper.

    References
    ----------
    D. Huang, C.-D. Wang, J.-H. Lai. "Locally Weighted Ensemble Clustering". IEEE Transactions on Cybernetics 48 (5),
    2018.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import LWGP
    >>> X, y = datasets.generate("sf", 2_000, random_state=0)
    >>> model = LWGP(n_clusters=4, random_state=0).fit(X)
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
        theta: float = 0.4,
        n_init: int = 3,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.base_clusters = base_clusters
        self.base_max_iter = base_max_iter
        self.theta = theta
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _method(self) -> Method:
        return method(self.theta, self.n_init, self.max_iter)
