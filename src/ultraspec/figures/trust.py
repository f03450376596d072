"""How far clusters can be trusted: their stability, and that of clusters in data without structure.

`ultraspec.spectral.stability` measures both. Here this is done for all numbers of clusters, and all nodes of a tree.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.figures.cuts import Cut, CutTable
from ultraspec.figures.labeled_rows import Floats, Integers, LabeledRows
from ultraspec.rows import ArrayRows, SparseRows, sample_indices
from ultraspec.spectral.candidates import CANDIDATES
from ultraspec.spectral.choice import POOL_ROWS, Choice, Judge
from ultraspec.spectral.layers import Layer, find_layers
from ultraspec.spectral.model import Model
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.stability import NULL_GRAPHS, best_match, correct_for_size, null_judges, null_level

NULL_KS = (2, 3, 4, 6, 9, 14, 22, 36, 60)  # numbers of clusters; between them levels are interpolated
REMEMBERED = 4
LEAST_ROWS = 60  # of which layers can be found
REAL = 0.85  # least stability of a real cluster
BEYOND_CHANCE = 0.25  # least part of the way from the stability of clusters without structure to perfect stability
FEWEST, LEAST_SHARE = 10, 1e-3  # rows, and share of the rows, of a cluster that can be judged
NEARLY_EQUAL = 0.02  # difference of agreement between a number of clusters and the next


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
    n_graphs = 1 + min(NULL_GRAPHS - 1, len(choice.judges))
    p = len(choice.judges[0].hierarchy.nodes)
    options = GraphOptions.of(rows.model)
    judges = null_judges(model, rows.state.n_rows, p, rows.model.n_clusters_, n_graphs, options, rows.engine)
    most = min(judge.hierarchy.n_nodes for judge in judges)
    ks = [k for k in NULL_KS if k <= min(most, max(table.ks))]
    alone = rows.engine.within(MemberReporter(rows.engine.reporter), alone=True)
    measured = rows.engine.map(lambda k: null_level(judges, k, alone), ks)
    return Null(ks, [level for level, _ in measured], [score for _, score in measured]) if ks else None


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


@dataclass(frozen=True)
class Trust:
    """What independent graphs say about the clusters of a model.

    Attributes
    ----------
    null : Null or None
        Stability without structure.
    nodes : ndarray or None
        Stability of each node of the tree.
    layers : list of Layer
        Numbers of clusters that the rows support, the best first.
    """

    null: Null | None
    nodes: Floats | None
    layers: list[Layer]

    @classmethod
    def measure(cls, rows: LabeledRows, table: CutTable | None) -> Trust:
        """Measure stability with and without structure, and the numbers of clusters that the rows support."""
        return cls(measure_null(rows, table), node_stability(rows, table), supported_numbers(rows))


def are_real(cut: Cut, null: Null) -> bool:
    """Return whether all clusters of a cut are stable, clearly more than those of rows without structure."""
    if cut.stability is None:
        return False
    n = cut.sizes.sum()
    shares = cut.sizes / n
    usual = float(np.interp(cut.k, null.ks, null.level))
    stands_out = correct_for_size(cut.stability, shares) > usual + BEYOND_CHANCE * (1 - usual)
    is_large = (cut.sizes >= FEWEST) & (shares >= LEAST_SHARE)
    return bool((stands_out & is_large & (cut.stability >= REAL)).all())


def refine(layers: Sequence[Layer], cuts: Sequence[Cut], null: Null | None) -> list[Layer]:
    """Return the layers, and before them the next larger number if its clusters are as real.

    Halves of the rows often agree nearly equally on two neighbouring numbers, and chance decides between them. The
    graphs of all rows tell more: if they find all clusters of the larger number again, and agree on them as much, a
    cluster of the smaller number is two.
    """
    if null is None or not has_structure(layers) or not layers:
        return list(layers)
    by_number = {cut.k: cut for cut in cuts}
    k = layers[0].n_clusters
    while k in by_number and k + 1 in by_number:
        here, finer = by_number[k], by_number[k + 1]
        if here.judged.agreement is None or finer.judged.agreement is None:
            break
        if finer.judged.agreement < here.judged.agreement - NEARLY_EQUAL or not are_real(finer, null):
            break
        k += 1
    if k == layers[0].n_clusters:
        return list(layers)
    return [Layer(k, layers[0].strength), *(layer for layer in layers if layer.n_clusters != k)]
