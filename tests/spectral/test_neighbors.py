"""Nearest representatives: every form of the search against the oracle, and the same bits in every block."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import FEW, MANY, SEEDS, Case, cases, points, sparse_points
from tests.helpers.common import python
from ultraspec._kernels import products
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral import edges as edges_module
from ultraspec.spectral import neighbors
from ultraspec.spectral.edges import Edges, connect, exact_edges
from ultraspec.spectral.neighbors import ProbeIndex, RepresentativeIndex, build_index, nearest_lists

RTOL = 1e-5
# Sparse rows are measured by inner products in float64, good to a share of |x|^2 + |r|^2 only.
SPARSE_SLACK = 4e-12


def check_consistent(X, index, ids, sq, slack=0.0):
    """`sq` are the distances of `ids`, which are distinct and ascend."""
    assert ids.dtype == np.uint16
    assert sq.dtype == np.float32
    assert ids.shape == sq.shape == (len(X), index.n_neighbors)
    assert (np.diff(sq, axis=1) >= 0).all()
    assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()
    true = np.take_along_axis(oracle.squared_distances(X, index.representatives), ids.astype(np.int64), axis=1)
    assert (np.abs(sq - true) <= RTOL * true + np.broadcast_to(slack, len(X))[:, None]).all()


def close(sq, distances, slack):
    return np.isclose(sq, distances**2, rtol=RTOL, atol=slack).all(axis=-1)


def near(sq, slack):
    """Which are as small as the smallest, up to rounding."""
    return np.flatnonzero(sq <= sq.min() * (1 + RTOL) + slack)


def admissible_owners(x, index, slack):
    """Representatives that steps 1 and 2 may settle on when distances are equal up to rounding."""
    for g in near(oracle.squared_distances(x[None], index.centers)[0], slack):
        members = np.arange(index.starts[g], index.starts[g + 1])
        yield from members[near(oracle.squared_distances(x[None], index.representatives[members])[0], slack)]


def check_approx(X, index, ids, sq, slack=0.0):
    """The answer is the oracle's approximate one; where a step is a tie, that of one of the tied."""
    check_consistent(X, index, ids, sq, slack)
    R, K, slack = index.representatives, index.n_neighbors, np.broadcast_to(slack, len(X))
    wanted_ids, distances = oracle.approx_neighbors(X, R, index.centers, index.starts, index.lists, K)
    equal = close(sq, distances, slack[:, None])
    for i in np.flatnonzero(~equal):
        owners = np.array(list(admissible_owners(X[i], index, slack[i])))
        assert len(owners) > 1, f"row {i}: {sq[i]} instead of {distances[i] ** 2}"
        _, other = oracle.nearest_of(np.tile(X[i], (len(owners), 1)), R, index.lists[owners].astype(np.int64), K)
        assert close(sq[i], other, slack[i]).any()
    distinct = equal & (np.diff(distances, axis=1) > 1e-3 * distances[:, 1:]).all(axis=1)
    assert (ids[distinct, : K - 1] == wanted_ids[distinct, : K - 1]).all()  # the last may tie with one left out


def check_exact(X, index, ids, sq, slack=0.0):
    check_consistent(X, index, ids, sq, slack)
    _, distances = oracle.exact_neighbors(X, index.representatives, index.n_neighbors)
    assert close(sq, distances, np.broadcast_to(slack, len(X))[:, None]).all()


def sparse_slack(X, R):
    return SPARSE_SLACK * ((X.astype(float) ** 2).sum(axis=1) + (R.astype(float) ** 2).sum(axis=1).max())


# Building


