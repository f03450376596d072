"""Fast explicit spectral clustering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_integer, check_number
from ultraspec._kernels.lapack import largest_eigenpairs
from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._features import fill_rows, mean_distance, pair_squares, sum_over
from ultraspec.baselines._kmeans import draw_indices, lite_kmeans, to_dense
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Block, Rows
from ultraspec.rows.in_memory import subset
from ultraspec.spectral.preprocess import Preprocessor

MORE_FEATURES = 1000  # features to choose from, beyond those that are kept
SAMPLE_ROWS = 1000  # that choose
WIDTH_ROWS = 3000  # whose mean distance is the width
STEPS = 50  # of rows, where eigenvectors are taken of ever more of them
SETTLED = 0.02  # change of eigenvectors from step to step, per cluster, that counts as none
LEAST = 1e-6  # share of the largest eigenvalue, below which others are rounding

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.float32]


class FastESC(Baseline):
    """Fast explicit spectral clustering, by random Fourier features.

    Cosines and sines of random projections stand for a Gaussian affinity between all rows: their products approximate
    it, so that normalised cuts become an eigenproblem of the features' size. Those kept are drawn by how much of the
    affinity they carry. As the affinity is wide, clusters come out much like those of k-means: use it rather than
    `ultraspec.USPEC` to compare, or where a method without landmarks is wanted.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_frequencies : int, default=250
        Random projections that are kept; each gives two features, a cosine and a sine.
    sigma : float or None, default=None
        Width of the Gaussian affinity. None takes the mean distance of up to 3000 random rows.
    drop_first : bool, default=True
        Leave the first eigenvector, which says the least, out.
    early_stop : bool, default=False
        Take the eigenvectors of more and more random rows, 2 % at a time, until they settle, instead of those of all
        rows: less time on many rows, and nearly the same clusters.
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
    sigma_ : float
        Width of the Gaussian affinity.
    eigenvalues_ : ndarray, float64
        Eigenvalues in use, descending.
    n_samples_seen_ : int
        Rows that the eigenvectors were taken of.
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
    Time O(N D (d + D)) and O(D^3) for D features, memory O(N k + D^2): the rows are mapped three times, a few thousand
    at once.

    The published code ends with the embedding, and so leaves its k-means open, and whether the first eigenvector is
    dropped. Its two versions differ in the number of features (500 or 1200) and in weights of the features drawn; here
    they have none, as in the version for large data, which `early_stop` is of, too. That code pairs cosines with the
    wrong sines when it rates the features; here each frequency's own two are rated.

    References
    ----------
    L. He, N. Ray, Y. Guan, H. Zhang. "Fast Large-Scale Spectral Clustering via Explicit Feature Mapping". IEEE
    Transactions on Cybernetics 49 (3), 2019.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import FastESC
    >>> X, y = datasets.generate("sf", 5_000, random_state=0)
    >>> labels = FastESC(4, n_frequencies=100, random_state=0).fit_predict(X)
    >>> metrics.nmi(y, labels) > 0.3
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_frequencies: int = 250,
        sigma: float | None = None,
        drop_first: bool = True,
        early_stop: bool = False,
        n_init: int = 10,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_frequencies = n_frequencies
        self.sigma = sigma
        self.drop_first = drop_first
        self.early_stop = early_stop
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_frequencies", self.n_frequencies, least=1)
        if self.sigma is not None:
            check_number("sigma", self.sigma, least=0.0)
            if self.sigma == 0:
                raise ValueError("sigma must be larger than 0: it is the width of the affinity.")

    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter, D = engine.reporter, 2 * self.n_frequencies
        with reporter.phase("features"):
            some = to_dense(rows.take(draw_indices(rows.n_rows, WIDTH_ROWS, random)))
            sigma = mean_distance(pair_squares(some)) if self.sigma is None else self.sigma / space.scale
            frequencies = draw_frequencies(rows, D, sigma, random)
        order = random.permutation(rows.n_rows) if self.early_stop else None
        V, eigenvalues, n_seen = fourier_embedding(rows, frequencies, k, self.drop_first, order, engine)
        with reporter.phase("labels"):
            options = {"max_iter": self.max_iter, "n_init": self.n_init}
            found = lite_kmeans(ArrayRows(V), k, **options, random=random, engine=engine)
        self.sigma_, self.eigenvalues_, self.n_samples_seen_ = sigma * space.scale, eigenvalues, n_seen
        return found


