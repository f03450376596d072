"""Clusters of the representatives, from many rough clusterings of them.

The cost does not depend on the number of rows: a thousand representatives are clustered, each weighted by its rows,
and rows follow by vote (`VotePartition`).
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
from ultraspec.spectral import embedding
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.transfer_cut import Spectrum

STARTS = 4  # starts of k-means for each one asked for: representatives are few
ROUGH_LABELINGS = 100  # rough clusterings that a tree is made of
ROUGH_ITERATIONS = 5
ROUGH_CLUSTERS = 20, 60  # range that the number of clusters of a rough clustering is drawn from
REPRESENTATIVES_PER_CLUSTER = 8  # at least, on average: finer clusters of few representatives differ by chance
LEAST_WEIGHT = 1e-12  # for representatives without rows


def cluster_representatives(
    spectrum: Spectrum, k: int, n_init: int, max_iter: int, rng: np.random.Generator, engine: ThreadEngine
) -> tuple[Labels, int]:
    """Cluster the embedded representatives by k-means, weighted by degree; return labels and iterations."""
    p = len(spectrum.vectors)
    to_themselves = Edges(np.arange(p, dtype=np.uint16)[:, None], np.ones((p, 1), dtype=np.float32))
    points = embedding.EmbeddedPoints(to_themselves, spectrum.vectors[:, :k], degree_shares(spectrum))
    result = embedding.kmeans(points, k, STARTS * n_init, max_iter, rng, engine)
    result = embedding.drop_empty_clusters(
        result, k, "the representatives have too few distinct embeddings. Raise n_representatives."
    )
    return result.labels, result.n_iter


def agreement_tree(spectrum: Spectrum, k: int, rng: np.random.Generator, engine: ThreadEngine) -> Tree:
    """Build the tree of representatives by average linkage of their co-association in rough clusterings.

    Rough clusterings have at least `k` clusters.
    """
    weights = degree_shares(spectrum)
    return tree_of_labelings(rough_labelings(spectrum, weights, k, rng, engine), weights)


def cut_tree(tree: Tree, k: int) -> tuple[Labels, int]:
    """Cut a tree into `k` clusters; return labels of the leaves and the number of clusters.

    Warn and return one cluster per leaf if there are fewer leaves than `k`.
    """
    if k > tree.n_leaves:
        warn_user(
            f"Found {tree.n_leaves} clusters instead of {k}: there are only {tree.n_leaves} representatives. X may "
            "have too few distinct rows; otherwise raise n_representatives.",
            ConvergenceWarning,
        )
        k = tree.n_leaves
    return tree.cut(k), k


def degree_shares(spectrum: Spectrum) -> Weights:
    """Return the share of each representative in the sum of all degrees; every share is positive."""
    return np.maximum(spectrum.degrees / spectrum.degrees.sum(), LEAST_WEIGHT)


def rough_range(k: int, n_vectors: int, p: int) -> tuple[int, int]:
    """Return the smallest and the largest number of clusters of a rough clustering."""
    low, high = ROUGH_CLUSTERS
    most = min(max(high, 2 * k), n_vectors, max(k, p // REPRESENTATIVES_PER_CLUSTER))
    return min(max(low, k), most), most


def rough_labelings(
    spectrum: Spectrum, weights: Weights, k: int, rng: np.random.Generator, engine: ThreadEngine
) -> list[Labels]:
    """Cluster the representatives many times: few steps of k-means, random starts, varied numbers of eigenvectors."""
    p, n_vectors = spectrum.vectors.shape
    low, high = rough_range(k, n_vectors, p)
    numbers = rng.integers(low, high + 1, size=ROUGH_LABELINGS)
    starts = [rng.permutation(p)[:number] for number in numbers]
    masses = weights.astype(np.float32)
    return engine.map(lambda start: _rough_kmeans(spectrum.unit_rows(len(start)), masses, start), starts)


def _rough_kmeans(X: npt.NDArray[np.float32], weights: npt.NDArray[np.float32], start: npt.NDArray[np.int64]) -> Labels:
    """Run a few steps of k-means from some of the unit rows; a centre that loses its rows stays where it is."""
    centers = X[start]
    labels = np.empty(len(X), dtype=np.int32)
    for _ in range(ROUGH_ITERATIONS):
        products = X @ centers.T
        half_norms = 0.5 * np.einsum("ij,ij->i", centers, centers)
        sums = np.zeros_like(centers)
        counts = np.zeros(len(centers), dtype=np.float32)
        kernels.assign_rough(X, weights, products, products.view(np.int32), half_norms, labels, sums, counts)
        used = counts > 0
        centers[used] = sums[used] / counts[used, None]
    return labels


def tree_of_labelings(labelings: Sequence[Labels], weights: Weights) -> Tree:
    """Build the tree of weighted points by average linkage of their co-association in `labelings`."""
    return agglomerate(co_association(labelings, weights), weights, similarity=True, overwrite=True)


def co_association(labelings: Sequence[Labels], weights: Weights) -> npt.NDArray[np.float32]:
    """Compute the size-normalised co-association matrix.

    Entry (i, j) is the mean over labelings of 1 / (weight of the cluster) if i and j share a cluster, else 0.
    """
    p = len(weights)
    C = np.zeros((p, p), dtype=np.float32)
    for labels in labelings:
        bounds = np.concatenate([[0], np.cumsum(np.bincount(labels))])
        masses = np.bincount(labels, weights)
        with np.errstate(divide="ignore"):  # an empty cluster has no pair to add to
            shares = (1.0 / (masses * len(labelings))).astype(np.float32)
        kernels.add_agreement(np.argsort(labels, kind="stable"), bounds, shares, C)
    return C
