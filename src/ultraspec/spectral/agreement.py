"""Groups of representatives: takes their eigenvectors and degrees, gives a cluster for each, or a tree of clusters.

Nothing here grows with the rows: a thousand representatives are clustered instead, each by the weight of the rows
tied to it, and rows follow by vote (`VotePartition`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import warn_user
from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.linkage import Tree, agglomerate
from ultraspec.cluster.points import Labels, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import discretize
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.transfer_cut import MOST_AUTO_CLUSTERS, Spectrum

STARTS = 4  # of k-means for each that is asked for: representatives are few
ROUGH_LABELINGS = 100  # that a tree is made of
ROUGH_ITERATIONS = 5
ROUGH_CLUSTERS = 20, 60  # of each of them, drawn from this range
REPRESENTATIVES_PER_GROUP = 8  # at least, on average: finer groups of few representatives differ by chance
LEAST_SHARE = 1e-12  # of all degrees, for representatives that no row is tied to
UNRELATED = 0.1  # similarities below this are alike for `largest_fall`; the mean of all pairs is one


def by_kmeans(
    spectrum: Spectrum, k: int, n_init: int, max_iter: int, random: np.random.Generator, engine: ThreadEngine
) -> tuple[Labels, int]:
    """Clusters of the representatives by k-means of their embedding, each weighing its degree; and the iterations."""
    p = len(spectrum.vectors)
    own = Edges(np.arange(p, dtype=np.uint16)[:, None], np.ones((p, 1), dtype=np.float32))
    points = discretize.EmbeddedPoints(own, spectrum.vectors[:, :k], shares(spectrum))
    found = discretize.kmeans(points, k, STARTS * n_init, max_iter, random, engine)
    found = discretize.renumber(
        found, k, "the representatives have only so many distinct places. Raise n_representatives."
    )
    return found.labels, found.n_iter


def by_agreement(spectrum: Spectrum, k: int, random: np.random.Generator, engine: ThreadEngine) -> Tree:
    """Tree of the representatives: those come together first that many rough clusterings put into one small group.

    `k` is the number of clusters that will be asked for: rough clusterings have no fewer.
    """
    weights = shares(spectrum)
    return tree_of(rough_labelings(spectrum, weights, k, random, engine), weights)


def cut_tree(tree: Tree, k: int) -> tuple[Labels, int]:
    """Clusters of the leaves and their number: `k`, or with a warning all leaves where they are fewer."""
    if k > tree.n_leaves:
        warn_user(
            f"Found {tree.n_leaves} clusters instead of {k}: there are only so many representatives. X may have too "
            "few distinct rows; otherwise raise n_representatives.",
            ConvergenceWarning,
        )
        k = tree.n_leaves
    return tree.cut(k), k


def shares(spectrum: Spectrum) -> Weights:
    """Shares of the representatives in all degrees, every one positive."""
    return np.maximum(spectrum.degrees / spectrum.degrees.sum(), LEAST_SHARE)


def rough_range(k: int, n_vectors: int, p: int) -> tuple[int, int]:
    """Fewest and most groups of a rough clustering."""
    low, high = ROUGH_CLUSTERS
    most = min(max(high, 2 * k), n_vectors, max(k, p // REPRESENTATIVES_PER_GROUP))
    return min(max(low, k), most), most


def rough_labelings(
    spectrum: Spectrum, weights: Weights, k: int, random: np.random.Generator, engine: ThreadEngine
) -> list[Labels]:
    """Clusterings of the representatives: few steps of k-means from random starts, among varied numbers of vectors."""
    p, n_vectors = spectrum.vectors.shape
    low, high = rough_range(k, n_vectors, p)
    numbers = random.integers(low, high + 1, size=ROUGH_LABELINGS)
    starts = [random.permutation(p)[:number] for number in numbers]
    masses = weights.astype(np.float32)
    return engine.map(lambda start: _rough_kmeans(spectrum.unit_rows(len(start)), masses, start), starts)


def _rough_kmeans(X: npt.NDArray[np.float32], weights: npt.NDArray[np.float32], start: npt.NDArray[np.int64]) -> Labels:
    """Labels after a few steps of k-means from some of the unit rows; a centre that loses its rows stays."""
    centers = X[start]
    labels = np.empty(len(X), dtype=np.int32)
    for _ in range(ROUGH_ITERATIONS):
        products, half_norms = X @ centers.T, 0.5 * np.einsum("ij,ij->i", centers, centers)
        sums, counts = np.zeros_like(centers), np.zeros(len(centers), dtype=np.float32)
        kernels.assign_rough(X, weights, products, products.view(np.int32), half_norms, labels, sums, counts)
        full = counts > 0
        centers[full] = sums[full] / counts[full, None]
    return labels


def tree_of(labelings: Sequence[Labels], weights: Weights) -> Tree:
    """Average linkage of weighted points by their co-association in `labelings`."""
    return agglomerate(co_association(labelings, weights), weights, similarity=True, overwrite=True)


def largest_fall(tree: Tree) -> int:
    """Number of clusters k >= 2 after which merging on costs most, for a tree of similarities.

    That is where similarity falls most from the merge that leaves k clusters to the next. Falls are ratios;
    `UNRELATED` keeps those among clusters that hardly any labeling joins from counting.
    """
    similarities = tree.heights[::-1][:MOST_AUTO_CLUSTERS] + UNRELATED  # the j-th leaves j clusters
    if len(similarities) < 2:
        return tree.n_leaves
    return 2 + int(np.argmax(similarities[1:] / similarities[:-1]))


def co_association(labelings: Sequence[Labels], weights: Weights) -> npt.NDArray[np.float32]:
    """Mean over labelings of: one over the weight of the group that both points are in, zero if they share none."""
    p = len(weights)
    C = np.zeros((p, p), dtype=np.float32)
    for labels in labelings:
        bounds = np.concatenate([[0], np.cumsum(np.bincount(labels))])
        masses = np.bincount(labels, weights)
        with np.errstate(divide="ignore"):  # a group without points has no pair to add to
            parts = (1.0 / (masses * len(labelings))).astype(np.float32)
        kernels.add_agreement(np.argsort(labels, kind="stable"), bounds, parts, C)
    return C
