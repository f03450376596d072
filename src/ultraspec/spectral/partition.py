"""Labels of rows, fitted or new, from their edges.

A `CenterPartition` assigns a row to the nearest centre in the embedding. A `VotePartition` has a cluster for each
representative; the representatives of a row vote, weighted by its edges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import warn_user
from ultraspec._kernels import kmeans as kernels
from ultraspec._kernels.agreement import clear_distances, label_clear_rows, vote, vote_shares, vote_trust
from ultraspec.cluster.points import Centers, Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Span
from ultraspec.spectral.edges import Edges, LazyEdges, new_edges
from ultraspec.spectral.labelings import degree_shares
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.transfer_cut import Spectrum, lift, lift_buffer, pad_lanes
from ultraspec.storage.cached import cached_attribute
from ultraspec.storage.spool import as_array

MARGIN = 1e-5  # a centre must be nearer than all others by this much to be taken without the exact scale of a row


class Partition(ABC):
    """Clusters of what rows have edges to; labels and embeds rows by their edges.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvectors, possibly more than are used.
    """

    spectrum: Spectrum

    @property
    @abstractmethod
    def n_clusters(self) -> int:
        """Number of clusters."""

    @property
    @abstractmethod
    def n_vectors(self) -> int:
        """Dimensions of the embedding: the number of leading eigenvectors used."""

    @abstractmethod
    def label(self, edges: Edges) -> Labels:
        """Label rows."""

    @abstractmethod
    def keep(self, used: npt.NDArray[np.intp]) -> Partition:
        """Return a partition with the clusters `used` only, numbered from zero."""

    @abstractmethod
    def renumber(self, order: npt.NDArray[np.intp]) -> Partition:
        """Return a partition that labels rows alike, but numbers cluster ``order[c]`` as c."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays, for files."""
        spectrum = self.spectrum
        return {"eigenvalues": spectrum.eigenvalues, "vectors": spectrum.vectors, "degrees": spectrum.degrees}

    def embed(self, edges: Edges) -> npt.NDArray[np.float32]:
        """Embed rows."""
        return lift(edges, self._vectors)

    @cached_attribute
    def _vectors(self) -> npt.NDArray[np.float32]:
        return np.ascontiguousarray(self.spectrum.vectors[:, : self.n_vectors])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without derived tables, for pickles."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True)
