"""The choice between candidates: the clusters that independent graphs agree on.

A method can be wrong in the same way each time, so its own stability tells little. But methods that err, err in
different ways. Other graphs, with representatives of their own, are divided by all candidates; of the clusterings of
the first graph, the one is taken that agrees most with all of theirs, by the mean adjusted Rand index on common rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ultraspec import metrics
from ultraspec._kernels.agreement import vote
from ultraspec.cluster.points import FEW_FEATURES, Labels
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, sample_rows, take_draws, take_sample
from ultraspec.spectral.candidates import (
    CANDIDATES,
    JUDGE_LABELINGS,
    LABELINGS,
    Hierarchy,
    build_hierarchy,
    warn_of_few_clusters,
)
from ultraspec.spectral.edges import Edges, connect, new_edges
from ultraspec.spectral.neighbors import RepresentativeIndex, build_index
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.representatives import count_representatives, select_representatives
from ultraspec.spectral.transfer_cut import KEPT_VECTORS, Graph, Spectrum, attach_fragments, reduce_graph, transfer_cut

POOL_ROWS = 50_000  # sampled rows that judging graphs are built from
COMMON_ROWS = 6_000  # of them, on which clusterings are compared
COARSE, MEDIUM, FINE = 1000, 2000, 10_000  # numbers of representatives
ON_A_LINE = 200  # representatives of rows of one feature
WELL_CONNECTED = 0.9  # a medium graph pays if the 60th eigenvalue of a coarse one is below
VERY_WELL_CONNECTED = 0.78  # a fine graph pays if it is below; otherwise it falls into fragments
IN_AGREEMENT = 0.95  # coarse graphs that agree so much need no finer one
IN_DISPUTE = 0.85  # judges that agree less call in others
FURTHER_JUDGES = 2
LEAST_AGREEMENT = 0.01  # of a clustering that judges rows, so that some always count
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
    edges : Edges
        Edges of its rows.
    """

    index: RepresentativeIndex
    sigma: float
    graph: Graph
    spectrum: Spectrum
    edges: Edges

    @classmethod
    def build(
        cls,
        rows: Rows,
        p: int,
        n_vectors: int,
        options: GraphOptions,
        seed: np.random.SeedSequence,
        engine: ThreadEngine,
    ) -> SmallGraph:
        """Run the phases of U-SPEC up to the eigenvectors."""
        rngs = [np.random.default_rng(each) for each in seed.spawn(2)]
        R = select_representatives(rows, p, "hybrid", options.candidate_factor, options.metric, rngs[0], engine)
        search = options.n_neighbors, options.neighborhood_factor, options.neighbors
        index = build_index(R, *search, rows.n_rows, rows.sparse, rngs[1], engine)
        edges = connect(rows, index, engine, affinity=options.affinity, warn=False)  # numbers of rows are of a sample
        assert isinstance(edges, Edges)
        graph = reduce_graph(edges, rows, len(R), engine, options.row_power)
        graph = attach_fragments(graph, index.representatives, options)
        spectrum = transfer_cut(graph, n_vectors, options.regularization, index.representatives, engine)
        return cls(index, edges.sigma, graph, spectrum, edges)


@dataclass(frozen=True)
class Judge:
    """Another graph.

    Attributes
    ----------
    hierarchy : Hierarchy
        Its trees.
    edges : Edges
        Edges of the common rows to its representatives.
    index : RepresentativeIndex or None
        Finds its representatives, until the graph that it judges is there.
    nearest : ndarray of uint16, or None
        Its representative that is nearest to each representative of the graph that it judges.
    """

    hierarchy: Hierarchy
    edges: Edges
    index: RepresentativeIndex | None = None
    nearest: npt.NDArray[np.uint16] | None = None

    def label(self, groups: Labels) -> Labels:
        """Label the common rows by the clusters of the representatives."""
        labels = np.empty(len(self.edges), dtype=np.int32)
        vote(self.edges.ids, self.edges.weights, groups, labels)
        return labels

    def label_again(self, labels: Labels, before: Labels, groups: Labels) -> Labels:
        """Label the common rows by `groups`, which divide some of the clusters `before`, given their labels by these.

        The parts of a cluster have at most its weight, so a row of another cluster stays there: it does not vote again.
        """
        part = np.zeros(int(before.max()) + 1, dtype=np.int32)
        part[before] = groups
        divided = np.zeros(len(part), dtype=bool)
        divided[before[part[before] != groups]] = True
        voting = np.flatnonzero(divided[labels])
        again = np.empty(len(voting), dtype=np.int32)
        vote(self.edges.ids[voting], self.edges.weights[voting], groups, again)
        labels = part[labels]
        labels[voting] = again
        return labels

    def cut_all(self, n_clusters: int, engine: ThreadEngine) -> list[Labels]:
        """Divide the representatives by each candidate."""
        return [cut(self.hierarchy, n_clusters, engine) for cut in CANDIDATES.values()]

    def label_all(self, n_clusters: int, engine: ThreadEngine) -> list[Labels]:
        """Label the common rows by each candidate."""
        return [self.label(groups) for groups in self.cut_all(n_clusters, engine)]

    def meet(self, index: RepresentativeIndex) -> Judge:
        """Return the judge of a graph, given the index of that graph's representatives."""
        if self.index is None:
            return self
        nearest = self.index.query(index.representatives)[0][:, 0]
        return replace(self, index=None, nearest=np.ascontiguousarray(nearest))


