"""What the ensemble baselines share: the label matrix as they see it, the way there and back, the estimators' base."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import check_integer, check_jobs, check_range, seed_sequence, warn_user
from ultraspec._estimator import RowClusterer, all_or_nothing
from ultraspec._input import open_input
from ultraspec._kernels.graph import reduce_pairs
from ultraspec.baselines._members import cut_range, kmeans_members
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.combine import BLOCK_ROWS, warn_if_alone
from ultraspec.ensemble.label_matrix import read_labels, warn_if_transposed
from ultraspec.ensemble.members import prepare
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.preprocess import survey
from ultraspec.spectral.transfer_cut import Graph, sum_graph
from ultraspec.storage.cached import cached_attribute
from ultraspec.storage.spool import as_array

BASE_CLUSTERS = (20, 60)

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Ensemble:
    """Base clusterings of microclusters, which are rows with equal base labels.

    Attributes
    ----------
    columns : ndarray of shape (M, m), int32
        Base clusters of each microcluster, numbered through all clusterings; -1 where it has none.
    weights : ndarray of shape (M,), float64
        Rows in each microcluster.
    counts : tuple of m int
        Clusters of each base clustering.
    """

    columns: Labels
    weights: Floats
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def n_clusterings(self) -> int:
        """Base clusterings, m."""
        return len(self.counts)

    @property
    def n_columns(self) -> int:
        """Base clusters of all clusterings together."""
        return sum(self.counts)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Number of each clustering's first cluster, and of all clusters at the end."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @cached_attribute
    def complete(self) -> bool:
        """Whether every clustering assigns every row."""
        return bool(self.columns.min() >= 0)

    @cached_attribute
    def sizes(self) -> Floats:
        """Rows (k_c,) in each base cluster."""
        totals = np.zeros(self.n_columns + 1)  # the last, for -1
        for column in self.columns.T:
            totals += np.bincount(column % len(totals), weights=self.weights, minlength=len(totals))
        return totals[:-1]

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of microclusters."""
        return [(low, min(low + BLOCK_ROWS, len(self))) for low in range(0, len(self), BLOCK_ROWS)]

    def memberships(self, rows: slice, dtype: npt.DTypeLike = np.float32) -> scipy.sparse.csr_array:
        """B: one where a microcluster is in a base cluster."""
        columns = self.columns[rows]
        present = columns >= 0
        ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        ids = columns.ravel() if self.complete else columns[present]
        return scipy.sparse.csr_array((np.ones(len(ids), dtype=dtype), ids, ends), (len(columns), self.n_columns))

    def edges(self, rows: slice, worth: npt.NDArray[np.float64] | None = None) -> tuple[Edges, Floats]:
        """Edges of microclusters to their base clusters, which may be of different `worth`, as shares; and degrees."""
        columns = self.columns[rows]
        present = columns >= 0
        weights = present.astype(np.float64) if worth is None else np.where(present, worth[columns], 0.0)
        degrees = weights.sum(axis=1)
        ids = columns
        if not self.complete:
            first = columns[np.arange(len(columns)), present.argmax(axis=1)]  # stands in with a weight of zero
            ids = np.where(present, columns, first[:, None])
        return Edges(ids.astype(np.uint16), (weights / degrees[:, None]).astype(np.float32)), degrees

    def all_edges(self, engine: ThreadEngine, worth: npt.NDArray[np.float64] | None = None) -> Edges:
        """Edges of all microclusters."""
        edges = Edges.empty(*self.columns.shape)

        def fill(span: tuple[int, int]) -> None:
            edges[slice(*span)] = self.edges(slice(*span), worth)[0]

        engine.map(fill, self.blocks())
        return edges

    def graph(self, engine: ThreadEngine, worth: npt.NDArray[np.float64] | None = None) -> Graph:
        """The graph of the base clusters, B' D^-1 B over all rows, B's columns being scaled by their `worth`."""

        def add(graph: Graph, part: slice) -> None:
            edges, degrees = self.edges(part, worth)
            reduce_pairs(edges.ids, edges.weights, degrees, self.weights[part], graph.affinity, graph.counts)

        return sum_graph(add, self.columns.size * self.n_clusterings, self.n_columns, self.blocks(), engine)

    def contingency(self, engine: ThreadEngine) -> Floats:
        """B'B (k_c, k_c): rows that each two base clusters share."""

        def add(graph: Graph, part: slice) -> None:
            edges, degrees = self.edges(part)
            present = (edges.weights > 0).astype(np.float32)
            reduce_pairs(edges.ids, present, np.ones_like(degrees), self.weights[part], graph.affinity, graph.counts)

        n_pairs = self.columns.size * self.n_clusterings
        return sum_graph(add, n_pairs, self.n_columns, self.blocks(), engine).affinity


@dataclass(frozen=True)
class Found:
    """What a method found: labels of microclusters (of rows, in the end), and its iterations, if it has any."""

    labels: Labels
    n_iter: int = 0