@settings(max_examples=150)
@given(case=cases())
def test_build(case, engine):
    index = case.index(engine)
    R = index.representatives
    assert sorted(map(tuple, R)) == sorted(map(tuple, case.R))
    assert index.n_neighbors == case.K
    assert 1 <= len(index.centers) <= int(np.sqrt(case.p))
    assert index.starts[0] == 0
    assert index.starts[-1] == case.p
    assert (np.diff(index.starts) > 0).all()
    scale = np.abs(case.R).max()
    np.testing.assert_allclose(index.centers, oracle.rep_cluster_centers(R, index.starts), rtol=RTOL, atol=1e-6 * scale)
    assert index.lists.shape == (case.p, min(case.p, case.factor * case.K + 1))


def test_build_makes_floor_sqrt_p_rep_clusters(engine):
    for p in (4, 8, 9, 24, 25, 120):
        index = Case("normal", 1, p, 3, 2, 10, 0).index(engine)
        assert len(index.centers) == int(np.sqrt(p))


def test_build_cuts_k_to_the_representatives(engine):
    random = np.random.default_rng(0)
    index = RepresentativeIndex.build(points("normal", 3, 2, random), 5, 10, False, random, engine)
    assert index.n_neighbors == 3
    assert index.lists.shape == (3, 3)


def test_build_single_representative(engine):
    index = RepresentativeIndex.build(np.ones((1, 2), dtype=np.float32), 5, 10, False, None, engine)
    ids, sq = index.query(np.array([[1, 1], [1, 3]], dtype=np.float32))
    assert ids.tolist() == [[0], [0]]
    assert sq.tolist() == [[0], [4]]


@settings(max_examples=150)
@given(case=cases(), data=st.data())
def test_nearest_lists(case, data):
    R = case.R
    length = data.draw(st.integers(1, case.p))
    lists = nearest_lists(R, length)
    assert lists.dtype == np.uint16
    assert (lists[:, 0] == np.arange(case.p)).all()
    assert (np.diff(np.sort(lists, axis=1), axis=1) > 0).all()
    sq = oracle.squared_distances(R, R)
    wanted = np.take_along_axis(sq, oracle.neighborhoods(R, length), axis=1)
    atol = 1e-12 * (R.astype(float) ** 2).sum(axis=1).max()
    np.testing.assert_allclose(np.take_along_axis(sq, lists.astype(np.int64), axis=1), wanted, rtol=1e-9, atol=atol)


def test_nearest_lists_sum_wide_features_in_slices():
    R = points("normal", 12, 9000, np.random.default_rng(0))
    assert (nearest_lists(R, 12) == oracle.neighborhoods(R, 12)).all()


def test_pickle_leaves_derived_tables_out(engine):
    case = Case("normal", 20, 30, 12, 3, 2, 0)
    index = case.index(engine)
    before = index.query(case.X)
    again = pickle.loads(pickle.dumps(index))
    assert set(vars(again)) == {"representatives", "centers", "starts", "lists", "n_neighbors", "exact"}
    assert all((a == b).all() for a, b in zip(before, again.query(case.X), strict=True))


# Searching


@settings(max_examples=300)
@given(case=cases())
def test_approx_is_the_oracles_approximation(case, engine):
    index = case.index(engine)
    check_approx(case.X, index, *index.query(case.X))


@settings(max_examples=200)
@given(case=cases())
def test_exact_is_brute_force(case, engine):
    index = case.index(engine, exact=True)
    check_exact(case.X, index, *index.query(case.X))


@settings(max_examples=80)
@given(case=cases(features=FEW))
def test_exact_by_products_with_few_features(case, engine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "EXACT_LIST_REPRESENTATIVES", 0)
        index = case.index(engine, exact=True)
        assert not index._exact_by_lists
        check_exact(case.X, index, *index.query(case.X))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", ["normal", "clumps"])
def test_three_hundred_features(kind, exact, engine):
    case = Case(kind, 80, 150, 300, 5, 3, 0)
    index = case.index(engine, exact=exact)
    (check_exact if exact else check_approx)(case.X, index, *index.query(case.X))


