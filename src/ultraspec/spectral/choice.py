"""The choice between candidates: the clusters that independent graphs agree on.

A method can be wrong in the same way each time, so its own stability tells little. But methods that err, err in
different ways. Other graphs, with representatives of their own, are divided by all candidates; of the clusterings of
the first graph, the one is taken that agrees most with all of theirs, by the mean adjusted Rand index on common rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec import metrics
from ultraspec._kernels.agreement import vote
from ultraspec.cluster.points import FEW_FEATURES, Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, sample_indices
from ultraspec.spectral.candidates import CANDIDATES, JUDGE_LABELINGS, Hierarchy, build_hierarchy
from ultraspec.spectral.edges import Edges, connect, new_edges
from ultraspec.spectral.neighbors import RepresentativeIndex, build_index
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.representatives import count_representatives, select_representatives
from ultraspec.spectral.transfer_cut import KEPT_VECTORS, Graph, Spectrum, reduce_graph, transfer_cut

POOL_ROWS = 60_000  # sampled rows that judging graphs are built from
COMMON_ROWS = 6_000  # of them, on which clusterings are compared
LADDER = 1000, 3000, 10_000  # numbers of representatives of ever finer graphs
WELL_CONNECTED = 0.87  # a graph is made finer while its 60th eigenvalue is below: beyond, it falls into fragments
REPRESENTATIVES_PER_CLUSTER = 10  # of the graph whose clusters are reported, and fewer of the others
JUDGE_REPRESENTATIVES_PER_CLUSTER = 4


@dataclass(frozen=True)
class SmallGraph:
    """A graph of rows in memory.

    Attributes
    ----------
    index : RepresentativeIndex
        Its representatives.
    sigma : float
        Width of the affinity.
    graph : Graph
        Affinity of the representatives.
    spectrum : Spectrum
        Its eigenvectors.
    """

    index: RepresentativeIndex
    sigma: float
    graph: Graph
    spectrum: Spectrum

    @classmethod
    def build(
        cls, rows: Rows, p: int, n_vectors: int, options: GraphOptions, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> SmallGraph:
        """Run the phases of U-SPEC up to the eigenvectors."""
        rngs = [np.random.default_rng(each) for each in seed.spawn(2)]
        R = select_representatives(rows, p, "hybrid", options.candidate_factor, options.metric, rngs[0], engine)
        index = build_index(
            R, options.n_neighbors, options.neighborhood_factor, options.neighbors, rows.sparse, rngs[1], engine
        )
        edges = connect(rows, index, engine, affinity=options.affinity)
        graph = reduce_graph(edges, len(R), rows, engine, options.row_power)
        spectrum = transfer_cut(graph, n_vectors, options.regularization, index.representatives, engine)
        return cls(index, edges.sigma, graph, spectrum)

    @property
    def is_well_connected(self) -> bool:
        """Whether a finer graph is worth trying."""
        values = self.spectrum.eigenvalues
        return len(values) >= KEPT_VECTORS and bool(values[KEPT_VECTORS - 1] < WELL_CONNECTED)


@dataclass(frozen=True)
class Judge:
    """Another graph, and the edges of the common rows to its representatives."""

    hierarchy: Hierarchy
    edges: Edges

    def label(self, groups: Labels) -> Labels:
        """Label the common rows by the clusters of the representatives."""
        labels = np.empty(len(self.edges), dtype=np.int32)
        vote(self.edges.ids, self.edges.weights, groups, labels)
        return labels


@dataclass(frozen=True)
class Choice:
    """The graph whose clusters are reported, and the graphs that judge them.

    Attributes
    ----------
    own : Judge
        The first graph, with the edges of the common rows.
    judges : sequence of Judge
        The other graphs.
    """

    own: Judge
    judges: Sequence[Judge]

    def choose(self, n_clusters: int, engine: ThreadEngine) -> tuple[Labels, dict[str, float]]:
        """Divide the representatives of the first graph into clusters.

        Return the clusters of the candidate with the largest agreement, and the agreements of all, the largest first.
        Of equal ones, trees come before k-means.
        """
        groups = {name: self.own.hierarchy.cut(name, n_clusters, engine) for name in CANDIDATES}
        others = [
            judge.label(CANDIDATES[name](judge.hierarchy, n_clusters, engine))
            for judge in self.judges
            for name in CANDIDATES
        ]
        agreements = {
            name: float(np.mean([metrics.ari(self.own.label(each), other) for other in others]))
            for name, each in groups.items()
        }
        ranked = dict(sorted(agreements.items(), key=lambda item: -item[1]))
        return groups[next(iter(ranked))], ranked

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state but for the spectrum of the first graph as arrays, for files."""
        arrays = _with_prefix("own.", {**self.own.hierarchy.arrays(), **_edge_arrays(self.own.edges)})
        for number, judge in enumerate(self.judges):
            spectrum = judge.hierarchy.spectrum
            arrays |= _with_prefix(
                f"judge{number}.",
                {
                    "eigenvalues": spectrum.eigenvalues,
                    "vectors": spectrum.vectors,
                    "degrees": spectrum.degrees,
                    **judge.hierarchy.arrays(),
                    **_edge_arrays(judge.edges),
                },
            )
        return arrays

    @classmethod
    def from_arrays(cls, spectrum: Spectrum, arrays: Mapping[str, npt.NDArray[Any]]) -> Choice | None:
        """Restore a choice from what `arrays` returned, or None; other arrays are ignored."""
        if "own.nodes" not in arrays:
            return None
        own = _without_prefix("own.", arrays)
        judges = []
        while f"judge{len(judges)}.nodes" in arrays:
            part = _without_prefix(f"judge{len(judges)}.", arrays)
            other = Spectrum(part["eigenvalues"], part["vectors"], part["degrees"])
            judges.append(Judge(Hierarchy.from_arrays(other, part), Edges(part["ids"], part["weights"])))
        return cls(Judge(Hierarchy.from_arrays(spectrum, own), Edges(own["ids"], own["weights"])), judges)


