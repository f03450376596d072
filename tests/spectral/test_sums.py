"""Sums of a graph, to which rows are added; tests/test_partial_fit.py has whole models."""

import numpy as np
import pytest
import scipy.sparse

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, LocalWeights, WeightedRows
from ultraspec.spectral import transfer_cut
from ultraspec.spectral.edges import LazyEdges, connect_exactly
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.sums import GraphSums, mass_of
from ultraspec.spectral.transfer_cut import reduce_graph

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 2)).astype(np.float32)
P = 40


@pytest.fixture
def engine():
    with ThreadEngine(2) as engine:
        yield engine


@pytest.fixture
def index(engine):
    return RepresentativeIndex.build(X[:P].copy(), 5, 10, True, np.random.default_rng(0), engine)


def weighted(part, weights):
    return WeightedRows(ArrayRows(part), LocalWeights.of(weights, 1.0))


def sums_of(rows, index, engine):
    edges = connect_exactly(rows, index, 0.3, engine)
    return GraphSums.of(reduce_graph(edges, rows, P, engine, 0.5), rows, 1.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("has_weights", [False, True])
def test_parts_add_up_to_the_whole_bit_for_bit(monkeypatch, index, engine, sparse, lazy, has_weights):
    monkeypatch.setattr(transfer_cut, "DENSE_REPRESENTATIVES", P - 1 if sparse else P)
    monkeypatch.setattr(transfer_cut, "_worthwhile_groups", lambda *_, **__: 1)
    weights = RNG.uniform(0.5, 2, len(X))

    def rows_of(part):
        return weighted(X[part], weights[part]) if has_weights else ArrayRows(X[part])

    sums = sums_of(rows_of(slice(0, 300)), index, engine)
    for part in (slice(300, 310), slice(310, 900)):
        rows = rows_of(part)
        edges = LazyEdges(rows, index, 0.3) if lazy else connect_exactly(rows, index, 0.3, engine)
        sums = sums.add(edges, rows, index, 0.5, engine)
    whole = sums_of(rows_of(slice(0, 900)), index, engine)
    assert scipy.sparse.issparse(sums.graph().affinity) == sparse
    assert (sums.upper != whole.upper).nnz == 0
    assert sums.counts.tolist() == whole.counts.tolist()
    assert (sums.n_rows, sums.mass) == (whole.n_rows, pytest.approx(whole.mass))


def test_the_sums_before_do_not_change(index, engine):
    rows = ArrayRows(X)
    sums = sums_of(rows, index, engine)
    before = sums.upper.copy(), sums.counts.copy()
    sums.add(connect_exactly(rows, index, 0.3, engine), rows, index, 0.5, engine)
    assert (sums.upper != before[0]).nnz == 0
    assert sums.counts.tolist() == before[1].tolist()


def test_a_graph_is_symmetric_and_that_of_the_pass(index, engine):
    rows = ArrayRows(X)
    graph = reduce_graph(connect_exactly(rows, index, 0.3, engine), rows, P, engine, 0.5)
    again = GraphSums.of(graph, rows, 1.0).graph()
    assert (again.affinity == graph.affinity).all()
    assert (again.affinity == again.affinity.T).all()


def test_arrays_restore_sums(index, engine):
    sums = sums_of(ArrayRows(X), index, engine)
    again = GraphSums.from_arrays(sums.arrays())
    assert (again.upper != sums.upper).nnz == 0
    assert (again.n_rows, again.mass, again.weight_scale, again.share) == (900, 900.0, 1.0, 1.0)
    assert GraphSums.from_arrays({}) is None


@pytest.mark.parametrize("has_weights", [False, True])
def test_a_share_of_further_rows_is_sampled(index, engine, has_weights):
    sums = sums_of(ArrayRows(X[:300]), index, engine)
    sums = GraphSums(sums.upper, sums.counts, 600, 600.0, 1.0)  # half of the rows were sampled
    rows = weighted(X, RNG.uniform(0.5, 2, len(X))) if has_weights else ArrayRows(X)
    more = sums.add(connect_exactly(rows, index, 0.3, engine), rows, index, 0.5, engine)
    assert more.counts.sum() == pytest.approx((600 + mass_of(rows)) / 2)
    assert more.share == pytest.approx(0.5)