class CenterPartition(Partition):
    """Clusters around centres in the embedding.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvectors, possibly more than are used.
    centers : ndarray of shape (k, k'), float32
        Centres of the clusters among the first k' vectors.
    numbers : ndarray of shape (k,), int32, or None
        Number of the cluster around each centre; None numbers them in the order of the centres. Centres themselves are
        not reordered, because the order decides ties.
    """

    spectrum: Spectrum
    centers: Centers
    numbers: Labels | None = None

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    @property
    def n_vectors(self) -> int:
        """Dimensions of the embedding."""
        return self.centers.shape[1]

    def label(self, edges: Edges) -> Labels:
        """Label each row with the nearest centre, by the arithmetic of the last pass of the fit."""
        labels = np.empty(len(edges), dtype=np.int32)
        vectors, *table = self._tables
        buffers = lift_buffer(vectors), *score_buffer(table)
        kernels.label_embedded(edges.ids, edges.weights, vectors, *table, *buffers, labels)
        return labels if self.numbers is None else self.numbers[labels]

    def keep(self, used: npt.NDArray[np.intp]) -> CenterPartition:
        """Return a partition with the clusters `used` only, numbered from zero."""
        assert self.numbers is None
        return replace(self, centers=self.centers[used])

    def renumber(self, order: npt.NDArray[np.intp]) -> CenterPartition:
        """Return a partition that labels rows alike, but numbers cluster ``order[c]`` as c."""
        numbers = np.argsort(order).astype(np.int32)
        return replace(self, numbers=numbers if self.numbers is None else numbers[self.numbers])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays, for files."""
        arrays = {**super().arrays(), "cluster_centers": self.centers}
        return arrays if self.numbers is None else {**arrays, "cluster_numbers": self.numbers}

    @cached_attribute
    def _tables(self) -> tuple[npt.NDArray[Any], ...]:
        vectors, centers = self._vectors, self.centers
        return pad_lanes(vectors), *score_table(vectors, centers), *score_facts(vectors, centers)


@dataclass(frozen=True)
class VotePartition(Partition):
    """Clusters of representatives; a row gets the cluster that most of its weight goes to.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvectors.
    groups : ndarray of shape (p,), int32
        Cluster of each representative.
    n_groups : int
        Number of clusters.
    trust : ndarray of shape (p,), float32, or None
        How far other graphs keep each representative with its cluster, if there are other graphs.
    """

    spectrum: Spectrum
    groups: Labels
    n_groups: int
    trust: npt.NDArray[np.float32] | None = None

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.n_groups

    @property
    def n_vectors(self) -> int:
        """Dimensions of the embedding."""
        return min(self.n_groups, self.spectrum.vectors.shape[1])

    def label(self, edges: Edges) -> Labels:
        """Label each row with the cluster that has most of its weight."""
        labels = np.empty(len(edges), dtype=np.int32)
        vote(edges.ids, edges.weights, self.groups, labels)
        return labels

    def memberships(self, edges: Edges) -> npt.NDArray[np.float32]:
        """Return the share (n, k) of each cluster in the weight of each row; the largest is that of `label`."""
        shares = np.zeros((len(edges), self.n_groups), dtype=np.float32)
        vote_shares(edges.ids, edges.weights, self.groups, self.label(edges), shares)
        return shares

    def membership(self, edges: Edges) -> npt.NDArray[np.float32]:
        """Return the share (n,) of the cluster of each row in its weight."""
        return self.memberships(edges).max(axis=1)

    def confidence(self, edges: Edges, labels: Labels | None = None) -> npt.NDArray[np.float32]:
        """Return the confidence (n,) in the label of each row, given the labels, if they are known."""
        assert self.trust is not None
        out = np.empty(len(edges), dtype=np.float32)
        labels = self.label(edges) if labels is None else labels
        vote_trust(edges.ids, edges.weights, self.groups, self.trust, labels, out)
        return out

    def cluster_confidence(self) -> npt.NDArray[np.float64]:
        """Return the mean trust (k,) in the representatives of each cluster, weighted by their rows."""
        assert self.trust is not None
        weights = degree_shares(self.spectrum)
        totals = np.bincount(self.groups, weights, minlength=self.n_groups)
        return np.bincount(self.groups, weights * self.trust, minlength=self.n_groups) / totals

    def keep(self, used: npt.NDArray[np.intp]) -> VotePartition:
        """Return a partition with the clusters `used` only.

        Representatives of other clusters join the cluster of the most similar representative. Rows may then belong to
        another cluster than before and must be labelled again.
        """
        numbers = np.full(self.n_groups, -1, dtype=np.int32)
        numbers[used] = np.arange(used.size)
        groups = numbers[self.groups]
        lost, kept = np.flatnonzero(groups < 0), np.flatnonzero(groups >= 0)
        unit = self.spectrum.unit_rows(self.spectrum.vectors.shape[1])
        groups[lost] = groups[kept[(unit[lost] @ unit[kept].T).argmax(axis=1)]]
        return replace(self, groups=groups, n_groups=int(used.size))

    def renumber(self, order: npt.NDArray[np.intp]) -> VotePartition:
        """Return a partition that labels rows alike, but numbers cluster ``order[c]`` as c."""
        return replace(self, groups=np.argsort(order).astype(np.int32)[self.groups])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays, for files."""
        arrays = {**super().arrays(), "groups": self.groups}
        return arrays if self.trust is None else {**arrays, "trust": self.trust}