def _edge_arrays(edges: Edges) -> dict[str, npt.NDArray[Any]]:
    return {"ids": edges.ids, "weights": edges.weights}


def _with_prefix(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {prefix + name: array for name, array in arrays.items()}


def _without_prefix(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def n_vectors_for(n_clusters: int) -> int:
    """Return the number of eigenvectors to compute: more do not help, even for hundreds of clusters."""
    return max(KEPT_VECTORS, min(2 * n_clusters, 2 * KEPT_VECTORS))


@dataclass(frozen=True)
class Pilot:
    """What the graphs of sampled rows tell: the judges, and the number of representatives of the graph of all rows.

    Attributes
    ----------
    judges : list of SmallGraph
        Graphs of the sample.
    n_representatives : int
        Number of representatives, p.
    common : block of rows
        Rows on which clusterings are compared.
    """

    judges: Sequence[SmallGraph]
    n_representatives: int
    common: Any


def run_pilot(
    pool: Rows,
    n_rows: int,
    n_clusters: int,
    n_judges: int,
    options: GraphOptions,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
) -> Pilot:
    """Build graphs of sampled rows that judge clusterings, and find the number of representatives.

    For few features, the smallest number of `LADDER` is enough. For more, graphs become finer while they stay well
    connected: each representative stands for fewer rows, until the graph falls into fragments. The graphs of this
    search are judges, too.

    Parameters
    ----------
    pool : Rows
        Sampled rows, preprocessed, in memory.
    n_rows : int
        Number of all rows.
    n_clusters : int
        Number of clusters.
    n_judges : int
        Number of graphs that judge; 0 if only the number of representatives is needed.
    options : GraphOptions
        Parameters of the graphs.
    seed : SeedSequence
        Seed of the random numbers.
    engine : ThreadEngine
        Runs the passes.
    """
    auto = options.n_representatives == "auto"
    asked = LADDER[0] if auto else min(LADDER[0], options.n_representatives)
    smallest = max(asked, min(JUDGE_REPRESENTATIVES_PER_CLUSTER * n_clusters, LADDER[-1]))
    sizes = [count_representatives(pool.n_rows, smallest, n_clusters, options.n_neighbors)]
    seeds = seed.spawn(max(n_judges, 2))
    n_vectors = n_vectors_for(n_clusters)
    climbs = auto and pool.n_features > FEW_FEATURES
    graphs = []
    for number in range(max(n_judges, 2 if climbs else 0)):
        p = sizes[-1] if number == 1 else sizes[0]
        graphs.append(SmallGraph.build(pool, p, n_vectors, options, seeds[number], engine))
        if climbs and number == len(sizes) - 1 < 2:
            climbs = graphs[-1].is_well_connected and sizes[-1] < _rung(number + 1, n_rows)
            if climbs:
                sizes.append(_rung(number + 1, n_rows))
            elif n_judges == 0:
                break
    common = pool.take(sample_indices(pool.n_rows, COMMON_ROWS, np.random.default_rng(seeds[0])))
    if not auto:
        p = options.n_representatives
    else:
        p = max(sizes[-1], min(REPRESENTATIVES_PER_CLUSTER * n_clusters, LADDER[-1], n_rows // 3))
    return Pilot(graphs[:n_judges], p, common)


def _rung(number: int, n_rows: int) -> int:
    """Return the number of representatives of a rung: at most a third of the rows, half of them for the last one."""
    return min(LADDER[number], n_rows // (2 if number == len(LADDER) - 1 else 3))


def build_choice(
    pilot: Pilot, own: Hierarchy, index: RepresentativeIndex, sigma: float, n_clusters: int, seed: int, engine: ThreadEngine
) -> Choice:
    """Build the hierarchies of the judges, and find the edges of the common rows to all graphs."""
    judges = []
    for number, each in enumerate(pilot.judges):
        hierarchy = build_hierarchy(
            each.graph, each.spectrum, n_clusters, JUDGE_LABELINGS, seed + number + 1, engine
        )
        judges.append(Judge(hierarchy, new_edges(pilot.common, each.index, each.sigma)))
    return Choice(Judge(own, new_edges(pilot.common, index, sigma)), judges)
