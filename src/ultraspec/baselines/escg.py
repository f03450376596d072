"""ESCG, efficient spectral clustering on graphs (Liu et al., 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph

from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.baselines._kmeans import draw_indices
from ultraspec.baselines._neighbor_graph import neighbor_graph
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Rows
from ultraspec.spectral.preprocess import Preprocessor

LEAST_LENGTH = 1e-9  # of an edge
LEAST_EIGENVALUE = 1e-12


@estimator
class ESCG(SpectralBaseline):
    """Efficient spectral clustering on graphs (ESCG).

    The graph of nearest neighbours is compressed to a bipartite graph between the rows and a few supernodes, which are
    groups of rows around random seeds, by shortest paths. This saves the eigenvectors of the large graph, but not the
    search for neighbours, which takes most of the time. Use it instead of `ultraspec.USPEC` if the data is a graph by
    nature, for up to about ten thousand rows.

    Parameters
    ----------
    n_supernodes : int or None, default=None
        Number of supernodes. None uses 50, or twice `n_clusters` if that is more.

    Attributes
    ----------
    supernodes_ : ndarray of shape (n_samples,), int32
        Supernode of each row.
    sigma_ : float
        Width of the Gaussian affinity: the mean distance of the rows to their nearest rows.

    Notes
    -----
    The exact neighbours take O(N^2 d) time (less with up to eight features), all other steps O(N log N). Memory is
    O(N (d + n_neighbors)). A single search from all seeds finds the nearest seed of each row; the original searches
    from each seed and stores all distances.

    Rows of connected components without a seed are assigned to the first supernode, as in the original, so that small
    components and outliers do not become clusters. The U-SPEC paper does not give the number of supernodes: 50 is used
    in the scripts of the authors, and so are the default `n_init` and `max_iter`.

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

    n_neighbors: int = 5
    n_supernodes: int | None = None
    n_init: int = 20
    max_iter: int = 200

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_supernodes is not None and self.n_supernodes < self.n_clusters:
            raise ValueError(
                f"n_supernodes={self.n_supernodes} is less than n_clusters={self.n_clusters}: clusters are cut from a "
                "graph of rows and supernodes. Raise n_supernodes."
            )

    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter = engine.reporter
        with reporter.phase("neighbors"):
            W, sigma = neighbor_graph(rows, self.n_neighbors, "ESCG", engine)
        with reporter.phase("supernodes"):
            n_seeds = max(50, 2 * k) if self.n_supernodes is None else self.n_supernodes
            supernodes = nearest_seeds(W, draw_indices(rows.n_rows, n_seeds, random))
        with reporter.phase("eigenvectors"):
            E = bipartite_embedding(W, supernodes, k)
        with reporter.phase("labels"):
            clustering = self._kmeans(ArrayRows(E), k, random, engine)
        self.supernodes_ = supernodes
        self.sigma_ = sigma * space.scale
        return clustering


def nearest_seeds(W: Any, seeds: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return the index of the nearest seed of each node, by shortest paths; 0 for nodes that no seed reaches.

    The length of an edge is the negative logarithm of its affinity, so the shortest path is the one with the largest
    product of affinities.
    """
    lengths = W.copy()
    lengths.data = LEAST_LENGTH - np.log(W.data / W.data.max(initial=0.0)) if W.nnz else W.data
    options = {"indices": seeds, "min_only": True, "return_predecessors": True}
    _, _, sources = scipy.sparse.csgraph.dijkstra(lengths, **options)
    return np.searchsorted(seeds, np.where(sources < 0, seeds[0], sources)).astype(np.int32)


def bipartite_embedding(W: Any, supernodes: npt.NDArray[np.int32], k: int) -> npt.NDArray[np.float32]:
    """Return the embedding (n, k) of the nodes by the bipartite graph of supernodes and nodes.

    With the affinities B of supernodes to nodes and the diagonal matrices D_s and D_n of its row and column sums, it is
    D_n^-1/2 times the right singular vectors of Z = D_s^-1/2 B D_n^-1/2. These are Z' Q L^-1/2, where Q and L are the
    eigenvectors and eigenvalues of the small matrix Z Z'.
    """
    n = len(supernodes)
    members = scipy.sparse.csr_array((np.ones(n), (supernodes, np.arange(n))), shape=(int(supernodes.max()) + 1, n))
    B = (members @ W).tocsr()
    row_sums = np.asarray(B.sum(axis=1)).ravel()
    column_sums = np.asarray(B.sum(axis=0)).ravel()
    B, row_sums = B[row_sums > 0], row_sums[row_sums > 0]
    with np.errstate(divide="ignore"):
        scale = np.where(column_sums > 0, 1.0 / np.sqrt(column_sums), 0.0)
    Z = scipy.sparse.diags_array(1.0 / np.sqrt(row_sums)) @ B @ scipy.sparse.diags_array(scale)
    values, Q = scipy.linalg.eigh((Z @ Z.T).toarray()) if len(row_sums) else (np.zeros(0), np.zeros((0, 0)))
    values, Q = values[::-1][:k], Q[:, ::-1][:, :k]
    used = values > LEAST_EIGENVALUE
    n_used = int(used.sum())
    E = np.zeros((n, max(n_used, 1)), dtype=np.float32)
    # the root of the sum of all degrees brings values close to 1, for float32
    E[:, :n_used] = (Z.T @ (Q[:, used] / np.sqrt(values[used]))) * (scale * np.sqrt(column_sums.sum()))[:, None]
    return E
