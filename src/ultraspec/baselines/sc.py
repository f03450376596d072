"""SC, spectral clustering on the graph of nearest neighbours (Chen et al., 2011)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

from ultraspec._checks import warn_user
from ultraspec._kernels.lapack import largest_eigenpairs
from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.baselines._kmeans import unit_rows
from ultraspec.baselines._neighbor_graph import neighbor_graph
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import Preprocessor

DENSE_ROWS = 600  # connected components up to this size are solved by LAPACK
TINY_DEGREE = 1e-10

Floats = npt.NDArray[np.float64]


@estimator
class SC(SpectralBaseline):
    """Spectral clustering by normalised cuts of the graph of nearest neighbours.

    Every row is a node of the graph, connected to its nearest rows: nothing is approximated. Use it instead of
    `ultraspec.USPEC` for up to about ten thousand rows whose graph is connected. It fails if outliers or small groups
    are connected components of their own, because each of them becomes a cluster, and its time grows with the square
    of the number of rows.

    Attributes
    ----------
    sigma_ : float
        Width of the Gaussian affinity: the mean distance of the rows to their nearest rows.

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


def leading_eigenvectors(W: Any, k: int, random: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return `k` leading eigenvectors of D^-1/2 W D^-1/2, and the sizes of the connected components, largest first.

    Every connected component has the eigenvalue 1, with the eigenvector D^1/2 1 on its nodes. An iterative solver finds
    such repeated eigenvalues badly, so it is used only for the other eigenvalues, component by component. If there are
    more than `k` components, the largest are used, and the rows of the others are zero.
    """
    roots = np.sqrt(np.asarray(W.sum(axis=1)).ravel() + TINY_DEGREE)
    S = scipy.sparse.diags_array(1.0 / roots) @ W @ scipy.sparse.diags_array(1.0 / roots)
    n_components, component = scipy.sparse.csgraph.connected_components(W, directed=False)
    sizes = np.bincount(component)
    order = np.argsort(-sizes, kind="stable")
    V = np.zeros((len(roots), k))
    for column, c in enumerate(order[:k]):
        inside = component == c
        V[inside, column] = roots[inside] / np.linalg.norm(roots[inside])
    pairs: list[tuple[float, npt.NDArray[np.intp], Floats]] = []
    missing = k - n_components
    if missing > 0:
        for column, c in enumerate(order):
            if sizes[c] == 1:
                continue
            inside = np.flatnonzero(component == c)
            part = S if n_components == 1 else S[inside][:, inside]
            values, vectors = _eigenpairs_below_one(part.tocsr(), V[inside, column], missing, random)
            pairs += [(value, inside, vectors[:, j]) for j, value in enumerate(values)]
        pairs.sort(key=lambda pair: -pair[0])
    for column, (_, inside, vector) in enumerate(pairs[:missing], start=n_components):
        V[inside, column] = vector * np.sign(vector[np.abs(vector).argmax()])
    return V, sizes[order]


def _eigenpairs_below_one(S: Any, first: Floats, m: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the `m` largest eigenvalues of a connected component below 1, descending, and their eigenvectors.

    There are fewer if the component is small. The eigenvector `first` of the eigenvalue 1 is deflated: subtracting
    2 f f' makes its eigenvalue -1, the smallest possible.
    """
    n = S.shape[0]
    m = min(m, n - 1)
    if n <= max(DENSE_ROWS, 4 * m):
        values, vectors = largest_eigenpairs(S.toarray() - 2.0 * np.outer(first, first), m)
        return values[::-1], vectors[:, ::-1]
    deflated = scipy.sparse.linalg.LinearOperator(
        S.shape, matvec=lambda x: S @ x.ravel() - first * (2.0 * (first @ x.ravel())), dtype=np.float64
    )
    start = random.standard_normal(n)
    start -= first * (first @ start)
    options = {"ncv": min(n - 1, max(4 * m, 40)), "tol": 1e-8, "maxiter": 100 * n}
    values, vectors = scipy.sparse.linalg.eigsh(deflated, m, which="LA", v0=start, **options)
    descending = np.argsort(-values, kind="stable")
    return values[descending], vectors[:, descending]
