"""Spectral clustering on the graph of nearest neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from ultraspec._checks import check_choice, warn_user
from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._eigenvectors import leading_eigenvectors
from ultraspec.baselines._kmeans import label_embedding, unit_rows
from ultraspec.baselines._neighbor_graph import neighbor_graph
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import Preprocessor


class SC(Baseline):
    """Spectral clustering by normalised cuts of the graph of nearest neighbours.

    Every row is a node, tied to its nearest rows: nothing is approximated. Use it rather than `ultraspec.USPEC` for up
    to some ten thousand rows whose graph is connected. It breaks where outliers or small groups are pieces of the graph
    of their own (each takes a cluster then), and its time grows with the square of the rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, default=5
        Nearest rows that each row is tied to.
    assign_labels : {"orthogonal", "kmeans"}, default="orthogonal"
        How the embedding becomes labels: k-means from rows as orthogonal as can be, stopped early, as Chen et al. do
        and the paper's scores show, or plain k-means, the best of `n_init` random starts, which scores better.
    n_init : int, default=10
        Starts of "kmeans".
    max_iter : int, default=100
        Iterations of either, at most.
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
    sigma_ : float
        Width of the Gaussian affinity: the mean distance of rows to their nearest rows.
    n_clusters_ : int
        Number of clusters found.
    n_iter_ : int
        Iterations of the k-means that gave the labels.
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.

    Notes
    -----
    Time O(N^2 d) for the exact neighbours (less with up to eight features, where a tree finds them), memory
    O(N (d + n_neighbors)): the N x N matrix is never formed. Of a graph in several pieces the eigenvectors of the
    eigenvalue one are the pieces themselves, which are found directly; of more pieces than clusters the largest are
    taken, and a warning says so.

    The sources leave open how the graph is symmetrised: here the larger of two affinities is taken. That the paper's
    SC ends in the orthogonal k-means is inferred from its scores.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 5,
        assign_labels: str = "orthogonal",
        n_init: int = 10,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.assign_labels = assign_labels
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("assign_labels", self.assign_labels, ("orthogonal", "kmeans"))

    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter = engine.reporter
        with reporter.phase("neighbors"):
            W, sigma = neighbor_graph(rows, self.n_neighbors, "SC", engine)
        with reporter.phase("eigenvectors"):
            V, pieces = leading_eigenvectors(W, k, random)
        if len(pieces) > k:
            warn_user(
                f"The graph of nearest neighbours is in {len(pieces)} pieces that share no edge, more than the {k} "
                f"clusters: the {k} largest pieces (of {pieces[0]:,} to {pieces[k - 1]:,} rows) become clusters, and "
                f"rows of the others join some of them. Raise n_neighbors (now {self.n_neighbors}) or n_clusters.",
                UserWarning,
            )
        with reporter.phase("labels"):
            options = {"max_iter": self.max_iter, "n_init": self.n_init}
            found = label_embedding(unit_rows(V), k, self.assign_labels, **options, random=random, engine=engine)
        self.sigma_ = sigma * space.scale
        return found