# Takes the ensemble, the number of clusters, a seed and an engine.
Method = Callable[[Ensemble, int, np.random.SeedSequence, ThreadEngine], Found]


def combine(base_labels: Any, n_clusters: int, method: Method, *, random_state: Any, n_jobs: int | None) -> Labels:
    """Combine a label matrix as users give it."""
    check_integer("n_clusters", n_clusters, least=1)
    check_jobs(n_jobs)
    labels = read_labels(base_labels)
    warn_if_transposed(labels)
    seed = seed_sequence(random_state)
    with ThreadEngine(n_jobs) as engine:
        return combine_integers(labels, int(n_clusters), method, seed, engine).labels


def combine_integers(
    base_labels: Any, n_clusters: int, method: Method, seed: np.random.SeedSequence, engine: ThreadEngine
) -> Found:
    """Labels of all rows, -1 for rows that no clustering assigns; warns of these, and where there are too few others.

    Rows with equal base labels get equal labels: methods see each kind of row once, with its number.
    """
    micro = microclusters.find(base_labels, engine)
    assigned = micro.assigned
    if not assigned.size:
        raise ValueError("No row of base_labels has a label: every entry is -1, None or NaN.")
    n_rows, n_assigned = int(micro.weights.sum()), int(micro.weights[assigned].sum())
    if n_rows < n_clusters:
        raise ValueError(f"{n_rows} rows cannot make n_clusters={n_clusters} clusters. Ask for fewer clusters.")
    if len(assigned) < n_clusters:
        warn_user(
            f"Found {len(assigned)} clusters instead of {n_clusters}: only so many groups of rows differ in their base "
            "labels. Add base clusterings, or finer ones.",
            ConvergenceWarning,
        )
    if n_assigned < n_rows:
        warn_user(f"{n_rows - n_assigned:,} rows have no label in any base clustering; they get -1.", UserWarning)
    warn_if_alone([len(values) for values in micro.values], n_clusters)
    labels, n_iter = np.full(len(micro.columns), -1, dtype=np.int32), 0
    if len(assigned) <= n_clusters:
        labels[assigned] = np.arange(len(assigned))
    else:
        some = slice(None) if len(assigned) == len(labels) else assigned  # a slice copies nothing
        counts = tuple(len(values) for values in micro.values)
        found = method(Ensemble(micro.columns[some], micro.weights[some], counts), n_clusters, seed, engine)
        labels[some], n_iter = found.labels, found.n_iter
    return Found(micro.spread(labels, engine), n_iter)


class EnsembleBaseline(RowClusterer):
    """Base of the estimators: makes members by k-means, as the paper does, and combines them."""

    @abstractmethod
    def _method(self) -> Method:
        """The method with this estimator's parameters, which are checked here."""

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Any numeric type and memory order; also what `ultraspec.open_rows` returns.
        y : Ignored
            For the interface.

        Returns
        -------
        estimator
            The fitted estimator itself.
        """
        low, high = self._check_members()
        method = self._method()
        rows = open_input(self, X, reset=True)
        k = self._wanted_clusters(rows)
        base_range = self._base_range((low, high), rows.n_rows)
        reporter = self._reporter()
        with ThreadEngine(self.n_jobs, reporter) as engine:
            seeds = seed_sequence(self.random_state).spawn(3)
            with reporter.phase("survey"):
                names = getattr(self, "feature_names_in_", None)
                space = survey(rows, "euclidean", np.random.default_rng(seeds[0]), engine, names)
                prepared = prepare(rows, space, engine)
            with reporter.phase("members"):
                members = seeds[1].spawn(self.n_estimators)
                base_labels = kmeans_members(prepared, base_range, int(self.base_max_iter), members, engine)
            del prepared
            with reporter.phase("consensus"):
                found = combine_integers(base_labels, k, method, seeds[2], engine)
            reporter.close()
        self.labels_, self.base_labels_ = found.labels, as_array(base_labels)
        self.n_clusters_ = int(found.labels.max()) + 1
        if hasattr(self, "max_iter"):
            self.n_iter_ = found.n_iter
        self.fit_profile_ = reporter.profile
        return self

    def _check_members(self) -> tuple[int, int]:
        check_integer("n_clusters", self.n_clusters, least=1)
        check_integer("n_estimators", self.n_estimators, least=1)
        check_integer("base_max_iter", self.base_max_iter, least=1)
        check_jobs(self.n_jobs)
        return check_range("base_clusters", self.base_clusters)

    def _base_range(self, asked: tuple[int, int], n_rows: int) -> tuple[int, int]:
        found = cut_range(asked, n_rows, int(self.n_clusters))
        if found != asked and asked != BASE_CLUSTERS:
            warn_user(
                f"Members have {found[0]} to {found[1]} clusters instead of {asked[0]} to {asked[1]}: {n_rows:,} "
                "rows are too few for finer ones.",
                UserWarning,
            )
        return found
