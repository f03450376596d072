"""Candidates: the ways to divide the representatives of one graph into clusters.

No way is best for all data. `kmeans` suits round, overlapping classes and cuts long ones. Three trees merge what many
rough clusterings of the representatives agree on: `agreement` follows shapes, but may split a class that holds most
of the rows; `linked` and `border` look at the edges between two clusters, too: `border` keeps such a class together.
`ultraspec.spectral.choice` chooses between them.

To add a candidate, add a function to `CANDIDATES`: the estimator, model files and the command line take the names from
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import warn_user
from ultraspec._kernels import linkage as kernels
from ultraspec.cluster.linkage import Tree, agglomerate
from ultraspec.cluster.points import Labels, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import labelings
from ultraspec.spectral.transfer_cut import Graph, Spectrum

LABELINGS = 100  # rough clusterings of a graph whose clusters are reported
JUDGE_LABELINGS = 30  # of a graph that only judges
TOP_GROUPS = 400  # groups of the agreement tree from which the other trees start, unless more clusters are asked for
FAINT_EDGE = 3e-3  # added between all representatives, as a fraction of the mean edge
KMEANS_ITERATIONS = 100

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Hierarchy:
    """One graph, and the trees of its representatives.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvectors of the graph.
    nodes : ndarray of shape (p,), int32
        Leaf of the trees that each representative belongs to.
    trees : mapping of str to Tree
        Trees of the nodes, by candidate.
    seed : int
        Seed of the k-means of representatives.
    """

    spectrum: Spectrum
    nodes: Labels
    trees: Mapping[str, Tree]
    seed: int

    @property
    def n_nodes(self) -> int:
        """Number of leaves of the trees."""
        return int(self.nodes.max()) + 1

    def cut(self, candidate: str, n_clusters: int, engine: ThreadEngine) -> Labels:
        """Return the cluster (p,) of each representative; warn if there are fewer clusters than `n_clusters`."""
        groups = CANDIDATES[candidate](self, n_clusters, engine)
        warn_of_few_clusters(groups, n_clusters)
        return groups

    def cut_at(self, tree: str, nodes: Sequence[int]) -> Labels:
        """Return the cluster (p,) of each representative if nodes of a tree are the clusters."""
        if tree not in TREES:
            raise ValueError(
                f"nodes are those of a tree, and discretize={tree!r} is none. Pass discretize="
                f"{' or '.join(map(repr, TREES))} too."
            )
        return self.trees[tree].labels_of(nodes)[self.nodes]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state but for the spectrum as arrays, for files."""
        arrays: dict[str, npt.NDArray[Any]] = {"nodes": self.nodes, "seed": np.array([self.seed], dtype=np.int64)}
        for name, tree in self.trees.items() if self.n_nodes > 1 else ():
            arrays |= {f"{name}.merges": tree.merges, f"{name}.heights": tree.heights, f"{name}.masses": tree.sizes}
        return arrays

    @classmethod
    def from_arrays(cls, spectrum: Spectrum, arrays: Mapping[str, npt.NDArray[Any]]) -> Hierarchy:
        """Restore a hierarchy from what `arrays` returned; other arrays are ignored."""
        leaf = Tree(np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0))  # a single one has no merges
        trees = {
            name: Tree(arrays[f"{name}.merges"], arrays[f"{name}.heights"], arrays[f"{name}.masses"])
            if f"{name}.merges" in arrays
            else leaf
            for name in TREES
        }
        return cls(spectrum, arrays["nodes"], trees, int(arrays["seed"][0]))


def warn_of_few_clusters(groups: Labels, n_clusters: int) -> None:
    """Warn if representatives form fewer than `n_clusters` clusters."""
    found = int(groups.max()) + 1
    if found < n_clusters:
        warn_user(
            f"Found {found} clusters instead of {n_clusters}: the representatives have too few distinct embeddings. X "
            "may have too few distinct rows; otherwise raise n_representatives.",
            ConvergenceWarning,
        )


def _kmeans(hierarchy: Hierarchy, n_clusters: int, engine: ThreadEngine) -> Labels:
    """Cluster the embedded representatives, weighted by their rows."""
    rng = np.random.default_rng(hierarchy.seed)
    return labelings.cluster_representatives(hierarchy.spectrum, n_clusters, KMEANS_ITERATIONS, rng, engine)


def _cut_of(name: str) -> Callable[[Hierarchy, int, ThreadEngine], Labels]:
    def cut(hierarchy: Hierarchy, n_clusters: int, engine: ThreadEngine) -> Labels:  # noqa: ARG001
        return hierarchy.trees[name].cut(min(n_clusters, hierarchy.n_nodes))[hierarchy.nodes]

    return cut