class Panel(NamedTuple):
    """Graphs that judge.

    Attributes
    ----------
    judges : list of Judge
        The graphs.
    common : block of rows
        Rows on which clusterings are compared.
    connectivity : float
        Connectivity of coarse graphs of the data, see `connectivity_of`.
    """

    judges: list[Judge]
    common: Any
    connectivity: float


def agreement(labels: Labels, others: Sequence[Labels]) -> float:
    """Return the mean adjusted Rand index of a clustering with others."""
    return float(np.mean([metrics.ari(labels, other) for other in others]))


def rank(agreements: Mapping[str, float]) -> dict[str, float]:
    """Sort candidates by their agreement, the largest first; of equal ones, trees come before k-means."""
    return dict(sorted(agreements.items(), key=lambda item: (-item[1], list(CANDIDATES).index(item[0]))))


class Chosen(NamedTuple):
    """Clusters of representatives.

    Attributes
    ----------
    groups : ndarray of shape (p,), int32
        Cluster of each representative.
    agreements : dict of str to float, or None
        Agreement of each candidate with other graphs, the largest first, if one was chosen by it.
    trust : ndarray of shape (p,), float32, or None
        How far other graphs keep each representative with its cluster, if there are other graphs.
    """

    groups: Labels
    agreements: dict[str, float] | None
    trust: npt.NDArray[np.float32] | None


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

    def choose(self, n_clusters: int, engine: ThreadEngine) -> Chosen:
        """Divide the representatives of the first graph into clusters, by the candidate with the largest agreement.

        Of equal ones, trees come before k-means. Without other graphs, the candidates judge each other.
        """
        groups = {name: cut(self.own.hierarchy, n_clusters, engine) for name, cut in CANDIDATES.items()}
        own = {name: self.own.label(each) for name, each in groups.items()}
        others = [(judge, each) for judge in self.judges for each in judge.cut_all(n_clusters, engine)]
        labels = [judge.label(each) for judge, each in others] or list(own.values())
        ranked = rank({name: agreement(each, labels) for name, each in own.items()})
        chosen = groups[next(iter(ranked))]
        warn_of_few_clusters(chosen, n_clusters)
        return Chosen(chosen, ranked, self._trust(chosen, others))

    def trust(self, groups: Labels, engine: ThreadEngine) -> npt.NDArray[np.float32] | None:
        """Return how far the judges keep each representative with its cluster, or None without judges."""
        n_clusters = int(groups.max()) + 1
        others = [(judge, each) for judge in self.judges for each in judge.cut_all(n_clusters, engine)]
        return self._trust(groups, others)

    def _trust(self, groups: Labels, others: Sequence[tuple[Judge, Labels]]) -> npt.NDArray[np.float32] | None:
        """Return the mean over clusterings of how alike the clusters of a representative are, in this and the other.

        Two clusters are as alike as their Jaccard index on the common rows says. Clusterings count by the square of
        their agreement with this one: one that errs alone says little about rows.
        """
        if not others or any(judge.nearest is None for judge, _ in others):
            return None
        labels = self.own.label(groups).astype(np.int64)
        total = np.zeros(len(groups))
        weight = 0.0
        for judge, other_groups in others:
            k = int(other_groups.max()) + 1
            other_labels = judge.label(other_groups)
            counts = np.bincount(labels * k + other_labels, minlength=(int(groups.max()) + 1) * k)
            table = counts.reshape(-1, k)
            unions = table.sum(axis=1)[:, None] + table.sum(axis=0) - table
            share = max(metrics.ari(labels, other_labels), LEAST_AGREEMENT) ** 2
            total += share * (table / np.maximum(unions, 1))[groups, other_groups[judge.nearest]]
            weight += share
        return (total / weight).astype(np.float32)

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
                    **({} if judge.nearest is None else {"nearest": judge.nearest}),
                },
            )
        return arrays

    @classmethod
    def from_arrays(cls, spectrum: Spectrum, arrays: Mapping[str, npt.NDArray[Any]]) -> Choice | None:
        """Restore a choice from what `arrays` returned, or None; other arrays are ignored."""
        if "own.nodes" not in arrays:
            return None
        own = _without_prefix("own.", arrays)
        judges: list[Judge] = []
        while f"judge{len(judges)}.nodes" in arrays:
            part = _without_prefix(f"judge{len(judges)}.", arrays)
            other = Spectrum(part["eigenvalues"], part["vectors"], part["degrees"])
            judges.append(Judge(Hierarchy.from_arrays(other, part), _edges_from(part), nearest=part.get("nearest")))
        return cls(Judge(Hierarchy.from_arrays(spectrum, own), _edges_from(own)), judges)


