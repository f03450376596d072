"""The last step: takes the embedded rows, gives labels."""

from __future__ import annotations

import numpy as np

from ultraspec.engines import ThreadEngine
from ultraspec.kmeans import Clustering, lloyd, spread_centers
from ultraspec.rows import ArrayRows, Rows

SAMPLE_ROWS = 50_000
SEED_ROWS = 20_000
SETTLED = 1e-4  # share of labels that may still change when a large fit stops


def kmeans(
    rows: Rows, k: int, n_init: int, max_iter: int, random: np.random.Generator, engine: ThreadEngine
) -> Clustering:
    """k-means on the embedded rows.

    `n_init` k-means++ starts run on a sample of rows until their labels settle; the best of them is carried on over
    all rows until at most one label in ten thousand changes. Data no larger than the sample settles completely.
    """
    n = rows.n_rows
    sample = rows.take(_sample(n, max(SAMPLE_ROWS, 500 * k), random))
    sampled = ArrayRows(sample)
    best: Clustering | None = None
    for _ in range(n_init):
        seeds = sample[_sample(len(sample), max(SEED_ROWS, 100 * k), random)]
        found = lloyd(sampled, spread_centers(seeds, k, random), engine, max_iter=max_iter)
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    if len(sample) == n:
        return best
    return lloyd(rows, best.means, engine, max_iter=max_iter, tol=SETTLED)


def _sample(n: int, size: int, random: np.random.Generator) -> np.ndarray:
    """Sorted indices of `size` rows, or of all."""
    return np.arange(n) if size >= n else np.sort(random.choice(n, size, replace=False))
