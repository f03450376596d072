"""Leading eigenvectors of the normalised affinity: by a direct solver for few representatives, else iteratively."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ultraspec._kernels.lapack import largest_eigenpairs
from ultraspec._kernels.pairs import multiply_rows
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Span, cut_span

GUARD = 12  # vectors iterated beyond those wanted: the last wanted ones converge by the gap to the last guard
DEGREE = 14  # of the Chebyshev polynomial between two orthogonalisations
MOST_ROUNDS = 30
RESIDUAL = 1e-4  # of M v - value * v for unit vectors: labels do not change below ten times this
ROWS_PER_TASK = 1024

Floats = npt.NDArray[np.float64]


def dense_eigenpairs(M: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the `n` largest eigenvalues of a symmetric matrix, descending, and their eigenvectors.

    The solver is a direct one, because eigenvalues may repeat. A larger matrix is solved in float32, which takes two
    thirds of the time; one step of subspace iteration in float64 then restores full accuracy (to 1e-12).
    """
    p = len(M)
    if 4 * n > p:
        values, V = largest_eigenpairs(M, n)
    else:
        rough = largest_eigenpairs(M.astype(np.float32), n)[1]
        Q = scipy.linalg.qr(M @ rough.astype(np.float64), mode="economic", check_finite=False)[0]
        values, S = scipy.linalg.eigh(Q.T @ (M @ Q), check_finite=False)
        V = Q @ S
    return values[::-1], V[:, ::-1]


@dataclass(frozen=True)
class RegularizedMatrix:
    """A sparse matrix plus a rank-one term: ``S (W + weight 1 1') S`` with a diagonal S.

    Attributes
    ----------
    matrix : csr_array of shape (p, p), float64
        S W S.
    scales : ndarray of shape (p,), float64
        Diagonal of S.
    weight : float
        Weight of the edge between all pairs.
    """

    matrix: Any
    scales: Floats
    weight: float

    def astype(self, dtype: Any) -> RegularizedMatrix:
        """Return the matrix in another precision."""
        return RegularizedMatrix(self.matrix.astype(dtype), self.scales.astype(dtype), self.weight)

    def __call__(self, X: npt.NDArray[Any], engine: ThreadEngine) -> npt.NDArray[Any]:
        """Multiply with X (p, m). Each row of the result has a fixed order of summation, for any number of threads."""
        X = np.ascontiguousarray(X)
        out = np.empty_like(X)
        M = self.matrix

        def run(span: Span) -> None:
            multiply_rows(M.indptr, M.indices, M.data, X, out, *span)

        engine.map(run, cut_span((0, len(X)), ROWS_PER_TASK))
        out += np.outer(self.scales, X.dtype.type(self.weight) * (self.scales @ X))
        return out


def sparse_eigenpairs(M: RegularizedMatrix, n: int, start: Floats, engine: ThreadEngine) -> tuple[Floats, Floats]:
    """Return the `n` largest eigenvalues of a matrix whose eigenvalues lie in [0, 1], descending, and eigenvectors.

    Subspace iteration with a Chebyshev filter. All vectors are iterated together, so that no repeated eigenvalue is
    missed; each separate component has one. In each round, a polynomial of M that is at most one on the unwanted
    part [0, c] of the spectrum and grows steeply beyond c is applied to the block; c is the smallest eigenvalue that
    the block approximates so far. Products are computed in float32; the final projection is done in float64.

    Parameters
    ----------
    M : RegularizedMatrix
        The matrix.
    n : int
        Number of eigenpairs.
    start : ndarray of shape (p,)
        An approximation of the first eigenvector.
    engine : ThreadEngine
        Runs the products.
    """
    p = len(start)
    width = min(p, n + GUARD)
    block = np.random.default_rng(0).standard_normal((p, width))
    block[:, 0] = start
    Q = _orthonormal(block)
    rough = M.astype(np.float32)
    cut = 0.5
    for _ in range(MOST_ROUNDS):
        Q = _orthonormal(_filter(rough, Q.astype(np.float32), cut, engine))
        image = M(Q, engine)
        values, S = scipy.linalg.eigh(Q.T @ image, check_finite=False)
        values, S = values[::-1], S[:, ::-1]
        vectors = Q @ S
        residuals = np.linalg.norm((image @ S - vectors * values)[:, :n], axis=0)
        if residuals.max() <= RESIDUAL:
            break
        Q = vectors
        cut = min(max(float(values[-1]), 1e-3), 0.9999)
    return values[:n], vectors[:, :n]


def _filter(
    M: RegularizedMatrix, X: npt.NDArray[np.float32], cut: float, engine: ThreadEngine
) -> npt.NDArray[np.float32]:
    """Apply the Chebyshev polynomial of [0, cut], scaled so that it is one at the eigenvalue 1."""
    half = np.float32(cut / 2)
    # t maps [0, cut] to [-1, 1]; dividing by the growth at 1 keeps float32 from overflowing
    top = (1.0 - cut / 2) / (cut / 2)
    ratio = 1.0 / top
    before = X
    now = (M(X, engine) - half * X) / half * np.float32(ratio)
    for _ in range(1, DEGREE):
        following = 1.0 / (2.0 * top - ratio)
        step = (M(now, engine) - half * now) / half
        before, now = now, np.float32(2 * following) * step - np.float32(ratio * following) * before
        ratio = following
    return now


def _orthonormal(X: npt.NDArray[Any]) -> Floats:
    Q: Floats = scipy.linalg.qr(X.astype(np.float64), mode="economic", check_finite=False, overwrite_a=True)[0]
    return Q
