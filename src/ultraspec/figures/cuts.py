"""All cuts of a model into 2 to 60 clusters, as `cut` of the model gives them, and the tree that they come from.

Labels come from representatives by vote. So a cut is a cluster for each representative, and all cuts together are a
small table. Representatives that no cut separates form a unit; most rows lie within one unit.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.linkage import Tree
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.figures.labeled_rows import Floats, Integers, LabeledRows
from ultraspec.spectral.candidates import CANDIDATES, TREES
from ultraspec.spectral.choice import Choice, agreement, rank
from ultraspec.spectral.partition import VotePartition
from ultraspec.spectral.stability import cluster_stability
from ultraspec.spectral.transfer_cut import Spectrum

MOST_CLUSTERS = 60  # of the cuts
REMEMBERED = 4  # models whose judged cuts are kept in memory

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TopTree:
    """The upper part of a tree of representatives.

    Attributes
    ----------
    name : str
        Name of the tree, as in `discretize`.
    leaf_of : ndarray of shape (p,), int32
        Leaf of each representative. Leaves are numbered in depth-first order.
    nodes : list of int
        Number of each node in the whole tree: first the leaves, then the merges.
    merges : ndarray of shape (L - 1, 2), int32
        The two nodes of each merge, the first merge leaving L - 1 clusters.
    heights : ndarray of shape (L - 1,)
        Similarity at each merge.
    firsts : list of int
        First leaf of the whole tree below each leaf: clusters of equal size are numbered in this order.
    """

    name: str
    leaf_of: Integers
    nodes: list[int]
    merges: Integers
    heights: Floats
    firsts: list[int]

    @property
    def n_leaves(self) -> int:
        """Number of leaves, L."""
        return len(self.merges) + 1

    @property
    def joined_at(self) -> Integers:
        """The number of the merge that joins each two leaves (L, L)."""
        L = self.n_leaves
        when = np.zeros((L, L), dtype=np.int32)
        below: list[list[int]] = [[leaf] for leaf in range(L)]
        for t, (a, b) in enumerate(self.merges.tolist()):
            when[np.ix_(below[a], below[b])] = when[np.ix_(below[b], below[a])] = t
            below.append(below[a] + below[b])
        return when

    @classmethod
    def of(cls, name: str, tree: Tree, node_of: Integers, most: int = MOST_CLUSTERS) -> TopTree:
        """Return the top of a tree, down to `most` clusters; `node_of` (p,) is the leaf of each representative."""
        m = tree.n_leaves
        L = min(most, m)
        roots = tree.roots(L)
        merges = tree.merges[m - L :]
        order: list[int] = []  # of the roots, depth first
        stack = [2 * m - 2]
        while stack:
            node = stack.pop()
            if node >= 2 * m - L:  # one of the last L - 1 merges
                stack.extend(merges[node - (2 * m - L)][::-1].tolist())
            else:
                order.append(int(node))
        local = {node: i for i, node in enumerate([*order, *range(2 * m - L, 2 * m - 1)])}
        position = np.array([local[int(root)] for root in roots], dtype=np.int32)
        firsts = np.empty(L, dtype=np.int64)
        firsts[position] = np.unique(tree.cut(L), return_index=True)[1]
        return cls(
            name,
            position[tree.cut(L)][node_of],
            list(local),
            np.array([[local[a], local[b]] for a, b in merges.tolist()], dtype=np.int32).reshape(-1, 2),
            tree.heights[m - L :],
            firsts.tolist(),
        )


@dataclass(frozen=True)
class Judged:
    """The clusters of representatives at one number of clusters, before rows are counted.

    Attributes
    ----------
    groups : ndarray of shape (p,), int32
        Cluster of each representative.
    candidate : str
        The way in which the clusters were found.
    agreement : float or None
        Mean adjusted Rand index with the clusterings of other graphs.
    stability : ndarray or None
        Stability of each cluster: the mean over the other graphs of the Jaccard index with the most similar cluster.
    """

    groups: Integers
    candidate: str
    agreement: float | None = None
    stability: Floats | None = None


@dataclass(frozen=True)
class Cut:
    """A cut as the model gives it: clusters are numbered by size.

    Attributes
    ----------
    k : int
        Number of clusters that is asked for.
    groups : ndarray of shape (p,), int32
        Cluster of each representative.
    sizes : ndarray of int64
        Rows of each cluster.
    judged : Judged
        The clusters before rows were counted.
    order : ndarray
        For each cluster its number in `judged`.
    """

    k: int
    groups: Integers
    sizes: Counts
    judged: Judged
    order: npt.NDArray[np.intp]

    @property
    def stability(self) -> Floats | None:
        """Stability of each cluster."""
        return None if self.judged.stability is None else self.judged.stability[self.order]


@dataclass(frozen=True)
class CutTable:
    """What the cuts of a model are made from, before rows are counted.

    Attributes
    ----------
    ks : list of int
        Numbers of clusters, ascending.
    judged : list of Judged
        Clusters of representatives for each of them.
    tree : TopTree
        The tree that is shown.
    call : str
        Further arguments of `cut` in Python, such as ``, discretize='auto'``; empty if the model needs none.
    units : ndarray of shape (p,), int32
        Unit of each representative.
    """

    ks: list[int]
    judged: list[Judged]
    tree: TopTree
    call: str
    units: Integers = field(repr=False)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.units.max()) + 1

    def by_unit(self, groups: Sequence[Integers]) -> Integers:
        """Return the cluster (C, U) of each unit, given those (p,) of representatives."""
        first = np.unique(self.units, return_index=True)[1]
        return np.ascontiguousarray(np.stack([each[first] for each in groups]).astype(np.int32))

    @property
    def unit_leaves(self) -> Integers:
        """Leaf of the tree that each unit is in."""
        return self.by_unit([self.tree.leaf_of])[0]


def plan_cuts(rows: LabeledRows) -> CutTable | str:
    """Return the cuts of a model, or a sentence that says why it has none."""
    state = rows.state
    choice = state.model.choice
    if choice is None and rows.is_ensemble:
        return "This ensemble has no tree: its consensus is a transfer cut. Fit with consensus='auto' for one."
    if choice is None:
        return (
            "This model has no tree: k-means of the embedded rows finds one number of clusters at a time. Fit with "
            "discretize='auto' to choose the number here."
        )
    hierarchy = choice.own.hierarchy
    if hierarchy.n_nodes < 2:
        return "All rows are alike: there is nothing to cut."
    method = "auto" if rows.is_ensemble else rows.model.discretize
    call = ""
    if method == "kmeans":  # a cut of a model that has trees
        method = "auto" if choice.judges else "agreement"
        call = f", discretize={method!r}"
    ks = _numbers(min(MOST_CLUSTERS, hierarchy.n_nodes, rows.n_rows), rows.model.n_clusters_)
    judged = judge_cuts(choice, method, ks, rows.engine)
    names = [each.candidate for each in judged if each.candidate in TREES]
    name = max(TREES, key=lambda tree: names.count(tree))
    return _table(ks, judged, TopTree.of(name, hierarchy.trees[name], hierarchy.nodes, max(ks)), call)


def _numbers(most: int, own: int) -> list[int]:
    """Return the numbers of clusters to cut into: 2 .. `most`, and that of the model."""
    return sorted({*range(2, most + 1), *([own] if own >= 2 else [])})


def _table(ks: list[int], judged: list[Judged], tree: TopTree, call: str) -> CutTable:
    patterns = np.stack([tree.leaf_of, *(each.groups for each in judged)], axis=1)
    units = np.unique(patterns, axis=0, return_inverse=True)[1].astype(np.int32).reshape(-1)
    return CutTable(ks, judged, tree, call, units)


_remembered: dict[tuple[int, str], tuple[weakref.ref[Choice], dict[int, Judged]]] = {}


def judge_cuts(choice: Choice, method: str, ks: Sequence[int], engine: ThreadEngine) -> list[Judged]:
    """Divide the representatives into each number of clusters, as `USPEC.cut` does, and measure the stability.

    Results are kept in memory as long as the choice exists, because a report is often written several times.
    """
    key = id(choice), method
    if key not in _remembered or _remembered[key][0]() is not choice:
        while len(_remembered) >= REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = weakref.ref(choice), {}
    known = _remembered[key][1]
    alone = engine.within(MemberReporter(engine.reporter), alone=True)  # cuts are counted, not their passes
    missing = [k for k in ks if k not in known]
    # the largest first, because they take longest
    for k, judged in engine.map(lambda k: (k, judge_cut(choice, method, k, alone)), missing[::-1]) if missing else ():
        known[k] = judged
    return [known[k] for k in ks]


def judge_cut(choice: Choice, method: str, k: int, engine: ThreadEngine) -> Judged:
    """Divide the representatives into `k` clusters, as `USPEC.cut` does, and measure the stability of the clusters."""
    own = choice.own
    others = [judge.label_all(k, engine) for judge in choice.judges]
    names = list(CANDIDATES) if method == "auto" else [method]
    groups = {name: CANDIDATES[name](own.hierarchy, k, engine) for name in names}
    if not others:
        return Judged(groups[names[0]], names[0])
    labels = {name: own.label(each) for name, each in groups.items()}
    everything = [each for labelings in others for each in labelings]
    ranked = rank({name: agreement(each, everything) for name, each in labels.items()})
    chosen = next(iter(ranked))
    n_groups = int(groups[chosen].max()) + 1
    return Judged(groups[chosen], chosen, ranked[chosen], cluster_stability(labels[chosen], n_groups, others))


def finish_cut(table: CutTable, at: int, groups: Integers, sizes: Counts, used: npt.NDArray[np.intp]) -> Cut:
    """Return a cut whose clusters are numbered by size, as the model does.

    Every cluster of `groups` has rows, and `used` are the numbers of these clusters among all of the cut.
    """
    order = np.argsort(-sizes, kind="stable")
    numbered = np.argsort(order).astype(np.int32)[groups]
    return Cut(table.ks[at], numbered, sizes[order], table.judged[at], used[order])


def without_empty(spectrum: Spectrum, groups: Integers, sizes: Counts) -> Integers:
    """Return groups (p,) in which the clusters without rows joined others, as in a fit."""
    return VotePartition(spectrum, groups, len(sizes)).keep(np.flatnonzero(sizes)).groups
