"""Members of the default ensemble: independent graphs, which judge the clusters of the first one.

The first member is a graph as fine as that of `USPEC`. The others are coarse graphs of fewer sampled rows, each
with its own representatives: they cost the same however many rows there are. Every member has a rough clustering of
its representatives, by which it labels rows. The first ones have trees, too, and judge; the others are coarser still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ultraspec.cluster.points import FEW_FEATURES
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.consensus import Ensemble
from ultraspec.ensemble.members import MemberOptions, build_graph
from ultraspec.rows import Rows, sample_rows, take_draws, take_sample
from ultraspec.spectral.candidates import JUDGE_LABELINGS, LABELINGS, build_hierarchy
from ultraspec.spectral.choice import (
    COMMON_ROWS,
    IN_AGREEMENT,
    POOL_ROWS,
    Choice,
    Judge,
    SmallGraph,
    agreement_of_judges,
    coarse_representatives,
    connectivity_of,
    fine_representatives,
    n_vectors_for,
)
from ultraspec.spectral.edges import Edges, LazyEdges, find_edges, new_edges
from ultraspec.spectral.labelings import rough_clusters
from ultraspec.spectral.model import Model
from ultraspec.spectral.model_checks import check_model_arrays
from ultraspec.spectral.partition import VotePartition, label_all
from ultraspec.spectral.transfer_cut import Graph, Spectrum
from ultraspec.storage.checkpoint import Arrays, Checkpoint, NoCheckpoint

PILOT_MEMBERS = 2  # coarse members that decide how fine the first one is
MOST_JUDGES = 6  # coarse members that have trees and judge; more do not choose better
ROUGH = 500  # representatives of members that do not judge: enough for a rough clustering
REPRESENTATIVES_PER_BASE_CLUSTER = 4  # at least


@dataclass(frozen=True)
class Pool:
    """Sampled rows in memory.

    Attributes
    ----------
    rows : Rows
        Rows that coarse graphs are built from.
    common : block of rows
        Some of them, on which clusterings are compared.
    """

    rows: Rows
    common: Any

    @classmethod
    def sample(cls, rows: Rows, seed: np.random.SeedSequence) -> Pool:
        """Sample preprocessed rows."""
        rng = np.random.default_rng(seed)
        pool = take_sample(rows, sample_rows(rows, POOL_ROWS, rng))
        return cls(pool, take_draws(pool, COMMON_ROWS, rng))


@dataclass(frozen=True)
class FirstMember:
    """The finest member, and the edges of the rows that it was built from, unless it comes from a checkpoint."""

    model: Model
    edges: Edges | LazyEdges | None

    def arrays(self) -> Arrays:
        """Return the state as arrays, for a checkpoint."""
        return self.model.arrays()


def generate_graphs(
    rows: Rows,
    graph_rows: Rows,
    options: MemberOptions,
    n_members: int,
    seed: np.random.SeedSequence,
    checkpoint: Checkpoint | NoCheckpoint,
    engine: ThreadEngine,
) -> Ensemble:
    """Build all graphs that the checkpoint does not have: the first one from `graph_rows`, the others from a sample.

    Rows are not labelled by them: the consensus needs the edges to the first one only.
    """
    sample_seed = seed.spawn(1)[0]
    seeds = seed.spawn(n_members)
    pool = Pool.sample(graph_rows, sample_seed)
    restore = partial(_restore, rows)
    alone = engine.within(MemberReporter(engine.reporter), alone=True)  # members are counted, not their passes

    def run(number: int) -> Model:
        args = pool, options, seeds[number], number <= MOST_JUDGES, alone
        model: Model = checkpoint.run(f"member-{number:04d}", run_coarse_member, *args, restore=restore)
        return model

    others = engine.map(run, range(1, n_members))
    p = _choose_representatives(others[:PILOT_MEMBERS], pool, graph_rows.n_counted, options, engine)
    first = checkpoint.run(
        "member-0000",
        run_first_member,
        *(graph_rows, pool, p, options, seeds[0], engine),
        restore=lambda arrays: FirstMember(restore(arrays), None),
    )
    model = first.model
    edges = first.edges if graph_rows is rows else LazyEdges(rows, model.index, model.sigma)
    if edges is None:  # the member comes from a checkpoint
        edges = find_edges(rows, model.index, model.sigma, engine)
    return Ensemble([model, *others], None, rows, edges, rows.weights)


def run_coarse_member(
    pool: Pool, options: MemberOptions, seed: np.random.SeedSequence, judges: bool, engine: ThreadEngine
) -> Model:
    """Build a coarse graph of sampled rows, a rough clustering, and if it judges, its trees."""
    assert options.n_clusters is not None
    graph_seed, *seeds = seed.spawn(3)
    most = options.base_clusters[1]
    p = coarse_representatives(pool.rows.n_rows, pool.rows.n_features, options.n_clusters, options.graph)
    if not judges:
        p = min(p, max(ROUGH, REPRESENTATIVES_PER_BASE_CLUSTER * most))
    p = max(p, min(most, pool.rows.n_rows))
    graph = SmallGraph.build(pool.rows, p, n_vectors_for(options.n_clusters), options.graph, graph_seed, engine)
    args = graph.index, graph.edges, graph.graph, graph.spectrum
    return _member(*args, JUDGE_LABELINGS if judges else 0, pool, options, seeds, engine)


def run_first_member(
    rows: Rows, pool: Pool, p: int, options: MemberOptions, seed: np.random.SeedSequence, engine: ThreadEngine
) -> FirstMember:
    """Build the finest graph, its trees, and a rough clustering."""
    assert options.n_clusters is not None
    graph_seed, *seeds = seed.spawn(3)
    rngs = [np.random.default_rng(each) for each in graph_seed.spawn(2)]
    within = engine.within(MemberReporter(engine.reporter), alone=False)
    parts = build_graph(rows, p, n_vectors_for(options.n_clusters), options.graph, rngs, within)
    return FirstMember(_member(*parts, LABELINGS, pool, options, seeds, within), parts[1])


def _member(
    index: Any,
    edges: Edges | LazyEdges,
    graph: Graph,
    spectrum: Spectrum,
    n_labelings: int,
    pool: Pool,
    options: MemberOptions,
    seeds: Sequence[np.random.SeedSequence],
    engine: ThreadEngine,
) -> Model:
    """Divide a graph into a random number of base clusters; build its trees from `n_labelings` rough clusterings."""
    rng = np.random.default_rng(seeds[0])
    low, high = options.base_clusters
    k = min(int(rng.integers(low, high + 1)), len(spectrum.vectors))
    groups = engine.call(rough_clusters, spectrum, k, options.max_iter, rng)
    partition = VotePartition(spectrum, groups, int(groups.max()) + 1)
    used, _ = label_all(edges, partition, None, engine)  # without base clusters that have no rows
    if not n_labelings:
        return Model(index, edges.sigma, used)
    number = int(seeds[1].generate_state(1)[0])
    hierarchy = engine.apply(build_hierarchy, graph, spectrum, options.n_clusters, n_labelings, number)
    judge = Judge(hierarchy, new_edges(pool.common, index, edges.sigma))
    return Model(index, edges.sigma, used, Choice(judge, ()))


def _choose_representatives(
    others: Sequence[Model], pool: Pool, n_rows: int, options: MemberOptions, engine: ThreadEngine
) -> int:
    """Choose how fine the first member is, by the rule of `USPEC`."""
    k = options.n_clusters
    assert k is not None
    judges = judges_of(others)
    finer = False
    if judges and options.graph.n_representatives == "auto" and pool.rows.n_features > FEW_FEATURES:
        finer = engine.apply(agreement_of_judges, judges, k) < IN_AGREEMENT
    coarse = coarse_representatives(pool.rows.n_rows, pool.rows.n_features, k, options.graph)
    connectivity = connectivity_of(judges) if judges else 1.0
    p = fine_representatives(connectivity, coarse, n_rows, k, options.graph, may_be_finer=finer)
    return max(p, min(options.base_clusters[1], n_rows))


def judges_of(models: Sequence[Model]) -> list[Judge]:
    """Return the graphs of members that have trees."""
    return [replace(model.choice.own, index=model.index) for model in models if model.choice is not None]


def _restore(rows: Rows, arrays: Arrays) -> Model:
    """Restore a member of these rows; raise InvalidModel unless `arrays` are valid."""
    check_model_arrays(arrays, rows.n_rows, rows.n_features)
    return Model.from_arrays(arrays)
