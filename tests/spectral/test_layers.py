"""The number of clusters from disjoint halves of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.common import blobs
from ultraspec import USPEC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral import layers
from ultraspec.spectral.candidates import TREES, build_hierarchy
from ultraspec.spectral.choice import Judge, SmallGraph
from ultraspec.spectral.edges import new_edges
from ultraspec.spectral.layers import (
    CHANCE,
    EVERY,
    LEAST_HALF,
    OUTVOTED,
    Agreement,
    Layer,
    agreement_of_trees,
    compare_numbers,
    find_layers,
    label_cuts,
    layers_of,
    likeness,
    warn_of_no_structure,
    without_crumbs,
)
from ultraspec.spectral.options import GraphOptions


def slow_likeness(a, b):
    """The definition, by sets of rows."""
    sets = [[set(np.flatnonzero(each == c)) for c in np.unique(each)] for each in (a, b)]
    best = [
        np.mean([max(len(one & other) / len(one | other) for other in others) for one in ones])
        for ones, others in (sets, sets[::-1])
    ]
    return sklearn.metrics.adjusted_rand_score(a, b) * np.mean(best)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=3, max_size=40))
def test_likeness_is_its_definition(pairs):
    a, b = np.array(pairs, dtype=np.int32).T
    sizes = len(set(a)), len(set(b))
    wanted = 0.0 if sizes in ((1, 1), (len(a), len(a))) else slow_likeness(a, b)
    assert likeness(a, b) == pytest.approx(wanted, abs=1e-12)
    assert likeness(b, a) == pytest.approx(wanted, abs=1e-12)


def test_likeness_of_equal_and_of_single_clusters():
    a = np.array([0, 0, 1, 1, 2], dtype=np.int32)
    assert likeness(a, 2 - a) == pytest.approx(1.0)
    assert likeness(a * 0, a * 0) == 0.0  # a single cluster tells nothing
    assert likeness(np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int32)) == 0.0  # nor do single rows


def test_crumbs_join_the_largest_cluster():
    labels = np.repeat(np.arange(5, dtype=np.int32), [4, 20, 3, 1, 10])
    found, left = without_crumbs(labels)
    assert found.dtype == np.int32
    assert left == 3
    assert (found == np.repeat([0, 1, 1, 1, 4], [4, 20, 3, 1, 10])).all()
    many = np.repeat(np.arange(3, dtype=np.int32), [9000, 9, 1000])
    assert np.unique(without_crumbs(many)[0]).tolist() == [0, 2]  # a thousandth of the rows


def test_layers_are_maxima_best_first():
    values = {2: 0.7, 3: 0.6, 4: 0.5, 5: 0.95, 6: 0.6, 7: 0.3, 8: 0.35, 9: 0.3}
    layers = layers_of({k: Agreement(value, float(k)) for k, value in values.items()})
    assert [layer.n_clusters for layer in layers] == [5, 2]
    assert layers[0].strength == pytest.approx((0.95 - CHANCE) / (1 - CHANCE))


def test_weak_agreement_is_no_layer():
    assert layers_of({2: Agreement(CHANCE, 2.0), 3: Agreement(0.1, 3.0)}) == [Layer(1, 0.0)]
    assert layers_of({}) == [Layer(1, 0.0)]
    strong = {2: Agreement(0.45, 2.0), 3: Agreement(0.1, 3.0), 4: Agreement(0.9, 4.0)}
    assert [layer.n_clusters for layer in layers_of(strong)] == [4]  # 2 is too weak beside it


def test_of_equal_agreements_the_finer_wins():
    both = {2: Agreement(0.9, 2.0), 3: Agreement(0.5, 3.0), 4: Agreement(0.9, 4.0)}
    assert [layer.n_clusters for layer in layers_of(both)] == [4, 2]


def test_one_kind_of_tree_can_be_outvoted():
    alike = np.full((3, 3), 0.9)
    alike[2] = alike[:, 2] = 0.2
    numbers = np.array([4.0, 6.0, 2.0])
    assert agreement_of_trees(alike, numbers) == pytest.approx((0.9 - OUTVOTED, 5.0))
    alike[2] = alike[:, 2] = 0.85  # nearly as alike: nobody is left out
    assert agreement_of_trees(alike, numbers) == pytest.approx((alike.mean(), 4.0))
    assert agreement_of_trees(np.ones((3, 3)), numbers) == (1.0, 4.0)


@pytest.mark.parametrize(("best", "most"), [(7, 30), (60, 300), (151, 300), (299, 300), (300, 300), (2, 2), (2, 1)])
def test_the_best_number_is_among_those_compared(best, most):
    def compare(numbers):
        assert numbers == sorted(numbers)
        return [Agreement(1.0 / (1 + abs(k - best)), float(k)) for k in numbers]

    compared = compare_numbers(compare, most)
    assert max(compared, default=0) == (most if most > 1 else 0)
    assert set(range(2, min(EVERY, most) + 1)) <= set(compared)
    if most > 1:
        assert max(compared, key=compared.__getitem__) == best
    assert len(compared) < 170


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_cuts_are_those_of_the_vote(seed, engine):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 2)).astype(np.float32)
    graph = SmallGraph.build(ArrayRows(X), 60, 20, GraphOptions.of(USPEC()), np.random.SeedSequence(seed), engine)
    edges = new_edges(X, graph.index, graph.sigma)
    edges.weights[::3] = 0.2  # ties
    judge = Judge(build_hierarchy(graph.graph, graph.spectrum, 5, 20, seed, engine), edges)
    numbers = [2, 3, 4, 9, 10, 30]
    for tree in TREES:
        cuts = [judge.hierarchy.trees[tree].cut(k)[judge.hierarchy.nodes] for k in numbers]
        found = list(label_cuts(judge, tree, numbers))
        for groups, labels in zip(cuts, found, strict=True):
            np.testing.assert_array_equal(labels, judge.label(groups))


def layers_for(X, n_jobs=1, seed=0):
    with ThreadEngine(n_jobs) as engine:
        rows = ArrayRows(np.ascontiguousarray(X, dtype=np.float32))
        return find_layers(rows, GraphOptions.of(USPEC()), np.random.SeedSequence(seed), engine)


@pytest.mark.parametrize("seed", [0, 3])
def test_small_clusters_beside_a_large_one_are_counted(seed):
    rng = np.random.default_rng(seed)
    axes = np.eye(10)
    small = [(200, 6 * axes[0]), (100, -6 * axes[1]), (40, 6 * axes[2])]
    X = [rng.standard_normal((1700, 10)), *(0.5 * rng.standard_normal((n, 10)) + center for n, center in small)]
    assert layers_for(np.vstack(X), seed=seed)[0][0].n_clusters == 4


def test_layers_of_blobs_do_not_depend_on_threads():
    X, _ = blobs(600, k=6)
    layers, panel = layers_for(X)
    assert layers[0].n_clusters == 6
    assert layers[0].strength > 0.95
    assert panel is None  # few rows
    assert layers_for(X, n_jobs=2)[0] == layers


def test_graphs_of_many_rows_are_kept_to_judge():
    X, _ = blobs(4500, k=3)
    layers, panel = layers_for(X)
    assert layers[0].n_clusters == 3
    assert len(panel.judges) % 2 == 0
    assert all(len(judge.edges) == len(panel.common) for judge in panel.judges)


@pytest.mark.parametrize("n", range(2, 2 * LEAST_HALF))
def test_too_few_rows_to_divide(n):
    assert layers_for(np.arange(2.0 * n).reshape(n, 2)) == ([Layer(1, 0.0)], None)


def test_the_warning_says_what_was_compared(recwarn):
    warn_of_no_structure([Layer(2, 0.5)])
    assert not recwarn
    with pytest.warns(UserWarning, match=r"No structure found: graphs of disjoint halves of the rows agree on no"):
        warn_of_no_structure([Layer(1, 0.0)])
    with pytest.warns(UserWarning, match=r"No structure found: these agree on no .* pass n_clusters"):
        warn_of_no_structure([Layer(1, 0.0)], "these")


def test_chance_may_be_higher_than_usual():
    agreements = {2: Agreement(0.62, 2.0), 3: Agreement(0.3, 3.0)}
    assert layers_of(agreements) == [Layer(2, pytest.approx((0.62 - CHANCE) / (1 - CHANCE)))]
    assert layers_of(agreements, 0.6) == [Layer(2, pytest.approx(0.05))]
    assert layers_of(agreements, 0.65) == [Layer(1, 0.0)]


def test_long_rows_without_a_gap_are_seldom_divided(monkeypatch):
    def count_divided():
        found = []
        for seed in range(4):
            X = np.random.default_rng(seed).random((4_200, 2)) * np.array([10, 1])
            found.append(layers_for(X, n_jobs=2, seed=seed)[0][0].n_clusters > 1)
        return sum(found)

    compared = count_divided()
    monkeypatch.setattr(layers, "DOUBTFUL", 0.0)  # never compare with a Gaussian
    assert compared <= 1
    assert compared < count_divided()


@pytest.mark.parametrize("distance", [6, 20])
def test_two_groups_of_one_feature_are_found(distance):
    for seed in range(3):
        random = np.random.default_rng(seed)
        X = np.concatenate([random.standard_normal((2_500, 1)), random.standard_normal((2_500, 1)) + distance])
        found = layers_for(X, seed=seed)[0][0]
        assert found.n_clusters == 2
        assert found.strength > 0.8