@dataclass(frozen=True)
class RowLabeler:
    """Labels preprocessed rows, and searches the neighbours of those only that need it.

    Around most representatives, all others belong to the same cluster. A row there has this label whatever its nearest
    representatives are: only rows near the border of a cluster are searched. Labels are those of `Partition.label`.

    Attributes
    ----------
    index : RepresentativeIndex
        Finds the nearest representatives of a row.
    sigma : float
        Width of the affinity.
    partition : Partition
        Clusters of the representatives, or of the embedding.
    """

    index: RepresentativeIndex
    sigma: float
    partition: Partition

    def label(self, block: Block) -> Labels:
        """Label preprocessed rows."""
        partition = self.partition
        if scipy.sparse.issparse(block) or not isinstance(partition, VotePartition) or not self.index.by_tiles:
            return partition.label(new_edges(block, self.index, self.sigma))
        owners, sq_owner = self.index.owners(block)
        labels = np.empty(len(block), dtype=np.int32)
        label_clear_rows(owners, sq_owner, *self._distances, partition.groups, labels)
        others = np.flatnonzero(labels < 0)
        if len(others):
            edges = Edges.empty(len(others), self.index.n_neighbors)
            edges.sigma = self.sigma
            self.index.query_around(block[others], owners[others], sq_owner[others], edges.ids, edges.weights)
            edges.weigh()
            labels[others] = partition.label(edges)
        return labels

    @cached_attribute
    def _distances(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Compute the distance (p,) of each representative to its K-th one, and to the nearest in another cluster."""
        assert isinstance(self.partition, VotePartition)
        lists, reach = self.index.neighborhoods
        clear = np.empty(len(lists), dtype=np.float32)
        clear_distances(lists, reach, self.partition.groups, clear)
        return np.ascontiguousarray(reach[:, self.index.n_neighbors - 1]), clear

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without derived tables, for pickles."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def partition_from_arrays(arrays: dict[str, npt.NDArray[Any]]) -> Partition:
    """Restore a partition from what its `arrays` returned; other arrays are ignored."""
    spectrum = Spectrum(arrays["eigenvalues"], arrays["vectors"], arrays["degrees"])
    if "cluster_centers" in arrays:
        return CenterPartition(spectrum, arrays["cluster_centers"], arrays.get("cluster_numbers"))
    return VotePartition(spectrum, arrays["groups"], int(arrays["groups"].max()) + 1, arrays.get("trust"))


def score_table(vectors: npt.NDArray[np.float32], centers: Centers) -> tuple[Centers, Centers]:
    """Compute the products (p, k) of the vectors with the centres, and half the squared lengths of the centres.

    Columns are padded to a multiple of `LANES`, as if for centres at an infinite distance.
    """
    k = len(centers)
    centers = centers.astype(np.float64)
    products = pad_lanes((vectors.astype(np.float64) @ centers.T).astype(np.float32))
    half_norms = np.full(products.shape[1], np.inf, dtype=np.float32)
    half_norms[:k] = 0.5 * (centers**2).sum(axis=1)
    return products, half_norms


def score_buffer(table: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Allocate the scores of a row for all centres; also return a view of them as integers."""
    halves = np.empty(table[0].shape[1], dtype=np.float32)
    return halves, halves.view(np.int32)


def score_facts(vectors: npt.NDArray[np.float32], centers: Centers) -> tuple[Labels, Centers]:
    """Return the nearest centre of each representative, and facts (p, 5) that let most rows skip the search.

    The facts are the length of the representative, its product with the centre, the smallest and the largest scale at
    which the centre is the nearest by `MARGIN`, and the length of the centre. They serve rows whose representatives
    all have the same nearest centre. A row is a mean of its representatives. So its length is at most the mean of
    their lengths, and at least its product with the centre divided by the length of the centre: this bounds its scale,
    one over its length. A centre that is nearest to all representatives at one scale is nearest to their mean at that
    scale.
    """
    X, C = vectors.astype(np.float64), centers.astype(np.float64)
    lengths = np.sqrt((X**2).sum(axis=1))
    products, halves = X @ C.T, 0.5 * (C**2).sum(axis=1)
    nearest = (halves - products / np.maximum(lengths, 1e-10)[:, None]).argmin(axis=1)
    rows = np.arange(len(X))
    gain = products - products[rows, nearest][:, None]
    slack = halves - halves[nearest][:, None] - MARGIN
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = slack / gain
    least = np.where(gain < 0, scales, -np.inf)
    greatest = np.where(gain > 0, scales, np.where((gain == 0) & (slack < 0), -np.inf, np.inf))
    greatest[rows, nearest] = np.inf
    least[rows, nearest] = -np.inf
    facts = (lengths, products[rows, nearest], least.max(axis=1), greatest.min(axis=1), np.sqrt(2 * halves)[nearest])
    return nearest.astype(np.int32), np.stack(facts, axis=1).astype(np.float32)


def label_all(
    edges: Edges | LazyEdges, partition: Partition, out: Any, engine: ThreadEngine, confidence: Any = None
) -> tuple[Partition, npt.NDArray[Any]]:
    """Write the label of every row to `out`, and the confidence in it to `confidence`, unless they are None.

    Return the partition of the clusters that have rows, and the number of rows of each, or their weight.
    """
    k = partition.n_clusters

    def count(labels: Labels, span: Span, masses: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        if out is not None:
            out[slice(*span)] = labels
        return np.bincount(labels, masses, minlength=k)

    def label(part: Edges, span: Span) -> npt.NDArray[Any]:
        labels = partition.label(part)
        if confidence is not None:
            assert isinstance(partition, VotePartition)
            confidence[slice(*span)] = partition.confidence(part, labels)
        return count(labels, span, part.masses if len(part.masses) > 1 else None)

    if isinstance(edges, LazyEdges) and edges.rows.weights is None and confidence is None:
        labeler = RowLabeler(edges.index, edges.sigma, partition)
        parts = engine.map_rows(edges.rows, lambda block, span: count(labeler.label(block), span))
    else:
        parts = edges.map(label, engine)
    sizes = np.sum(parts, axis=0)
    used = np.flatnonzero(sizes)
    if used.size < partition.n_clusters:
        return label_all(edges, partition.keep(used), out, engine, confidence)
    return partition, sizes


def label_rows(
    edges: Edges | LazyEdges, partition: Partition, engine: ThreadEngine, confidence: Any = None
) -> tuple[Partition, Any]:
    """Label all rows; return the partition of the clusters that have rows, and the labels.

    Clusters are numbered by size, the largest first; weighted rows count by weight. Labels are None if rows are on a
    cluster. Warn if clusters have no rows. The confidence in the labels is written to `confidence`, unless it is None.
    """
    labels = edges.allocate(np.int32)
    used, sizes = label_all(edges, partition, labels, engine, confidence)
    if used.n_clusters < partition.n_clusters:
        warn_user(
            f"Found {used.n_clusters} clusters instead of {partition.n_clusters}: the others have no rows. Raise "
            "n_representatives, or ask for fewer clusters.",
            ConvergenceWarning,
        )
    order = np.argsort(-sizes, kind="stable")
    if (np.diff(order) < 0).any():
        used = used.renumber(order)
        if labels is not None:
            renumber_labels(labels, order, edges.blocks(), engine)
    return used, as_array(labels)


def label_edges(edges: Edges | LazyEdges, partition: Partition, engine: ThreadEngine) -> Any:
    """Return the labels of rows, given their edges; None if rows are on a cluster."""
    labels = edges.allocate(np.int32)
    if labels is None:
        return None

    def run(part: Edges, span: Span) -> None:
        labels[slice(*span)] = partition.label(part)

    edges.map(run, engine)
    return as_array(labels)


def continued_numbers(before: Labels, groups: Labels, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return an order of clusters, for `Partition.renumber`, in which they keep the numbers that they had before.

    `before` and `groups` (p,) are the clusters of the representatives, then and now. Clusters are matched so that they
    share most weight; those that are left are the last ones, the heaviest first.
    """
    k = int(groups.max()) + 1
    n_before = int(before.max()) + 1
    shared = np.bincount(groups * n_before + before, weights, minlength=k * n_before).reshape(k, n_before)
    numbers = n_before + np.argsort(np.argsort(-shared.sum(axis=1), kind="stable"), kind="stable")
    matched, old = scipy.optimize.linear_sum_assignment(-shared)
    numbers[matched] = old
    return np.argsort(numbers, kind="stable")


def renumber_labels(labels: Any, order: npt.NDArray[np.intp], blocks: list[Span], engine: ThreadEngine) -> None:
    """Replace the label ``order[c]`` of rows by c, in place."""
    numbers = np.argsort(order).astype(labels.dtype)

    def run(span: Span) -> None:
        labels[slice(*span)] = numbers[labels[slice(*span)]]

    engine.map(run, blocks)


def embed_all(edges: Edges | LazyEdges, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
    """Embed all rows."""
    out = np.empty((len(edges), partition.n_vectors), dtype=np.float32)

    def run(part: Edges, span: Span) -> None:
        out[slice(*span)] = partition.embed(part)

    edges.map(run, engine)
    return out
