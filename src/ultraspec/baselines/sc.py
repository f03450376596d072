"""SC, spectral clustering on the graph of nearest neighbours (Chen et al., 2011)."""

from __future__ import annotations

import numpy as np

from ultraspec._checks import warn_user
from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.baselines._eigenvectors import leading_eigenvectors
from ultraspec.baselines._kmeans import unit_rows
from ultraspec.baselines._neighbor_graph import neighbor_graph
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import Preprocessor


@estimator
class SC(SpectralBaseline):
    """Spectral clustering by normalised cuts of the graph of nearest neighbours.

    Every row is a node of the graph, connected to its nearest rows: nothing is approximated. Use it instead of
    `ultraspec.USPEC` for up to about ten thousand rows whose graph is connected. It fails if outliers or small groups
    are connected components of their own, because each of them becomes a cluster, and its time grows with the square
    of the number of rows.

    Parameters
    ----------
    {n_clusters, n_neighbors, assign_labels, n_init, max_iter, random_state, n_jobs, verbose}

    Attributes
    ----------
    {labels_, neighbor_sigma_, n_clusters_, n_iter_, fit_profile_, n_features_in_, feature_names_in_}

    Notes
    -----
    The exact neighbours take O(N^2 d) time (less with up to eight features, where a tree finds them). Memory is
    O(N (d + n_neighbors)): the N x N matrix is never formed. If the graph has several connected components, the
    eigenvectors of the eigenvalue 1 are their indicator vectors, which are computed directly. If there are more
    components than clusters, the largest are used, with a warning.

    The sources do not say how the graph is symmetrised: here the larger of two affinities is used. That SC in the paper
    uses the orthogonal k-means is inferred from its scores.

    References
    ----------
    W.-Y. Chen, Y. Song, H. Bai, C.-J. Lin, E. Y. Chang. "Parallel Spectral Clustering in Distributed Systems". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 33 (3), 2011.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import SC
    >>> X, y = datasets.generate("cc", 2_000, random_state=0)  # three concentric circles
    >>> labels = SC(3, assign_labels="kmeans", n_neighbors=20, random_state=0).fit_predict(X)
    >>> metrics.nmi(y, labels) > 0.9
    True
    """

    n_neighbors: int = 5
    assign_labels: str = "orthogonal"
    n_init: int = 10
    max_iter: int = 100

    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter = engine.reporter
        with reporter.phase("neighbors"):
            W, sigma = neighbor_graph(rows, self.n_neighbors, "SC", engine)
        with reporter.phase("eigenvectors"):
            V, sizes = leading_eigenvectors(W, k, random)
        if len(sizes) > k:
            warn_user(
                f"The graph of nearest neighbours has {len(sizes)} connected components, more than n_clusters={k}. The "
                f"{k} largest ({sizes[0]:,} to {sizes[k - 1]:,} rows) become clusters, and the rows of the others are "
                f"added to these. Raise n_neighbors (now {self.n_neighbors}) or n_clusters.",
                UserWarning,
            )
        with reporter.phase("labels"):
            clustering = self._label_embedding(unit_rows(V), k, random, engine)
        self.sigma_ = sigma * space.scale
        return clustering
