"""FastESC, fast explicit spectral clustering (He et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._kernels.lapack import largest_eigenpairs
from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.baselines._features import fill_rows, mean_distance, pair_squares, sum_over
from ultraspec.baselines._kmeans import draw_indices, to_dense
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Block, Rows, subset
from ultraspec.spectral.preprocess import Preprocessor

MORE_FEATURES = 1000  # features to draw from, in addition to those that are used
SAMPLE_ROWS = 1000  # rows on which features are rated
WIDTH_ROWS = 3000  # rows whose mean distance is the default width
STEPS = 50  # in which rows are added until the eigenvectors settle
SETTLED = 0.02  # change of the eigenvectors per step and cluster below which they are settled
LEAST = 1e-6  # fraction of the largest eigenvalue below which eigenvalues are rounding errors

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.float32]


@estimator
class FastESC(SpectralBaseline):
    """Fast explicit spectral clustering, by random Fourier features.

    The products of cosines and sines of random projections approximate a Gaussian affinity between all rows, so that
    normalised cuts become an eigenproblem of the size of the features. The projections are drawn with probabilities
    that depend on their contribution to the affinity. The affinity is wide, so the clusters are similar to those of
    k-means. Use it instead of `ultraspec.USPEC` for comparison, or if a method without landmarks is needed.

    Parameters
    ----------
    n_frequencies : int, default=250
        Number of random projections. Each gives two features, a cosine and a sine.
    sigma : float or None, default=None
        Width of the Gaussian affinity. None uses the mean distance of up to 3000 random rows.
    drop_first : bool, default=True
        Whether the first eigenvector is left out, as it separates clusters least.
    early_stop : bool, default=False
        Whether the eigenvectors are computed from more and more random rows, 2 % at a time, until they settle, instead
        of from all rows. It takes less time on many rows and gives nearly the same clusters.

    Attributes
    ----------
    sigma_ : float
        Width of the Gaussian affinity.
    eigenvalues_ : ndarray, float64
        Eigenvalues that are used, descending.
    n_samples_seen_ : int
        Number of rows from which the eigenvectors were computed.

    Notes
    -----
    Time is O(N D (d + D) + D^3) for D features, memory O(N k + D^2): the features of the rows are computed three times,
    for a few thousand rows at once.

    The published code ends with the embedding, so it leaves open which k-means is used and whether the first
    eigenvector is dropped. Its two versions differ in the number of features (500 or 1200) and in the weights of the
    drawn features; here features have no weights, as in the version for large data, from which `early_stop` is taken,
    too. That code combines cosines with the wrong sines when it rates the features; here the two features of a
    frequency are rated together.

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

    n_frequencies: int = 250
    sigma: float | None = None
    drop_first: bool = True
    early_stop: bool = False
    n_init: int = 10
    max_iter: int = 100

    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter = engine.reporter
        with reporter.phase("features"):
            sample = to_dense(rows.take(draw_indices(rows.n_rows, WIDTH_ROWS, random)))
            sigma = mean_distance(pair_squares(sample)) if self.sigma is None else self.sigma / space.scale
            frequencies = draw_frequencies(rows, 2 * self.n_frequencies, sigma, random)
        order = random.permutation(rows.n_rows) if self.early_stop else None
        V, eigenvalues, n_seen = fourier_embedding(rows, frequencies, k, self.drop_first, order, engine)
        with reporter.phase("labels"):
            clustering = self._kmeans(ArrayRows(V), k, random, engine)
        self.sigma_ = sigma * space.scale
        self.eigenvalues_ = eigenvalues
        self.n_samples_seen_ = n_seen
        return clustering