TREES = ("agreement", "linked", "border")
CANDIDATES: dict[str, Callable[[Hierarchy, int, ThreadEngine], Labels]] = {
    **{name: _cut_of(name) for name in TREES},
    "kmeans": _kmeans,
}


def build_hierarchy(
    graph: Graph, spectrum: Spectrum, n_clusters: int, n_labelings: int, seed: int, engine: ThreadEngine
) -> Hierarchy:
    """Build the trees of the representatives of a graph.

    Parameters
    ----------
    graph : Graph
        Affinity of the representatives.
    spectrum : Spectrum
        Its eigenvectors.
    n_clusters : int
        Number of clusters that will be asked for, about.
    n_labelings : int
        Number of rough clusterings.
    seed : int
        Seed of the random numbers.
    engine : ThreadEngine
        Runs the rough clusterings.
    """
    rng = np.random.default_rng(seed)
    weights = labelings.degree_shares(spectrum)
    rough = labelings.rough_labelings(spectrum, weights, n_clusters, n_labelings, rng, engine)
    return hierarchy_of_labelings(graph, spectrum, rough, n_clusters, seed)


def hierarchy_of_labelings(
    graph: Graph, spectrum: Spectrum, rough: list[Labels], n_clusters: int, seed: int
) -> Hierarchy:
    """Build the trees of representatives that have the same labels in all rough clusterings."""
    weights = labelings.degree_shares(spectrum)
    most = max(labelings.MOST_NODES, 2 * n_clusters)
    nodes, first = labelings.distinct_patterns(rough, weights, most)
    masses: Floats = np.bincount(nodes, weights).astype(np.float64)
    C = labelings.co_association([labels[first] for labels in rough], masses)
    agreement = agglomerate(C.copy(), masses, similarity=True, overwrite=True)
    n_groups = min(len(masses), max(TOP_GROUPS, 4 * n_clusters))
    groups = agreement.cut(n_groups)
    means = _group_means(C, masses, groups, n_groups)
    links = _group_links(graph.affinity, groups[nodes], n_groups)
    trees = {"agreement": agreement}
    for name, method in {"linked": kernels.LINKED, "border": kernels.BORDER}.items():
        trees[name] = _rebuild_top(agreement, masses, n_groups, means, links, method)
    return Hierarchy(spectrum, nodes, trees, seed)


def _group_means(C: npt.NDArray[np.float32], masses: Weights, groups: Labels, n: int) -> Floats:
    """Return the mean co-association (n, n) of the objects of each pair of groups."""
    P = scipy.sparse.csr_array((masses, (np.arange(len(groups)), groups)), shape=(len(groups), n))
    totals = np.bincount(groups, masses, minlength=n)
    sums: Floats = P.T @ (P.T @ C).T
    return (sums + sums.T) / 2 / totals / totals[:, None]


def _group_links(affinity: Any, groups: Labels, n: int) -> Floats:
    """Return the affinity (n, n) between groups of representatives, with a faint edge between all representatives."""
    p = len(groups)
    P = scipy.sparse.csr_array((np.ones(p), (np.arange(p), groups)), shape=(p, n))
    sums = P.T @ (affinity @ P)
    links: Floats = sums.toarray() if scipy.sparse.issparse(sums) else np.asarray(sums)
    sizes = np.bincount(groups, minlength=n).astype(np.float64)
    links = (links + links.T) / 2
    return links + FAINT_EDGE * affinity.sum() / p**2 * np.outer(sizes, sizes)


def _rebuild_top(tree: Tree, masses: Weights, n_groups: int, means: Floats, links: Floats, method: int) -> Tree:
    """Return a tree that merges as `tree` does until `n_groups` are left, and then by another similarity.

    Its merges are in the order in which they happen; their similarities need not descend.
    """
    m = tree.n_leaves
    merges = np.empty((n_groups - 1, 2), dtype=np.int64)
    heights = np.empty(n_groups - 1)
    kept = m - n_groups
    totals = np.concatenate([masses, tree.sizes[:kept], np.zeros(n_groups - 1)])
    roots = tree.roots(n_groups)
    if n_groups > 1:
        kernels.merge_linked(means.copy(), links.copy(), totals[roots], links.sum(axis=1), method, merges, heights)
    names = np.concatenate([roots, m + kept + np.arange(n_groups - 1)])
    merges = np.sort(names[merges], axis=1)
    for t, (a, b) in enumerate(merges.tolist(), start=m + kept):
        totals[t] = totals[a] + totals[b]
    return Tree(
        np.concatenate([tree.merges[:kept], merges]), np.concatenate([tree.heights[:kept], heights]), totals[m:]
    )