@settings(max_examples=150)
@given(case=cases(), exact=st.booleans())
def test_sparse(case, exact, engine):
    index = case.index(engine, exact=exact)
    X, matrix = sparse_points(case.X, case.random)
    slack = sparse_slack(X, index.representatives)
    (check_exact if exact else check_approx)(X, index, *index.query(matrix), slack)


@pytest.mark.parametrize("exact", [False, True])
def test_sparse_rows_far_from_the_origin(exact, engine):
    """Sparse rows cannot be centred: a column that stays near 1000 must not drown the others."""
    random = np.random.default_rng(0)
    both = (1000 + random.standard_normal((300, 10))).astype(np.float32)
    index = RepresentativeIndex.build(both[:100], 5, 10, exact, random, engine)
    X = both[100:]
    slack = sparse_slack(X, index.representatives)
    (check_exact if exact else check_approx)(X, index, *index.query(scipy.sparse.csr_array(X)), slack)


@settings(max_examples=60)
@given(kind=st.sampled_from(["clumps", "normal"]), d=st.integers(1, 8), seed=SEEDS, exact=st.booleans())
def test_measured_distances_are_those_of_the_query(kind, d, seed, exact):
    random = np.random.default_rng(seed)
    X = np.ascontiguousarray(random.standard_normal((300, d)) * (100 if kind == "clumps" else 1), dtype=np.float32)
    with ThreadEngine(1) as engine:
        index = RepresentativeIndex.build(X[:40].copy(), 4, 3, exact, random, engine)
    ids, sq = index.query(X)
    assert index.by_tiles
    assert index.measure(X, ids).tobytes() == sq.tobytes()


def test_approx_differs_from_exact_when_the_neighborhood_is_small(engine):
    """The approximation is the paper's, not an exact search under its name."""
    for d in (3, 20):
        case = Case("normal", 200, 150, d, 3, 1, 0)
        approx, exact = case.index(engine), case.index(engine, exact=True)
        assert (approx.query(case.X)[1] > exact.query(case.X)[1]).any()
        assert (approx.query(scipy.sparse.csr_array(case.X))[1] > exact.query(case.X)[1]).any()


@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("exact", [False, True])
def test_far_rows_and_near_rows_keep_their_digits(d, exact, engine):
    """Representatives in groups a million apart, rows a thousandth of the spacing away from them."""
    random = np.random.default_rng(0)
    R = (1e6 * random.integers(0, 2, (60, 1)) + random.integers(0, 100, (60, d))).astype(np.float32)
    X = (R + 0.0625 * random.integers(-2, 3, R.shape)).astype(np.float32)
    index = RepresentativeIndex.build(R, 4, 10, exact, random, engine)
    (check_exact if exact else check_approx)(X, index, *index.query(X))


def test_largest_scaled_coordinates(engine):
    """Coordinates up to 2^50, which `Preprocessor` allows, neither overflow nor leave ids unset."""
    for d in (3, 20):
        for exact in (False, True):
            case = Case("normal", 30, 40, d, 5, 10, 0)
            index = case.index(engine, exact=exact)
            X = case.X.copy()
            X[::3] = 2.0**50 * np.sign(X[::3])
            check_consistent(X, index, *index.query(X))
            check_consistent(X, index, *index.query(scipy.sparse.csr_array(X)), sparse_slack(X, index.representatives))


def test_new_rows_beyond_float32():
    """Rows of `predict` may be farther out than any row of the fit (in a new process, as this one might die)."""
    code = """
        import json, numpy as np, scipy.sparse
        from ultraspec import USPEC
        finite = True
        for d in (3, 20):
            X = np.random.default_rng(0).normal(size=(300, d))
            far = np.vstack([X[:5], np.full((3, d), 1e25)])
            for neighbors in ("approx", "exact"):
                for make in (np.asarray, scipy.sparse.csr_array):
                    model = USPEC(3, neighbors=neighbors, random_state=0, n_jobs=1).fit(make(X))
                    finite &= bool(np.isfinite(model.transform(make(far))).all())
        print(json.dumps(finite))
        """
    assert python(code)


