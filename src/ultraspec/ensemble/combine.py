"""U-SENC's second half (paper, section 3.2.2): takes a label matrix from any clusterers, gives one clustering.

Rows and base clusters are the two sides of a bipartite graph: a row has an edge to each base cluster it is in. The
transfer cut that U-SPEC uses on rows and representatives cuts this graph too. Rows with equal labels share one
microcluster, which stands for them all by its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_clusters, check_integer, check_jobs, check_number, seed_sequence, warn_user
from ultraspec._kernels.graph import reduce_pairs
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.label_matrix import read_labels, warn_if_transposed
from ultraspec.ensemble.microclusters import Microclusters
from ultraspec.rows import cut_span
from ultraspec.spectral import discretize, transfer_cut
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.partition import CenterPartition

MOST_COLUMNS = 20_000  # base clusters in all: the matrix between them would have 3.2 GB
BLOCK_ROWS = 8192

Labels = npt.NDArray[np.int32]


def consensus(
    base_labels: Any,
    n_clusters: int | Literal["auto"],
    *,
    n_init: int = 3,
    max_iter: int = 100,
    regularization: float = 1e-3,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows into one, by U-SENC's bipartite consensus.

    The clusterings may come from any clusterers, with any numbers of clusters; only their labels count. Time and
    memory grow linearly with the size of the label matrix: ten million rows with twenty clusterings take about half a
    second on a laptop.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering. Labels may be any integers or strings (floats if they are whole). -1, None and NaN
        mean that the clustering does not assign the row (DBSCAN's noise, for one): the row then rests on the other
        columns. At most 20,000 clusters in all columns together.
    n_clusters : int or "auto"
        Number of clusters. "auto" takes the number at the largest eigengap, between 2 and 50: where the distance of
        eigenvalues from one grows most, as a ratio. Base clusterings with hardly more clusters than there are mislead
        it towards small numbers.
    n_init : int, default=3
        Starts of the k-means that turns the embedding into labels, on the heaviest microclusters; the best is kept.
    max_iter : int, default=100
        Iterations of that k-means, at most.
    regularization : float, default=1e-3
        Weight of a faint edge between all base clusters, as a share of their mean degree. 0 is the paper to the
        letter.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.

    Returns
    -------
    ndarray of shape (n_samples,), int32
        Cluster of each row; -1 for rows that no clustering assigns.

    See Also
    --------
    USENC : Makes the base clusterings too.

    Examples
    --------
    Two moons, which k-means cuts wrongly and single linkage finds only without noise. Many coarse k-means runs
    together see the shapes:

    >>> import numpy as np
    >>> from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
    >>> from sklearn.datasets import make_moons
    >>> from ultraspec import consensus, metrics
    >>> X, y = make_moons(2_000, noise=0.06, random_state=0)
    >>> kinds = KMeans, MiniBatchKMeans, BisectingKMeans
    >>> clusterers = [kind(k, random_state=k) for k in range(20, 32) for kind in kinds]
    >>> base_labels = np.column_stack([clusterer.fit_predict(X) for clusterer in clusterers])
    >>> metrics.nmi(y, KMeans(2, random_state=0).fit_predict(X)) < 0.5
    True
    >>> metrics.nmi(y, consensus(base_labels, 2, random_state=0)) > 0.9
    True

    Labels may be words, and rows may be left out:

    >>> consensus([["a", 7], ["a", 7], ["b", 7], ["b", 3], [None, 3], [None, -1]], 2, random_state=0)[-1]
    np.int32(-1)
    """
    check_clusters(n_clusters)
    check_integer("n_init", n_init, least=1)
    check_integer("max_iter", max_iter, least=1)
    check_number("regularization", regularization, least=0.0)
    check_jobs(n_jobs)
    labels = read_labels(base_labels)
    warn_if_transposed(labels)
    seed = seed_sequence(random_state)
    with ThreadEngine(n_jobs) as engine:
        found = microclusters.find(labels, engine)
        warn_if_alone([found.n_columns] * found.columns.shape[1], n_clusters)
        spare = transfer_cut.KEPT_VECTORS if n_clusters == "auto" else 0
        graph = ConsensusGraph.build(found, n_clusters, regularization, engine, spare)
        cut = graph.cut(n_clusters, n_init, max_iter, seed, engine)
        n_unassigned = int(found.weights[cut.labels < 0].sum())
        if n_unassigned:
            warn_user(f"{n_unassigned:,} rows have no label in any column of base_labels; they get -1.", UserWarning)
        return found.spread(cut.labels, engine)


@dataclass(frozen=True)
class Cut:
    """A consensus: labels of the microclusters (-1 for one without base clusters), and what places further rows."""

    labels: Labels
    partition: CenterPartition
    n_iter: int

    def majority(self, micro: Microclusters) -> Labels:
        """The label that most rows of each base cluster have, the lowest of several most frequent."""
        k = self.partition.n_clusters
        votes = np.zeros(micro.n_columns * k)
        for column in micro.columns.T:
            rows = np.flatnonzero(column >= 0)
            pairs = column[rows].astype(np.int64) * k + self.labels[rows]
            votes += np.bincount(pairs, micro.weights[rows], minlength=len(votes))
        return votes.reshape(-1, k).argmax(axis=1).astype(np.int32)


