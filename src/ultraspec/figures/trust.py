"""How far clusters can be trusted: their stability, and that of clusters in data without structure.

The stability of a cluster is its Jaccard index with the most similar cluster of graphs that were built independently,
from other rows and other representatives. Methods find stable clusters in noise, too, mostly large ones. So the same
is done with rows from a normal distribution of the same covariance, which has no clusters, and both are compared.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.figures.cuts import CutTable, best_match, cluster_stability
from ultraspec.figures.labeled_rows import Floats, Integers, LabeledRows
from ultraspec.rows import ArrayRows, SparseRows, sample_indices
from ultraspec.spectral.candidates import CANDIDATES
from ultraspec.spectral.choice import (
    COMMON_ROWS,
    POOL_ROWS,
    Choice,
    Judge,
    agreement,
    build_judges,
    coarse_representatives,
    rank,
)
from ultraspec.spectral.layers import Layer, find_layers
from ultraspec.spectral.model import Model
from ultraspec.spectral.options import GraphOptions

NULL_ROWS = 6_000
NULL_KS = (2, 3, 4, 6, 9, 14, 22, 36, 60)  # numbers of clusters; between them levels are interpolated
HIGH = 0.9  # quantile: the ends of one cloud are found again better than its middle
REMEMBERED = 4
LEAST_ROWS = 60  # of which layers can be found


@dataclass(frozen=True)
class Null:
    """Stability of clusters in rows without structure.

    Attributes
    ----------
    ks : list of int
        Numbers of clusters.
    level : list of float
        Stability, corrected for size, that nine of ten clusters do not exceed.
    agreement : list of float
        Adjusted Rand index of the graphs.
    """

    ks: list[int]
    level: list[float]
    agreement: list[float]


def correct_for_size(stability: Floats, shares: Floats) -> Floats:
    """Return stability from 0, what a cluster with all rows would have, to 1.

    The Jaccard index of a cluster with the set of all rows is its share of the rows: large clusters match by chance.
    """
    return np.clip((stability - shares) / np.maximum(1 - shares, 1e-9), 0.0, 1.0)


_remembered: dict[int, tuple[weakref.ref[Choice], Null | None]] = {}


def measure_null(rows: LabeledRows, table: CutTable | None) -> Null | None:
    """Measure the stability of clusters in rows from one normal distribution with the covariance of the data.

    None if the model has no other graphs to compare with.
    """
    model = rows.state.model
    if table is None or model.choice is None or not model.choice.judges:
        return None
    choice = model.choice
    key = id(choice)
    if key not in _remembered or _remembered[key][0]() is not choice:
        while len(_remembered) >= REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = weakref.ref(choice), _measure_null(rows, model.members[0], choice, table)
    return _remembered[key][1]


def _measure_null(rows: LabeledRows, model: Model, choice: Choice, table: CutTable) -> Null | None:
    R = np.asarray(model.index.representatives, dtype=np.float64)
    degrees = model.partition.spectrum.degrees
    shares = np.maximum(degrees, 0) / degrees.sum()
    center = shares @ R
    scaled = (R - center) * np.sqrt(shares)[:, None]
    values, directions = np.linalg.eigh(scaled.T @ scaled)
    random = np.random.default_rng(0)
    n = min(NULL_ROWS, rows.state.n_rows)
    noise = random.normal(size=(n, len(values))) * np.sqrt(np.maximum(values, 0.0))
    X = (noise @ directions.T + center).astype(np.float32)
    if rows.model.metric == "cosine":
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    options = replace(GraphOptions.of(rows.model), n_representatives=len(choice.judges[0].hierarchy.nodes))
    n_judges = 1 + min(2, len(choice.judges))
    expected = min(rows.model.n_clusters_, max(1, n // 4))
    chance, *seeds = np.random.SeedSequence(0).spawn(1 + n_judges)
    common = X[sample_indices(n, COMMON_ROWS, np.random.default_rng(chance))]
    p = coarse_representatives(n, expected, options)
    first, *others = build_judges(ArrayRows(X), common, p, expected, options, seeds, rows.engine)
    most = min(judge.hierarchy.n_nodes for judge in (first, *others))
    ks = [k for k in NULL_KS if k <= min(most, max(table.ks))]
    alone = rows.engine.within(MemberReporter(rows.engine.reporter), alone=True)
    measured = rows.engine.map(lambda k: _null_level(first, others, k, alone), ks)
    return Null(ks, [level for level, _ in measured], [score for _, score in measured]) if ks else None


def _null_level(own: Judge, judges: list[Judge], k: int, engine: ThreadEngine) -> tuple[float, float]:
    """Return a high stability and the agreement of the candidate that agrees most, as for the data itself."""
    others = [judge.label_all(k, engine) for judge in judges]
    everything = [each for labelings in others for each in labelings]
    labels: dict[str, Integers] = {name: own.label(cut(own.hierarchy, k, engine)) for name, cut in CANDIDATES.items()}
    ranked = rank({name: agreement(each, everything) for name, each in labels.items()})
    chosen = labels[next(iter(ranked))]
    n_groups = int(chosen.max()) + 1
    shares = np.bincount(chosen, minlength=n_groups) / len(chosen)
    stability = cluster_stability(chosen, n_groups, others)
    level = np.quantile(correct_for_size(stability, shares)[shares > 0], HIGH)
    return float(level), float(next(iter(ranked.values())))


def node_stability(rows: LabeledRows, table: CutTable | None) -> Floats | None:
    """Return the stability of each node of the tree, as a cluster that the others are compared with.

    The other graphs are cut into about as many clusters as when the node is one.
    """
    model: Any = rows.state.model
    if table is None or model.choice is None or not model.choice.judges:
        return None
    tree = table.tree
    L = tree.n_leaves
    own = model.choice.own
    leaves = own.label(tree.leaf_of.astype(np.int32))
    split_at = [L] * L + [L - t - 1 for t in range(L - 1)]  # number of clusters down to which a node is one
    born_at = [1] * (2 * L - 1)  # and from which on
    below: list[list[int]] = [[leaf] for leaf in range(L)]
    for t, (a, b) in enumerate(tree.merges.tolist()):
        born_at[a] = born_at[b] = L - t
        below.append(below[a] + below[b])
    alone = rows.engine.within(rows.engine.reporter, alone=True)
    labels: dict[int, list[list[Integers]]] = {}
    result = np.ones(2 * L - 1)
    for node in range(2 * L - 2):
        ks = {max(2, born_at[node]), max(2, min(split_at[node], max(table.ks)))}
        inside = np.isin(leaves, below[node]).astype(np.int32)
        scores = []
        for k in ks:
            if k not in labels:
                labels[k] = [
                    [judge.label(tree_cut) for tree_cut in _tree_cuts(judge, k, alone)] for judge in model.choice.judges
                ]
            scores.append(np.mean([max(best_match(inside, 2, each)[1] for each in graph) for graph in labels[k]]))
        result[node] = max(scores)
    return result


def _tree_cuts(judge: Judge, k: int, engine: ThreadEngine) -> list[Integers]:
    """Return the clusters of the trees of another graph; k-means would take much longer."""
    return [cut(judge.hierarchy, k, engine) for name, cut in CANDIDATES.items() if name != "kmeans"]


_layers_found: dict[int, tuple[weakref.ref[Any], list[Layer]]] = {}


def supported_numbers(rows: LabeledRows) -> list[Layer]:
    """Return the numbers of clusters that the rows support, the best first; a single cluster if there is no structure.

    The model knows them if it chose the number of clusters itself. Otherwise they are found in a sample of the rows.
    Empty if there are too few rows.
    """
    known = getattr(rows.model, "layers_", None)
    if known is not None:
        return list(known)
    if rows.rows is None or rows.n_rows < LEAST_ROWS:
        return []
    state = rows.state.model
    key = id(state.members[0])
    if key not in _layers_found or _layers_found[key][0]() is not state.members[0]:
        while len(_layers_found) >= REMEMBERED:
            _layers_found.pop(next(iter(_layers_found)))
        chosen = sample_indices(rows.n_rows, POOL_ROWS, np.random.default_rng(0))
        pool = rows.prepared(chosen)
        source = SparseRows(pool) if scipy.sparse.issparse(pool) else ArrayRows(np.asarray(pool))
        layers, _ = find_layers(source, GraphOptions.of(rows.model), np.random.SeedSequence(0), rows.engine)
        _layers_found[key] = weakref.ref(state.members[0]), layers
    return _layers_found[key][1]


def has_structure(layers: Sequence[Layer]) -> bool:
    """Return whether the rows support more than one cluster; True if it is not known."""
    return not layers or layers[0].n_clusters > 1
