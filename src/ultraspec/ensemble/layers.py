"""Number of clusters of a consensus: the numbers at which disjoint halves of the base clusterings agree.

The same idea as in `ultraspec.spectral.layers`, with halves of the clusterings in the place of halves of the rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.linkage import Tree, agglomerate
from ultraspec.cluster.points import Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.microclusters import Microclusters
from ultraspec.spectral.choice import COMMON_ROWS
from ultraspec.spectral.labelings import MOST_NODES, co_association, distinct_patterns
from ultraspec.spectral.layers import Agreement, Layer, compare_numbers, layers_of, likeness, without_crumbs

SPLITS = 4  # times that the clusterings are divided into halves
LEAST_CLUSTERINGS = 4
MOST = 200  # clusters


def find_consensus_layers(micro: Microclusters, rng: np.random.Generator, engine: ThreadEngine) -> list[Layer]:
    """Return the numbers of clusters that base clusterings support, the best first; one cluster if none.

    Raise ValueError if there are too few clusterings to compare halves of them.
    """
    m = micro.columns.shape[1]
    if m < LEAST_CLUSTERINGS:
        raise ValueError(
            f'n_clusters="auto" compares halves of the base clusterings, and base_labels has only {m}. Pass '
            f"n_clusters, or at least {LEAST_CLUSTERINGS} clusterings."
        )
    assigned = micro.assigned
    shares = micro.weights[assigned] / micro.weights[assigned].sum()
    sample = assigned[rng.choice(len(assigned), min(COMMON_ROWS, int(micro.weights.sum())), p=shares)]
    orders = [rng.permutation(m) for _ in range(SPLITS)]
    halves = [half for order in orders for half in (order[: m // 2], order[m // 2 :])]
    rows, places = np.unique(sample, return_inverse=True)
    weights = micro.weights[rows]

    def build(half: npt.NDArray[np.int64]) -> tuple[Tree, Labels]:
        return _tree_of_half(micro.columns[rows][:, half], weights, places)

    trees = engine.map(build, halves)
    most = min(MOST, *(tree.n_leaves for tree, _ in trees))

    def compare(k: int) -> Agreement:
        labels = [without_crumbs(tree.cut(k)[leaves]) for tree, leaves in trees]
        likenesses = [likeness(a, b) for (a, _), (b, _) in zip(labels[::2], labels[1::2], strict=True)]
        return Agreement(float(np.mean(likenesses)), float(np.mean([number for _, number in labels])))

    return layers_of(compare_numbers(lambda numbers: engine.map(compare, numbers), most))


def _tree_of_half(
    columns: npt.NDArray[np.int32], weights: npt.NDArray[np.float64], places: npt.NDArray[np.intp]
) -> tuple[Tree, Labels]:
    """Return the tree of average linkage of some clusterings (columns), and the leaf of each sampled row."""
    labelings = [np.unique(column, return_inverse=True)[1].astype(np.int32) for column in columns.T]
    nodes, first = distinct_patterns(labelings, weights, MOST_NODES)
    masses: npt.NDArray[np.float64] = np.bincount(nodes, weights).astype(np.float64)
    C = co_association([labels[first] for labels in labelings], masses)
    return agglomerate(C, masses, similarity=True, overwrite=True), nodes[places]
