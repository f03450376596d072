"""Landmark-based spectral clustering."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import check_choice, check_integer, warn_user
from ultraspec._estimator import MOST_REPRESENTATIVES
from ultraspec._kernels.graph import reduce_pairs
from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._kmeans import draw_indices, lite_kmeans, to_dense
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, Span
from ultraspec.spectral.discretize import EmbeddedPoints
from ultraspec.spectral.edges import Edges, LazyEdges, connect
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.preprocess import Preprocessor
from ultraspec.spectral.transfer_cut import sum_graph, transfer_cut
from ultraspec.storage.spool import stays_in_memory

LEAST_EIGENVALUE = 1e-10
ONE = np.ones(1)


class LSC(Baseline):
    """Landmark-based spectral clustering, LSC-K and LSC-R.

    Every row is written as a weighted mean of its nearest landmarks, and the rows are cut by the products of these
    weights. It is U-SPEC's nearest relative: exact instead of approximate nearest landmarks, k-means on all rows
    instead of a sample, and no degrees of rows in the graph. Use it rather than `ultraspec.USPEC` to compare with it;
    U-SPEC is several times faster and scores about the same on images and letters, and far better where clusters are
    long and thin or few (LSC drops the first eigenvector, which such clusters need).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    selection : {"kmeans", "random"}, default="kmeans"
        Landmarks: centres of five iterations of k-means on all rows (LSC-K), or random rows (LSC-R).
    n_landmarks : int, default=1000
        Number of landmarks; all rows if there are fewer.
    n_neighbors : int, default=5
        Nearest landmarks that each row is tied to.
    bandwidth : {"code", "distance"}, default="code"
        Width of the Gaussian: the mean of the *squared* distances of rows and landmarks, as the authors' published code
        has it and so presumably the published scores, which depends on the units of X; or the mean distance.
    drop_first : bool, default=True
        Leave the first eigenvector out, as the authors' code does.
    n_init : int, default=10
        Random starts of the k-means that turns the embedding into labels.
    max_iter : int, default=100
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
    landmarks_ : ndarray of shape (p, n_features), float64
        The landmarks.
    sigma_ : float
        Width of the Gaussian.
    eigenvalues_ : ndarray, float64
        Eigenvalues in use, descending; the first, one, is among them unless it was dropped.
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
    Time O(N p d) for each of five iterations of the selection and for the neighbours, O(p^3) for the eigenvectors;
    memory 6 bytes per row and neighbour beside the input, not the N x p of the original. The embedding is never stored.

    The paper does not say which bandwidth it used. The mean distance that bandwidth="distance" takes is the root of the
    mean squared distance, which needs no pass over all pairs.

    References
    ----------
    X. Chen, D. Cai. "Large Scale Spectral Clustering with Landmark-Based Representation". AAAI 2011.

    D. Cai, X. Chen. "Large Scale Spectral Clustering Via Landmark-Based Sparse Representation". IEEE Transactions on
    Cybernetics 45 (8), 2015.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import LSC
    >>> X, y = datasets.generate("sf", 5_000, random_state=0)
    >>> model = LSC(4, selection="random", n_landmarks=200, random_state=0).fit(X)
    >>> model.landmarks_.shape
    (200, 2)
    """

    _few_clusters = "the rows have only so many distinct places among the landmarks."

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        selection: str = "kmeans",
        n_landmarks: int = 1000,
        n_neighbors: int = 5,
        bandwidth: str = "code",
        drop_first: bool = True,
        n_init: int = 10,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.selection = selection
        self.n_landmarks = n_landmarks
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.drop_first = drop_first
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_landmarks", self.n_landmarks, least=1, most=MOST_REPRESENTATIVES)
        check_choice("selection", self.selection, ("kmeans", "random"))
        check_choice("bandwidth", self.bandwidth, ("code", "distance"))

    def _cluster(
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
            options = {"max_iter": self.max_iter, "n_init": self.n_init}
            found = lite_kmeans(points, k, **options, random=random, engine=engine)
        self.landmarks_, self.eigenvalues_ = space.restore(index.representatives), eigenvalues
        self.sigma_ = sigma * space.scale
        return found

    def _width(self, mean_sq: float, scale: float) -> float:
        """Sigma in prepared units; the authors' code takes the mean square, in the user's units, for a distance."""
        if self.bandwidth == "distance":
            return float(np.sqrt(mean_sq)) or 1.0
        return mean_sq * scale or 1.0

    def _vectors(
        self, edges: Edges | LazyEdges, index: RepresentativeIndex, k: int, engine: ThreadEngine
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """The landmarks' vectors (p, k) and their eigenvalues: left singular vectors of the rows' scaled weights."""

        def add(graph: Any, part: slice) -> None:
            here = edges[part]
            reduce_pairs(here.ids, here.weights, np.ones(len(here)), ONE, graph.affinity, graph.counts)

        p = len(index.representatives)
        graph = sum_graph(add, len(edges) * edges.n_neighbors**2, p, edges.blocks(), engine)
        first = int(self.drop_first)
        spectrum = transfer_cut(graph, k + first, 0.0, index.representatives)
        values = spectrum.eigenvalues[first:]
        kept = values > LEAST_EIGENVALUE
        if kept.sum() < k:
            warn_user(
                f"The graph of rows and landmarks has {kept.sum()} eigenvectors in use where n_clusters={k} asks for "
                f"{k}. Raise n_landmarks (now {self.n_landmarks}).",
                ConvergenceWarning,
            )
        vectors = np.zeros((p, max(int(kept.sum()), 1)), dtype=np.float32)
        vectors[:, : kept.sum()] = spectrum.vectors[:, first:][:, kept] / np.sqrt(values[kept])
        return vectors, values[kept]


def select_landmarks(
    rows: Rows, p: int, selection: str, random: np.random.Generator, engine: ThreadEngine
) -> npt.NDArray[np.float32]:
    """Landmarks: centres of five iterations of k-means on all rows, or random rows."""
    if selection == "random" or rows.n_rows <= p:
        return np.ascontiguousarray(to_dense(rows.take(draw_indices(rows.n_rows, p, random))))
    found = lite_kmeans(rows, p, max_iter=5, random=random, engine=engine)
    return np.ascontiguousarray(found.means[found.counts > 0])


def mean_square(rows: Rows, landmarks: npt.NDArray[np.float32], engine: ThreadEngine) -> float:
    """Mean of all squared distances of rows and landmarks, from their means and lengths alone."""

    def sums(span: Span) -> tuple[npt.NDArray[np.float64], float]:
        block = rows.read(*span)
        squares = block.multiply(block).sum() if rows.sparse else np.einsum("ij,ij->i", block, block).sum(dtype=float)
        return np.asarray(block.sum(axis=0, dtype=np.float64)).ravel(), float(squares)

    found = engine.map(sums, rows.blocks())
    mean = np.sum([total for total, _ in found], axis=0) / rows.n_rows
    squares = sum(square for _, square in found) / rows.n_rows
    L = landmarks.astype(np.float64)
    return max(float(squares + (L**2).sum(axis=1).mean() - 2.0 * mean @ L.mean(axis=0)), 0.0)


def landmark_weights(rows: Rows, index: RepresentativeIndex, sigma: float, engine: ThreadEngine) -> Edges | LazyEdges:
    """Weights of all rows on their nearest landmarks, which sum to one."""
    keep = stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors)
    if not keep:
        return LazyEdges(rows, index, sigma)
    edges, _ = connect(rows, index, engine)
    assert isinstance(edges, Edges)
    edges.map(lambda part, _: part.weigh(sigma), engine)
    return edges
