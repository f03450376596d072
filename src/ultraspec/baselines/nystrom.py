"""Spectral clustering by the Nystrom method (Fowlkes et al., 2004)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from ultraspec._checks import check_number
from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.baselines._features import fill_rows, mean_distance, pair_squares, sum_over
from ultraspec.baselines._kmeans import draw_indices, to_dense, unit_rows
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Block, Rows
from ultraspec.spectral.preprocess import Preprocessor

TINY_DEGREE = 1e-12
KEPT_BYTES = 2**29  # affinities up to this size are kept in memory, larger ones are recomputed in each pass

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.float32]


@estimator
class Nystrom(SpectralBaseline):
    """Spectral clustering by the Nystrom method, with orthogonal eigenvectors.

    The N x N matrix of Gaussian affinities is approximated by the affinities of all rows to a random sample, and its
    eigenvectors follow from those of the sample. The affinity is wide, so the clusters are similar to those of k-means.
    Use it instead of `ultraspec.USPEC` for compact clusters with curved boundaries, or for comparison.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Number of rows in the sample. If X has fewer rows, all of them are used.
    sigma : float or None, default=None
        Width of the Gaussian affinity. None uses the mean distance of the rows of the sample.
    rcond : float or None, default=None
        Eigenvalues of the affinity of the sample below this fraction of the largest are treated as zero. None uses the
        number of landmarks times the precision of float32, as the original does.

    Attributes
    ----------
    sigma_ : float
        Width of the Gaussian affinity.
    eigenvalues_ : ndarray, float64
        Largest eigenvalues of the approximated N x N matrix, descending.

    Notes
    -----
    Time is O(N p (d + r) + p^3), where r <= p is the rank of the affinity of the sample, often a tenth of p. Memory is
    O(N k + p^2): there are three passes over the affinities of the rows to the sample, a few thousand rows at once
    (affinities of up to 512 MB are kept). The original stores N x p affinities twice and takes O(N p^2) time.

    The original paper tunes `sigma` by hand, and the U-SPEC paper does not give it. The mean distance of the sample is
    the choice of this library.

    References
    ----------
    C. Fowlkes, S. Belongie, F. Chung, J. Malik. "Spectral Grouping Using the Nystrom Method". IEEE Transactions on
    Pattern Analysis and Machine Intelligence 26 (2), 2004.

    W.-Y. Chen, Y. Song, H. Bai, C.-J. Lin, E. Y. Chang. "Parallel Spectral Clustering in Distributed Systems". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 33 (3), 2011.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import Nystrom
    >>> X, y = datasets.generate("sf", 5_000, random_state=0)
    >>> labels = Nystrom(4, n_landmarks=200, random_state=0).fit_predict(X)
    >>> metrics.nmi(y, labels) > 0.3
    True
    """

    n_landmarks: int = 1000
    sigma: float | None = None
    rcond: float | None = None
    assign_labels: str = "orthogonal"
    n_init: int = 10
    max_iter: int = 100

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.rcond is not None:
            check_number("rcond", self.rcond, least=0.0)

    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        reporter = engine.reporter
        sample = draw_indices(rows.n_rows, self.n_landmarks, random)
        S = to_dense(rows.take(sample))
        squares = pair_squares(S)
        sigma = mean_distance(squares) if self.sigma is None else self.sigma / space.scale
        rcond = len(S) * float(np.finfo(np.float32).eps) if self.rcond is None else self.rcond
        affinities = SampleAffinities(S, sigma, sample)
        if 4 * rows.n_rows * len(S) <= KEPT_BYTES:
            rows, affinities = store_affinities(rows, affinities, engine)
        with reporter.phase("eigenvectors"):
            A = np.exp(-0.5 * squares / sigma**2)
            table, eigenvalues = embedding_table(rows, A, affinities, k, rcond, engine)
        with reporter.phase("embedding"):
            V = np.empty((rows.n_rows, table.shape[1]), dtype=np.float32)
            fill_rows(rows, V, lambda _, part: unit_rows(affinities.of(part) @ table), engine)
        with reporter.phase("labels"):
            clustering = self._label_embedding(V, k, random, engine)
        self.sigma_ = sigma * space.scale
        self.eigenvalues_ = eigenvalues
        return clustering


class SampleAffinities:
    """Gaussian affinities, of width `sigma`, of rows to the sample S (p, d), whose ascending indices are `sample`."""

    def __init__(self, S: Values, sigma: float, sample: npt.NDArray[np.int64]) -> None:
        self.sample = sample
        self._scale = 1.0 / sigma**2
        halves = 0.5 * np.einsum("ij,ij->i", S, S, dtype=np.float64)
        # The exponent -|x - s|^2 / 2 is x.s - |x|^2 / 2 - |s|^2 / 2. With the two squares as additional features, of x
        # and of s, a single matrix product gives the exponents.
        rows = (S.T.astype(np.float64), -np.ones((1, len(S))), -halves[None, :])
        self._table = (self._scale * np.concatenate(rows)).astype(np.float32)

    def of(self, part: Block) -> Values:
        """Return the affinities (n, p) of a few rows."""
        if scipy.sparse.issparse(part):
            halves = 0.5 * np.asarray(part.multiply(part).sum(axis=1)).ravel()
            exponents = part @ self._table[:-2] - np.float32(self._scale) * halves[:, None] + self._table[-1]
            exponents = exponents.astype(np.float32)
        else:
            halves = np.float32(0.5) * np.einsum("ij,ij->i", part, part)
            exponents = np.column_stack([part, halves, np.ones_like(halves)]) @ self._table
        np.minimum(exponents, 0, out=exponents)
        return np.exp(exponents, out=exponents)

    def of_others(self, where: slice, part: Block) -> Values:
        """Return the affinities of a few rows, with zeros for the rows of the sample."""
        affinities = self.of(part)
        low, high = np.searchsorted(self.sample, [where.start, where.stop])
        affinities[self.sample[low:high] - where.start] = 0
        return affinities


class StoredAffinities(SampleAffinities):
    """Affinities that were computed before: they are the rows themselves."""

    def __init__(self, sample: npt.NDArray[np.int64]) -> None:
        self.sample = sample

    def of(self, part: Block) -> Values:
        """Return a copy of the affinities, which can be overwritten."""
        return part.copy()


def store_affinities(rows: Rows, affinities: SampleAffinities, engine: ThreadEngine) -> tuple[Rows, SampleAffinities]:
    """Compute the affinities of all rows once, as they are used three times; return them as rows."""
    with engine.reporter.phase("affinities"):
        stored = np.empty((rows.n_rows, len(affinities.sample)), dtype=np.float32)
        fill_rows(rows, stored, lambda _, part: affinities.of(part), engine)
    return ArrayRows(stored), StoredAffinities(affinities.sample)


def embedding_table(
    rows: Rows, A: Floats, affinities: SampleAffinities, k: int, rcond: float, engine: ThreadEngine
) -> tuple[Values, Floats]:
    """Return the matrix (p, k) that maps the affinities of a row to its embedding, and the eigenvalues.

    Let A be the affinities (p, p) of the sample, scaled by the degrees, and B (p, n - p) those to all other rows. The
    orthogonal eigenvectors of the Nystrom approximation follow from those of A + A^-1/2 B B' A^-1/2. In the range of
    A = U L U', this matrix is L + G G' with G = L^-1/2 U' B: it has only r rows, and is summed over blocks of rows.
    Outside of the range, the pseudo-inverse is zero, so nothing is lost.
    """
    p = len(A)
    others = sum_over(rows, (p,), lambda where, part: affinities.of_others(where, part).sum(axis=0), engine)
    values, U = _significant_eigenpairs(A, rcond)
    # the approximated degree of another row b is b.(1 + A^-1 B 1), that of a row of the sample is exact
    spread = (1.0 + U @ ((U.T @ others) / values)).astype(np.float32)
    degrees = A.sum(axis=1) + others
    roots = np.sqrt(degrees)
    values, U = _significant_eigenpairs(A / roots / roots[:, None], rcond)
    project = (U / np.sqrt(values) / roots[:, None]).astype(np.float32)
    floor = np.float32(TINY_DEGREE * degrees.max())

    def gram(where: slice, part: Block) -> Values:
        B = affinities.of_others(where, part)
        row_roots = np.sqrt(np.maximum(B @ spread, floor))
        G = (B @ project) / row_roots[:, None]
        return G.T @ G

    R = sum_over(rows, (len(values), len(values)), gram, engine) + np.diag(values)
    eigenvalues, W = scipy.linalg.eigh(R)
    eigenvalues, W = eigenvalues[::-1][:k], W[:, ::-1][:, :k]
    return ((U / np.sqrt(values) / roots[:, None]) @ (W / np.sqrt(eigenvalues))).astype(np.float32), eigenvalues


def _significant_eigenpairs(A: Floats, rcond: float) -> tuple[Floats, Floats]:
    """Return the eigenvalues above a fraction `rcond` of the largest, and their eigenvectors."""
    values, U = scipy.linalg.eigh(A, driver="evd")
    least = max(rcond, len(A) * float(np.finfo(np.float64).eps))
    significant = values > least * values[-1]
    return values[significant], U[:, significant]
