"""The choice between candidates, by agreement with other graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sklearn.metrics

from tests.helpers.common import blobs, same_partition
from tests.helpers.edges import clumps, random_graph
from ultraspec import USPEC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral import choice
from ultraspec.spectral.candidates import CANDIDATES, TREES, Hierarchy, build_hierarchy, hierarchy_of_labelings
from ultraspec.spectral.choice import (
    Choice,
    Judge,
    Pilot,
    SmallGraph,
    agreement,
    auto_representatives,
    build_choice,
    connectivity_of,
    n_vectors_for,
    rank,
    run_pilot,
)
from ultraspec.spectral.edges import Edges, new_edges
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.transfer_cut import Graph, Spectrum


def options(**changes):
    return GraphOptions.of(USPEC(**changes))


def rows_of(n=900, d=3, k=4, seed=0):
    X, y = blobs(n, k, d, seed)
    return ArrayRows(X.astype(np.float32)), y


def judge_of(seed, n=150, p=40, k=4):
    """A judge of a random graph, and its edges of n rows."""
    random = np.random.default_rng(seed)
    spectrum, y = clumps(p=p, k=k, spread=0.2, seed=seed)
    W = (y[:, None] == y) * random.random((p, p)) + 0.01
    rough = [random.integers(6, size=p).astype(np.int32) for _ in range(5)]
    hierarchy = hierarchy_of_labelings(Graph((W + W.T) / 2, np.ones(p)), spectrum, rough, k, seed)
    return Judge(hierarchy, random_graph(n, p, 3, 1, random)[0])


@pytest.fixture(scope="module")
def made():
    return Choice(judge_of(0), [judge_of(1, p=30), judge_of(2)])


# Agreement


@pytest.mark.parametrize("seed", range(5))
def test_agreement_is_the_mean_adjusted_rand_index(seed):
    random = np.random.default_rng(seed)
    labels, *others = (random.integers(4, size=60).astype(np.int32) for _ in range(6))
    wanted = np.mean([sklearn.metrics.adjusted_rand_score(labels, other) for other in others])
    assert agreement(labels, others) == pytest.approx(wanted)
    assert agreement(labels, [labels, 3 - labels]) == 1.0


def test_candidates_are_ranked_by_agreement():
    ranked = rank({"kmeans": 0.5, "border": 0.25, "linked": 0.75, "agreement": -0.5})
    assert list(ranked.items()) == [("linked", 0.75), ("kmeans", 0.5), ("border", 0.25), ("agreement", -0.5)]


@pytest.mark.parametrize("names", list(itertools.permutations(CANDIDATES)))
def test_of_equal_candidates_trees_come_first(names):
    assert list(rank(dict.fromkeys(names, 0.5))) == ["agreement", "linked", "border", "kmeans"]
    assert next(iter(rank({**dict.fromkeys(names, 0.5), "kmeans": 0.6}))) == "kmeans"


def test_rows_are_labelled_by_vote():
    judge = judge_of(0)
    groups = judge.hierarchy.trees["linked"].cut(3)[judge.hierarchy.nodes]
    T = np.zeros((150, 40))
    np.add.at(T, (np.arange(150)[:, None], judge.edges.ids.astype(np.int64)), judge.edges.weights)
    sums = T @ np.eye(3)[groups]
    found = judge.label(groups)
    np.testing.assert_allclose(sums[np.arange(150), found], sums.max(axis=1), atol=1e-6)


def test_a_judge_divides_by_all_candidates(engine):
    judge = judge_of(1)
    wanted = [judge.label(judge.hierarchy.cut(name, 4, engine)) for name in CANDIDATES]
    for found, labels in zip(judge.label_all(4, engine), wanted, strict=True):
        assert (found == labels).all()


@pytest.mark.parametrize("k", [2, 4, 7])
def test_the_choice_is_the_candidate_that_agrees_most(made, k, engine):
    groups, agreements, trust = made.choose(k, engine)
    assert trust is None  # these judges have not met the graph
    own, others = made.own, made.judges
    wanted = {}
    for name in CANDIDATES:
        labels = own.label(own.hierarchy.cut(name, k, engine))
        scores = [
            sklearn.metrics.adjusted_rand_score(labels, judge.label(judge.hierarchy.cut(other, k, engine)))
            for judge in others
            for other in CANDIDATES
        ]
        wanted[name] = np.mean(scores)
    assert agreements == pytest.approx(wanted)
    assert list(agreements.values()) == sorted(agreements.values(), reverse=True)
    best = next(iter(agreements))
    assert wanted[best] == pytest.approx(max(wanted.values()))
    assert (groups == own.hierarchy.cut(best, k, engine)).all()


def test_a_choice_comes_back_from_arrays(made, engine):
    arrays = made.arrays()
    assert all(array.size for array in arrays.values())
    again = Choice.from_arrays(made.own.hierarchy.spectrum, {**arrays, "sigma": np.asarray(1.0)})
    assert len(again.judges) == 2
    assert {name: array.tobytes() for name, array in again.arrays().items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }
    for k in (1, 3, 5):
        now, then = again.choose(k, engine), made.choose(k, engine)
        assert (now[0] == then[0]).all()
        assert now[1] == then[1]


def test_a_choice_without_judges_comes_back(made, engine):
    alone = Choice(Judge(made.own.hierarchy, Edges.empty(0, 1)), [])
    arrays = alone.arrays()
    assert all(array.size for array in arrays.values())
    assert not any("judge" in name or "ids" in name for name in arrays)
    again = Choice.from_arrays(made.own.hierarchy.spectrum, arrays)
    assert again.judges == []
    assert len(again.own.edges) == 0
    for name in CANDIDATES:
        assert (again.own.hierarchy.cut(name, 3, engine) == made.own.hierarchy.cut(name, 3, engine)).all()


def test_arrays_of_other_models_hold_no_choice():
    spectrum, _ = clumps()
    assert Choice.from_arrays(spectrum, {"groups": np.zeros(3), "judge0.nodes": np.zeros(3)}) is None


# Numbers


@pytest.mark.parametrize(("k", "wanted"), [(1, 60), (30, 60), (31, 62), (60, 120), (100, 120), (1000, 120)])
def test_number_of_eigenvectors(k, wanted):
    assert n_vectors_for(k) == wanted


def judges_with(*eigenvalues):
    """Judges whose 60th eigenvalues are these."""
    for value in eigenvalues:
        spectrum = Spectrum(np.linspace(1, value, 60), np.ones((70, 60), np.float32), np.ones(70))
        yield Judge(Hierarchy(spectrum, np.zeros(70, np.int32), {}, 0), Edges.empty(0, 1))


@pytest.mark.parametrize(
    ("eigenvalues", "p", "n_rows", "k", "may_be_finer", "wanted"),
    [
        ((0.5, 0.7), 1000, 10**6, 5, True, 10_000),
        ((0.5, 0.7), 1000, 15_000, 5, True, 7500),  # half of the rows
        ((0.5, 0.7), 1000, 1500, 5, True, 1000),  # never fewer than the coarse graphs have
        ((0.5, 0.7), 1000, 10**6, 5, False, 1000),
        ((0.6, 0.95), 1000, 10**6, 5, True, 10_000),  # by their mean
        ((0.6, 0.97), 1000, 10**6, 5, True, 2000),
        ((0.85, 0.85), 1000, 10**6, 5, True, 2000),
        ((0.85, 0.85), 1000, 4500, 5, True, 1500),  # a third of the rows
        ((0.95, 0.95), 1000, 10**6, 5, True, 1000),
        ((0.95, 0.95), 1000, 10**6, 300, True, 3000),  # ten for each cluster
        ((0.95, 0.95), 1000, 10**6, 2000, False, 10_000),
        ((0.95, 0.95), 1000, 6000, 300, False, 2000),
    ],
)
def test_number_of_representatives(eigenvalues, p, n_rows, k, may_be_finer, wanted):
    connectivity = connectivity_of(list(judges_with(*eigenvalues)))
    assert auto_representatives(connectivity, p, n_rows, k, may_be_finer=may_be_finer) == wanted


# Graphs of sampled rows


def pilot_of(rows, engine, k=4, n_judges=2, seed=0, n_rows=None, panel=None, **changes):
    chance = np.random.SeedSequence(seed)
    return run_pilot(rows, n_rows or rows.n_rows, k, n_judges, options(**changes), chance, panel, engine)


def test_small_graphs_are_models_of_the_phases(engine):
    rows, _ = rows_of()
    graph = SmallGraph.build(rows, 50, 20, options(), np.random.SeedSequence(0), engine)
    assert len(graph.index.representatives) == graph.graph.affinity.shape[0] == 50
    assert graph.spectrum.vectors.shape == (50, 20)
    assert graph.graph.counts.sum() == 900
    assert graph.sigma > 0
    again = SmallGraph.build(rows, 50, 20, options(), np.random.SeedSequence(0), engine)
    other = SmallGraph.build(rows, 50, 20, options(), np.random.SeedSequence(1), engine)
    assert again.spectrum.vectors.tobytes() == graph.spectrum.vectors.tobytes()
    assert other.spectrum.vectors.tobytes() != graph.spectrum.vectors.tobytes()


def test_judges_that_agree_are_as_many_as_asked_for(engine):
    rows, _ = rows_of()
    pilot = pilot_of(rows, engine)
    assert len(pilot.judges) == 2
    assert pilot.common.shape == (900, 3)
    for judge in pilot.judges:
        assert len(judge.edges) == 900
        assert judge.hierarchy.spectrum.vectors.shape[0] == 300  # a third of the rows
        assert len(judge.label_all(4, engine)) == len(CANDIDATES)
    seeds = {judge.hierarchy.seed for judge in pilot.judges}
    assert len(seeds) == 2


def test_judges_that_disagree_call_in_others(engine):
    """A cloud without clusters."""
    rows = ArrayRows(np.random.default_rng(0).standard_normal((900, 3)).astype(np.float32))
    pilot = pilot_of(rows, engine, k=7)
    assert len(pilot.judges) == 2 + choice.FURTHER_JUDGES
    first = pilot_of(rows, engine, k=7)
    assert [judge.hierarchy.seed for judge in first.judges] == [judge.hierarchy.seed for judge in pilot.judges]
    assert len({judge.hierarchy.seed for judge in pilot.judges}) == 4


def test_the_border_of_disputes(engine, monkeypatch):
    rows, _ = rows_of()
    monkeypatch.setattr(choice, "IN_DISPUTE", 1.01)
    assert len(pilot_of(rows, engine).judges) == 4
    monkeypatch.setattr(choice, "IN_DISPUTE", -1.0)
    assert len(pilot_of(rows, engine, k=7).judges) == 2


def test_one_judge_agrees_with_itself(engine):
    rows, _ = rows_of()
    assert len(pilot_of(rows, engine, n_judges=1).judges) == 1


def test_consent_is_the_best_agreement_of_the_first_with_the_others(engine):
    judges = [judge_of(0), judge_of(1), judge_of(2)]
    first, *others = ([*judge.label_all(4, engine)] for judge in judges)
    wanted = max(
        np.mean([sklearn.metrics.adjusted_rand_score(labels, other) for each in others for other in each])
        for labels in first
    )
    assert choice.agreement_of_judges(judges, 4, engine) == pytest.approx(wanted)


def test_few_features_and_agreement_keep_the_graph_coarse(engine, monkeypatch):
    monkeypatch.setattr(choice, "COARSE", 50)
    asked = []

    def spy(connectivity, p, n_rows, n_clusters, *, may_be_finer):
        asked.append((p, n_rows, n_clusters, may_be_finer))
        return 77

    monkeypatch.setattr(choice, "auto_representatives", spy)
    cloud = np.random.default_rng(0).standard_normal((900, 9)).astype(np.float32)
    for X, finer in ((cloud, True), (cloud[:, :8], False), (blobs(900, d=9)[0].astype(np.float32), False)):
        rows = ArrayRows(np.ascontiguousarray(X))
        assert pilot_of(rows, engine, n_rows=10**6).n_representatives == 77
        assert asked[-1] == (50, 10**6, 4, finer)
    assert pilot_of(rows, engine, n_rows=10**6, n_representatives=200).n_representatives == 200
    assert len(asked) == 3


def test_judges_have_no_more_representatives_than_the_graph(engine):
    rows, _ = rows_of()
    pilot = pilot_of(rows, engine, n_representatives=60)
    assert pilot.n_representatives == 60
    assert all(len(judge.hierarchy.nodes) == 60 for judge in pilot.judges)


def test_pilots_do_not_depend_on_threads():
    rows = ArrayRows(np.random.default_rng(0).standard_normal((900, 9)).astype(np.float32))
    found = []
    for n_jobs in (1, 2):
        with ThreadEngine(n_jobs) as threads:
            pilot = pilot_of(rows, threads, k=5)
            own = Judge(pilot.judges[0].hierarchy, pilot.judges[0].edges)
            arrays = Choice(own, pilot.judges).arrays()
            found.append((pilot.n_representatives, {name: array.tobytes() for name, array in arrays.items()}))
    assert found[0] == found[1]


def test_the_choice_of_a_graph_finds_its_clusters(engine):
    rows, y = rows_of()
    pilot = pilot_of(rows, engine)
    graph = SmallGraph.build(rows, 100, 60, options(), np.random.SeedSequence(5), engine)
    made = build_choice(pilot, graph.graph, graph.spectrum, graph.index, graph.sigma, 4, 0, engine)
    assert all(judge.index is None for judge in made.judges)  # each has met the graph
    for judge, other in zip(made.judges, pilot.judges, strict=True):
        assert judge.hierarchy is other.hierarchy
        nearest = other.index.query(graph.index.representatives)[0][:, 0]
        assert (judge.nearest == nearest).all()
        assert judge.meet(graph.index) is judge
    assert set(made.own.hierarchy.trees) == set(TREES)
    groups, agreements, trust = made.choose(4, engine)
    assert trust.min() > 0.99  # separate blobs
    assert max(agreements.values()) > 0.99
    edges = new_edges(rows.read(0, 900), graph.index, graph.sigma)
    assert same_partition(Judge(made.own.hierarchy, edges).label(groups), y)


def test_a_graph_without_a_pilot_has_trees_only(engine):
    rows, _ = rows_of()
    graph = SmallGraph.build(rows, 60, 30, options(), np.random.SeedSequence(5), engine)
    made = build_choice(Pilot(60), graph.graph, graph.spectrum, graph.index, graph.sigma, 4, 3, engine)
    assert len(made.judges) == 0
    assert len(made.own.edges) == 0
    wanted = build_hierarchy(graph.graph, graph.spectrum, 4, choice.LABELINGS, 3, engine)
    assert {name: array.tobytes() for name, array in made.own.hierarchy.arrays().items()} == {
        name: array.tobytes() for name, array in wanted.arrays().items()
    }