def _edge_arrays(edges: Edges) -> dict[str, npt.NDArray[Any]]:
    return {"ids": edges.ids, "weights": edges.weights} if len(edges) else {}


def _edges_from(arrays: Mapping[str, npt.NDArray[Any]]) -> Edges:
    return Edges(arrays["ids"], arrays["weights"]) if "ids" in arrays else Edges.empty(0, 1)


def _with_prefix(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {prefix + name: array for name, array in arrays.items()}


def _without_prefix(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def n_vectors_for(n_clusters: int) -> int:
    """Return the number of eigenvectors to compute: more do not help, even for hundreds of clusters."""
    return max(KEPT_VECTORS, min(2 * n_clusters, 2 * KEPT_VECTORS))


@dataclass(frozen=True)
class Pilot:
    """What coarse graphs of sampled rows tell.

    Attributes
    ----------
    n_representatives : int
        Number of representatives of the graph of all rows, p.
    judges : list of Judge
        Graphs that judge its clusters.
    common : block of rows
        Rows on which clusterings are compared.
    """

    n_representatives: int
    judges: Sequence[Judge] = ()
    common: Any = None


def sample_pool(rows: Rows, seed: np.random.SeedSequence) -> Rows:
    """Return sampled rows in memory, for other graphs than that of all rows."""
    return take_sample(rows, sample_rows(rows, POOL_ROWS, np.random.default_rng(seed)))


def run_pilot(
    pool: Rows,
    n_rows: int,
    n_clusters: int,
    n_judges: int,
    options: GraphOptions,
    seed: np.random.SeedSequence,
    panel: Panel | None,
    engine: ThreadEngine,
) -> Pilot:
    """Build coarse graphs of sampled rows, which judge clusterings, and choose the number of representatives.

    Parameters
    ----------
    pool : Rows
        Sampled rows, preprocessed, in memory.
    n_rows : int
        Number of all rows that count.
    n_clusters : int
        Number of clusters.
    n_judges : int
        Number of graphs that judge.
    options : GraphOptions
        Parameters of the graphs.
    seed : SeedSequence
        Seed of the random numbers.
    panel : Panel or None
        Graphs that exist already, which judge instead.
    engine : ThreadEngine
        Runs the passes.
    """
    p = coarse_representatives(pool.n_rows, pool.n_features, n_clusters, options)
    seeds = seed.spawn(1 + n_judges + FURTHER_JUDGES)
    if panel is None:
        common = take_draws(pool, COMMON_ROWS, np.random.default_rng(seeds[0]))
        judges = build_judges(pool, common, p, n_clusters, options, seeds[1 : n_judges + 1], engine)
        connectivity = connectivity_of(judges)
    else:
        judges, common, connectivity = panel
    consent = agreement_of_judges(judges, n_clusters, engine)
    if consent < IN_DISPUTE and panel is None:
        judges += build_judges(pool, common, p, n_clusters, options, seeds[n_judges + 1 :], engine)
    may_be_finer = pool.n_features > FEW_FEATURES and consent < IN_AGREEMENT
    p = fine_representatives(connectivity, p, n_rows, n_clusters, options, may_be_finer=may_be_finer)
    return Pilot(p, judges, common)


def connectivity_of(judges: Sequence[Judge]) -> float:
    """Return the 60th eigenvalue of the graphs, their mean: the smaller, the better connected are all rows."""
    return float(np.mean([judge.hierarchy.spectrum.eigenvalues[:KEPT_VECTORS][-1] for judge in judges]))


def build_judges(
    pool: Rows,
    common: Any,
    p: int,
    n_clusters: int,
    options: GraphOptions,
    seeds: Sequence[np.random.SeedSequence],
    engine: ThreadEngine,
) -> list[Judge]:
    """Build a graph of the same rows for each seed, with `p` representatives; `common` rows are labelled by it."""
    alone = engine.within(MemberReporter(engine.reporter), alone=True)  # graphs are counted, not their passes

    def build(seed: np.random.SeedSequence) -> Judge:
        graph = SmallGraph.build(pool, p, n_vectors_for(n_clusters), options, seed, alone)
        number = int(seed.generate_state(1)[0])
        hierarchy = build_hierarchy(graph.graph, graph.spectrum, n_clusters, JUDGE_LABELINGS, number, alone)
        return Judge(hierarchy, new_edges(common, graph.index, graph.sigma), graph.index)

    return engine.map(build, seeds)


def coarse_representatives(n_rows: int, n_features: int, n_clusters: int, options: GraphOptions) -> int:
    """Return the number of representatives of a graph of `n_rows` sampled rows."""
    asked = most_coarse(n_features)
    if options.n_representatives != "auto":
        asked = min(asked, options.n_representatives)
    asked = max(asked, min(JUDGE_REPRESENTATIVES_PER_CLUSTER * n_clusters, FINE))
    return count_representatives(n_rows, asked, n_clusters, options.n_neighbors)


def most_coarse(n_features: int) -> int:
    """Return the number of representatives of coarse graphs: few along a line, of which each has but two sides."""
    return ON_A_LINE if n_features == 1 else COARSE


def fine_representatives(
    connectivity: float, p: int, n_rows: int, n_clusters: int, options: GraphOptions, *, may_be_finer: bool
) -> int:
    """Return the number of representatives of the graph of all rows, given coarse graphs with `p`."""
    if options.n_representatives == "auto":
        return auto_representatives(connectivity, p, n_rows, n_clusters, may_be_finer=may_be_finer)
    return count_representatives(n_rows, options.n_representatives, n_clusters, options.n_neighbors)


def auto_representatives(connectivity: float, p: int, n_rows: int, n_clusters: int, *, may_be_finer: bool) -> int:
    """Choose the number of representatives, given the connectivity of coarse graphs with `p` of them.

    A finer graph pays if the coarse ones disagree, and if they are well connected: their leading eigenvalues fall
    quickly. Otherwise the finer graph would fall into fragments, because each representative stands for few rows.
    """
    if may_be_finer:
        if connectivity < VERY_WELL_CONNECTED:
            p = max(p, min(FINE, n_rows // 2))
        elif connectivity < WELL_CONNECTED:
            p = max(p, min(MEDIUM, n_rows // 3))
    return max(p, min(REPRESENTATIVES_PER_CLUSTER * n_clusters, FINE, n_rows // 3))


def agreement_of_judges(judges: Sequence[Judge], n_clusters: int, engine: ThreadEngine) -> float:
    """Return the agreement of that clustering of the first graph which agrees most with those of the others."""
    first, *others = (judge.label_all(n_clusters, engine) for judge in judges)
    rest = [labels for each in others for labels in each] or first
    return max(agreement(labels, rest) for labels in first)


def build_choice(
    pilot: Pilot,
    graph: Graph,
    spectrum: Spectrum,
    index: RepresentativeIndex,
    sigma: float,
    n_clusters: int,
    seed: int,
    engine: ThreadEngine,
) -> Choice:
    """Build the trees of the graph of all rows, and find the edges of the common rows to it."""
    own = build_hierarchy(graph, spectrum, n_clusters, LABELINGS, seed, engine)
    edges = Edges.empty(0, 1) if pilot.common is None else new_edges(pilot.common, index, sigma)
    return Choice(Judge(own, edges), [judge.meet(index) for judge in pilot.judges])
