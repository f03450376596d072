"""Shadows: short rows whose distances never exceed those of the full rows.

A shadow holds a row's coordinates along a few orthonormal directions, and what is left of its length as one more
coordinate. Both projecting and comparing leftover lengths can only shorten a distance, so whatever is too far in the
shadow is too far: of a thousand centres only a handful need to be measured in full. Results do not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DIRECTIONS = 47  # a shadow has one value more
LEAST_FEATURES = 96  # with fewer, full rows cost about the same
SAMPLE_ROWS = 1024
MOST_LEFT = 0.4  # share of the variance outside of the directions beyond which shadows rule out too little
SLACK = 4e-3  # rounding of a shadow distance, relative to the lengths of the rows; the leftover may be a difference

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Shadow:
    """What casts shadows.

    Attributes
    ----------
    basis : ndarray of shape (d, q), float32, or None
        Orthonormal directions. None: shadows are the rows themselves.
    """

    basis: Array | None = None

    @classmethod
    def of(cls, points: Array) -> Shadow:
        """Along the main directions of `points`, if there are any; else rows are their own shadows."""
        n, d = points.shape
        if d < LEAST_FEATURES or n < LEAST_FEATURES:
            return cls()
        sample = points[:: -(-n // SAMPLE_ROWS)]
        basis = np.random.default_rng(0).standard_normal((d, DIRECTIONS)).astype(np.float32)
        for _ in range(2):  # subspace iteration: rough directions do
            basis = np.linalg.qr(sample.T @ (sample @ basis))[0]
        around = sample - sample.mean(axis=0)
        left = 1.0 - np.square(around @ basis).sum() / max(np.square(around).sum(), np.finfo(np.float32).tiny)
        return cls(np.ascontiguousarray(basis)) if left <= MOST_LEFT else cls()

    @property
    def slack(self) -> np.float32:
        """By how much a shadow distance may exceed the true one, relative to the lengths of the rows; 0 if equal."""
        return np.float32(0.0 if self.basis is None else SLACK)

    def cast(self, rows: Array) -> tuple[Array, Array]:
        """Shadows of rows, (n, q + 1) or the rows themselves, and the rows' squared lengths."""
        lengths = np.einsum("ij,ij->i", rows, rows)
        if self.basis is None:
            return rows, lengths
        q = self.basis.shape[1]
        shadows = np.empty((len(rows), q + 1), dtype=np.float32)
        shadows[:, :q] = rows @ self.basis
        along = np.einsum("ij,ij->i", shadows[:, :q], shadows[:, :q])
        shadows[:, q] = np.sqrt(np.maximum(lengths - along, 0))
        return shadows, lengths
