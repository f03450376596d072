"""U-SPEC's phases in order, from prepared rows to clusters: one `USPEC`, or one member of `USENC`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import to_python, warn_user
from ultraspec.cluster.linkage import Tree
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows
from ultraspec.spectral import agreement, discretize, representatives, transfer_cut
from ultraspec.spectral.edges import Edges, LazyEdges, connect, new_edges
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.partition import CenterPartition, Partition, VotePartition, partition_from_arrays
from ultraspec.storage.spool import stays_in_memory

Stage = Callable[[str, Callable[[], dict[str, npt.NDArray[Any]]]], dict[str, npt.NDArray[Any]]]

CLEAR_STEP = 3.0  # of eigenvalues: one that shows how many clusters there are


@dataclass(frozen=True)
class GraphOptions:
    """The parameters that choose the graph of rows and representatives, named as those of the estimators."""

    n_representatives: int
    n_neighbors: int
    selection: str
    candidate_factor: int
    neighbors: str
    neighborhood_factor: int
    metric: str
    regularization: float

    @classmethod
    def of(cls, estimator: Any) -> GraphOptions:
        """Those of an estimator."""
        values = {field.name: getattr(estimator, field.name) for field in fields(cls)}
        return cls(**{name: to_python(value) for name, value in values.items()})


@dataclass(frozen=True)
class LabelOptions:
    """The parameters that choose how the embedding becomes clusters, named as those of the estimators."""

    discretize: str
    n_init: int
    max_iter: int


@dataclass
class Embedding:
    """What the phases find: the rows' edges, and all that is needed to find those of other rows."""

    index: RepresentativeIndex
    sigma: float
    edges: Edges | LazyEdges
    graph: transfer_cut.Graph
    spectrum: transfer_cut.Spectrum


