"""Dense graphs of nearest neighbours, for the tests of the methods that cut them."""

from __future__ import annotations

import numpy as np


def distances(X):
    X = X.astype(np.float64)
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))


def full_graph(X, K):
    """The affinity as the method's authors define it, dense."""
    D = distances(X)
    np.fill_diagonal(D, np.inf)
    nearest = np.argsort(D, axis=1, kind="stable")[:, :K]
    sigma = np.take_along_axis(D, nearest, axis=1).mean() or 1.0
    W = np.zeros_like(D)
    for i, row in enumerate(nearest):
        W[i, row] = np.exp(-(D[i, row] ** 2) / (2 * sigma**2))
    return np.maximum(W, W.T), sigma