def fourier_embedding(
    rows: Rows,
    frequencies: Values,
    k: int,
    drop_first: bool,
    order: npt.NDArray[np.int64] | None,
    engine: ThreadEngine,
) -> tuple[Values, Floats, int]:
    """Embedding (n, k) of all rows, times the number of rows; its eigenvalues; and how many rows they were taken of.

    All rows, or given an `order`, as many of the first in it as it takes until the eigenvectors settle.
    """
    D, first = 2 * frequencies.shape[1], int(drop_first)
    with engine.reporter.phase("eigenvectors"):
        sums = sum_over(rows, (D,), lambda _, part: features(part, frequencies).sum(axis=0), engine)
        total = sums.astype(np.float32)

        def gram(_: slice, part: Block) -> Values:
            F = features(part, frequencies)
            F /= np.sqrt(degrees(F, total))[:, None]
            return F.T @ F

        def products(rows: Rows) -> Floats:
            return sum_over(rows, (D, D), gram, engine)

        n_vectors, n_seen = min(k + first, D), rows.n_rows
        if order is None:
            eigenvalues, vectors = largest_eigenpairs(products(rows), n_vectors)
        else:
            eigenvalues, vectors, n_seen = settled_eigenpairs(rows, products, order, k, n_vectors)
        kept = np.flatnonzero(eigenvalues > LEAST * eigenvalues[-1])[::-1][first:]
        eigenvalues = eigenvalues[kept]
        # the root of an eigenvalue is the length of its column; the number of rows brings values near one, for float32
        table = np.zeros((D, max(len(kept), 1)), dtype=np.float32)
        table[:, : len(kept)] = vectors[:, kept] * (rows.n_rows / np.sqrt(eigenvalues))
    with engine.reporter.phase("embedding"):
        V = np.empty((rows.n_rows, table.shape[1]), dtype=np.float32)

        def lift(_: slice, part: Block) -> Values:
            F = features(part, frequencies)
            return (F @ table) / degrees(F, total)[:, None]

        fill_rows(rows, V, lift, engine)
    return V, eigenvalues, n_seen


def settled_eigenpairs(
    rows: Rows, products: Callable[[Rows], Floats], order: npt.NDArray[np.int64], k: int, n_vectors: int
) -> tuple[Floats, Floats, int]:
    """Eigenpairs of the products of the first rows in an order, and their number: enough for vectors to change little.

    After every 2 % of the rows, vectors are compared with those before; signs are free. Eigenvalues are scaled to what
    all rows would give.
    """
    n, step = len(order), -(-len(order) // STEPS)
    total: Any = 0.0
    before = None
    for low in range(0, n, step):
        total = total + products(subset(rows, np.sort(order[low : low + step])))
        seen = min(low + step, n)
        values, vectors = largest_eigenpairs(total, n_vectors)
        if before is not None:
            signs = np.where(np.einsum("ij,ij->j", vectors, before) < 0, -1.0, 1.0)
            if np.linalg.norm(vectors * signs - before) < SETTLED * k:
                break
        before = vectors
    return values * (n / seen), vectors, seen


def draw_frequencies(rows: Rows, D: int, sigma: float, random: np.random.Generator) -> Values:
    """Frequencies (d, D / 2), drawn from more by the size of what each contributes to the affinity of some rows.

    A frequency contributes c c' + s s', where c and s are the cosines and sines of the rows; its Frobenius norm is that
    of the 2 x 2 matrix of the products of c and s.
    """
    frequencies = (random.standard_normal((rows.n_features, (D + MORE_FEATURES) // 2)) / sigma).astype(np.float32)
    angles = to_dense(rows.take(draw_indices(rows.n_rows, SAMPLE_ROWS, random))) @ frequencies
    c, s = np.cos(angles), np.sin(angles)
    squares = [np.einsum("ij,ij->j", a, b, dtype=np.float64) ** 2 for a, b in ((c, c), (s, s), (c, s))]
    sizes = np.sqrt(squares[0] + squares[1] + 2.0 * squares[2])
    return frequencies[:, random.choice(len(sizes), D // 2, p=sizes / sizes.sum())]


def features(part: Block, frequencies: Values) -> Values:
    """Features (n, D) of a few rows, whose products approximate the affinity; all have unit length."""
    angles = part @ frequencies
    n, half = angles.shape
    F = np.empty((n, 2 * half), dtype=np.float32)
    np.cos(angles, out=F[:, :half])
    np.sin(angles, out=F[:, half:])
    F *= np.float32(1.0 / np.sqrt(half))
    return F


def degrees(F: Values, total: Values) -> Values:
    """Degrees of a few rows; no less than one, which is a row's affinity to itself."""
    return np.maximum(F @ total, np.float32(1.0))