@dataclass(frozen=True)
class Model:
    """All that labelling a prepared row needs: a few MB, whatever the number of rows was."""

    index: RepresentativeIndex
    sigma: float
    partition: Partition

    def edges(self, block: Block) -> Edges:
        """Edges of prepared rows."""
        return new_edges(block, self.index, self.sigma)

    def label(self, block: Block) -> npt.NDArray[np.int32]:
        """Clusters of prepared rows."""
        return self.partition.label(self.edges(block))

    def lift(self, block: Block) -> npt.NDArray[np.float32]:
        """Embedding of prepared rows."""
        return self.partition.lift(self.edges(block))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The whole state as arrays, for files."""
        return {
            **_index_arrays(self.index),
            "sigma": np.asarray(self.sigma),
            **self.partition.arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Model:
        """A model from what `arrays` gave; further arrays are left alone."""
        return cls(_index_of(arrays), float(arrays["sigma"]), partition_from_arrays(arrays))


def _index_arrays(index: RepresentativeIndex) -> dict[str, npt.NDArray[Any]]:
    return {name: np.asarray(value) for name, value in index.__getstate__().items()}


def _index_of(arrays: dict[str, npt.NDArray[Any]]) -> RepresentativeIndex:
    parts = {name: arrays[name] for name in ("representatives", "centers", "starts", "lists")}
    n_neighbors, exact = int(arrays["n_neighbors"]), bool(arrays["exact"])
    return RepresentativeIndex(**parts, n_neighbors=n_neighbors, exact=exact)


def _made_anew(name: str, make: Callable[[], dict[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:  # noqa: ARG001
    """A stage that is not kept."""
    return make()


def embed(
    rows: Rows,
    options: GraphOptions,
    n_clusters: int,
    n_vectors: int,
    seeds: list[np.random.SeedSequence],
    engine: ThreadEngine,
    out: Edges | None = None,
    stage: Stage = _made_anew,
) -> Embedding:
    """Select representatives, find the nearest of each row, and take the leading eigenvectors of their graph.

    Parameters
    ----------
    rows : Rows
        Prepared rows.
    options : GraphOptions
        Parameters.
    n_clusters : int
        Clusters that will be asked for, which small data must have representatives for.
    n_vectors : int
        Eigenvectors to take, at most.
    seeds : list of two SeedSequence
        For the representatives and for their index.
    engine : ThreadEngine
        Runs the passes and hears of the phases.
    out : Edges, optional
        Arrays to write the rows' edges to.
    stage : callable
        Keeps the results of passes over rows that are not in memory, see `Checkpoint.stage`.
    """
    phase = engine.reporter.phase
    chance = [np.random.default_rng(seed) for seed in seeds]
    p = representatives.count(rows.n_rows, options.n_representatives, n_clusters, options.n_neighbors)

    def build() -> dict[str, npt.NDArray[Any]]:
        unit, exact = options.metric == "cosine", options.neighbors == "exact"
        R = representatives.select(rows, p, options.selection, options.candidate_factor, chance[0], engine, unit=unit)
        lists = options.n_neighbors, options.neighborhood_factor, exact, chance[1]
        return _index_arrays(engine.apply(RepresentativeIndex.build, R, *lists))

    with phase("representatives"):
        index = _index_of(stage("representatives", build))
    with phase("neighbors"):
        few = rows.n_rows <= discretize.settling_rows(n_vectors)  # k-means goes over all of them many times
        keep = (few and not rows.remote) or stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors)
        stage = _made_anew if keep else stage
        edges: Edges | LazyEdges | None = None

        def find() -> dict[str, npt.NDArray[Any]]:
            nonlocal edges
            edges, sigma = connect(rows, index, engine, keep=keep, out=out)
            return {"sigma": np.asarray(sigma)}

        sigma = float(stage("sigma", find)["sigma"])
        edges = LazyEdges(rows, index, sigma) if edges is None else edges
    with phase("graph"):
        p, found = len(index.representatives), edges
        graph = transfer_cut.Graph(
            **stage("graph", lambda: vars(transfer_cut.reduce_graph(found, sigma, p, rows, engine)))
        )
    with phase("eigenvectors"):
        spectrum = engine.apply(_eigenvectors, graph, n_vectors, options.regularization, index.representatives)
    return Embedding(index, sigma, edges, graph, spectrum)


def _eigenvectors(*args: Any) -> transfer_cut.Spectrum:
    """`transfer_cut`, which needs no engine."""
    return transfer_cut.transfer_cut(*args[:-1])


def choose_clusters(
    spectrum: transfer_cut.Spectrum,
    options: LabelOptions,
    regularization: float,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
) -> tuple[int, Tree | None]:
    """Number of clusters for n_clusters="auto", and the tree of representatives where one was made for it.

    The largest eigengap, or with a tree its largest fall; but a clear step of the eigenvalues is surer than the tree.
    """
    wanted = transfer_cut.choose_number(spectrum.eigenvalues, regularization)
    if options.discretize != "consensus":
        return wanted, None
    tree = agreement.by_agreement(spectrum, 1, np.random.default_rng(seed), engine)
    steps = transfer_cut.eigensteps(spectrum.eigenvalues, regularization)
    return wanted if steps.max(initial=0.0) > CLEAR_STEP else agreement.largest_fall(tree), tree


def divide(
    spectrum: transfer_cut.Spectrum,
    edges: Edges | LazyEdges,
    k: int,
    options: LabelOptions,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
    tree: Tree | None = None,
) -> tuple[Partition, int]:
    """Clusters of the embedding, and the iterations of k-means that found them.

    Parameters
    ----------
    spectrum : Spectrum
        Eigenvectors.
    edges : Edges or LazyEdges
        Edges of the rows that the graph was made of.
    k : int
        Number of clusters.
    options : LabelOptions
        How to find them.
    seed : SeedSequence
        Source of randomness.
    engine : ThreadEngine
        Runs the passes.
    tree : Tree, optional
        Tree of the representatives, if it was made before.
    """
    chance = np.random.default_rng(seed)
    if options.discretize == "consensus":
        tree = agreement.by_agreement(spectrum, k, chance, engine) if tree is None else tree
        return VotePartition(spectrum, *agreement.cut_tree(tree, k), tree), agreement.ROUGH_ITERATIONS
    if options.discretize == "representatives":
        labels, n_iter = agreement.by_kmeans(spectrum, k, options.n_init, options.max_iter, chance, engine)
        return VotePartition(spectrum, labels, int(labels.max()) + 1), n_iter
    points = discretize.points_of(edges, spectrum.vectors[:, :k])
    found = discretize.kmeans(points, k, options.n_init, options.max_iter, chance, engine)
    found = discretize.renumber(
        found,
        k,
        "the rows have only so many distinct places in the graph of representatives. X may have too few distinct "
        "rows; otherwise raise n_representatives.",
    )
    return CenterPartition(spectrum, found.centers), found.n_iter


def warn_of_pieces(sizes: npt.NDArray[np.int64], k: int, options: GraphOptions) -> None:
    """Say where the graph is in more pieces, of so many rows each, than there are clusters."""
    if len(sizes) <= k:
        return
    shown = ", ".join(f"{size:,}" for size in sizes[:5]) + (", ..." if len(sizes) > 5 else "")
    done = (
        f"Faint edges (regularization={options.regularization:g}) joined them, so clusters follow the larger pieces"
        if options.regularization > 0
        else "regularization=0 leaves them apart, so which pieces share a cluster is arbitrary"
    )
    warn_user(
        f"The graph is in {len(sizes)} pieces that share no edge (rows: {shown}; smallest {sizes[-1]:,}), more "
        f"than the {k} clusters. {done}. To change this, raise n_clusters if the pieces are real, "
        f"raise n_neighbors (now {options.n_neighbors}) or lower n_representatives (now {options.n_representatives}) "
        "to join them, or drop outliers.",
        UserWarning,
    )