def fourier_embedding(
    rows: Rows,
    frequencies: Values,
    k: int,
    drop_first: bool,
    order: npt.NDArray[np.int64] | None,
    engine: ThreadEngine,
) -> tuple[Values, Floats, int]:
    """Return the embedding (n, k) of all rows, times n, its eigenvalues, and the number of rows that gave them.

    The affinity is F F' for the features F (n, D), and D_x are its degrees. The eigenvectors of
    D_x^-1/2 F F' D_x^-1/2 follow from those of the small matrix F' D_x^-1 F. Given an `order`, this matrix is summed
    only over as many of the first rows in it as are needed until its eigenvectors settle.
    """
    D = 2 * frequencies.shape[1]
    first = int(drop_first)
    with engine.reporter.phase("eigenvectors"):
        sums = sum_over(rows, (D,), lambda _, part: features(part, frequencies).sum(axis=0), engine)
        total = sums.astype(np.float32)

        def gram(_: slice, part: Block) -> Values:
            F = features(part, frequencies)
            F /= np.sqrt(degrees(F, total))[:, None]
            return F.T @ F

        def products(rows: Rows) -> Floats:
            return sum_over(rows, (D, D), gram, engine)

        n_vectors = min(k + first, D)
        n_seen = rows.n_rows
        if order is None:
            eigenvalues, vectors = largest_eigenpairs(products(rows), n_vectors)
        else:
            eigenvalues, vectors, n_seen = settled_eigenpairs(rows, products, order, k, n_vectors)
        used = np.flatnonzero(eigenvalues > LEAST * eigenvalues[-1])[::-1][first:]
        eigenvalues = eigenvalues[used]
        # the root of an eigenvalue is the length of its column; the number of rows brings values close to 1, for
        # float32
        table = np.zeros((D, max(len(used), 1)), dtype=np.float32)
        table[:, : len(used)] = vectors[:, used] * (rows.n_rows / np.sqrt(eigenvalues))
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
    """Return the eigenpairs of the products of the first rows in an order, until they settle, and the number of rows.

    After every 2 % of the rows, the eigenvectors are compared with the previous ones, up to their signs. Eigenvalues
    are scaled to the number of all rows.
    """
    n = len(order)
    step = -(-n // STEPS)
    total: Any = 0.0
    previous = None
    for low in range(0, n, step):
        total = total + products(subset(rows, np.sort(order[low : low + step])))
        seen = min(low + step, n)
        values, vectors = largest_eigenpairs(total, n_vectors)
        if previous is not None:
            signs = np.where(np.einsum("ij,ij->j", vectors, previous) < 0, -1.0, 1.0)
            if np.linalg.norm(vectors * signs - previous) < SETTLED * k:
                break
        previous = vectors
    return values * (n / seen), vectors, seen


def draw_frequencies(rows: Rows, D: int, sigma: float, random: np.random.Generator) -> Values:
    """Draw frequencies (d, D / 2) from more candidates, in proportion to their contribution to the affinity.

    A frequency contributes c c' + s s', where c and s are the cosines and sines of a sample of rows. The Frobenius norm
    of this matrix is that of the 2 x 2 matrix of the products of c and s.
    """
    frequencies = (random.standard_normal((rows.n_features, (D + MORE_FEATURES) // 2)) / sigma).astype(np.float32)
    angles = to_dense(rows.take(draw_indices(rows.n_rows, SAMPLE_ROWS, random))) @ frequencies
    c = np.cos(angles)
    s = np.sin(angles)
    squares = [np.einsum("ij,ij->j", a, b, dtype=np.float64) ** 2 for a, b in ((c, c), (s, s), (c, s))]
    sizes = np.sqrt(squares[0] + squares[1] + 2.0 * squares[2])
    return frequencies[:, random.choice(len(sizes), D // 2, p=sizes / sizes.sum())]


def features(part: Block, frequencies: Values) -> Values:
    """Return the features (n, D) of a few rows: vectors of unit length, whose products approximate the affinity."""
    angles = part @ frequencies
    n, half = angles.shape
    F = np.empty((n, 2 * half), dtype=np.float32)
    np.cos(angles, out=F[:, :half])
    np.sin(angles, out=F[:, half:])
    F *= np.float32(1.0 / np.sqrt(half))
    return F


def degrees(F: Values, total: Values) -> Values:
    """Return the degrees of a few rows, but at least 1, which is the affinity of a row to itself."""
    return np.maximum(F @ total, np.float32(1.0))
