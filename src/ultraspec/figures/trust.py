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

from ultraspec.engines.threads import ThreadEngine
from ultraspec.figures.cuts import Cut, CutTable, TopTree, best_match, cluster_stability
from ultraspec.figures.labeled_rows import Floats, Integers, LabeledRows
from ultraspec.rows import ArrayRows
from ultraspec.spectral.candidates import CANDIDATES
from ultraspec.spectral.choice import Choice, Judge, agreement, rank, run_pilot
from ultraspec.spectral.model import Model
from ultraspec.spectral.n_clusters import UNRELATED
from ultraspec.spectral.options import GraphOptions

NULL_ROWS = 6_000
NULL_KS = (2, 3, 4, 5, 6, 8, 11, 15, 20, 30, 45, 60)  # numbers of clusters; between them levels are interpolated
REMEMBERED = 4
CLEAR_AGREEMENT = 0.7  # adjusted Rand index from which on graphs agree
MORE_THAN_NULL = 0.15  # and by which it exceeds that of rows without structure


@dataclass(frozen=True)
class Null:
    """Stability of clusters in rows without structure.

    Attributes
    ----------
    ks : list of int
        Numbers of clusters.
    level : list of float
        Mean stability of the clusters, corrected for their sizes.
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
    if table is None or not isinstance(model, Model) or model.choice is None or not model.choice.judges:
        return None
    choice = model.choice
    key = id(choice)
    if key not in _remembered or _remembered[key][0]() is not choice:
        while len(_remembered) >= REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = weakref.ref(choice), _measure_null(rows, model, choice, table)
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
    pilot = run_pilot(ArrayRows(X), n, expected, n_judges, options, np.random.SeedSequence(0), rows.engine)
    first, *others = pilot.judges[:n_judges]
    most = min(judge.hierarchy.n_nodes for judge in (first, *others))
    ks = [k for k in NULL_KS if k <= min(most, max(table.ks))]
    measured = [_null_level(first, others, k, rows.engine) for k in ks]
    return Null(ks, [level for level, _ in measured], [score for _, score in measured]) if ks else None


def _null_level(own: Judge, judges: list[Judge], k: int, engine: ThreadEngine) -> tuple[float, float]:
    """Return the mean stability and the agreement of the candidate that agrees most, as for the data itself."""
    others = [judge.label_all(k, engine) for judge in judges]
    everything = [each for labelings in others for each in labelings]
    labels: dict[str, Integers] = {name: own.label(cut(own.hierarchy, k, engine)) for name, cut in CANDIDATES.items()}
    ranked = rank({name: agreement(each, everything) for name, each in labels.items()})
    chosen = labels[next(iter(ranked))]
    n_groups = int(chosen.max()) + 1
    shares = np.bincount(chosen, minlength=n_groups) / len(chosen)
    stability = cluster_stability(chosen, n_groups, others)
    level = correct_for_size(stability, shares)[shares > 0].mean()
    return float(level), float(next(iter(ranked.values())))


def node_stability(rows: LabeledRows, table: CutTable | None) -> Floats | None:
    """Return the stability of each node of the tree, as a cluster that the others are compared with.

    The other graphs are cut into about as many clusters as when the node is one.
    """
    model: Any = rows.state.model
    if table is None or not isinstance(model, Model) or model.choice is None or not model.choice.judges:
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


@dataclass(frozen=True)
class Suggestion:
    """A number of clusters that stands out, and how much: from 0 to 1."""

    k: int
    strength: float


def suggest_numbers(cuts: Sequence[Cut], null: Null | None, tree: TopTree | None, most: int = 4) -> list[Suggestion]:
    """Return the numbers of clusters that stand out, the strongest first.

    If other graphs judge the cuts, the strength is their agreement times the mean stability, less that of rows without
    structure. Otherwise it is the drop of similarity in the tree.
    """
    if not cuts or tree is None or not has_structure(cuts, null):
        return []
    ks = np.array([cut.k for cut in cuts])
    if cuts[0].stability is not None:
        scores = np.array([cut_score(cut) for cut in cuts])
        if null is not None:
            scores = scores - np.interp(ks, null.ks, np.array(null.level) * np.array(null.agreement))
    else:
        similar = np.concatenate([tree.heights[::-1], [tree.heights[0]]]) + UNRELATED  # entry j leaves j + 1 clusters
        falls = similar[1:] / np.maximum(similar[:-1], 1e-9)
        at = np.clip(ks - 2, 0, len(falls) - 1)
        scores = 1 - 1 / np.maximum(falls[at], 1.0)
    padded = np.concatenate([[-np.inf], scores, [-np.inf]])
    peaks = np.flatnonzero((scores >= padded[:-2]) & (scores >= padded[2:]) & (scores > 0))
    best = peaks[np.argsort(-scores[peaks], kind="stable")][:most]
    if not best.size:
        return []
    enough = scores[best] >= 0.5 * scores[best[0]]
    return [Suggestion(int(ks[i]), float(np.clip(scores[i], 0.0, 1.0))) for i in best[enough]]


def has_structure(cuts: Sequence[Cut], null: Null | None) -> bool:
    """Return whether other graphs agree with some cut clearly more than in rows without structure; True if unknown."""
    if null is None:
        return True
    return any(
        (cut.judged.agreement or 0.0)
        >= max(CLEAR_AGREEMENT, float(np.interp(cut.k, null.ks, null.agreement)) + MORE_THAN_NULL)
        for cut in cuts
    )


def cut_score(cut: Cut) -> float:
    """Return the agreement of other graphs with a cut times the mean stability of its clusters."""
    assert cut.stability is not None
    level = correct_for_size(cut.stability, cut.sizes / cut.sizes.sum()).mean()
    return float(level) * max(cut.judged.agreement or 0.0, 0.0)