def share_backed(columns: npt.NDArray[np.int32], labels: Labels, majority: Labels) -> npt.NDArray[np.float32]:
    """Share of the base clusterings that back each row's label, given the rows' base clusters (n, m), -1 being none.

    A clustering backs it if most rows of the base cluster have that label. Those that do not assign the row do not
    count.
    """
    backed, asked = np.zeros(len(labels)), np.zeros(len(labels))
    for column in columns.T:
        present = column >= 0
        backed += present & (majority[column] == labels)
        asked += present
    return (backed / np.maximum(asked, 1)).astype(np.float32)


@dataclass(frozen=True)
class ConsensusGraph:
    """Microclusters that have base clusters, their edges, and the eigenvectors of the base clusters' graph."""

    edges: Edges
    weights: npt.NDArray[np.float64]
    assigned: npt.NDArray[np.intp]
    n_microclusters: int
    spectrum: transfer_cut.Spectrum
    regularization: float

    @classmethod
    def build(
        cls,
        micro: Microclusters,
        n_clusters: int | Literal["auto"],
        regularization: float,
        engine: ThreadEngine,
        spare: int = transfer_cut.KEPT_VECTORS,
    ) -> ConsensusGraph:
        """Graph and eigenvectors, at least `spare` for other cuts; refuses too few or too many base clusters."""
        wanted = 1 if n_clusters == "auto" else int(n_clusters)
        check_columns(micro.n_columns, wanted)
        assigned = micro.assigned
        columns, weights = micro.columns[assigned], micro.weights[assigned]
        edges = edges_of(columns)
        degrees = (columns >= 0).sum(axis=1).astype(np.float64)

        def add(graph: transfer_cut.Graph, part: slice) -> None:
            mine = edges[part]
            reduce_pairs(mine.ids, mine.weights, degrees[part], weights[part], graph.affinity, graph.counts)

        blocks = cut_span((0, len(columns)), BLOCK_ROWS)
        graph = transfer_cut.sum_graph(add, columns.size * columns.shape[1], micro.n_columns, blocks, engine)
        spectrum = transfer_cut.transfer_cut(graph, max(spare, wanted + 1), regularization)
        return cls(edges, weights, assigned, len(micro.columns), spectrum, regularization)

    @classmethod
    def restore(cls, micro: Microclusters, spectrum: transfer_cut.Spectrum, regularization: float) -> ConsensusGraph:
        """The graph that eigenvectors were taken of before."""
        if micro.n_columns != len(spectrum.vectors):
            raise ValueError("X does not hold the rows that were fitted: some base clusters stay empty.")
        assigned = micro.assigned
        edges = edges_of(micro.columns[assigned])
        return cls(edges, micro.weights[assigned], assigned, len(micro.columns), spectrum, regularization)

    def cut(
        self,
        n_clusters: int | Literal["auto"],
        n_init: int,
        max_iter: int,
        seed: np.random.SeedSequence,
        engine: ThreadEngine,
    ) -> Cut:
        """Labels of all microclusters."""
        spectrum = self.spectrum
        if n_clusters == "auto":
            n_clusters = transfer_cut.choose_number(spectrum.eigenvalues, self.regularization)
        k = int(n_clusters)
        points = discretize.EmbeddedPoints(self.edges, spectrum.vectors[:, :k], self.weights)
        chance = np.random.default_rng(seed)
        found = discretize.kmeans(points, k, n_init, max_iter, chance, engine)
        found = discretize.renumber(
            found,
            k,
            "only so many groups of rows differ in their base labels. Rows may have too few distinct values, or base "
            "clusterings are too few or too coarse.",
        )
        labels = np.full(self.n_microclusters, -1, dtype=np.int32)
        labels[self.assigned] = found.labels
        return Cut(labels, CenterPartition(spectrum, found.centers), found.n_iter)


def warn_if_alone(sizes: Sequence[int], n_clusters: int | Literal["auto"]) -> None:
    """Warn where the clusters of a single clustering are to be joined: nothing tells which belong together."""
    fewest = 2 if n_clusters == "auto" else n_clusters
    if len(sizes) == 1 and 1 < fewest < sizes[0]:
        warn_user(
            f"A single clustering is no ensemble: which of its {sizes[0]:,} clusters are joined is left to chance. Add "
            "base clusterings, or use USPEC.",
            UserWarning,
        )


def check_columns(n_columns: int, n_clusters: int) -> None:
    """Refuse what has too few base clusters to make `n_clusters` of, or too many to compare them all."""
    if n_columns == 0:
        raise ValueError("No row of base_labels has a label: every entry is -1, None or NaN.")
    if n_columns < n_clusters:
        raise ValueError(
            f"The base clusterings have {n_columns} clusters in all, too few to make n_clusters={n_clusters} of them. "
            "Add base clusterings, or finer ones, or ask for fewer clusters."
        )
    if n_columns > MOST_COLUMNS:
        raise ValueError(
            f"The base clusterings have {n_columns:,} clusters in all; the consensus compares each with each and takes "
            f"at most {MOST_COLUMNS:,}. Use coarser clusterings, or mark tiny clusters as not assigned (-1)."
        )


def edges_of(columns: npt.NDArray[np.int32]) -> Edges:
    """Edges of rows (n, m) of base clusters, -1 being none: equal shares among those a row has."""
    present = columns >= 0
    if present.all():
        share = np.float32(1.0 / columns.shape[1])
        return Edges(columns.astype(np.uint16), np.full(columns.shape, share, dtype=np.float32))
    first = columns[np.arange(len(columns)), present.argmax(axis=1)]  # stands in with a weight of zero
    ids = np.where(present, columns, first[:, None])
    return Edges(ids.astype(np.uint16), (present / present.sum(axis=1)[:, None]).astype(np.float32))
