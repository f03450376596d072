"""Members of the ensemble (paper, section 3.2.1): U-SPEC models with different numbers of clusters.

These are the members of the paper, for the transfer cut; `ultraspec.ensemble.graphs` has those of the default. Every
member has its own seed, which determines its number of clusters, its representatives and its labels. So members may run
in parallel or one after another, and a killed run may continue where it stopped. All members share one `Preprocessor`:
rows are checked once and, if they are small, preprocessed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span, allocate_matrix
from ultraspec.spectral import embedding
from ultraspec.spectral.choice import COARSE
from ultraspec.spectral.edges import Edges, LazyEdges, connect, exact_edges
from ultraspec.spectral.model import Model
from ultraspec.spectral.model_checks import InvalidModel, check_model_arrays
from ultraspec.spectral.neighbors import RepresentativeIndex, build_index
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.partition import CenterPartition, label_all
from ultraspec.spectral.representatives import count_representatives, select_representatives
from ultraspec.spectral.transfer_cut import Graph, Spectrum, attach_fragments, reduce_graph, transfer_cut
from ultraspec.storage.checkpoint import Arrays, Checkpoint, NoCheckpoint
from ultraspec.storage.spool import as_array, matrix_columns

BASE_CLUSTERS = (20, 60)
ROWS_PER_BASE_CLUSTER = 180  # at least, for small data: finer members differ by chance
PARALLEL_BYTES = 2**28  # members that need no more memory together run in parallel

Column = npt.NDArray[Any]  # unsigned integers


@dataclass(frozen=True)
class MemberOptions:
    """Parameters that all members share.

    Attributes
    ----------
    graph : GraphOptions
        Parameters of their graphs.
    asked : tuple of two int
        Fewest and most clusters of a member, as the user passed them.
    base_clusters : tuple of two int
        Fewest and most clusters of a member, reduced for small data.
    max_iter : int
        Maximum number of iterations of their k-means.
    n_clusters : int or None
        Number of clusters that will be asked for, if members depend on it.
    """

    graph: GraphOptions
    asked: tuple[int, int]
    base_clusters: tuple[int, int]
    max_iter: int
    n_clusters: int | None = None

    @classmethod
    def of(cls, estimator: Any, n_rows: int, n_clusters: int, *, depend_on_it: bool = False) -> MemberOptions:
        """Return the options of an estimator; warn if `base_clusters` is not the default and was reduced.

        `depend_on_it` says whether members depend on the number of clusters in other ways than by that range.
        """
        graph = GraphOptions.of(estimator)
        if graph.n_representatives == "auto" and not depend_on_it:
            graph = replace(graph, n_representatives=COARSE)
        asked = (int(estimator.base_clusters[0]), int(estimator.base_clusters[1]))
        p = COARSE if graph.n_representatives == "auto" else graph.n_representatives
        reduced = reduce_range(asked, n_rows, n_clusters, p, graph.n_neighbors)
        if reduced != asked and asked != BASE_CLUSTERS:
            warn_user(
                f"base_clusters was reduced from {asked} to {reduced} because X has only {n_rows:,} rows.",
                UserWarning,
            )
        return cls(graph, asked, reduced, int(estimator.base_max_iter), n_clusters if depend_on_it else None)

    def describe(self) -> dict[str, Any]:
        """Return the parameters that determine the members, for a checkpoint."""
        facts = {**asdict(self.graph), "base_clusters": list(self.asked), "base_max_iter": self.max_iter}
        facts |= {"members have": "{} to {} clusters".format(*self.base_clusters)}
        return facts if self.n_clusters is None else {**facts, "n_clusters": self.n_clusters}

    @property
    def label_type(self) -> np.dtype:
        """Smallest type that holds the labels of every member."""
        return np.dtype(np.min_scalar_type(self.base_clusters[1] - 1))


@dataclass(frozen=True)
class Member:
    """A finished member.

    Attributes
    ----------
    model : Model
        Labels new rows.
    labels : ndarray of shape (n,), unsigned, or None
        Labels of the fitted rows; None if these are on a cluster.
    """

    model: Model
    labels: Column | None

    def arrays(self) -> Arrays:
        """Return the state as arrays, for a checkpoint."""
        return ({} if self.labels is None else {"labels": self.labels}) | self.model.arrays()

    @classmethod
    def from_arrays(cls, rows: Rows, arrays: Arrays) -> Member:
        """Restore a member of these rows; raise InvalidModel unless `arrays` are valid."""
        model_arrays = dict(arrays)
        labels = None if rows.remote else model_arrays.pop("labels", None)
        check_model_arrays(model_arrays, rows.n_rows, rows.n_features)
        member = cls(Model.from_arrays(model_arrays), labels)
        if not rows.remote:
            n_clusters = member.model.partition.n_clusters
            valid = labels is not None and labels.shape == (rows.n_rows,) and labels.dtype.kind == "u"
            if labels is None or not valid or int(labels.max()) >= n_clusters:
                raise InvalidModel(f"its labels do not assign {rows.n_rows:,} rows to {n_clusters} clusters.")
        return member


def reduce_range(
    base_clusters: tuple[int, int], n_rows: int, n_clusters: int, n_representatives: int, n_neighbors: int
) -> tuple[int, int]:
    """Reduce the range of the members' number of clusters in proportion, for small data."""
    low, high = base_clusters
    p = count_representatives(n_rows, n_representatives, 1, n_neighbors)
    most = min(p if p == n_representatives else p // 2, max(n_rows // ROWS_PER_BASE_CLUSTER, 2 * n_clusters))
    most = max(1, most)
    if high <= most:
        return low, high
    return min(most, max(1, most * low // high, n_clusters)), most


def generate_members(
    rows: Rows,
    options: MemberOptions,
    seeds: Sequence[np.random.SeedSequence],
    checkpoint: Checkpoint | NoCheckpoint,
    engine: ThreadEngine,
) -> tuple[list[Model], Any]:
    """Run all members that the checkpoint does not have.

    Small data, and data on a cluster: members run in parallel, each in one thread, so that no core is idle while
    another computes eigenvectors. Large data: one after another on all threads, with one buffer for the edges.

    Returns
    -------
    list of Model
        Models of all members.
    ndarray or SpooledMatrix of shape (n, m), or None
        Labels by all members; None if rows are on a cluster.
    """
    n_bytes = 6 * rows.n_rows * options.graph.n_neighbors + 24 * options.graph.n_representatives * rows.n_features
    parallel = engine.n_jobs > 1 and (rows.remote or n_bytes * engine.n_jobs <= PARALLEL_BYTES)
    run = _MemberRun(rows, options, seeds, checkpoint, engine, parallel=parallel)
    if parallel:
        models = engine.map(run, range(len(seeds)))
    else:
        engine.reporter.begin_pass(len(seeds))
        models = []
        for number in range(len(seeds)):
            models.append(run(number))
            engine.reporter.advance()
    return models, run.labels


class _MemberRun:
    """Runs members by number, or takes them from the checkpoint, and collects their labels."""

    def __init__(
        self,
        rows: Rows,
        options: MemberOptions,
        seeds: Sequence[np.random.SeedSequence],
        checkpoint: Checkpoint | NoCheckpoint,
        engine: ThreadEngine,
        *,
        parallel: bool,
    ) -> None:
        self.labels = None if rows.remote else allocate_matrix(rows, len(seeds), options.label_type)
        self._columns = matrix_columns(self.labels)
        self._rows = rows
        self._options = options
        self._seeds = seeds
        self._checkpoint = checkpoint
        self._engine = engine.within(MemberReporter(engine.reporter), alone=parallel)
        self._buffer: EdgeBuffer | None = None if parallel else EdgeBuffer()

    def __call__(self, number: int) -> Model:
        args = self._rows, self._options, self._seeds[number], self._engine, self._buffer
        restore = partial(Member.from_arrays, self._rows)
        member = self._checkpoint.run(f"member-{number:04d}", run_member, *args, restore=restore)
        if self.labels is not None:
            self._columns[number][:] = member.labels
        model: Model = member.model
        return model


class EdgeBuffer:
    """Edges of one member, which the next member may overwrite."""

    edges: Edges | None = None


def run_member(
    rows: Rows,
    options: MemberOptions,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
    buffer: EdgeBuffer | None = None,
) -> Member:
    """Run one member: U-SPEC with a random number of clusters, and k-means of few iterations."""
    low, high = options.base_clusters
    k_seed, *seeds = seed.spawn(4)
    k = int(np.random.default_rng(k_seed).integers(low, high + 1))
    rngs = [np.random.default_rng(each) for each in seeds]
    p = count_representatives(rows.n_counted, options.graph.n_representatives, high, options.graph.n_neighbors)
    index, edges, _, spectrum = build_graph(rows, p, k, options.graph, rngs, engine, buffer)
    with engine.reporter.phase("labels"):
        points = embedding.embed_edges(edges, spectrum.vectors[:, :k])
        centers = embedding.kmeans_of_sample(points, k, 1, options.max_iter, rngs[2], engine).centers
        labels = edges.allocate(options.label_type)
        partition, _ = label_all(edges, CenterPartition(spectrum, centers), labels, engine)
    return Member(Model(index, edges.sigma, partition), as_array(labels))


def build_graph(
    rows: Rows,
    p: int,
    n_vectors: int,
    options: GraphOptions,
    rngs: Sequence[np.random.Generator],
    engine: ThreadEngine,
    buffer: EdgeBuffer | None = None,
) -> tuple[RepresentativeIndex, Edges | LazyEdges, Graph, Spectrum]:
    """Run the phases of U-SPEC up to the eigenvectors; return index, edges, graph and spectrum."""
    phase = engine.reporter.phase
    with phase("representatives"):
        R = select_representatives(
            rows, p, options.selection, options.candidate_factor, options.metric, rngs[0], engine
        )
    with phase("neighbors"):
        search = options.n_neighbors, options.neighborhood_factor, options.neighbors
        index = engine.apply(build_index, R, *search, rows.n_rows, rows.sparse, rngs[1])
        stored = embedding.stores_edges(rows, index.n_neighbors, n_vectors)
        edges = connect(rows, index, engine, stored, buffer.edges if buffer is not None else None, options.affinity)
        if buffer is not None and isinstance(edges, Edges):
            buffer.edges = edges
    with phase("graph"):
        graph = reduce_graph(*exact_edges(edges, rows, index, engine), len(R), engine, options.row_power)
    with phase("eigenvectors"):
        graph = attach_fragments(graph, index.representatives, options)
        spectrum = engine.apply(transfer_cut, graph, n_vectors, options.regularization, index.representatives)
    return index, edges, graph, spectrum


def label_members(models: Sequence[Model], block: Block, dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]:
    """Label preprocessed rows by each member (n, m)."""
    labels = np.empty((block.shape[0], len(models)), dtype=dtype)
    for j, model in enumerate(models):
        labels[:, j] = model.label(block)
    return labels


def base_labels(models: Sequence[Model], rows: Rows, dtype: npt.DTypeLike, engine: ThreadEngine) -> npt.NDArray[Any]:
    """Label all preprocessed rows by each member (n, m)."""
    out = allocate_matrix(rows, len(models), dtype)
    label_rows_by(models, rows, matrix_columns(out), engine)
    return as_array(out)


def label_rows_by(models: Sequence[Model], rows: Rows, columns: Sequence[Any], engine: ThreadEngine) -> None:
    """Label all preprocessed rows by each member, in one pass; write the labels to a column of each."""

    def run(block: Block, span: Span) -> None:
        for model, column in zip(models, columns, strict=True):
            column[slice(*span)] = model.label(block)

    if models:
        engine.map_rows(rows, run)


def first_columns(models: Sequence[Model]) -> npt.NDArray[np.int32]:
    """Return the number of each member's first base cluster, counted through all members."""
    sizes = [model.partition.n_clusters for model in models]
    return np.cumsum([0, *sizes[:-1]], dtype=np.int32)


def base_columns(models: Sequence[Model], block: Block) -> npt.NDArray[np.int32]:
    """Return the base clusters (n, m) of preprocessed rows, numbered through all members."""
    return label_members(models, block) + first_columns(models)
