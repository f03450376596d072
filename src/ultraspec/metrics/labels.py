"""Scores of a clustering against known classes: takes two label vectors, gives one float.

All five scores are computed from the contingency table, which is built in one pass over the labels and stores only
cells that are not zero: 20 million rows take a fraction of a second, and 100,000 clusters need no dense table. Labels
may be integers, strings, floats without NaN or any hashable objects; only which rows share a label matters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Contingency", "ami", "ari", "contingency", "hungarian_accuracy", "majority_accuracy", "nmi"]

_BLOCK_ROWS = 1_000_000
_DENSE_CELLS = 4_000_000  # up to this size (32 MB), a dense table of counts is cheaper than sorting


class Contingency(NamedTuple):
    """Contingency table of classes and clusters: its nonzero cells and its margins, all int64.

    In cell ``j``, ``counts[j]`` rows have class number ``classes[j]`` and cluster number ``clusters[j]``. Classes and
    clusters are numbered from 0 without gaps; ``class_sizes`` and ``cluster_sizes`` are their numbers of rows.
    """

    classes: NDArray[np.int64]
    clusters: NDArray[np.int64]
    counts: NDArray[np.int64]
    class_sizes: NDArray[np.int64]
    cluster_sizes: NDArray[np.int64]


def contingency(truth: ArrayLike, labels: ArrayLike) -> Contingency:
    """Count the rows of each class in each cluster.

    Parameters
    ----------
    truth, labels : array-like of shape (n,)
        Known classes and predicted clusters.

    Returns
    -------
    Contingency
        The nonzero cells, sorted by class and then by cluster.

    Examples
    --------
    >>> from ultraspec.metrics import contingency
    >>> table = contingency(["a", "a", "b", "b"], [7, 7, 7, -1])
    >>> table.counts.tolist(), table.class_sizes.tolist(), table.cluster_sizes.tolist()
    ([2, 1, 1], [2, 2], [1, 3])
    """
    t = _Column.of(_integers(truth, "truth"))
    c = _Column.of(_integers(labels, "labels"))
    n = len(t.values)
    if n != len(c.values):
        raise ValueError(f"truth and labels must have the same length, got {n} and {len(c.values)} rows")
    if t.span * c.span > _DENSE_CELLS:  # perhaps only because the numbers have gaps
        t = t.without_gaps()
        c = c.without_gaps()
    if t.span * c.span > _DENSE_CELLS:
        return _sparse_contingency(t, c)
    cells = np.zeros(t.span * c.span, np.int64)
    for start in range(0, n, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        cells += np.bincount(t.from_zero(rows) * c.span + c.from_zero(rows), minlength=len(cells))
    table = cells.reshape(t.span, c.span)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    classes, clusters = np.nonzero(table)
    return Contingency(classes, clusters, table[classes, clusters], table.sum(axis=1), table.sum(axis=0))


def nmi(truth: ArrayLike, labels: ArrayLike) -> float:
    """Compute the normalised mutual information as in the paper: mutual information over the larger entropy.

    Parameters
    ----------
    truth, labels : array-like of shape (n,)
        Known classes and predicted clusters.

    Returns
    -------
    float
        Between 0 and 1: 1 for equal partitions (also if both are constant), 0 if only one of them is constant.

    Examples
    --------
    >>> from ultraspec.metrics import nmi
    >>> nmi([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> round(nmi([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.667
    """
    table = contingency(truth, labels)
    sizes = len(table.class_sizes), len(table.cluster_sizes)
    if len(table.counts) == max(sizes) == min(sizes):
        return 1.0  # equal partitions: exactly 1, whereas the sums below are rounded
    if min(sizes) == 1:
        return 0.0
    information, *entropies = _information(table)
    return float(np.clip(information / max(entropies), 0.0, 1.0))


def majority_accuracy(truth: ArrayLike, labels: ArrayLike) -> float:
    """Compute the share of rows in the most frequent class of their cluster: the paper's CA, also called purity.

    Parameters
    ----------
    truth, labels : array-like of shape (n,)
        Known classes and predicted clusters.

    Returns
    -------
    float
        At least the share of the largest class, at most 1. It never decreases when clusters are split, so compare it
        only between equal numbers of clusters, and never with `hungarian_accuracy`.

    Examples
    --------
    >>> from ultraspec.metrics import majority_accuracy
    >>> majority_accuracy([0, 0, 1, 1], [0, 0, 0, 1])
    0.75
    >>> majority_accuracy([0, 0, 1, 1], [0, 1, 2, 3])
    1.0
    """
    table = contingency(truth, labels)
    best = np.zeros_like(table.cluster_sizes)
    np.maximum.at(best, table.clusters, table.counts)
    return int(best.sum()) / int(table.counts.sum())


def hungarian_accuracy(truth: ArrayLike, labels: ArrayLike) -> float:
    """Compute the share of correct rows under the best one-to-one matching of clusters with classes.

    Parameters
    ----------
    truth, labels : array-like of shape (n,)
        Known classes and predicted clusters. Their numbers may differ: rows of unmatched clusters count as wrong.

    Returns
    -------
    float
        Between 0 and 1, never above `majority_accuracy`.

    Examples
    --------
    >>> from ultraspec.metrics import hungarian_accuracy
    >>> hungarian_accuracy([0, 0, 1, 1], [0, 1, 2, 3])
    0.5
    """
    table = contingency(truth, labels)
    return _best_matching(table) / int(table.counts.sum())


def ari(truth: ArrayLike, labels: ArrayLike) -> float:
    """Compute the adjusted Rand index of Hubert and Arabie: agreement on pairs of rows, corrected for chance.

    Parameters
    ----------
    truth, labels : array-like of shape (n,)
        Known classes and predicted clusters.

    Returns
    -------
    float
        1 for equal partitions, about 0 for independent ones, negative for less agreement than by chance.

    Examples
    --------
    >>> from ultraspec.metrics import ari
    >>> ari([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    >>> ari([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    table = contingency(truth, labels)
    both, in_class, in_cluster = _pairs(table.counts), _pairs(table.class_sizes), _pairs(table.cluster_sizes)
    n = int(table.counts.sum())
    every = n * (n - 1) // 2
    # Python integers: these products exceed 2**63 from about 80,000 rows on, and their differences need every digit.
    largest = (in_class + in_cluster) * every - 2 * in_class * in_cluster
    if largest == 0:  # both have one cluster, or both have a cluster per row
        return 1.0
    return 2 * (both * every - in_class * in_cluster) / largest


def ami(truth: ArrayLike, labels: ArrayLike) -> float:
    """Compute the adjusted mutual information of Vinh, Epps and Bailey: mutual information, corrected for chance.

    Equals ``sklearn.metrics.adjusted_mutual_info_score``, and takes no longer for many rows: what is expected by chance
    is computed once for each pair of sizes, near its most likely value.

    Parameters
    ----------
    truth, labels : array-like of shape (n,)
        Known classes and predicted clusters.

    Returns
    -------
    float
        1 for equal partitions, about 0 for independent ones, negative for less agreement than by chance.

    Examples
    --------
    >>> from ultraspec.metrics import ami
    >>> ami([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    >>> round(ami([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 2]), 3)
    0.502
    """
    table = contingency(truth, labels)
    sizes = len(table.class_sizes), len(table.cluster_sizes)
    if len(table.counts) == max(sizes) == min(sizes):
        return 1.0  # equal partitions: exactly 1, whereas the sums below are rounded
    if min(sizes) == 1:
        return 0.0
    information, *entropies = _information(table)
    by_chance = _expected_information(table.class_sizes, table.cluster_sizes, int(table.counts.sum()))
    possible = sum(entropies) / 2 - by_chance
    if abs(possible) < np.finfo(np.float64).eps:  # a cluster per row
        return 0.0
    return float((information - by_chance) / possible)


def _information(table: Contingency) -> tuple[float, float, float]:
    """Return the mutual information of classes and clusters, and the entropy of each."""
    n = table.counts.sum()
    joint, p, q = table.counts / n, table.class_sizes / n, table.cluster_sizes / n
    information = np.sum(joint * np.log(joint / (p[table.classes] * q[table.clusters])))
    return float(information), float(-np.sum(p * np.log(p))), float(-np.sum(q * np.log(q)))


def _expected_information(class_sizes: NDArray[np.int64], cluster_sizes: NDArray[np.int64], n: int) -> float:
    """Return the mean mutual information of random partitions of n rows with these sizes."""
    total = 0.0
    classes, class_numbers = np.unique(class_sizes, return_counts=True)
    clusters, cluster_numbers = np.unique(cluster_sizes, return_counts=True)
    for a, repeats in zip(classes.tolist(), class_numbers.tolist(), strict=True):
        for b, others in zip(clusters.tolist(), cluster_numbers.tolist(), strict=True):
            total += repeats * others * _expected_term(a, b, n)
    return total


def _expected_term(a: int, b: int, n: int) -> float:
    """Return the mean of x / n log(x n / (a b)), where x is the number of rows that random sets of a and b rows share.

    x has a hypergeometric distribution; values beyond 12 standard deviations contribute nothing.
    """
    from scipy.special import gammaln

    mean = a * b / n
    deviation = np.sqrt(mean * (n - a) / n * (n - b) / max(n - 1, 1))
    low = max(1, a + b - n, int(mean - 12 * deviation) - 12)
    high = min(a, b, int(mean + 12 * deviation) + 12)
    x = np.arange(low, high + 1, dtype=np.float64)
    ways = gammaln(a + 1) - gammaln(x + 1) - gammaln(a - x + 1)
    ways += gammaln(n - a + 1) - gammaln(b - x + 1) - gammaln(n - a - b + x + 1)
    ways -= gammaln(n + 1) - gammaln(b + 1) - gammaln(n - b + 1)
    return float(np.sum(np.exp(ways) * x / n * (np.log(x) + np.log(n) - np.log(a) - np.log(b))))


def _pairs(counts: NDArray[np.int64]) -> int:
    if counts.sum() >= 2**31:  # the sum of squares may exceed 2**63
        return sum(n * (n - 1) // 2 for n in counts.tolist())
    return int((counts * (counts - 1) // 2).sum())


def _best_matching(table: Contingency) -> int:
    shape = len(table.class_sizes), len(table.cluster_sizes)
    if shape[0] * shape[1] <= _DENSE_CELLS:
        from scipy.optimize import linear_sum_assignment

        dense = np.zeros(shape, np.int64)
        dense[table.classes, table.clusters] = table.counts
        return int(dense[linear_sum_assignment(dense, maximize=True)].sum())

    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    settled, classes, clusters, counts = _settle(table)
    if len(counts) == 0:
        return settled
    classes, clusters = (np.unique(group, return_inverse=True)[1] for group in (classes, clusters))
    n_classes, n_clusters = (int(group.max()) + 1 for group in (classes, clusters))
    # Each class also gets a dummy cluster without rows, so that a full matching always exists. Edges of weight 0 would
    # not count as edges: 1 is added to all weights, and so once per class to the result.
    dummy = np.arange(n_classes)
    classes = np.concatenate([classes, dummy])
    clusters = np.concatenate([clusters, n_clusters + dummy])
    weights = np.concatenate([counts, np.zeros_like(dummy)]) + 1.0
    graph = csr_array((weights, (classes, clusters)), shape=(n_classes, n_clusters + n_classes))
    matched = min_weight_full_bipartite_matching(graph, maximize=True)
    return settled + int(graph[matched].sum()) - n_classes


def _settle(table: Contingency) -> tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Match pairs that are in every best matching; return their number of rows, and the cells that remain.

    Such a pair has more rows than the best alternatives of its class and of its cluster together. On a good clustering
    these are nearly all pairs, and the exact solver is slow on large tables.
    """
    settled = 0
    classes, clusters, counts = table[:3]
    while True:
        sure = counts > _best_alternative(classes, counts) + _best_alternative(clusters, counts)
        settled += int(counts[sure].sum())
        class_matched = np.zeros(len(table.class_sizes), bool)
        class_matched[classes[sure]] = True
        cluster_matched = np.zeros(len(table.cluster_sizes), bool)
        cluster_matched[clusters[sure]] = True
        rest = ~(class_matched[classes] | cluster_matched[clusters])
        enough = rest.mean() > 0.99 if len(rest) else True  # a pass that matches few pairs is not worth repeating
        classes, clusters, counts = classes[rest], clusters[rest], counts[rest]
        if enough:
            return settled, classes, clusters, counts


def _best_alternative(group: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each cell the largest count among the other cells of its group."""
    order = np.lexsort((-counts, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    size = np.diff(first, append=len(order))
    alternative = np.repeat(counts[order[first]], size)
    second = counts[order[np.minimum(first + 1, len(order) - 1)]]
    alternative[first] = np.where(size > 1, second, 0)
    result = np.empty_like(counts)
    result[order] = alternative
    return result


class _Column(NamedTuple):
    """Integer labels and their range."""

    values: NDArray[Any]
    low: int
    span: int

    @classmethod
    def of(cls, values: NDArray[Any]) -> _Column:
        low, high = int(values.min()), int(values.max())
        return cls(values, low, high - low + 1)

    def from_zero(self, rows: slice = slice(None)) -> NDArray[np.int64]:
        part = self.values[rows]
        if part.dtype == np.uint64:  # may exceed int64 before the subtraction
            return (part - np.uint64(self.low)).astype(np.int64)
        return part.astype(np.int64) - self.low

    def without_gaps(self) -> _Column:
        if self.span > 4 * len(self.values) + 65_536:  # a table of the range would be larger than the labels
            return _Column.of(np.unique(self.values, return_inverse=True)[1])
        codes = self.from_zero()
        used = np.zeros(self.span, bool)
        used[codes] = True
        number = np.cumsum(used) - 1
        smallest_type = np.min_scalar_type(number[-1])
        return _Column.of(number.astype(smallest_type)[codes])


def _sparse_contingency(t: _Column, c: _Column) -> Contingency:
    codes = t.from_zero()
    codes *= c.span  # neither has gaps, so spans are at most n and the product fits into int64
    codes += c.from_zero()
    cells, counts = np.unique(codes, return_counts=True)
    classes, clusters = np.divmod(cells, c.span)
    sizes = (np.bincount(which, counts).astype(np.int64) for which in (classes, clusters))
    return Contingency(classes, clusters, counts.astype(np.int64), *sizes)


def _integers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Check a label vector, and return integers that are equal where its values are equal."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty; scores need at least one row")
    if array.dtype.kind == "O":
        return _numbered_objects(array, name)
    if array.dtype.kind in "fcmM" and np.isnan(array).any():
        raise ValueError(f"{name} has missing values (NaN)")
    if array.dtype.kind == "f" and -(2**53) < array.min() <= array.max() < 2**53:
        integers = array.astype(np.int64)  # class numbers stored as floats need no sorting
        if np.array_equal(integers, array):
            return integers
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    return array if array.dtype.kind in "iu" else np.unique(array, return_inverse=True)[1]


def _numbered_objects(array: NDArray[Any], name: str) -> NDArray[np.int64]:
    # A dictionary instead of np.unique: objects of different types cannot be sorted.
    numbers: dict[Any, int] = {}
    codes = np.fromiter((numbers.setdefault(value, len(numbers)) for value in array), np.int64, len(array))
    for value in numbers:
        if value is None or type(value).__name__ == "NAType" or value != value:
            raise ValueError(f"{name} has missing values ({value})")
    return codes
