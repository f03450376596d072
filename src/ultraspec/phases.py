"""U-SPEC's phases in order, from prepared rows to clusters: one `USPEC`, or one member of `USENC`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec import bipartite, discretize, groups, representatives
from ultraspec._spool import stays_in_memory
from ultraspec.engines import ThreadEngine
from ultraspec.linkage import Tree
from ultraspec.neighbors import RepresentativeIndex
from ultraspec.partition import CenterPartition, Partition, VotePartition, partition_of_arrays
from ultraspec.rows import Block, Rows


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
        return cls(**{name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()})


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
    edges: bipartite.Edges | bipartite.FoundEdges
    graph: bipartite.Graph
    spectrum: bipartite.Spectrum


@dataclass(frozen=True)
class Model:
    """All that labelling a prepared row needs: a few MB, whatever the number of rows was."""

    index: RepresentativeIndex
    sigma: float
    partition: Partition

    def edges(self, block: Block) -> bipartite.Edges:
        """Edges of prepared rows."""
        return bipartite.new_edges(block, self.index, self.sigma)

    def label(self, block: Block) -> npt.NDArray[np.int32]:
        """Clusters of prepared rows."""
        return self.partition.label(self.edges(block))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The whole state as arrays, for files."""
        return {
            **{name: np.asarray(value) for name, value in self.index.__getstate__().items()},
            "sigma": np.asarray(self.sigma),
            **self.partition.arrays(),
        }

    @classmethod
    def of_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Model:
        """A model from what `arrays` gave; further arrays are left alone."""
        parts = {name: arrays[name] for name in ("representatives", "centers", "starts", "lists")}
        n_neighbors, exact = int(arrays["n_neighbors"]), bool(arrays["exact"])
        index = RepresentativeIndex(**parts, n_neighbors=n_neighbors, exact=exact)
        return cls(index, float(arrays["sigma"]), partition_of_arrays(arrays))


def embed(
    rows: Rows,
    options: GraphOptions,
    n_clusters: int,
    n_vectors: int,
    seeds: list[np.random.SeedSequence],
    engine: ThreadEngine,
    out: bipartite.Edges | None = None,
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
    """
    phase = engine.reporter.phase
    chance = [np.random.default_rng(seed) for seed in seeds]
    with phase("representatives"):
        p = representatives.count(rows.n_rows, options.n_representatives, n_clusters, options.n_neighbors)
        unit = options.metric == "cosine"
        R = representatives.select(rows, p, options.selection, options.candidate_factor, chance[0], engine, unit=unit)
    with phase("neighbors"):
        exact = options.neighbors == "exact"
        index = RepresentativeIndex.build(R, options.n_neighbors, options.neighborhood_factor, exact, chance[1], engine)
        few = rows.n_rows <= discretize.settling_rows(n_vectors)  # k-means goes over all of them many times
        keep = few or stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors)
        edges, sigma = bipartite.connect(rows, index, engine, keep=keep, out=out)
    with phase("graph"):
        graph = bipartite.reduce_graph(edges, sigma, len(R), rows.blocks(), engine)
    with phase("eigenvectors"):
        spectrum = bipartite.transfer_cut(graph, n_vectors, options.regularization, index.representatives)
    return Embedding(index, sigma, edges, graph, spectrum)


def divide(
    spectrum: bipartite.Spectrum,
    edges: bipartite.Edges | bipartite.FoundEdges,
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
    edges : Edges or FoundEdges
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
        tree = groups.by_agreement(spectrum, k, chance, engine) if tree is None else tree
        return VotePartition(spectrum, *groups.cut_tree(tree, k), tree), groups.ROUGH_ITERATIONS
    if options.discretize == "representatives":
        labels, n_iter = groups.by_kmeans(spectrum, k, options.n_init, options.max_iter, chance, engine)
        return VotePartition(spectrum, labels, int(labels.max()) + 1), n_iter
    points = discretize.EmbeddedPoints(edges, spectrum.vectors[:, :k])
    found = discretize.kmeans(points, k, options.n_init, options.max_iter, chance, engine)
    found = discretize.renumber(
        found,
        k,
        "the rows have only so many distinct places in the graph of representatives. X may have too few distinct "
        "rows; otherwise raise n_representatives.",
    )
    return CenterPartition(spectrum, found.centers), found.n_iter
