"""Edges of rows to their nearest representatives: stored, and computed again when they are needed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import Case, cases, points
from tests.helpers.edges import connected
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral import edges as edges_module
from ultraspec.spectral.edges import Edges, LazyEdges, connect, find_edges, new_edges


def same(a, b):
    assert a.ids.tobytes() == b.ids.tobytes()
    assert a.weights.tobytes() == b.weights.tobytes()
    assert a.sigma == b.sigma


# Search


@settings(max_examples=100)
@given(case=cases(), exact=st.booleans())
def test_connect(case, exact, engine):
    index, edges, sigma = connected(case, engine, exact)
    ids, sq = index.query(case.X)
    assert (edges.ids == ids).all()
    assert (edges.weights == sq).all()
    assert len(edges) == case.n
    assert (edges[2:5].ids == ids[2:5]).all()
    if exact:
        wanted = oracle.sigma(oracle.exact_neighbors(case.X, index.representatives, case.K)[1])
        assert sigma == pytest.approx(wanted, rel=1e-5)


def test_sigma_of_coinciding_rows_is_one(engine):
    X = np.ones((5, 3), dtype=np.float32)
    index = Case("normal", 1, 2, 3, 2, 10, 0).index(engine)
    index.representatives[:] = 1
    edges = connect(ArrayRows(X), index, engine)
    assert edges.sigma == 1.0
    assert not edges.weights.any()


def test_connect_reads_all_blocks_in_order(engine):
    case = Case("clumps", 3000, 40, 3, 4, 10, 0)
    rows = ArrayRows(case.X)
    assert len(rows.blocks()) > 5
    index, edges, sigma = connected(case, engine)
    with ThreadEngine(3) as threads:
        again = connect(rows, index, threads)
    assert (edges.ids == again.ids).all()
    assert (edges.weights == again.weights).all()
    assert sigma == again.sigma
    assert sigma == pytest.approx(oracle.sigma(oracle.exact_neighbors(case.X, index.representatives, 4)[1]), rel=1e-5)


def test_edges_can_be_written_to_a_buffer(engine):
    case = Case("normal", 50, 20, 3, 4, 10, 0)
    index, edges, _ = connected(case, engine)
    buffer = Edges.empty(50, 4)
    again = connect(ArrayRows(case.X), index, engine, out=buffer)
    same(again, edges)
    assert again.ids is buffer.ids
    other = connect(ArrayRows(case.X[:49]), index, engine, out=buffer)  # another shape: it is not used
    assert not np.shares_memory(other.ids, buffer.ids)


# Weights


@settings(max_examples=50)
@given(case=cases())
def test_weights_become_transition_probabilities(case, engine):
    _, edges, sigma = connected(case, engine)
    B = oracle.affinity(edges.ids, np.sqrt(edges.weights.astype(np.float64)), sigma, case.p)
    degrees = edges.weigh()
    np.testing.assert_allclose(edges.weights.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(degrees, B.sum(axis=1), rtol=1e-4)


@settings(max_examples=50)
@given(case=cases())
def test_new_edges_are_the_fitted_ones(case, engine):
    index, edges, sigma = connected(case, engine)
    edges.weigh()
    for rows in (slice(None), slice(0, 1), slice(case.n // 2, None)):
        new = new_edges(case.X[rows], index, sigma)
        assert new.ids.tobytes() == edges.ids[rows].tobytes()
        assert new.weights.tobytes() == edges.weights[rows].tobytes()


# Rows


def test_slices_of_edges_are_views_and_can_be_assigned_to():
    edges = Edges.empty(6, 2)
    edges.ids[:] = np.arange(12).reshape(6, 2)
    edges.weights[:] = 0.5
    edges.sigma = 3.0
    part = edges[2:4]
    assert np.shares_memory(part.ids, edges.ids)
    assert part.sigma == 3.0
    edges[0:2] = part
    assert edges.ids[:2].tolist() == [[4, 5], [6, 7]]
    assert edges[np.array([5, 0])].ids.tolist() == [[10, 11], [4, 5]]
    assert edges.n_neighbors == 2


@pytest.mark.parametrize("n", [1, 7, 40_000, 600_000])
def test_blocks_and_map_cover_all_rows_in_order(n, engine):
    edges = Edges(np.zeros((n, 5), dtype=np.uint16), np.ones((n, 5), dtype=np.float32))
    spans = edges.map(lambda part, span: (len(part), span), engine)
    assert [span for _, span in spans] == edges.blocks()
    assert all(length == span[1] - span[0] for length, span in spans)
    assert spans[0][1][0] == 0
    assert spans[-1][1][1] == n


@pytest.mark.parametrize("d", [3, 20])
def test_lazy_edges_are_the_stored_ones(d, engine):
    case = Case("clumps", 3000, 40, d, 4, 10, 0)
    rows = ArrayRows(case.X)
    index, edges, sigma = connected(case, engine, exact=False)
    edges.weigh()
    lazy = connect(rows, index, engine, stored=False)
    assert isinstance(lazy, LazyEdges)
    assert (lazy.ids is not None) == index.by_tiles  # measuring distances again is only possible in tiles
    for other in (lazy, lazy.without_ids(), LazyEdges.from_arrays(rows, index, lazy.arrays())):
        assert len(other) == 3000
        assert other.n_neighbors == 4
        assert other.sigma == sigma
        same(other[100:300], edges[100:300])
        same(other[np.array([3, 5, 2999])], edges[np.array([3, 5, 2999])])
        parts = other.map(lambda part, span: (part, span), engine)
        assert [span for _, span in parts] == rows.blocks()
        for part, span in parts:
            same(part, edges[slice(*span)])
    assert lazy.allocate(np.int32).shape == (3000,)


@pytest.mark.parametrize("in_memory", [True, False])
def test_edges_to_an_existing_graph(in_memory, engine, monkeypatch):
    case = Case("clumps", 1000, 40, 3, 4, 10, 0)
    index, edges, sigma = connected(case, engine)
    edges.weigh()
    monkeypatch.setattr(edges_module, "stays_in_memory", lambda rows, n_bytes: in_memory)
    again = find_edges(ArrayRows(case.X), index, sigma, engine)
    assert isinstance(again, Edges if in_memory else LazyEdges)
    same(again[0:1000], edges)


# Distant rows


def test_distant_rows_that_widen_sigma_are_warned_of(engine):
    X = points("normal", 400, 2, np.random.default_rng(0))
    index = Case("normal", 1, 30, 2, 3, 10, 0).index(engine)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connect(ArrayRows(X), index, engine)
    X[123] = 1e4
    with pytest.warns(UserWarning, match="Row 123 of the 400 rows in the graph is so distant that it widens sigma"):
        connect(ArrayRows(X), index, engine)


# The robust width


def robust_sigma(sq):
    """0.7 times the median of the distances that are not zero."""
    return 0.7 * np.median(np.sqrt(sq[sq > 0].astype(np.float64)))


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("kind", ["normal", "twins", "outliers"])
def test_the_robust_width_is_a_share_of_the_median_distance(d, kind, engine):
    case = Case(kind, 900, 60, d, 4, 10, 0)
    index = case.index(engine, exact=True)
    rows = ArrayRows(case.X)
    stored = connect(rows, index, engine, affinity="robust")
    assert stored.sigma == pytest.approx(robust_sigma(index.query(case.X)[1]), rel=1e-3)
    lazy = connect(rows, index, engine, stored=False, affinity="robust")
    assert isinstance(lazy, LazyEdges)
    assert lazy.sigma == stored.sigma
    assert connect(rows, index, engine).sigma != stored.sigma


def test_the_robust_width_of_many_rows_is_that_of_a_sample(engine, monkeypatch):
    monkeypatch.setattr(edges_module, "MEDIAN_ROWS", 100)
    case = Case("normal", 3000, 60, 3, 4, 10, 0)
    index = case.index(engine, exact=True)
    all_rows = robust_sigma(index.query(case.X)[1])
    found = [connect(ArrayRows(case.X), index, engine, stored, None, "robust").sigma for stored in (True, False)]
    assert found[0] == found[1] != all_rows
    assert found[0] == pytest.approx(all_rows, rel=0.2)


def test_outliers_neither_widen_the_robust_width_nor_are_warned_of(engine, recwarn):
    case = Case("normal", 900, 60, 3, 4, 10, 0)
    index = case.index(engine, exact=True)
    before = connect(ArrayRows(case.X), index, engine, affinity="robust").sigma
    X = case.X.copy()
    X[17] = 1e6
    for stored in (True, False):
        assert connect(ArrayRows(X), index, engine, stored, affinity="robust").sigma == pytest.approx(before, rel=0.01)
    assert not recwarn.list


def test_the_robust_width_of_coinciding_rows_is_one(engine):
    index = Case("normal", 1, 2, 3, 2, 10, 0).index(engine)
    index.representatives[:] = 1
    assert connect(ArrayRows(np.ones((5, 3), dtype=np.float32)), index, engine, affinity="robust").sigma == 1.0
