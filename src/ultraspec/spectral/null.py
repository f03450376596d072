"""Rows without structure that are otherwise like the data: what clusters, and agreement on them, mean by chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.points import Weights


def draw_gaussian(
    X: npt.ArrayLike, weights: Weights, n_rows: int, metric: str, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Draw rows of one normal distribution with the mean and the covariance of X.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Preprocessed rows.
    weights : ndarray of shape (n,)
        Their weights, at least 0.
    n_rows : int
        Number of rows to draw.
    metric : str
        Rows have unit length if it is "cosine".
    rng : Generator
        Random numbers.
    """
    X = np.asarray(X, dtype=np.float64)
    shares = weights / weights.sum()
    center = shares @ X
    scaled = (X - center) * np.sqrt(shares)[:, None]
    variances, axes = np.linalg.eigh(scaled.T @ scaled)
    noise = rng.standard_normal((n_rows, X.shape[1])) * np.sqrt(np.maximum(variances, 0.0))
    drawn = (noise @ axes.T + center).astype(np.float32)
    if metric == "cosine":
        drawn /= np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-12)
    return drawn
