"""k-means as the paper runs it."""

from __future__ import annotations

import numpy as np

from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import Preprocessor


@estimator
class KMeansLite(SpectralBaseline):
    """k-means from random rows, the reference method of the paper.

    Use it for compact clusters of similar size: there it is as good as any method and many times faster than spectral
    clustering. For clusters of other shapes use `ultraspec.USPEC`. `sklearn.cluster.KMeans` scores a little better
    because it starts from k-means++; this class is what the paper compares with.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features), float64
        Centres that gave the labels.
    inertia_ : float
        Sum of squared distances of the rows to their centres.

    Notes
    -----
    An iteration takes O(N d k) time, and memory is O(N). The paper cites D. Cai's litekmeans: random rows as initial
    centres, at most 100 iterations, one run. Several runs are compared there by the sum of distances, here by the sum
    of squared distances.

    References
    ----------
    D. Cai. "Litekmeans: the fastest MATLAB implementation of kmeans". 2011.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import KMeansLite
    >>> X, y = datasets.generate("cc", 5_000, random_state=0)  # three concentric circles, which it cannot separate
    >>> metrics.nmi(y, KMeansLite(3, random_state=0).fit_predict(X)) < 0.1
    True
    """

    n_init: int = 1
    max_iter: int = 100

    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        with engine.reporter.phase("k-means"):
            clustering = self._kmeans(rows, k, random, engine)
        sizes = np.bincount(clustering.labels, minlength=len(clustering.centers))
        order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]  # as the clusters will be numbered
        self.cluster_centers_ = space.restore(clustering.centers[order])
        self.inertia_ = clustering.inertia * space.scale**2
        return clustering
