"""Outlier scores: how far a row lies from its representatives, compared with what is usual in their clusters.

Representatives stand for all rows: the mean distance of a row to its nearest ones is divided by the median distance
between neighbouring representatives of the same cluster, which are weighted by their rows. So rows of a wide cluster
are no outliers, and outliers that have representatives of their own are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.points import Labels, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span, sample_indices
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.neighbors import RepresentativeIndex

SCORED_ROWS = 2**16  # rows whose scores give the quantiles
QUANTILES = 1001  # that models store
LEAST_SHARE = 0.005  # of the weight, for a cluster that has a usual distance of its own
LEAST_RATIO = 1e-3  # of the usual distance of a cluster to that of all: repeated rows have none
SPREAD_ROWS = 4096  # representatives whose distances are computed at a time

Scores = npt.NDArray[np.float32]


def usual_distances(index: RepresentativeIndex, groups: Labels, weights: Weights) -> Scores:
    """Return the usual distance (p,) at each representative: the median of its cluster, or of all if it is tiny.

    `groups` and `weights` are the clusters of the representatives and the weights of their rows.
    """
    R = index.representatives
    spreads = np.empty(len(R), dtype=np.float32)
    for low in range(0, len(R), SPREAD_ROWS):
        part = slice(low, low + SPREAD_ROWS)
        spreads[part] = distances_of_edges(Edges(*index.query(R[part])))
    typical = _weighted_median(spreads, weights)
    if not typical > 0:
        typical = float(spreads.max()) or 1.0
    usual = np.full(len(R), typical, dtype=np.float32)
    for group in range(int(groups.max()) + 1):
        members = groups == group
        median = _weighted_median(spreads[members], weights[members]) if members.any() else 0.0
        if median > LEAST_RATIO * typical and weights[members].sum() >= LEAST_SHARE * weights.sum():
            usual[members] = median
    return usual


def _weighted_median(values: Scores, weights: Weights) -> float:
    """Return the smallest value up to which at least half of the weight is."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, sums[-1] / 2)])


def distances_of_edges(edges: Edges) -> Scores:
    """Return the mean distance of rows to their representatives, given edges with squared distances."""
    distances = np.empty(len(edges), dtype=np.float32)
    kernels.mean_distances(edges.weights, distances)
    return distances


def scores_of_edges(edges: Edges, distances: Scores, usual: Scores) -> Scores:
    """Return the outlier scores of rows, from 0 to 1, given their edges and mean distances."""
    scores = np.empty(len(edges), dtype=np.float32)
    kernels.outlier_scores(edges.ids, distances, usual, scores)
    return scores


def map_stored(edges: Edges, function: Callable[[Edges, slice], Scores], engine: ThreadEngine) -> Scores:
    """Return the results of ``function(edges, rows)`` for all stored edges."""
    out = np.empty(len(edges), dtype=np.float32)

    def run(part: Edges, span: Span) -> None:
        out[slice(*span)] = function(part, slice(*span))

    edges.map(run, engine)
    return out


def score_quantiles(rows: Rows, score: Callable[[Block], Scores], scores: Scores | None) -> Scores:
    """Return `QUANTILES` quantiles of the scores of the fitted rows, estimated from a sample of them.

    `score` scores a block of preprocessed rows; `scores` are those of all rows, if they are known.
    """
    sample = sample_indices(rows.n_rows, SCORED_ROWS, np.random.default_rng(0))
    some = np.concatenate(rows.gather(sample, score)) if scores is None else scores[sample]
    return np.quantile(some, np.linspace(0.0, 1.0, QUANTILES)).astype(np.float32)
