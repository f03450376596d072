"""Spectral clustering by the Nystrom method."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from ultraspec._checks import check_choice, check_number
from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._features import fill_rows, mean_distance, pair_squares, sum_over
from ultraspec.baselines._kmeans import draw_indices, label_embedding, to_dense, unit_rows
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Block, Rows
from ultraspec.spectral.preprocess import Preprocessor

TINY_DEGREE = 1e-12
KEPT_BYTES = 2**29  # affinities up to here are kept in memory, others found anew in each pass

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.float32]


class Nystrom(Baseline):
    """Spectral clustering by the Nystrom method, with orthogonal eigenvectors.

    The Gaussian affinities of all rows to a random sample stand for the whole N x N matrix, whose eigenvectors follow
    from the sample's. The affinity is wide, so clusters come out much like those of k-means: use it
    rather than `ultraspec.USPEC` where clusters are compact but k-means' straight borders do not fit, or to compare.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_landmarks : int, default=1000
        Rows of the sample; all rows if there are fewer.
    sigma : float or None, default=None
        Width of the Gaussian affinity. None takes the mean distance of the sample's rows.
    rcond : float or None, default=None
        Eigenvalues of the sample's affinity below this share of the largest are taken as zero. None takes the number
        of landmarks times the precision of float32, as the original does.
    assign_labels : {"orthogonal", "kmeans"}, default="orthogonal"
        How the embedding becomes labels, see `SC`.
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
        Width of the Gaussian affinity.
    eigenvalues_ : ndarray, float64
        Largest eigenvalues of the approximated N x N matrix, descending.
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
    Time O(N p (d + r)) and O(p^3), where r <= p is the rank of the sample's affinity, often a tenth of p. Memory
    O(N k + p^2): the rows meet the sample three times, a few thousand rows at once (affinities of up to 512 MB are
    kept), where the original keeps N x p affinities twice and N p^2 is its cost.

    The original paper tunes `sigma` by hand and U-SPEC's does not give it: the mean distance of the sample is a choice.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_landmarks: int = 1000,
        sigma: float | None = None,
        rcond: float | None = None,
        assign_labels: str = "orthogonal",
        n_init: int = 10,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_landmarks = n_landmarks
        self.sigma = sigma
        self.rcond = rcond
        self.assign_labels = assign_labels
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("assign_labels", self.assign_labels, ("orthogonal", "kmeans"))
        for name in ("sigma", "rcond"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=0.0)
        if self.sigma == 0:
            raise ValueError("sigma must be larger than 0: it is the width of the affinity.")

    def _cluster(
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
            options = {"max_iter": self.max_iter, "n_init": self.n_init}
            found = label_embedding(V, k, self.assign_labels, **options, random=random, engine=engine)
        self.sigma_, self.eigenvalues_ = sigma * space.scale, eigenvalues
        return found


class SampleAffinities:
    """Gaussian affinities of rows to the sample.

    Parameters
    ----------
    S : ndarray of shape (p, d), float32
        The sampled rows.
    sigma : float
        Width.
    sample : ndarray of shape (p,)
        Their numbers, ascending.
    """

    def __init__(self, S: Values, sigma: float, sample: npt.NDArray[np.int64]) -> None:
        self.sample = sample
        self._scale = 1.0 / sigma**2
        halves = 0.5 * np.einsum("ij,ij->i", S, S, dtype=np.float64)
        # one more feature for the rows' own lengths and one for the sample's: a single product gives the exponents
        rows = (S.T.astype(np.float64), -np.ones((1, len(S))), -halves[None, :])
        self._table = (self._scale * np.concatenate(rows)).astype(np.float32)

    def of(self, part: Block) -> Values:
        """Affinities (n, p) of a few rows."""
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
        """`of`, but zero for rows of the sample itself."""
        affinities = self.of(part)
        low, high = np.searchsorted(self.sample, [where.start, where.stop])
        affinities[self.sample[low:high] - where.start] = 0
        return affinities


class StoredAffinities(SampleAffinities):
    """The same where the rows are the affinities already."""

    def __init__(self, sample: npt.NDArray[np.int64]) -> None:
        self.sample = sample

    def of(self, part: Block) -> Values:
        """A copy of them, which may be written to."""
        return part.copy()


def store_affinities(rows: Rows, affinities: SampleAffinities, engine: ThreadEngine) -> tuple[Rows, SampleAffinities]:
    """Affinities of all rows, in memory, as rows: they are looked at three times."""
    with engine.reporter.phase("affinities"):
        kept = np.empty((rows.n_rows, len(affinities.sample)), dtype=np.float32)
        fill_rows(rows, kept, lambda _, part: affinities.of(part), engine)
    return ArrayRows(kept), StoredAffinities(affinities.sample)


def embedding_table(
    rows: Rows, A: Floats, affinities: SampleAffinities, k: int, rcond: float, engine: ThreadEngine
) -> tuple[Values, Floats]:
    """What the affinities of a row are multiplied with for its embedding, (p, k), and the eigenvalues.

    The approximated matrix is never formed. In the range of the sample's scaled affinity, whose eigenvectors are U and
    eigenvalues L, the original's matrix A + A^-1/2 B B' A^-1/2 is L + G G' with G = L^-1/2 U' B: r x r, and gathered
    row by row. Beyond that range the pseudo-inverse is zero, so that nothing is lost.
    """
    p = len(A)
    others = sum_over(rows, (p,), lambda where, part: affinities.of_others(where, part).sum(axis=0), engine)
    values, U = _significant_eigenpairs(A, rcond)
    spread = (1.0 + U @ ((U.T @ others) / values)).astype(np.float32)
    degrees = A.sum(axis=1) + others
    roots = np.sqrt(degrees)
    values, U = _significant_eigenpairs(A / roots / roots[:, None], rcond)
    project = (U / np.sqrt(values) / roots[:, None]).astype(np.float32)
    floor = np.float32(TINY_DEGREE * degrees.max())

    def gram(where: slice, part: Block) -> Values:
        B = affinities.of_others(where, part)
        own = np.sqrt(np.maximum(B @ spread, floor))
        G = (B @ project) / own[:, None]
        return G.T @ G

    R = sum_over(rows, (len(values), len(values)), gram, engine) + np.diag(values)
    eigenvalues, W = scipy.linalg.eigh(R)
    eigenvalues, W = eigenvalues[::-1][:k], W[:, ::-1][:, :k]
    return ((U / np.sqrt(values) / roots[:, None]) @ (W / np.sqrt(eigenvalues))).astype(np.float32), eigenvalues


def _significant_eigenpairs(A: Floats, rcond: float) -> tuple[Floats, Floats]:
    """Eigenvalues above a share `rcond` of the largest, and their vectors."""
    values, U = scipy.linalg.eigh(A, driver="evd")
    least = max(rcond, len(A) * float(np.finfo(np.float64).eps))
    kept = values > least * values[-1]
    return values[kept], U[:, kept]
