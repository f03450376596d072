"""Rough clusterings of the representatives, and what they agree on.

The cost does not depend on the number of rows: some thousand representatives are clustered, each weighted by its rows,
and rows follow by vote (`VotePartition`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.kmeans import spread_centers
from ultraspec.cluster.points import Labels, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral.transfer_cut import Spectrum

ROUGH_ITERATIONS = 5
ROUGH_CLUSTERS = 20, 60  # range that the number of clusters of a rough clustering is drawn from
MOST_ROUGH_CLUSTERS = 100, 200  # the same for very many clusters: coarser clusterings separate them together
REPRESENTATIVES_PER_CLUSTER = 8  # at least, on average: finer clusters of few representatives differ by chance
LEAST_WEIGHT = 1e-12  # for representatives without rows
MOST_NODES = 3000  # label patterns that are told from each other, unless there are more clusters than half of them
STARTS = 10  # starts of k-means; fewer for more than 30 clusters
STARTED_CLUSTERS = 300  # clusters of all starts together
GREEDY_CLUSTERS = 60  # up to this number, each step of k-means++ tries several points
SEED_POINTS = 4000  # heaviest representatives that k-means++ draws from


def degree_shares(spectrum: Spectrum) -> Weights:
    """Return the share of each representative in the sum of all degrees; every share is positive."""
    return np.maximum(spectrum.degrees / spectrum.degrees.sum(), LEAST_WEIGHT)


def rough_range(k: int, p: int) -> tuple[int, int]:
    """Return the smallest and the largest number of clusters of a rough clustering."""
    low, high = ROUGH_CLUSTERS
    most_low, most_high = MOST_ROUGH_CLUSTERS
    most = min(max(high, 2 * k), most_high, max(k, p // REPRESENTATIVES_PER_CLUSTER), p)
    return min(max(low, k), most_low, most), most


def rough_labelings(
    spectrum: Spectrum, weights: Weights, k: int, n: int, rng: np.random.Generator, engine: ThreadEngine
) -> list[Labels]:
    """Cluster the representatives `n` times: few steps of k-means, random starts, varied numbers of eigenvectors."""
    p, n_vectors = spectrum.vectors.shape
    low, high = rough_range(k, p)
    numbers = rng.integers(low, high + 1, size=n)
    starts = [rng.permutation(p)[:number] for number in numbers]
    masses = weights.astype(np.float32)

    def run(start: npt.NDArray[np.int64]) -> Labels:
        X = spectrum.unit_rows(min(len(start), n_vectors))
        return _weighted_kmeans(X, masses, X[start], ROUGH_ITERATIONS, spherical=True)[0]

    return engine.map(run, starts)


def rough_clusters(spectrum: Spectrum, k: int, max_iter: int, rng: np.random.Generator) -> Labels:
    """Cluster the representatives once, by few steps of k-means from starts far apart; there may be fewer than `k`."""
    weights = degree_shares(spectrum)
    X = spectrum.unit_rows(min(k, spectrum.vectors.shape[1]))
    heaviest = np.sort(np.argsort(-weights, kind="stable")[:SEED_POINTS])
    start = spread_centers(X[heaviest], weights[heaviest], k, rng, 1)
    labels = _weighted_kmeans(X, weights.astype(np.float32), start, max_iter)[0]
    return np.unique(labels, return_inverse=True)[1].astype(np.int32).reshape(-1)


def cluster_representatives(
    spectrum: Spectrum, k: int, max_iter: int, rng: np.random.Generator, engine: ThreadEngine
) -> Labels:
    """Cluster the embedded representatives by k-means, weighted by degree; clusters may be fewer than `k`."""
    weights = degree_shares(spectrum)
    X = spectrum.unit_rows(min(k, spectrum.vectors.shape[1]))
    masses = weights.astype(np.float32)
    heaviest = np.sort(np.argsort(-weights, kind="stable")[:SEED_POINTS])
    trials = 2 + int(np.log(k)) if k <= GREEDY_CLUSTERS else 1

    def run(chance: np.random.Generator) -> tuple[float, Labels]:
        start = spread_centers(X[heaviest], weights[heaviest], k, chance, trials)
        labels, centers = _weighted_kmeans(X, masses, start, max_iter)
        difference = X - centers[labels]
        return float(masses @ np.einsum("ij,ij->i", difference, difference)), labels

    results = engine.map(run, rng.spawn(min(STARTS, max(1, STARTED_CLUSTERS // k))))
    labels = min(results, key=lambda result: result[0])[1]
    return np.unique(labels, return_inverse=True)[1].astype(np.int32).reshape(-1)


def _weighted_kmeans(
    X: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32],
    centers: npt.NDArray[np.float32],
    max_iter: int,
    *,
    spherical: bool = False,
) -> tuple[Labels, npt.NDArray[np.float32]]:
    """Run k-means on unit rows, and return labels and centres; a centre that loses its rows stays.

    With `spherical`, centres are scaled to unit length. Otherwise a row that has nothing in common with any centre
    would join the shortest one, which is the mean of the most mixed cluster: small clusters without a centre of their
    own would all meet there.
    """
    centers = centers.copy()
    labels = np.full(len(X), -1, dtype=np.int32)
    products = np.empty((len(X), len(centers)), dtype=np.float32)
    bits = products.view(np.int32)
    sums = np.empty_like(centers)
    counts = np.empty(len(centers), dtype=np.float32)
    for _ in range(max_iter):
        np.matmul(X, centers.T, out=products)
        half_norms = 0.5 * np.einsum("ij,ij->i", centers, centers)
        if not kernels.rough_step(X, weights, products, bits, half_norms, labels, sums, counts, centers):
            break
        if spherical:
            centers /= np.maximum(np.sqrt(np.einsum("ij,ij->i", centers, centers)), np.float32(1e-10))[:, None]
    return labels, centers


def distinct_patterns(labelings: Sequence[Labels], weights: Weights, most: int) -> tuple[Labels, npt.NDArray[np.int64]]:
    """Group representatives that have the same label in all labelings, or nearly so.

    Return the group of each representative, and one representative of each group. Beyond `most` distinct patterns, the
    heaviest are kept, and the others join the kept pattern that they agree with most.
    """
    patterns = np.stack(labelings, axis=1).astype(np.uint16)
    rows = np.ascontiguousarray(patterns).view(np.dtype((np.void, 2 * patterns.shape[1]))).ravel()
    _, first, groups = np.unique(rows, return_index=True, return_inverse=True)
    groups = groups.reshape(-1)
    if len(first) > most:
        masses = np.bincount(groups, weights)
        is_kept = np.zeros(len(first), dtype=bool)
        is_kept[np.argsort(-masses, kind="stable")[:most]] = True
        others = first[~is_kept]
        joined = np.empty(len(others), dtype=np.int64)
        kernels.join_patterns(patterns, first[is_kept], others, joined)
        numbers = np.empty(len(first), dtype=np.int64)
        numbers[is_kept] = np.arange(most)
        numbers[~is_kept] = joined
        groups, first = numbers[groups], first[is_kept]
    return groups.astype(np.int32), first


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