# The same bits in every block


def check_blocks(index, block, random, singles=30):
    """Whole, row by row, in ranges and gathered in another order: the same ids and squared distances."""
    n = block.shape[0]
    whole = index.query(block)
    parts = [np.array([i]) for i in random.permutation(n)[:singles]]
    bounds = np.unique(np.concatenate([[0, n], random.integers(0, n + 1, 3)]))
    parts += [np.arange(low, high) for low, high in pairwise(bounds)]
    parts += [random.permutation(n)[: random.integers(1, n + 1)] for _ in range(2)]
    for rows in parts:
        for now, then in zip(index.query(block[rows]), whole, strict=True):
            assert now.tobytes() == then[rows].tobytes()


@settings(max_examples=150)
@given(case=cases(), exact=st.booleans(), sparse=st.booleans())
def test_blocks_do_not_matter(case, exact, sparse, engine):
    block = sparse_points(case.X, case.random)[1] if sparse else case.X
    check_blocks(case.index(engine, exact=exact), block, case.random, singles=10)


@pytest.mark.parametrize(
    ("d", "exact", "by_lists", "sparse"),
    [
        pytest.param(2, False, True, False, id="tile"),
        pytest.param(8, False, True, False, id="tile-8"),
        pytest.param(9, False, True, False, id="row"),
        pytest.param(5, True, True, False, id="exact-lists"),
        pytest.param(5, True, False, False, id="exact-products-5"),
        pytest.param(37, True, False, False, id="exact-products"),
        pytest.param(20, False, True, True, id="sparse"),
        pytest.param(20, True, True, True, id="sparse-exact"),
    ],
)
@pytest.mark.parametrize("kind", ["clumps", "twins", "outliers"])
def test_large_blocks_do_not_matter(kind, d, exact, by_lists, sparse, engine, monkeypatch):
    """Blocks of several tiles and several batches of products."""
    if not by_lists:
        monkeypatch.setattr(neighbors, "EXACT_LIST_REPRESENTATIVES", 0)
    monkeypatch.setattr(products, "MOST_ROWS", 50)
    case = Case(kind, 1300, 90, d, 5, 3, 1)
    block = sparse_points(case.X, case.random)[1] if sparse else case.X
    check_blocks(case.index(engine, exact=exact), block, case.random)


def rounded_otherwise(index, random):
    """The index with each coordinate of its tables of products off by one unit in the last place.

    A matrix product of another shape is rounded differently by as much, but not on every BLAS.
    """
    again = copy.copy(index)
    for name in ("_table", "_center_table"):
        table = getattr(index, name)
        toward = random.choice(np.array([-np.inf, np.inf], dtype=np.float32), table.projected.shape)
        again.__dict__[name] = replace(table, projected=np.nextafter(table.projected, toward))
    return again


@settings(max_examples=80)
@given(case=cases(features=MANY), exact=st.booleans())
def test_rounding_of_products_does_not_matter(case, exact, engine):
    index = case.index(engine, exact=exact)
    for now, then in zip(rounded_otherwise(index, case.random).query(case.X), index.query(case.X), strict=True):
        assert now.tobytes() == then.tobytes()


def test_rounding_of_products_does_not_matter_far_from_tight_representatives(engine):
    random = np.random.default_rng(0)
    R = (np.ones(20) / np.sqrt(20) + 1e-5 * random.standard_normal((200, 20))).astype(np.float32)
    X = (1e3 * random.standard_normal((400, 20))).astype(np.float32)
    index = RepresentativeIndex.build(R, 5, 10, True, random, engine)
    for now, then in zip(rounded_otherwise(index, random).query(X), index.query(X), strict=True):
        assert now.tobytes() == then.tobytes()


