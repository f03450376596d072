"""Clusters of a spectral embedding: takes the edges of rows, gives their labels, for rows of the fit and others alike.

A `CenterPartition` gives a row the nearest centre in the embedding. A `VotePartition` has a cluster for each
representative, and a row's representatives vote by the weight of its edges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import warn_user
from ultraspec._kernels import kmeans as kernels
from ultraspec._kernels.agreement import vote
from ultraspec.cluster.linkage import Tree
from ultraspec.cluster.points import Centers, Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Span
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.transfer_cut import Spectrum, full_lanes, lift, lift_room
from ultraspec.storage.cached import cached_attribute
from ultraspec.storage.spool import as_array

MARGIN = 1e-5  # by which one centre must be nearer than all others to be taken without a row's scale


class Partition(ABC):
    """Labels and embeds rows, given their edges.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvectors, perhaps more than are in use.
    """

    spectrum: Spectrum

    @property
    @abstractmethod
    def n_clusters(self) -> int:
        """Number of clusters."""

    @property
    @abstractmethod
    def n_vectors(self) -> int:
        """Dimensions of the embedding: the first so many eigenvectors."""

    @abstractmethod
    def label(self, edges: Edges) -> Labels:
        """Clusters of rows."""

    @abstractmethod
    def keep(self, used: npt.NDArray[np.intp]) -> Partition:
        """Only the clusters `used`, numbered from zero."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The whole state, for files."""
        spectrum = self.spectrum
        return {"eigenvalues": spectrum.eigenvalues, "vectors": spectrum.vectors, "degrees": spectrum.degrees}

    def lift(self, edges: Edges) -> npt.NDArray[np.float32]:
        """Embedding of rows."""
        return lift(edges, self._vectors)

    @cached_attribute
    def _vectors(self) -> npt.NDArray[np.float32]:
        return np.ascontiguousarray(self.spectrum.vectors[:, : self.n_vectors])

    def __getstate__(self) -> dict[str, Any]:
        """Leave derived tables out of pickles."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True)
class CenterPartition(Partition):
    """Clusters around centres in the embedding.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvectors, perhaps more than are in use.
    centers : ndarray of shape (k, k'), float32
        Centres of the clusters among the first k' vectors.
    """

    spectrum: Spectrum
    centers: Centers

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    @property
    def n_vectors(self) -> int:
        """Dimensions of the embedding."""
        return self.centers.shape[1]

    def label(self, edges: Edges) -> Labels:
        """Nearest centre of each row, by the arithmetic of the fit's last pass."""
        labels = np.empty(len(edges), dtype=np.int32)
        vectors, *table = self._tables
        room = lift_room(vectors), *score_room(table)
        kernels.label_embedded(edges.ids, edges.weights, vectors, *table, *room, labels)
        return labels

    def keep(self, used: npt.NDArray[np.intp]) -> CenterPartition:
        """Only the clusters `used`, numbered from zero."""
        return replace(self, centers=self.centers[used])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The whole state, for files."""
        return {**super().arrays(), "cluster_centers": self.centers}

    @cached_attribute
    def _tables(self) -> tuple[npt.NDArray[Any], ...]:
        vectors, centers = self._vectors, self.centers
        return full_lanes(vectors), *score_table(vectors, centers), *score_facts(vectors, centers)


@dataclass(frozen=True)
class VotePartition(Partition):
    """Clusters of representatives; rows take that which most of their weight goes to.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvectors.
    groups : ndarray of shape (p,), int32
        Cluster of each representative.
    n_groups : int
        Number of clusters.
    tree : Tree or None
        Tree of the representatives that the clusters are a cut of, where they are.
    """

    spectrum: Spectrum
    groups: Labels
    n_groups: int
    tree: Tree | None = None

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.n_groups

    @property
    def n_vectors(self) -> int:
        """Dimensions of the embedding."""
        return min(self.n_groups, self.spectrum.vectors.shape[1])

    def label(self, edges: Edges) -> Labels:
        """The cluster that has most of each row's weight."""
        labels = np.empty(len(edges), dtype=np.int32)
        vote(edges.ids, edges.weights, self.groups, labels)
        return labels

    def keep(self, used: npt.NDArray[np.intp]) -> VotePartition:
        """Only the clusters `used`; representatives of others join the most alike representative that has one.

        So rows may find another cluster than before: label them again.
        """
        numbers = np.full(self.n_groups, -1, dtype=np.int32)
        numbers[used] = np.arange(used.size)
        groups = numbers[self.groups]
        lost, kept = np.flatnonzero(groups < 0), np.flatnonzero(groups >= 0)
        unit = self.spectrum.unit_rows(self.spectrum.vectors.shape[1])
        groups[lost] = groups[kept[(unit[lost] @ unit[kept].T).argmax(axis=1)]]
        return replace(self, groups=groups, n_groups=int(used.size))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The whole state, for files."""
        found = {**super().arrays(), "groups": self.groups}
        if self.tree is not None:
            found |= {"merges": self.tree.merges, "heights": self.tree.heights, "masses": self.tree.sizes}
        return found


def partition_from_arrays(arrays: dict[str, npt.NDArray[Any]]) -> Partition:
    """A partition from what its `arrays` gave; further arrays are left alone."""
    spectrum = Spectrum(arrays["eigenvalues"], arrays["vectors"], arrays["degrees"])
    if "cluster_centers" in arrays:
        return CenterPartition(spectrum, arrays["cluster_centers"])
    tree = Tree(arrays["merges"], arrays["heights"], arrays["masses"]) if "merges" in arrays else None
    return VotePartition(spectrum, arrays["groups"], int(arrays["groups"].max()) + 1, tree)


def score_table(vectors: npt.NDArray[np.float32], centers: Centers) -> tuple[Centers, Centers]:
    """Products (p, k) of the representatives' vectors with the centres, and half the centres' squared lengths.

    Columns are added up to a multiple of `LANES`, for centres infinitely far away.
    """
    k = len(centers)
    centers = centers.astype(np.float64)
    products = full_lanes((vectors.astype(np.float64) @ centers.T).astype(np.float32))
    half_norms = np.full(products.shape[1], np.inf, dtype=np.float32)
    half_norms[:k] = 0.5 * (centers**2).sum(axis=1)
    return products, half_norms


def score_room(table: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Room for a row's scores of all centres, and the same bytes as integers."""
    halves = np.empty(table[0].shape[1], dtype=np.float32)
    return halves, halves.view(np.int32)


def score_facts(vectors: npt.NDArray[np.float32], centers: Centers) -> tuple[Labels, Centers]:
    """Nearest centre of each representative, and for rows among representatives with the same one, facts (p, 5).

    These are the representative's length, its product with the centre, the least and the greatest scale at which the
    centre is the nearest by `MARGIN`, and the centre's length. A row is a mean of its representatives, so its length
    is at most the mean of theirs, and at least its product with the centre divided by the centre's length: that bounds
    its scale, one over its length. And a centre that is nearest to all representatives at one scale is nearest to
    their mean at that scale.
    """
    X, C = vectors.astype(np.float64), centers.astype(np.float64)
    lengths = np.sqrt((X**2).sum(axis=1))
    products, halves = X @ C.T, 0.5 * (C**2).sum(axis=1)
    nearest = (halves - products / np.maximum(lengths, 1e-10)[:, None]).argmin(axis=1)
    rows = np.arange(len(X))
    more = products - products[rows, nearest][:, None]
    room = halves - halves[nearest][:, None] - MARGIN
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = room / more
    least = np.where(more < 0, scales, -np.inf)
    greatest = np.where(more > 0, scales, np.where((more == 0) & (room < 0), -np.inf, np.inf))
    greatest[rows, nearest], least[rows, nearest] = np.inf, -np.inf
    facts = (lengths, products[rows, nearest], least.max(axis=1), greatest.min(axis=1), np.sqrt(2 * halves)[nearest])
    return nearest.astype(np.int32), np.stack(facts, axis=1).astype(np.float32)


def label_all(edges: Edges | LazyEdges, partition: Partition, out: Any, engine: ThreadEngine) -> Partition:
    """Write the cluster of every row to `out`, if there is one; returns the clusters that have rows, as numbered."""

    def run(part: Edges, span: Span) -> npt.NDArray[np.int64]:
        labels = partition.label(part)
        if out is not None:
            out[slice(*span)] = labels
        return np.bincount(labels, minlength=partition.n_clusters)

    used = np.flatnonzero(sum(edges.map(run, engine)))
    if used.size < partition.n_clusters:
        return label_all(edges, partition.keep(used), out, engine)
    return partition


def label_rows(edges: Edges | LazyEdges, partition: Partition, engine: ThreadEngine) -> tuple[Partition, Any]:
    """The clusters that have rows, and the labels of all rows, unless these are on a cluster; warns of empty ones."""
    labels = edges.room(np.int32)
    found = label_all(edges, partition, labels, engine)
    if found.n_clusters < partition.n_clusters:
        warn_user(
            f"Found {found.n_clusters} clusters instead of {partition.n_clusters}: the others have no row. Raise "
            "n_representatives, or ask for fewer clusters.",
            ConvergenceWarning,
        )
    return found, as_array(labels)


def lift_all(edges: Edges | LazyEdges, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
    """Embedding of all rows."""
    out = np.empty((len(edges), partition.n_vectors), dtype=np.float32)

    def run(part: Edges, span: Span) -> None:
        out[slice(*span)] = partition.lift(part)

    edges.map(run, engine)
    return out
