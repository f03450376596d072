"""Efficient spectral clustering on graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph

from ultraspec._checks import check_integer
from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._kmeans import draw_indices, lite_kmeans
from ultraspec.baselines._neighbor_graph import neighbor_graph
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Rows
from ultraspec.spectral.preprocess import Preprocessor

LEAST_LENGTH = 1e-9  # of an edge
LEAST_EIGENVALUE = 1e-12


class ESCG(Baseline):
    """Efficient spectral clustering on graphs (ESCG).

    The graph of nearest neighbours is compressed to a bipartite one between the rows and a few supernodes: groups of
    rows around random seeds, by shortest paths. It saves the eigenvectors of the large graph, not the search for
    neighbours, which takes most of the time. Use it rather than `ultraspec.USPEC` where a graph is what you have in
    mind, for up to some ten thousand rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, default=5
        Nearest rows that each row is tied to.
    n_supernodes : int or None, default=None
        Number of seeds. None takes 50, or twice the clusters if that is more.
    n_init : int, default=20
        Random starts of the k-means that turns the embedding into labels.
    max_iter : int, default=200
        Its iterations, at most.
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
    supernodes_ : ndarray of shape (n_samples,), int32
        Supernode of each row.
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
    Time O(N^2 d) for the exact neighbours (less with up to eight features), then O(N log N); memory
    O(N (d + n_neighbors)). One search from all seeds at once finds the nearest one of each row, where the original runs
    a search per seed and keeps all distances.

    Rows of pieces that no seed is in are counted to the first supernode, as in the original: so small pieces and
    outliers do not become clusters. U-SPEC's paper does not say how many supernodes it used: 50 is what the authors'
    scripts have, and their k-means too.

    References
    ----------
    J. Liu, C. Wang, M. Danilevsky, J. Han. "Large-Scale Spectral Clustering on Graphs". IJCAI 2013.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import ESCG
    >>> X, y = datasets.generate("cc", 2_000, random_state=0)  # three concentric circles
    >>> labels = ESCG(3, random_state=0).fit_predict(X)
    >>> metrics.nmi(y, labels) > 0.3
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 5,
        n_supernodes: int | None = None,
        n_init: int = 20,
        max_iter: int = 200,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.n_supernodes = n_supernodes
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_supernodes is not None:
            check_integer("n_supernodes", self.n_supernodes, least=1, alternatives=(None,))
            if self.n_supernodes < self.n_clusters:
                raise ValueError(
                    f"n_supernodes={self.n_supernodes} is less than n_clusters={self.n_clusters}: clusters are cut "
                    "from a graph of rows and supernodes. Raise n_supernodes."
                )

    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter = engine.reporter
        with reporter.phase("neighbors"):
            W, sigma = neighbor_graph(rows, self.n_neighbors, "ESCG", engine)
        with reporter.phase("supernodes"):
            n_seeds = max(50, 2 * k) if self.n_supernodes is None else self.n_supernodes
            owners = nearest_seeds(W, draw_indices(rows.n_rows, n_seeds, random))
        with reporter.phase("eigenvectors"):
            E = bipartite_embedding(W, owners, k)
        with reporter.phase("labels"):
            options = {"max_iter": self.max_iter, "n_init": self.n_init}
            found = lite_kmeans(ArrayRows(E), k, **options, random=random, engine=engine)
        self.supernodes_, self.sigma_ = owners, sigma * space.scale
        return found


def nearest_seeds(W: Any, seeds: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Number of the seed that is nearest to each node by shortest paths; the first for nodes that none reaches.

    An edge is the longer the weaker its affinity: the logarithm makes a path as long as its affinities' product is
    small.
    """
    lengths = W.copy()
    lengths.data = LEAST_LENGTH - np.log(W.data / W.data.max(initial=0.0)) if W.nnz else W.data
    options = {"indices": seeds, "min_only": True, "return_predecessors": True}
    _, _, sources = scipy.sparse.csgraph.dijkstra(lengths, **options)
    return np.searchsorted(seeds, np.where(sources < 0, seeds[0], sources)).astype(np.int32)


def bipartite_embedding(W: Any, owners: npt.NDArray[np.int32], k: int) -> npt.NDArray[np.float32]:
    """Right singular vectors (n, k) of the supernodes' scaled affinities to the nodes, scaled back by the degrees."""
    n = len(owners)
    members = scipy.sparse.csr_array((np.ones(n), (owners, np.arange(n))), shape=(int(owners.max()) + 1, n))
    B = (members @ W).tocsr()
    own, other = np.asarray(B.sum(axis=1)).ravel(), np.asarray(B.sum(axis=0)).ravel()
    B, own = B[own > 0], own[own > 0]
    with np.errstate(divide="ignore"):
        scale = np.where(other > 0, 1.0 / np.sqrt(other), 0.0)
    Z = scipy.sparse.diags_array(1.0 / np.sqrt(own)) @ B @ scipy.sparse.diags_array(scale)
    values, Q = scipy.linalg.eigh((Z @ Z.T).toarray()) if len(own) else (np.zeros(0), np.zeros((0, 0)))
    values, Q = values[::-1][:k], Q[:, ::-1][:, :k]
    kept = values > LEAST_EIGENVALUE
    E = np.zeros((n, max(int(kept.sum()), 1)), dtype=np.float32)
    # the root of all degrees brings values near one, for float32
    E[:, : kept.sum()] = (Z.T @ (Q[:, kept] / np.sqrt(values[kept]))) * (scale * np.sqrt(other.sum()))[:, None]
    return E