@settings(max_examples=20)
@given(seed=SEEDS, d=FEW | MANY)
def test_query_into_fills_slices(seed, d, engine):
    case = Case("normal", 40, 30, d, 4, 10, seed)
    index = case.index(engine)
    ids, sq = np.full((60, 4), 9999, dtype=np.uint16), np.full((60, 4), -1, dtype=np.float32)
    index.query_into(case.X, ids[10:50], sq[10:50])
    assert all((a == b).all() for a, b in zip(index.query(case.X), (ids[10:50], sq[10:50]), strict=True))
    assert (ids[:10] == 9999).all()
    assert (sq[50:] == -1).all()


# Many representatives: the rep-clusters around a row


def probed(kind="normal", n=600, p=900, d=12, K=5, seed=0):
    """An index that probes, and rows."""
    case = Case(kind, n, p, d, K, 10, seed)
    with ThreadEngine(1) as threads:
        return ProbeIndex.probe(case.R, K, case.random, threads), case.X


def candidates_of(index, x):
    """Representatives of the rep-clusters listed for the nearest rep-cluster of a row, by their definition."""
    g = oracle.squared_distances(x[None], index.centers)[0].argmin()
    parts = [np.arange(index.starts[c], index.starts[c + 1]) for c in index.lists[g].astype(np.int64)]
    return np.concatenate(parts)


def test_probing_lists_rep_clusters(engine):
    index, _ = probed()
    z = len(index.centers)
    assert index.lists.shape == (z, neighbors.PROBES)
    assert (index.lists == oracle.neighborhoods(index.centers, neighbors.PROBES)).all()
    assert not index.exact
    assert not index.by_tiles
    few = ProbeIndex.probe(points("normal", 20, 12, np.random.default_rng(0)), 5, np.random.default_rng(0), engine)
    assert few.lists.shape[1] == len(few.centers) <= 4
    one = ProbeIndex.probe(np.ones((1, 12), dtype=np.float32), 5, np.random.default_rng(0), engine)
    assert one.n_neighbors == 1
    assert one.query(np.zeros((2, 12), dtype=np.float32))[0].tolist() == [[0], [0]]


@pytest.mark.parametrize("kind", ["normal", "clumps", "twins", "outliers"])
def test_probing_finds_the_nearest_of_the_candidates(kind):
    index, X = probed(kind, n=150)
    ids, sq = index.query(X)
    check_consistent(X, index, ids, sq)
    for i, x in enumerate(X):
        centers_sq = oracle.squared_distances(x[None], index.centers)[0]
        if np.diff(np.sort(centers_sq)[:2])[0] <= 1e-4 * centers_sq.min():
            continue  # the nearest rep-cluster is a tie
        _, distances = oracle.nearest_of(x[None], index.representatives, candidates_of(index, x)[None], 5)
        assert close(sq[i], distances[0], 0.0)


@pytest.mark.parametrize("kind", ["normal", "clumps", "twins", "outliers"])
@pytest.mark.parametrize("d", [9, 37])
def test_blocks_do_not_matter_when_probing(kind, d):
    index, X = probed(kind, d=d, n=1300)
    check_blocks(index, X, np.random.default_rng(0))


def test_small_products_do_not_matter_when_probing(monkeypatch):
    index, X = probed(n=1300)
    whole = index.query(X)
    monkeypatch.setattr(products, "MOST_ROWS", 3)
    for now, then in zip(index.query(X), whole, strict=True):
        assert now.tobytes() == then.tobytes()


@pytest.mark.parametrize(("d", "decay", "least"), [(12, 1, 0.95), (50, 1, 0.95), (20, 0, 0.55)])
def test_probing_finds_most_neighbours(d, decay, least, engine):
    """Gaussian rows whose deviations fall as those of principal components do; fewer are found if all are equal."""
    random = np.random.default_rng(0)
    X = (random.standard_normal((4000, d)) / np.arange(1, d + 1) ** decay).astype(np.float32)
    index = ProbeIndex.probe(X[:2000], 5, random, engine)
    found, exact = index.query(X[2000:])[0], index.exact_twin().query(X[2000:])[0]
    recall = np.mean([len(set(a) & set(b)) for a, b in zip(found.tolist(), exact.tolist(), strict=True)]) / 5
    assert least < recall < 1


