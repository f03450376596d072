"""Lower bounds of distances from short projections of long rows.

A projection holds the coordinates of a row along a few orthonormal directions, and the length of the remainder as one
more coordinate. Projecting and comparing remainders by their length can only shorten a distance. So a centre that is
too far away in the projection is too far away: of a thousand centres only a handful are measured in full, and the
results do not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DIRECTIONS = 47  # a projection has one value more, the length of the remainder
LEAST_FEATURES = 96  # with fewer features, full rows cost about the same
SAMPLE_ROWS = 1024
MOST_REMAINDER = 0.4  # share of the variance outside the directions, beyond which projections exclude too little
SLACK = 4e-3  # rounding of a projected distance relative to the lengths of the rows; the remainder is a difference

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ProjectionBound:
    """Projection of rows whose distances are lower bounds of the true distances."""

    basis: Array | None = None  #: (d, q): orthonormal directions; None: rows are their own projections

    @classmethod
    def fit(cls, points: Array) -> ProjectionBound:
        """Find the main directions of `points`; return the identity where projections would not pay."""
        n, d = points.shape
        if d < LEAST_FEATURES or n < LEAST_FEATURES:
            return cls()
        sample = points[:: -(-n // SAMPLE_ROWS)]
        basis = np.random.default_rng(0).standard_normal((d, DIRECTIONS)).astype(np.float32)
        for _ in range(2):  # two steps of subspace iteration: rough directions suffice
            basis = np.linalg.qr(sample.T @ (sample @ basis))[0]
        centered = sample - sample.mean(axis=0)
        explained = np.square(centered @ basis).sum() / max(np.square(centered).sum(), np.finfo(np.float32).tiny)
        return cls(np.ascontiguousarray(basis)) if 1.0 - explained <= MOST_REMAINDER else cls()

    @property
    def slack(self) -> np.float32:
        """Largest rounding error of a projected distance, relative to the lengths of the rows; 0 for the identity."""
        return np.float32(0.0 if self.basis is None else SLACK)

    def project(self, rows: Array) -> tuple[Array, Array]:
        """Return the projections of rows, (n, q + 1) or the rows themselves, and the squared lengths of the rows."""
        lengths = np.einsum("ij,ij->i", rows, rows)
        if self.basis is None:
            return rows, lengths
        q = self.basis.shape[1]
        projected = np.empty((len(rows), q + 1), dtype=np.float32)
        projected[:, :q] = rows @ self.basis
        along = np.einsum("ij,ij->i", projected[:, :q], projected[:, :q])
        projected[:, q] = np.sqrt(np.maximum(lengths - along, 0))
        return projected, lengths

    def table(self, points: Array) -> tuple[Array, npt.NDArray[np.float64]]:
        """Return the projections of points as columns, for inner products, and their squared lengths."""
        projected = self.project(points)[0]
        return np.ascontiguousarray(projected.T), np.einsum("ij,ij->i", projected, projected, dtype=np.float64)
