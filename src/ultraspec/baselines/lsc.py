"""LSC, landmark-based spectral clustering (Chen & Cai, 2011)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import check_integer, warn_user
from ultraspec._kernels.graph import reduce_pairs
from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.baselines._kmeans import draw_indices, lite_kmeans, to_dense
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, Span, stays_in_memory
from ultraspec.spectral.edges import Edges, LazyEdges, connect
from ultraspec.spectral.embedding import EmbeddedPoints
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.preprocess import Preprocessor
from ultraspec.spectral.representatives import MOST_REPRESENTATIVES
from ultraspec.spectral.transfer_cut import ONE, sum_graph, transfer_cut

LEAST_EIGENVALUE = 1e-10
SELECTION_ITERATIONS = 5  # of the k-means that selects landmarks, as in the authors' code


@estimator
class LSC(SpectralBaseline):
    """Landmark-based spectral clustering, LSC-K and LSC-R.

    Every row is represented by weights on its nearest landmarks, and the affinity of two rows is the product of their
    weights. It is the method closest to U-SPEC, but with exact instead of approximate nearest landmarks, k-means on all
    rows instead of on a sample, and no degrees of rows in the graph. Use it instead of `ultraspec.USPEC` for
    comparison. U-SPEC is several times faster and scores about the same on images and letters, and far better if
    clusters are long and thin or few (LSC drops the first eigenvector, which such clusters need).

    Parameters
    ----------
    selection : {"kmeans", "random"}, default="kmeans"
        How landmarks are selected. "kmeans" takes the centres of five k-means iterations on all rows (LSC-K), "random"
        takes random rows (LSC-R).
    n_landmarks : int, default=1000
        Number of landmarks. If X has fewer rows, all of them are landmarks.
    n_neighbors : int, default=5
        Number of nearest landmarks that each row is connected to.
    bandwidth : {"code", "distance"}, default="code"
        Width of the Gaussian affinity. "code" is the mean of the *squared* distances between rows and landmarks, as in
        the authors' published code, and so presumably in the published scores; it depends on the units of X.
        "distance" is the root of this mean.
    drop_first : bool, default=True
        Whether the first eigenvector is left out, as in the authors' code.

    Attributes
    ----------
    landmarks_ : ndarray of shape (p, n_features), float64
        Landmarks.
    sigma_ : float
        Width of the Gaussian affinity.
    eigenvalues_ : ndarray, float64
        Eigenvalues that are used, descending. The first one, which is 1, is included unless `drop_first`.

    Notes
    -----
    The neighbours and each of the five iterations of the selection take O(N p d) time, the eigenvectors O(p^3). In
    addition to the input, memory is 6 bytes per row and neighbour, not the N x p matrix of the original. The embedding
    is never stored.

    The paper does not say which bandwidth it used. The original of bandwidth="distance" is the mean distance; here it
    is the root of the mean squared distance, which needs no pass over all pairs.

    References
    ----------
    X. Chen, D. Cai. "Large Scale Spectral Clustering with Landmark-Based Representation". AAAI 2011.

    D. Cai, X. Chen. "Large Scale Spectral Clustering Via Landmark-Based Sparse Representation". IEEE Transactions on
    Cybernetics 45 (8), 2015.

    Examples
    --------
    >>> from ultraspec import datasets
    >>> from ultraspec.baselines import LSC
    >>> X, y = datasets.generate("sf", 5_000, random_state=0)
    >>> model = LSC(4, selection="random", n_landmarks=200, random_state=0).fit(X)
    >>> model.landmarks_.shape
    (200, 2)
    """

    selection: str = "kmeans"
    n_landmarks: int = 1000
    n_neighbors: int = 5
    bandwidth: str = "code"
    drop_first: bool = True
    n_init: int = 10
    max_iter: int = 100

    _few_clusters = "no more rows differ in their weights on the landmarks."

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_landmarks", self.n_landmarks, least=1, most=MOST_REPRESENTATIVES)

    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter = engine.reporter
        with reporter.phase("landmarks"):
            landmarks = select_landmarks(rows, self.n_landmarks, self.selection, random, engine)
        with reporter.phase("neighbors"):
            index = RepresentativeIndex.build(landmarks, self.n_neighbors, 1, True, random, engine)
            sigma = self._width(mean_square(rows, landmarks, engine), space.scale)
            edges = landmark_weights(rows, index, sigma, engine)
        with reporter.phase("eigenvectors"):
            vectors, eigenvalues = self._vectors(edges, index, k, engine)
        with reporter.phase("labels"):
            points = EmbeddedPoints(edges, vectors)
            points.measure(engine)
            clustering = self._kmeans(points, k, random, engine)
        self.landmarks_ = space.restore(index.representatives)
        self.eigenvalues_ = eigenvalues
        self.sigma_ = sigma * space.scale
        return clustering

    def _width(self, mean_sq: float, scale: float) -> float:
        """Return sigma in prepared units, in which a distance is that of the user's units divided by `scale`."""
        if self.bandwidth == "distance":
            return float(np.sqrt(mean_sq)) or 1.0
        # mean_sq scale^2, the mean square in the user's units, is taken for a distance, and so divided by scale
        return mean_sq * scale or 1.0

    def _vectors(
        self, edges: Edges | LazyEdges, index: RepresentativeIndex, k: int, engine: ThreadEngine
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """Return the vectors (p, k) of the landmarks, and the eigenvalues.

        With the weights Z (n, p) of the rows and the diagonal matrix D of their column sums, the embedding consists of
        the left singular vectors of Z D^-1/2. They are Z times the vectors returned.
        """

        def add(graph: Any, part: slice) -> None:
            block = edges[part]
            reduce_pairs(block.ids, block.weights, np.ones(len(block)), ONE, graph.affinity, graph.counts)

        p = len(index.representatives)
        graph = sum_graph(add, len(edges) * edges.n_neighbors**2, p, edges.blocks(), engine)
        first = int(self.drop_first)
        spectrum = transfer_cut(graph, k + first, 0.0, index.representatives)
        values = spectrum.eigenvalues[first:]
        used = values > LEAST_EIGENVALUE
        n_used = int(used.sum())
        if n_used < k:
            warn_user(
                f"The graph of rows and landmarks has only {n_used} eigenvectors with a nonzero eigenvalue, fewer than "
                f"n_clusters={k}. Raise n_landmarks (now {self.n_landmarks}).",
                ConvergenceWarning,
            )
        vectors = np.zeros((p, max(n_used, 1)), dtype=np.float32)
        vectors[:, :n_used] = spectrum.vectors[:, first:][:, used] / np.sqrt(values[used])
        return vectors, values[used]


def select_landmarks(
    rows: Rows, p: int, selection: str, random: np.random.Generator, engine: ThreadEngine
) -> npt.NDArray[np.float32]:
    """Select landmarks: the centres of a short k-means on all rows, or random rows."""
    if selection == "random" or rows.n_rows <= p:
        return np.ascontiguousarray(to_dense(rows.take(draw_indices(rows.n_rows, p, random))))
    clustering = lite_kmeans(rows, p, max_iter=SELECTION_ITERATIONS, random=random, engine=engine)
    return np.ascontiguousarray(clustering.means[clustering.counts > 0])


def mean_square(rows: Rows, landmarks: npt.NDArray[np.float32], engine: ThreadEngine) -> float:
    """Return the mean of all squared distances between rows and landmarks.

    It is mean |x|^2 + mean |y|^2 - 2 (mean x).(mean y), which needs no pairs.
    """

    def sums(span: Span) -> tuple[npt.NDArray[np.float64], float]:
        block = rows.read(*span)
        squares = block.multiply(block).sum() if rows.sparse else np.einsum("ij,ij->i", block, block).sum(dtype=float)
        return np.asarray(block.sum(axis=0, dtype=np.float64)).ravel(), float(squares)

    parts = engine.map(sums, rows.blocks())
    mean = np.sum([total for total, _ in parts], axis=0) / rows.n_rows
    squares = sum(square for _, square in parts) / rows.n_rows
    L = landmarks.astype(np.float64)
    return max(float(squares + (L**2).sum(axis=1).mean() - 2.0 * mean @ L.mean(axis=0)), 0.0)


def landmark_weights(rows: Rows, index: RepresentativeIndex, sigma: float, engine: ThreadEngine) -> Edges | LazyEdges:
    """Return the weights of all rows on their nearest landmarks, which sum to 1 for each row."""
    if not stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors):
        return LazyEdges(rows, index, sigma)
    edges = connect(rows, index, engine)
    assert isinstance(edges, Edges)
    edges = replace(edges, sigma=sigma)
    edges.map(lambda part, _: part.weigh(), engine)
    return edges