def test_the_exact_twin_is_exact():
    index, X = probed(n=200)
    twin = index.exact_twin()
    assert twin.exact
    assert type(twin) is RepresentativeIndex
    assert twin.representatives is index.representatives
    check_exact(X, twin, *twin.query(X))


def test_probing_sparse_rows_is_probing_dense_ones():
    """A model of dense rows without an offset (cosine) meets sparse rows in predict."""
    index, X = probed()
    X, matrix = sparse_points(X, np.random.default_rng(0))
    for now, then in zip(index.query(matrix), index.query(X), strict=True):
        assert now.tobytes() == then.tobytes()


def test_probing_comes_back_from_arrays_and_pickles():
    index, X = probed()
    before = index.query(X)
    for again in (RepresentativeIndex.from_arrays(index.arrays()), pickle.loads(pickle.dumps(index))):
        assert type(again) is ProbeIndex
        assert set(vars(again)) == {"representatives", "centers", "starts", "lists", "n_neighbors", "exact"}
        assert all((a == b).all() for a, b in zip(before, again.query(X), strict=True))


@pytest.mark.parametrize(
    ("choice", "p", "d", "n_rows", "sparse", "kind", "exact"),
    [
        ("auto", 50, 20, 10**6, False, RepresentativeIndex, True),  # few representatives
        ("auto", 101, 20, 101 * 20 + 1, False, ProbeIndex, False),
        ("auto", 101, 20, 101 * 20, False, RepresentativeIndex, True),  # few rows
        ("auto", 101, 20, 10**6, True, RepresentativeIndex, True),
        ("auto", 101, 8, 10**6, False, RepresentativeIndex, False),  # few features
        ("approx", 50, 20, 10**6, False, RepresentativeIndex, False),
        ("approx", 101, 20, 10**6, False, RepresentativeIndex, False),
        ("exact", 101, 20, 10**6, False, RepresentativeIndex, True),
    ],
)
def test_the_index_for_a_parameter(choice, p, d, n_rows, sparse, kind, exact, engine, monkeypatch):
    monkeypatch.setattr(neighbors, "EXACT_REPRESENTATIVES", 100)
    monkeypatch.setattr(neighbors, "MOST_CANDIDATES", 1.0)  # there are fewer rep-clusters than probes
    R = points("normal", p, d, np.random.default_rng(0))
    index = build_index(R, 5, 10, choice, n_rows, sparse, np.random.default_rng(0), engine)
    assert type(index) is kind
    assert index.exact == exact
    assert index.n_neighbors == 5
    assert sorted(map(tuple, index.representatives)) == sorted(map(tuple, R))


def test_all_representatives_are_compared_if_most_are_candidates(engine, monkeypatch):
    monkeypatch.setattr(neighbors, "EXACT_REPRESENTATIVES", 100)
    random = np.random.default_rng(0)
    even = (10 * random.integers(0, 50, (2000, 1)) + 0.1 * random.standard_normal((2000, 20))).astype(np.float32)
    uneven = random.standard_normal((2000, 300)).astype(np.float32)
    uneven[:1700] *= 0.1  # in the middle of the others, and most of them in one rep-cluster
    for R, kind in ((even, ProbeIndex), (uneven, RepresentativeIndex)):
        index = build_index(R, 5, 10, "auto", 10**6, False, np.random.default_rng(0), engine)
        assert type(index) is kind
        probing = ProbeIndex.probe(R, 5, np.random.default_rng(0), engine)
        sizes = [len(candidates_of(probing, r)) for r in probing.centers]
        mean = np.average(sizes, weights=np.diff(probing.starts))
        assert probing.mean_candidates == pytest.approx(mean)
        assert index.exact == (mean > 1000)
    assert not RepresentativeIndex.build(uneven, 5, 10, False, random, engine).exact  # the search of the paper stays


