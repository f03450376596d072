"""KCC, k-means-based consensus clustering (Wu et al., 2015): k-means on rows of base clusters, with many distances."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_choice, check_integer
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._membership_kmeans import MembershipPoints, membership_kmeans
from ultraspec.baselines.ensemble_baseline import BASE_CLUSTERS, EnsembleBaseline, Method, combine
from ultraspec.cluster.points import Centers, Sums, Weights
from ultraspec.engines.threads import ThreadEngine

EPS = 2.220446049250313e-16  # share that stands for none at all under "entropy": 52 bits, not infinitely many

Floats = npt.NDArray[np.float64]
Shares = Callable[[Floats], Floats]


def _lengths(p: int) -> Shares:
    """p-norms of rows, one for rows of zeros."""
    return lambda M: np.where(M.any(axis=1), (M**p).sum(axis=1) ** (1 / p), 1.0)[:, None]


# Cost of a row in base cluster l of one clustering, over whose clusters a centre's rows have the shares M (k, k_i).
COSTS: dict[str, Shares] = {
    "category": lambda M: 1 - 2 * M + (M**2).sum(axis=1)[:, None],
    "entropy": lambda M: -np.log2(M + EPS),
    "cosine": lambda M: 1 - M / _lengths(2)(M),
    "l5": lambda M: 1 - (M / _lengths(5)(M)) ** 4,
    "l8": lambda M: 1 - (M / _lengths(8)(M)) ** 7,
}

# What costs of a clustering with clusters of such shares (k_i,) are divided by.
NORMS: dict[str, Callable[[Floats], float]] = {
    "category": lambda P: float((P**2).sum()),
    "entropy": lambda P: float(-(P * np.log2(P)).sum()),
    "cosine": lambda P: float(np.sqrt((P**2).sum())),
    "l5": lambda P: float((P**5).sum() ** (1 / 5)),
    "l8": lambda P: float((P**8).sum() ** (1 / 8)),
}


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
    """Combine clusterings of the same rows into one by k-means-based consensus clustering, KCC.

    Seeks the clustering that agrees most with all others, by k-means on the rows' base clusters. Linear in the rows,
    as `ultraspec.consensus` is, which finds better clusters where base clusterings are finer than these; KCC is for
    comparison, and for utilities of one's choice.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering: any integers or strings. -1, None and NaN mean that the clustering does not assign
        the row;
        the row then costs nothing there.
    n_clusters : int
        Number of clusters.
    utility : {"category", "entropy", "cosine", "l5", "l8"}, default="entropy"
        How agreement with a base clustering is measured: see Notes.
    normalized : bool, default=False
        Whether a clustering counts the less, the more its own clusters differ in size.
    n_init : int, default=5
        Random starts; the best is kept.
    max_iter : int, default=20
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
    KCC : Makes the base clusterings too, and tells more about the method.

    Examples
    --------
    >>> from ultraspec.baselines import kcc
    >>> labels = kcc([[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]], 2, random_state=0)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False]
    """
    chosen = method(utility, normalized, n_init, max_iter)
    return combine(base_labels, n_clusters, chosen, random_state=random_state, n_jobs=n_jobs)


def method(utility: str, normalized: bool, n_init: int, max_iter: int) -> Method:
    """KCC with its parameters, which are checked."""
    check_choice("utility", utility, tuple(COSTS))
    if not isinstance(normalized, (bool, np.bool_)):
        raise TypeError(f"normalized must be True or False, got {normalized!r}.")
    check_integer("n_init", n_init, least=1)
    check_integer("max_iter", max_iter, least=1)

    def run(ensemble: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine) -> ConsensusLabels:
        points = UtilityPoints(ensemble, utility, bool(normalized))
        return membership_kmeans(points, ensemble, k, int(n_init), int(max_iter), np.random.default_rng(seed), engine)

    return run


class UtilityPoints(MembershipPoints):
    """Rows of base clusters at the distance that belongs to a utility.

    A centre holds the shares of its rows in the clusters of each clustering, of those rows that it assigns.
    """

    def __init__(self, ensemble: BaseClusterings, utility: str, normalized: bool) -> None:
        super().__init__(ensemble)
        starts = ensemble.starts
        self._clusterings = [slice(*ends) for ends in pairwise(starts) if ends[0] < ends[1]]
        self._cost = COSTS[utility]
        self._factors = [1.0] * len(self._clusterings)
        if normalized:
            shares = self.means(ensemble.sizes[None], np.ones(1))[0].astype(np.float64)
            norms = [NORMS[utility](shares[here]) for here in self._clusterings]
            self._factors = [1 / norm if norm > 0 else 0.0 for norm in norms]

    def means(self, sums: Sums, counts: Weights) -> Centers:  # noqa: ARG002
        """Shares of the clusters' rows in each clustering."""
        shares = np.empty_like(sums)
        for here in self._clusterings:
            totals = sums[:, here].sum(axis=1)
            shares[:, here] = sums[:, here] / np.where(totals > 0, totals, 1)[:, None]
        return shares.astype(np.float32)

    def costs(self, centers: Centers) -> tuple[Floats, Floats]:
        """The utility's, clustering by clustering."""
        M = centers.astype(np.float64)
        parts = [factor * self._cost(M[:, here]) for factor, here in zip(self._factors, self._clusterings, strict=True)]
        return np.concatenate(parts, axis=1).T, np.zeros(len(centers))


