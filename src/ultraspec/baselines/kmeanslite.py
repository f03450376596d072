"""k-means as the paper runs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._kmeans import lite_kmeans
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import Preprocessor


class KMeansLite(Baseline):
    """k-means from random rows, the paper's reference.

    Use it for compact clusters of about the same size: there it is as good as any method and many times faster than
    spectral clustering. For clusters of other shapes use `ultraspec.USPEC`. `sklearn.cluster.KMeans` starts more
    carefully (k-means++) and so scores a little better; this one is what the paper compares with.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_init : int, default=1
        Starts; the one with the smallest sum of squares is kept.
    max_iter : int, default=100
        Passes over the rows, at most.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.
    verbose : int, default=0
        1 shows phases, a progress bar and times on standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features), float64
        Means that gave the labels.
    inertia_ : float
        Sum of squared distances to them.
    n_clusters_ : int
        Number of clusters found.
    n_iter_ : int
        Passes over the rows.
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.

    Notes
    -----
    Time O(N d k) per pass, memory O(N). The paper cites D. Cai's litekmeans for it: random rows as centres, at most 100
    passes, one start. Several starts are compared there by the sum of plain distances, here by that of squares.

    References
    ----------
    D. Cai. "Litekmeans: the fastest MATLAB implementation of kmeans". 2011.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import KMeansLite
    >>> X, y = datasets.generate("cc", 5_000, random_state=0)  # three concentric circles, which it cannot tell apart
    >>> metrics.nmi(y, KMeansLite(3, random_state=0).fit_predict(X)) < 0.1
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 1,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        with engine.reporter.phase("k-means"):
            options = {"max_iter": self.max_iter, "n_init": self.n_init}
            found = lite_kmeans(rows, k, **options, random=random, engine=engine)
        self.cluster_centers_ = space.restore(found.centers[found.counts > 0])
        self.inertia_ = found.inertia * space.scale**2
        return found
