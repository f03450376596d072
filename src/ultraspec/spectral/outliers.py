"""Outlier scores: how far a row lies from its representatives, compared with how far those lie from each other.

The idea is that of the local outlier factor, with representatives in the place of all rows: the mean distance of a row
to its nearest representatives, divided by what is usual for these. So rows of a wide cluster are not outliers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ultraspec._kernels.agreement import relative_distances
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span, sample_indices
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.neighbors import RepresentativeIndex

SCORED_ROWS = 2**16  # rows whose scores give the quantiles
QUANTILES = 1001  # that models store
SPREAD_ROWS = 4096  # representatives whose spread is computed at a time

Scores = npt.NDArray[np.float32]


def representative_spreads(index: RepresentativeIndex) -> Scores:
    """Return the mean distance (p,) of each representative to its K - 1 nearest others."""
    R = index.representatives
    spreads = np.empty(len(R), dtype=np.float32)
    for low in range(0, len(R), SPREAD_ROWS):
        sq = index.query(R[low : low + SPREAD_ROWS])[1]
        spreads[low : low + SPREAD_ROWS] = np.sqrt(sq[:, min(1, sq.shape[1] - 1) :]).mean(axis=1)
    positive = spreads[spreads > 0]
    if not positive.size:  # a single neighbour, which is the representative itself
        return np.ones_like(spreads)
    return np.maximum(spreads, np.float32(1e-3) * np.median(positive))


def scores_of_edges(edges: Edges, spreads: Scores) -> Scores:
    """Return the outlier scores of rows, given edges with squared distances: from 0 to 1, most are near 0."""
    ratios = np.empty(len(edges), dtype=np.float32)
    relative_distances(edges.ids, edges.weights, spreads, ratios)
    return (1.0 - 1.0 / np.maximum(ratios, 1.0)).astype(np.float32)


def score_stored(edges: Edges, spreads: Scores, engine: ThreadEngine) -> Scores:
    """Return the outlier scores of all rows, given stored edges with squared distances."""
    scores = np.empty(len(edges), dtype=np.float32)

    def run(part: Edges, span: Span) -> None:
        scores[slice(*span)] = scores_of_edges(part, spreads)

    edges.map(run, engine)
    return scores


def score_quantiles(rows: Rows, score: Callable[[Block], Scores], scores: Scores | None) -> Scores:
    """Return `QUANTILES` quantiles of the scores of the fitted rows, estimated from a sample of them.

    `score` scores a block of preprocessed rows; `scores` are those of all rows, if they are known.
    """
    sample = sample_indices(rows.n_rows, SCORED_ROWS, np.random.default_rng(0))
    some = np.concatenate(rows.gather(sample, score)) if scores is None else scores[sample]
    return np.quantile(some, np.linspace(0.0, 1.0, QUANTILES)).astype(np.float32)