# The order of equal distances, and searches of the same rows in other batches


@pytest.mark.parametrize("K", [1, 5, 40])
@pytest.mark.parametrize("d", [9, 16, 130])
def test_equal_representatives_are_in_the_order_of_ids(d, K, engine):
    """Grid points, each many times: an exact search lists equal distances by id."""
    random = np.random.default_rng(0)
    R = np.repeat(random.integers(-2, 3, (60, d)), 20, axis=0).astype(np.float32)
    X = random.integers(-2, 3, (200, d)).astype(np.float32)
    index = RepresentativeIndex.build(R, K, 10, True, random, engine)
    sq = oracle.squared_distances(X, index.representatives)  # integers: exact in float32, too
    expected = np.argsort(sq, axis=1, kind="stable")[:, :K]
    ids, found = index.query(X)
    assert (ids == expected).all()
    assert (found == np.take_along_axis(sq, expected, axis=1)).all()


@pytest.mark.parametrize("probe", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_batches_of_blocks_do_not_matter(probe, n_jobs, monkeypatch):
    """Several blocks at once give the edges and, bit for bit, the mean distance of single blocks."""
    monkeypatch.setattr(edges_module, "BATCHES_PER_THREAD", 1)
    case = Case("clumps", 20_000, 300, 20, 5, 3, 0)
    with ThreadEngine(n_jobs) as threads:
        index = ProbeIndex.probe(case.R, 5, case.random, threads) if probe else case.index(threads)
        rows = ArrayRows(case.X)
        assert len(edges_module._batches(rows, index, n_jobs)) < len(rows.blocks())
        together = connect(rows, index, threads, warn=False)
        monkeypatch.setattr(neighbors, "BATCH_VALUES", 1)
        assert len(edges_module._batches(rows, index, n_jobs)) == len(rows.blocks())
        single = connect(rows, index, threads, warn=False)
    assert together.ids.tobytes() == single.ids.tobytes()
    assert together.weights.tobytes() == single.weights.tobytes()
    assert together.sigma == single.sigma


@settings(max_examples=40)
@given(case=cases(), step=st.integers(1, 50), data=st.data())
def test_lists_in_chunks_are_lists_at_once(case, step, data):
    length = data.draw(st.integers(1, case.p))
    whole = nearest_lists(case.R, length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "LIST_VALUES", step * case.p)
        lists = nearest_lists(case.R, length)
    sq = oracle.squared_distances(case.R, case.R)
    here, there = (np.take_along_axis(sq, each.astype(np.int64), axis=1) for each in (lists, whole))
    atol = 1e-12 * (case.R.astype(float) ** 2).sum(axis=1).max()
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=atol)  # ties may be broken otherwise
    assert (lists[:, 0] == np.arange(case.p)).all()
    assert (np.diff(np.sort(lists, axis=1), axis=1) > 0).all()
    if case.kind == "normal":
        assert (lists == whole).all()


def test_the_graph_is_built_from_rows_that_are_searched_exactly(engine, monkeypatch):
    monkeypatch.setattr(edges_module, "ROWS_PER_REPRESENTATIVE", 1)
    index, X = probed(n=2000)
    rows = ArrayRows(X)
    edges = connect(rows, index, engine, affinity="robust")
    exact, sample = exact_edges(edges, rows, index, engine)
    assert sample.n_rows == len(exact) == 900
    assert exact.sigma == edges.sigma
    block = sample.read(0, 900)
    check_exact(block[:100], index.exact_twin(), exact.ids[:100], exact.weights[:100])
    np.testing.assert_allclose(edges.weights.sum(axis=1), 1, rtol=1e-5)  # transition probabilities now
    plain = index.exact_twin()
    edges = connect(rows, plain, engine)
    assert exact_edges(edges, rows, plain, engine) == (edges, rows)
    assert isinstance(edges, Edges)