class KCC(EnsembleBaseline):
    """K-means-based consensus clustering (KCC).

    Clusters the rows many times by k-means and seeks the clustering that agrees most with all of these: k-means again,
    on the rows' base clusters. Prefer `ultraspec.USENC`, which is as fast and whose consensus does not depend on lucky
    starts; KCC is to compare with.

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
    utility : {"category", "entropy", "cosine", "l5", "l8"}, default="entropy"
        How agreement with a base clustering is measured: see Notes.
    normalized : bool, default=False
        Whether a clustering counts the less, the more its own clusters differ in size.
    n_init : int, default=5
        Random starts; the best is kept.
    max_iter : int, default=20
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
    kcc : The second half alone, for label matrices from any clusterers.
    ultraspec.USENC : The ensemble of this library.

    Notes
    -----
    A consensus cluster has rows in shares M of the clusters of one base clustering. Its utility is the sum of squares
    of M ("category"), the negative entropy of M ("entropy", which is `ECC`), or the length of M ("cosine", or by the
    5th or 8th power, "l5", "l8"). Each belongs to a distance with which k-means maximises it.

    A pass takes O(M m k) for M groups of rows that differ in their base labels, M <= N, and there are up to
    ``n_init * max_iter`` passes: linear in the rows. A cluster that loses its rows starts anew at the row that costs
    most (a random one in the authors' program). 4 m bytes per group of rows.

    The sources leave open which utility, and how many starts, the U-SPEC paper used. The defaults are those of the
    authors' program, whose paper finds utilities of the entropy most robust; its demonstrations take 10 starts of 40
    iterations. ``benchmarks/BASELINES.md`` tells what others give.

    References
    ----------
    J. Wu, H. Liu, H. Xiong, J. Cao, J. Chen. "K-Means-Based Consensus Clustering: A Unified View". IEEE Transactions on
    Knowledge and Data Engineering 27 (1), 2015.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import KCC
    >>> X, y = datasets.generate("sf", 2_000, random_state=0)
    >>> model = KCC(n_clusters=4, random_state=0).fit(X)
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
        utility: str = "entropy",
        normalized: bool = False,
        n_init: int = 5,
        max_iter: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.base_clusters = base_clusters
        self.base_max_iter = base_max_iter
        self.utility = utility
        self.normalized = normalized
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _method(self) -> Method:
        return method(self.utility, self.normalized, self.n_init, self.max_iter)
