"""Outlier scores: how far a row lies from its representatives, compared with what is usual in their clusters.

Representatives stand for all rows: the mean distance of a row to its nearest ones is divided by the median distance
between neighbouring representatives of the same cluster, which are weighted by their rows. So rows of a wide cluster
are no outliers, and outliers that have representatives of their own are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ultraspec._checks import Diagnostic, Notation, warn_user
from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.points import Labels, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span, cut_span, draw_rows
from ultraspec.spectral.edges import Edges

SCORED_ROWS = 2**16  # rows whose scores give the quantiles
SCORED_AT_ONCE = 4096
QUANTILES = 1001  # that models store
LEAST_SHARE = 0.005  # of the weight, for a cluster that has a usual distance of its own
LEAST_RATIO = 1e-3  # of the usual distance of a cluster to that of all: repeated rows have none
FEW = 0.99  # quantile of the scores of fitted rows that few rows exceed
MANY = 0.05  # share of added rows beyond it that a warning tells of
CHANCE = 5.0  # the same in standard deviations of that share, for few rows

Scores = npt.NDArray[np.float32]


def usual_distances(spreads: Scores, groups: Labels, weights: Weights) -> Scores:
    """Return the usual distance (p,) at each representative: the median of its cluster, or of all if it is tiny.

    `spreads`, `groups` and `weights` are the mean distances of the representatives to their nearest ones, their
    clusters, and the weights of their rows.
    """
    typical = _weighted_median(spreads, weights)
    if not typical > 0:
        typical = float(spreads.max()) or 1.0
    usual = np.full(len(spreads), typical, dtype=np.float32)
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


@dataclass(eq=False)
class DistantRows(Diagnostic, UserWarning):
    """Rows that were added to a model lie farther from all representatives than those before."""

    share: float  #: share of the rows beyond the distance that few rows before exceeded
    n_rows: int  #: number of rows
    distance: float  #: median distance of these, relative to what is usual
    limit: float  #: the distance that few rows before exceeded

    def _problem(self, notation: Notation) -> str:  # noqa: ARG002
        return (
            f"{self.share:.0%} of the {self.n_rows:,} rows lie farther from all representatives than {FEW:.0%} of the "
            f"rows before: typically {self.distance:.2g} times the usual distance, instead of at most {self.limit:.2g} "
            "times."
        )

    def _advice(self, notation: Notation) -> str:  # noqa: ARG002
        return "The graph does not represent them well: fit again, with rows of both kinds."


def warn_of_distant_rows(quantiles: Scores, before: Scores, n_rows: int) -> None:
    """Warn if many of `n_rows` rows have outlier scores that few rows before had, given quantiles of both."""
    limit = float(np.quantile(before, FEW))
    far = quantiles[quantiles > limit]
    share = len(far) / len(quantiles)
    expected = 1.0 - FEW
    if share > max(MANY, expected + CHANCE * np.sqrt(expected / n_rows)):
        distance, most = (1.0 / max(1.0 - score, 1e-6) for score in (float(np.median(far)), limit))
        warn_user(DistantRows(share, n_rows, distance, most))


def join_quantiles(parts: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """Return the quantiles of several sets of scores together, given those of each and their weights."""
    values = np.concatenate(parts)
    masses = np.concatenate(
        [np.full(len(part), weight / len(part)) for part, weight in zip(parts, weights, strict=True)]
    )
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(masses[order])
    middles = (ends - 0.5 * masses[order]) / ends[-1]
    places = np.linspace(0.0, 1.0, QUANTILES)
    return np.interp(places, middles, values[order]).astype(np.float32)


def score_quantiles(
    rows: Rows, score: Callable[[Block], Scores], scores: Scores | None, engine: ThreadEngine
) -> Scores:
    """Return `QUANTILES` quantiles of the scores of the fitted rows, estimated from a sample of them.

    `score` scores a block of preprocessed rows; `scores` are those of all rows, if they are known.
    """
    drawn = draw_rows(rows, SCORED_ROWS, np.random.default_rng(0))
    if scores is not None:
        some = scores[drawn.indices]
    elif rows.remote:
        some = np.concatenate(rows.gather(drawn.indices, score))
    else:
        parts = cut_span((0, len(drawn.indices)), min(rows.block_rows, SCORED_AT_ONCE))
        some = np.concatenate(engine.map(lambda span: score(rows.take(drawn.indices[slice(*span)])), parts))
    return np.quantile(drawn.repeat(some), np.linspace(0.0, 1.0, QUANTILES)).astype(np.float32)
