"""Stability of clusters over independent graphs, against rows without structure.

The stability of a cluster is its Jaccard index with the most similar cluster of graphs that were built independently,
from other rows and other representatives. Methods find stable clusters in noise, too, mostly large ones. So the same
is done with rows from a normal distribution of the same covariance, which has no clusters, and both are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.points import Labels
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Rows, sample_indices, sample_rows, take_sample
from ultraspec.spectral.candidates import CANDIDATES
from ultraspec.spectral.choice import (
    COMMON_ROWS,
    POOL_ROWS,
    Judge,
    agreement,
    build_judges,
    coarse_representatives,
    rank,
)
from ultraspec.spectral.model import Model
from ultraspec.spectral.null import draw_gaussian
from ultraspec.spectral.options import GraphOptions

NULL_ROWS = 6_000
NULL_GRAPHS = 3  # each of them is divided, the others judge
HIGH = 0.9  # quantile: the ends of one cloud are found again better than its middle

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stability:
    """How far independent graphs find the clusters of a model again, and those of rows without structure.

    Attributes
    ----------
    clusters : ndarray of shape (n_clusters,), float64
        Stability of each cluster: the mean over graphs of its Jaccard index with the most similar cluster there.
    corrected : ndarray of shape (n_clusters,), float64
        The same from 0, what a set of all rows would reach, to 1: large clusters match by chance.
    null : float
        Corrected stability that nine of ten clusters of rows without structure do not exceed.
    agreement : float
        Agreement of the clustering with those of the graphs: mean adjusted Rand index.
    null_agreement : float
        The same for rows without structure, the highest of several graphs.
    n_graphs : int
        Number of graphs.

    Examples
    --------
    >>> found = Stability(np.array([0.9, 0.4]), np.array([0.8, 0.1]), 0.5, 0.8, 0.3, 6)
    >>> found.stands_out
    array([ True, False])
    """

    clusters: Floats
    corrected: Floats
    null: float
    agreement: float
    null_agreement: float
    n_graphs: int

    @property
    def stands_out(self) -> npt.NDArray[np.bool_]:
        """Whether each cluster is more stable than nine of ten clusters of rows without structure."""
        return self.corrected > self.null


def best_match(labels: Labels, k: int, others: Labels) -> Floats:
    """Return the Jaccard index of each of `k` clusters with the most similar cluster of another clustering."""
    m = int(others.max()) + 1
    common = np.bincount(labels.astype(np.int64) * m + others, minlength=k * m).reshape(k, m)
    sizes = common.sum(axis=1)
    union = sizes[:, None] + common.sum(axis=0) - common
    return (common / np.maximum(union, 1)).max(axis=1)


def cluster_stability(labels: Labels, k: int, others: Sequence[Sequence[Labels]]) -> Floats:
    """Return the stability of each of `k` clusters: the mean over graphs of the Jaccard index with the best match.

    `others` has the clusterings of each graph; the match may be in any of them.
    """
    return np.mean([np.max([best_match(labels, k, each) for each in graph], axis=0) for graph in others], axis=0)


def correct_for_size(stability: Floats, shares: Floats) -> Floats:
    """Return stability from 0, what a cluster with all rows would have, to 1.

    The Jaccard index of a cluster with the set of all rows is its share of the rows: large clusters match by chance.
    """
    return np.clip((stability - shares) / np.maximum(1 - shares, 1e-9), 0.0, 1.0)


def resampled_judges(
    rows: Rows,
    common: Any,
    n_graphs: int,
    n_clusters: int,
    options: GraphOptions,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
) -> list[Judge]:
    """Build graphs of resampled rows, each of a random half of them or of 50,000, with representatives of its own.

    `rows` are preprocessed. The `common` rows are labelled by each graph.
    """
    alone = engine.within(MemberReporter(engine.reporter), alone=True)  # graphs are counted, not their passes

    def build(seed: np.random.SeedSequence) -> Judge:
        chance, own_seed = seed.spawn(2)
        size = min(POOL_ROWS, max(1, rows.n_counted // 2))
        pool = take_sample(rows, sample_rows(rows, size, np.random.default_rng(chance)))
        p = coarse_representatives(pool.n_rows, pool.n_features, n_clusters, options)
        return build_judges(pool, common, p, n_clusters, options, [own_seed], alone)[0]

    return engine.map(build, seed.spawn(n_graphs))


def null_judges(
    model: Model,
    n_rows: int,
    p: int,
    n_clusters: int,
    n_graphs: int,
    options: GraphOptions,
    engine: ThreadEngine,
    *,
    resampled: bool = False,
) -> list[Judge]:
    """Build graphs of rows from one normal distribution with the covariance of the representatives of a model.

    All graphs are of the same rows; if `resampled`, all but the first are of random halves of twice as many rows.

    Parameters
    ----------
    model : Model
        Its representatives are weighted by their degrees.
    n_rows : int
        Number of rows of the data.
    p : int
        Number of representatives of the graphs that these are compared with.
    n_clusters : int
        Number of clusters that will be asked for, about.
    n_graphs : int
        Number of graphs.
    options : GraphOptions
        Parameters of the graphs.
    engine : ThreadEngine
        Builds the graphs.
    """
    n = min(2 * NULL_ROWS if resampled else NULL_ROWS, n_rows)
    degrees = np.maximum(model.partition.spectrum.degrees, 0)
    X = draw_gaussian(model.index.representatives, degrees, n, options.metric, np.random.default_rng(0))
    options = replace(options, n_representatives=p)
    expected = min(n_clusters, max(1, n // 4))
    chance, *seeds = np.random.SeedSequence(0).spawn(1 + n_graphs)
    common = X[sample_indices(n, COMMON_ROWS, np.random.default_rng(chance))]
    rows = ArrayRows(X)
    p = coarse_representatives(n, X.shape[1], expected, options)
    if not resampled:
        return build_judges(rows, common, p, expected, options, seeds, engine)
    first = build_judges(rows, common, p, expected, options, seeds[:1], engine)
    return first + resampled_judges(rows, common, n_graphs - 1, expected, options, seeds[1], engine)


def null_level(judges: Sequence[Judge], k: int, engine: ThreadEngine) -> tuple[float, float]:
    """Return a high stability of clusters, and the highest agreement, of rows without structure.

    Each graph is divided in turn, and the others judge: the clusters of a single graph are too few for a quantile.
    """
    labelings = [judge.label_all(k, engine) for judge in judges]
    found = []
    agreements = []
    for number, judge in enumerate(judges):
        others = labelings[:number] + labelings[number + 1 :]
        stability, agreed = null_stability(judge, others, k, engine)
        found.append(stability)
        agreements.append(agreed)
    return upper_level(np.concatenate(found)), max(agreements)


def null_stability(
    own: Judge, others: Sequence[Sequence[Labels]], k: int, engine: ThreadEngine
) -> tuple[Floats, float]:
    """Return corrected stability and agreement of the candidate that agrees most, as for the data itself."""
    everything = [each for labelings in others for each in labelings]
    labels: dict[str, Labels] = {name: own.label(cut(own.hierarchy, k, engine)) for name, cut in CANDIDATES.items()}
    ranked = rank({name: agreement(each, everything) for name, each in labels.items()})
    chosen = labels[next(iter(ranked))]
    n_groups = int(chosen.max()) + 1
    shares = np.bincount(chosen, minlength=n_groups) / len(chosen)
    stability = cluster_stability(chosen, n_groups, others)
    return correct_for_size(stability, shares)[shares > 0], float(next(iter(ranked.values())))


def upper_level(values: Floats) -> float:
    """Return the value that one more of the same kind exceeds in at most a tenth of the cases, if there are ten.

    Examples
    --------
    >>> upper_level(np.arange(1.0, 20.0))  # 18 of 20 values, with the new one
    18.0
    """
    place = int(np.ceil((len(values) + 1) * HIGH - 1e-9))
    return float(np.sort(values)[min(place, len(values)) - 1])


def measure_stability(
    labels: Labels,
    n_clusters: int,
    judges: Sequence[Judge],
    model: Model,
    n_rows: int,
    options: GraphOptions,
    resampled: bool,
    engine: ThreadEngine,
) -> Stability:
    """Compare clusters with those of other graphs, and with clusters of rows without structure.

    Parameters
    ----------
    labels : ndarray of int32
        Clusters of the common rows by the model.
    n_clusters : int
        Number of clusters of the model.
    judges : sequence of Judge
        Other graphs, with the edges of the common rows.
    model : Model
        The model.
    n_rows : int
        Number of its rows.
    options : GraphOptions
        Parameters of the graphs.
    resampled : bool
        Whether the other graphs are of random halves of the rows.
    engine : ThreadEngine
        Builds the graphs of rows without structure.
    """
    others = [judge.label_all(n_clusters, engine) for judge in judges]
    everything = [each for labelings in others for each in labelings]
    shares = np.bincount(labels, minlength=n_clusters) / len(labels)
    clusters = cluster_stability(labels, n_clusters, others)
    p = len(judges[0].hierarchy.nodes)
    n_null = 1 + (len(judges) if resampled else min(NULL_GRAPHS - 1, len(judges)))
    null = null_judges(model, n_rows, p, n_clusters, n_null, options, engine, resampled=resampled)
    k = min(n_clusters, *(judge.hierarchy.n_nodes for judge in null))
    level, null_agreement = null_level(null, k, engine)
    corrected = correct_for_size(clusters, shares)
    return Stability(clusters, corrected, level, agreement(labels, everything), null_agreement, len(judges))
