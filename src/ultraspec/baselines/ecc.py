"""ECC, entropy-based consensus clustering (Liu et al., 2017): KCC with the entropy for its utility."""

from __future__ import annotations

from typing import Any

from ultraspec.baselines._base_clusterings import Labels
from ultraspec.baselines.ensemble_baseline import BASE_CLUSTERS, EnsembleBaseline, Method, combine
from ultraspec.baselines.kcc import method as kcc_method


def ecc(
    base_labels: Any,
    n_clusters: int,
    *,
    n_init: int = 10,
    max_iter: int = 40,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows into one by entropy-based consensus clustering, ECC.

    Seeks the clustering that tells most about all others, in bits, by k-means on the rows' base clusters: `kcc` with
    ``utility="entropy"``. Linear in the rows, as `ultraspec.consensus` is, which finds better clusters where base
    clusterings are finer than these; ECC is for comparison, and where the mutual information itself is wanted.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering: any integers or strings. -1, None and NaN mean that the clustering does not assign
        the row;
        the row then costs nothing there.
    n_clusters : int
        Number of clusters.
    n_init : int, default=10
        Random starts; the best is kept.
    max_iter : int, default=40
        Iterations of a start, at most.
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
    ECC : Makes the base clusterings too, and tells more about the method.

    Examples
    --------
    >>> from ultraspec.baselines import ecc
    >>> labels = ecc([[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]], 2, random_state=0)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False]
    """
    return combine(base_labels, n_clusters, method(n_init, max_iter), random_state=random_state, n_jobs=n_jobs)


def method(n_init: int, max_iter: int) -> Method:
    """ECC with its parameters, which are checked."""
    return kcc_method("entropy", False, n_init, max_iter)


class ECC(EnsembleBaseline):
    """Entropy-based consensus clustering (ECC).

    Clusters the rows many times by k-means and seeks the clustering that tells most about all of these, in bits:
    k-means again, on the rows' base clusters. Prefer `ultraspec.USENC`, which is as fast and whose consensus does not
    depend on lucky starts; ECC is to compare with.

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
    n_init : int, default=10
        Random starts; the best is kept.
    max_iter : int, default=40
        Iterations of a start, at most.
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
        Passes of the best start; 0 where no more groups of rows differ in their base labels than clusters are wanted.
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.

    See Also
    --------
    ecc : The second half alone, for label matrices from any clusterers.
    ultraspec.USENC : The ensemble of this library.

    Notes
    -----
    This is `KCC` with ``utility="entropy"``, whose Notes tell its cost: linear in the rows. A base cluster that has no
    row of a consensus cluster costs 52 bits, not infinitely many, as in the authors' program; results depend on it.

    The sources leave open how many starts the U-SPEC paper used. Ten of 40 iterations are those of the authors'
    demonstration; their program's own default is 20 of 50.

    References
    ----------
    H. Liu, R. Zhao, H. Fang, F. Cheng, Y. Fu, Y.-Y. Liu. "Entropy-based consensus clustering for patient
    stratification". Bioinformatics 33 (17), 2017.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import ECC
    >>> X, y = datasets.generate("sf", 2_000, random_state=0)
    >>> model = ECC(n_clusters=4, random_state=0).fit(X)
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
        n_init: int = 10,
        max_iter: int = 40,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.base_clusters = base_clusters
        self.base_max_iter = base_max_iter
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _method(self) -> Method:
        return method(self.n_init, self.max_iter)
