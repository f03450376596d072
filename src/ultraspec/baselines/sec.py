"""SEC, spectral ensemble clustering (Liu et al., 2015): normalised cuts of the co-association, by weighted k-means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_integer
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._membership_kmeans import MembershipPoints, membership_kmeans
from ultraspec.baselines.ensemble_baseline import BASE_CLUSTERS, EnsembleBaseline, Method, combine
from ultraspec.cluster.points import Centers, Sums, Weights
from ultraspec.engines.threads import ThreadEngine


def sec(
    base_labels: Any,
    n_clusters: int,
    *,
    n_init: int = 20,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows into one by spectral ensemble clustering, SEC.

    Seeks normalised cuts of the co-association matrix, which is never formed: they are a weighted k-means on the rows'
    base clusters. Linear in the rows, as `ultraspec.consensus` is, which solves much the same problem by eigenvectors
    and so does not end in poor local optima as SEC does; SEC is for comparison.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering: any integers or strings. -1, None and NaN mean that the clustering does not assign
        the row;
        the row then rests on the other columns.
    n_clusters : int
        Number of clusters.
    n_init : int, default=20
        Random starts; the best is kept.
    max_iter : int, default=100
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
    SEC : Makes the base clusterings too, and tells more about the method.

    Examples
    --------
    >>> from ultraspec.baselines import sec
    >>> labels = sec([[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]], 2, random_state=0)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False]
    """
    return combine(base_labels, n_clusters, method(n_init, max_iter), random_state=random_state, n_jobs=n_jobs)


def method(n_init: int, max_iter: int) -> Method:
    """SEC with its parameters, which are checked."""
    check_integer("n_init", n_init, least=1)
    check_integer("max_iter", max_iter, least=1)

    def run(ensemble: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine) -> ConsensusLabels:
        points = DegreePoints(ensemble)
        return membership_kmeans(points, ensemble, k, int(n_init), int(max_iter), np.random.default_rng(seed), engine)

    return run


class DegreePoints(MembershipPoints):
    """Rows of base clusters divided by their degrees in the co-association matrix, which are their weights.

    Normalised cuts of B B' are k-means of the rows b(x) / w(x) with weights w(x) = b(x).sum_y b(y), as the cosines of
    `EulerSC` are. Degrees are divided by their mean, which changes no label, to bring points near one for float32.
    """

    def __init__(self, ensemble: BaseClusterings) -> None:
        super().__init__(ensemble)
        sizes, weights = np.append(ensemble.sizes, 0.0), ensemble.weights  # the last, for -1
        degrees, present = np.zeros(len(ensemble)), np.zeros(len(ensemble))
        for column in ensemble.columns.T:
            degrees += sizes[column]
            present += column >= 0
        degrees /= weights @ degrees / weights.sum()
        self.weights = weights * degrees
        self._scales = (1.0 / degrees).astype(np.float32)
        self._own = (present / degrees**2).astype(np.float32)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Dense rows."""
        return super().take(indices) * self._scales[indices, None]

    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Sums of the rows as they were before they were divided, over sums of weights."""
        return (sums / np.where(counts > 0, counts, 1)[:, None]).astype(np.float32)

    def costs(self, centers: Centers) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """|c|^2 - 2 c.b / w."""
        C = centers.astype(np.float64)
        return -2 * C.T, (C**2).sum(axis=1)


class SEC(EnsembleBaseline):
    """Spectral ensemble clustering (SEC).

    Clusters the rows many times by k-means and seeks normalised cuts of their co-association matrix, by a weighted
    k-means on the rows' base clusters. Prefer `ultraspec.USENC`: it is as fast, and eigenvectors in place of random
    starts save it from the poor local optima that SEC ends in. SEC is to compare with.

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
    n_init : int, default=20
        Random starts; the best is kept.
    max_iter : int, default=100
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
    sec : The second half alone, for label matrices from any clusterers.
    ultraspec.USENC : The ensemble of this library.

    Notes
    -----
    A pass takes O(M m k) for M groups of rows that differ in their base labels, M <= N, and there are up to
    ``n_init * max_iter`` passes: linear in the rows. 4 m bytes per group of rows, and 16 more. A cluster that loses its
    rows starts anew at the row that is farthest from its centre.

    The equivalence of cut and weighted k-means fixes everything but the starts, of which the sources say nothing. Low
    scores are the method's, not a fault: more starts raise them (see ``benchmarks/BASELINES.md``).

    References
    ----------
    H. Liu, T. Liu, J. Wu, D. Tao, Y. Fu. "Spectral Ensemble Clustering". KDD 2015.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import SEC
    >>> X, y = datasets.generate("sf", 2_000, random_state=0)
    >>> model = SEC(n_clusters=4, random_state=0).fit(X)
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
        n_init: int = 20,
        max_iter: int = 100,
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
