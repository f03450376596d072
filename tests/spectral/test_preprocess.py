"""The space of distances: raw values of any size and type, float32 rows that keep their differences."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS, points
from tests.helpers.common import blobs
from ultraspec import USPEC
from ultraspec.rows import ArrayRows, SparseRows, check_finite
from ultraspec.spectral import preprocess
from ultraspec.spectral.preprocess import (
    COMPONENTS,
    LARGEST,
    PreparedRows,
    Preprocessor,
    UnseenRows,
    prepare_rows,
)

SPARSE_TYPES = ("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint64", "bool")
TYPES = (*SPARSE_TYPES, "float16", "longdouble", ">f8")


def open_rows(X):
    return SparseRows(X) if scipy.sparse.issparse(X) else ArrayRows(X)


def fitted(X, engine, metric="euclidean", names=None):
    return Preprocessor.fit(open_rows(X), metric, np.random.default_rng(0), engine, names)


def prepared(X, engine, metric="euclidean"):
    return fitted(X, engine, metric).prepare(X)


def check_distances(X, found, factor=1.0, rtol=1e-4):
    """Squared distances between the rows are the true ones, up to one common factor."""
    true, ours = oracle.squared_distances(X, X), oracle.squared_distances(found, found) * factor
    np.testing.assert_allclose(ours, true, rtol=rtol, atol=1e-3 * rtol * true.mean())


# Size of values


@pytest.mark.parametrize("size", [1e-30, 1e-8, 1.0, 12345.678, 1e8, 1e30])
@pytest.mark.parametrize("d", [2, 30])
def test_scale(size, d, engine):
    X = size * np.random.default_rng(0).standard_normal((200, d))
    preprocessor = fitted(X, engine)
    assert np.log2(preprocessor.scale) % 1 == 0
    rows = preprocessor.prepare(X)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert 0.25 < np.median(np.abs(rows)) < 4
    check_distances(X / size, rows, (preprocessor.scale / size) ** 2)
    np.testing.assert_allclose(preprocessor.restore(rows), X, rtol=1e-6, atol=1e-6 * size)


@pytest.mark.parametrize("offset", [1e8, -1e8, 1e12])
def test_large_coordinates_keep_their_differences(offset, engine):
    X = offset + np.arange(600.0).reshape(200, 3) % 97
    preprocessor = fitted(X, engine)
    check_distances(X - offset, preprocessor.prepare(X), preprocessor.scale**2)


def test_columns_of_different_offsets(engine):
    random = np.random.default_rng(0)
    deviations = random.integers(-50, 50, (300, 4))
    X = deviations + np.array([1e8, 0, -1e10, 1.7e9])
    preprocessor = fitted(X, engine)
    check_distances(deviations, preprocessor.prepare(X), preprocessor.scale**2)


@pytest.mark.parametrize("at", [0, 17, 299])
@pytest.mark.parametrize("value", [1e6, 1e12, -1e18, 1e25])
def test_one_huge_outlier_costs_the_others_no_digits(at, value, engine):
    X = np.random.default_rng(0).standard_normal((300, 3))
    X[at, 1] = value
    preprocessor = fitted(X, engine)
    rows = preprocessor.prepare(X)
    with np.errstate(over="raise", invalid="raise"):
        squares = (rows * rows).sum(axis=1)  # in float32
    assert np.isfinite(squares).all()
    assert np.abs(rows).max() <= 2 * LARGEST
    others = np.arange(300) != at
    check_distances(X[others], rows[others], preprocessor.scale**2)


def test_constant_and_nearly_constant_data(engine):
    X = np.full((5000, 2), 7.0)
    assert not prepared(X, engine).any()
    assert fitted(X, engine).scale == 1.0
    X[4321, 1] = 1e30  # sampled or not: it must not overflow
    rows = prepared(X, engine)
    assert np.isfinite(rows * rows).all()
    assert np.count_nonzero(rows) == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_values_near_the_end_of_float64_are_refused(sign, engine):
    X = sign * np.random.default_rng(0).choice([1.2e308, 1.7e308], (600, 2))
    with pytest.raises(ValueError, match=r"values beyond 1e\+306.*Divide all values by a constant"):
        fitted(X, engine)
    assert np.isfinite(fitted(X / 1e3, engine).scale)


@settings(max_examples=60)
@given(seed=SEEDS, power=st.integers(-90, 90), shift=st.integers(-(10**9), 10**9), d=st.integers(1, 30))
def test_powers_of_two_and_whole_offsets_change_no_bit(seed, power, shift, d, engine):
    X = np.random.default_rng(seed).integers(-1000, 1000, (60, d)) / 64.0
    first = prepared(X, engine)
    assert prepared(X * 2.0**power, engine).tobytes() == first.tobytes()
    assert prepared(X + shift, engine).tobytes() == first.tobytes()
    matrix = scipy.sparse.csr_array(X)
    assert prepared(matrix * 2.0**power, engine).data.tobytes() == prepared(matrix, engine).data.tobytes()


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e30])
def test_labels_do_not_depend_on_the_unit(factor):
    X, _ = blobs(300)
    first = USPEC(4, random_state=0).fit(X)
    other = USPEC(4, random_state=0).fit(X * factor)
    assert (first.labels_ == other.labels_).all()
    assert other.sigma_ == pytest.approx(first.sigma_ * factor, rel=1e-4)
    np.testing.assert_allclose(other.representatives_, first.representatives_ * factor, rtol=1e-4, atol=1e-4 * factor)


# Types and layouts


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_types(dtype, metric, engine):
    X = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (300, 5)).astype(dtype)
    X[:, 0] = 1
    before = X.copy()
    wanted = prepared(X.astype(np.float64), engine, metric)
    for form in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1]):
        rows = prepared(form, engine, metric)
        assert type(rows) is np.ndarray
        assert rows.dtype == np.float32
        assert rows.flags.c_contiguous
        assert rows.flags.writeable
        assert rows.tobytes() == wanted.tobytes()
    assert (before == X).all()
    if dtype in SPARSE_TYPES:
        matrix = prepared(scipy.sparse.csr_array(X), engine, metric)
        assert matrix.format == "csr"
        assert matrix.dtype == np.float32
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("mode", ["r", "c"])
def test_memory_maps_and_read_only_arrays(tmp_path, mode, metric, engine):
    X = np.random.default_rng(0).standard_normal((300, 5))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    frozen = X.copy()
    frozen.flags.writeable = False
    wanted = prepared(X, engine, metric)
    for form in (mapped, frozen):
        rows = prepared(form, engine, metric)
        assert type(rows) is np.ndarray
        assert rows.tobytes() == wanted.tobytes()
        assert (form == X).all()


def test_sparse_rows_are_scaled_but_not_moved(engine):
    matrix = scipy.sparse.random_array((400, 30), density=0.2, rng=0, format="csr") * 1e20
    preprocessor = fitted(matrix, engine)
    assert not preprocessor.offset.any()
    rows = preprocessor.prepare(matrix)
    assert (rows.indices == matrix.indices).all()
    assert 0.25 < np.median(rows.data) < 4
    np.testing.assert_allclose(rows.toarray() * preprocessor.scale, matrix.toarray(), rtol=1e-6)
    empty = scipy.sparse.csr_array((10, 3))
    assert fitted(empty, engine).scale == 1.0
    assert fitted(empty, engine).prepare(empty).nnz == 0


def test_sparse_rows_in_a_space_of_dense_rows():
    X, _ = blobs(300)
    model = USPEC(4, random_state=0).fit(X + 50)
    assert (model.predict(scipy.sparse.csr_array(X + 50)) == model.labels_).all()


@settings(max_examples=40)
@given(seed=SEEDS, n=st.integers(1, 600), d=st.integers(1, 40), metric=st.sampled_from(["euclidean", "cosine"]))
def test_rows_are_the_same_in_every_block(seed, n, d, metric, engine):
    random = np.random.default_rng(seed)
    X = points("outliers", n, d, random) + np.float32(0.5)
    for form in (X, scipy.sparse.csr_array(X)):
        rows = PreparedRows(open_rows(form), fitted(form, engine, metric))
        whole = dense(rows.read(0, n))
        assert (rows.n_rows, rows.n_features) == (n, d)
        some = np.flatnonzero(random.random(n) < 0.3)
        assert dense(rows.take(some)).tobytes() == whole[some].tobytes()
        assert b"".join(dense(rows.read(*span)).tobytes() for span in rows.blocks()) == whole.tobytes()
        assert dense(rows.read(n // 2, n // 2 + 1)).tobytes() == whole[n // 2 : n // 2 + 1].tobytes()


def dense(block):
    return block.toarray() if scipy.sparse.issparse(block) else block


# Cosine


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30, 1e-200, 1e200])
@pytest.mark.parametrize("sparse", [False, True])
def test_cosine_rows_have_unit_length(size, sparse, engine):
    random = np.random.default_rng(0)
    X = random.standard_normal((100, 6)) * np.where(random.random((100, 1)) < 0.5, size, 1.0)
    wanted = X / np.abs(X).max(axis=1, keepdims=True)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    form = scipy.sparse.csr_array(X) if sparse else X
    preprocessor = fitted(form, engine, "cosine")
    with np.errstate(over="ignore"):
        rows = dense(preprocessor.prepare(form))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, wanted, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    assert (preprocessor.restore(rows) == rows).all()


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_cosine_refuses_rows_of_zeros(make):
    X = np.ones((10, 3))
    X[[4, 7]] = 0
    preprocessor = Preprocessor("cosine", np.zeros(3), 1.0)
    with pytest.raises(ValueError, match=r"Row 1004 of X is all zeros.*metric='euclidean'"):
        preprocessor.prepare(make(X), range(1000, 1010))


# NaN and infinity


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_survey_names_row_and_column(d, dtype, value, what, metric, engine):
    X = np.ones((5000, d), dtype=dtype)
    X[4321, 2] = X[4500, 0] = value
    assert len(ArrayRows(X).blocks()) > 3
    message = rf"contains {what}.* in column {{}}, row 4321\."
    names = [f"feature {j}" for j in range(d)]
    for form in (X, np.asfortranarray(X), *([] if dtype == "float16" else [scipy.sparse.csr_array(X)])):
        with pytest.raises(ValueError, match=message.format(2)):
            fitted(form, engine, metric)
        with pytest.raises(ValueError, match=message.format("'feature 2'")):
            fitted(form, engine, metric, names)


def test_check_finite_counts_from_the_first_row():
    X = np.zeros((6, 3))
    X[4, 1] = np.nan
    matrix = scipy.sparse.csr_array(X)
    for form in (X, matrix):
        with pytest.raises(ValueError, match=re.escape("X contains NaN in column 1, row 104.")):
            check_finite(form, range(100, 106), None)
        with pytest.raises(ValueError, match="in column 'b', row 4"):
            check_finite(form, range(6), ["a", "b", "c"])


@pytest.mark.parametrize("dtype", TYPES)
def test_check_finite_passes_finite_values(dtype):
    X = np.ones((3, 2), dtype=dtype)
    check_finite(X, range(3), None)
    if dtype in SPARSE_TYPES:
        check_finite(scipy.sparse.csr_array(X), range(3), None)


def test_infinities_of_both_signs_in_one_column(engine):
    X = np.ones((10, 1))
    X[3], X[6] = np.inf, -np.inf
    with pytest.raises(ValueError, match="row 3"):
        fitted(X, engine)


# Principal components


def low_rank(n=400, d=90, rank=6, noise=0.01, seed=0):
    """Rows near a space of few dimensions, far from zero."""
    random = np.random.default_rng(seed)
    scales = 10.0 / np.arange(1, rank + 1)
    return (
        (random.normal(size=(n, rank)) * scales) @ random.normal(size=(rank, d)) / np.sqrt(d)
        + 3.0
        + (noise * random.normal(size=(n, d)))
    )


def projected(X, engine, q, metric="euclidean"):
    return Preprocessor.fit(open_rows(X), metric, np.random.default_rng(0), engine, n_components=q)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_components_are_those_of_a_singular_value_decomposition(sparse, metric, engine):
    X = low_rank()
    space = projected(scipy.sparse.csr_array(X) if sparse else X, engine, 6, metric)
    plain = Preprocessor(space.metric, space.offset, space.scale)
    moved = np.asarray(plain.prepare(X), dtype=np.float64)
    centred = moved - moved.mean(axis=0)
    wanted = np.linalg.svd(centred, full_matrices=False)[2][:6].T
    assert space.basis.shape == (90, 6)
    assert space.basis.dtype == space.center.dtype == np.float32
    np.testing.assert_allclose(space.basis.T @ space.basis, np.eye(6), atol=1e-4)
    np.testing.assert_allclose(space.basis @ space.basis.T, wanted @ wanted.T, atol=5e-3)
    found = space.prepare(X)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-3 * np.abs(found).max())
    np.testing.assert_allclose(np.abs(np.corrcoef(found.T) - np.eye(6)), 0, atol=1e-2)
    assert (np.diff(found.std(axis=0)) < 0).all()  # the first component varies most
    np.testing.assert_allclose(np.abs(found), np.abs(centred @ wanted), atol=2e-2 * np.abs(found).max())


@pytest.mark.parametrize("sparse", [False, True])
def test_distances_of_projected_rows_are_those_of_rows_near_the_components(sparse, engine):
    X = low_rank(noise=1e-4)
    space = projected(scipy.sparse.csr_array(X) if sparse else X, engine, 6)
    check_distances(X, space.prepare(X), space.scale**2, rtol=1e-2)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("q", [1, 5, 50])
def test_the_projection_of_a_row_does_not_depend_on_its_block(sparse, q, engine):
    X = low_rank(n=203)
    if sparse:
        X = scipy.sparse.csr_array(np.where(np.random.default_rng(0).random(X.shape) < 0.3, X, 0))
    space = projected(X, engine, q)
    whole = space.prepare(X)
    random = np.random.default_rng(0)
    parts = [np.array([i]) for i in (0, 1, 101, 202)]
    parts += [np.arange(0, 7), np.arange(5, 202), random.permutation(203), random.permutation(203)[:30]]
    for rows in parts:
        assert space.prepare(X[rows]).tobytes() == whole[rows].tobytes()
        assert space.prepare_new(X[rows]).tobytes() == whole[rows].tobytes()


def test_projections_of_dense_and_sparse_rows_agree(engine):
    X = np.where(np.random.default_rng(0).random((300, 90)) < 0.3, low_rank(300), 0)
    matrix = scipy.sparse.csr_array(X)
    for space in (projected(matrix, engine, 10), projected(X, engine, 10), projected(X, engine, 10, "cosine")):
        dense, sparse = space.prepare(X), space.prepare(matrix)
        assert isinstance(sparse, np.ndarray)
        np.testing.assert_allclose(sparse, dense, atol=1e-5 * np.abs(dense).max())


@pytest.mark.parametrize("sparse", [False, True])
def test_projected_points_are_mapped_back_approximately(sparse, engine):
    X = 1e4 + 100 * low_rank()
    space = projected(scipy.sparse.csr_array(X) if sparse else X, engine, 6)
    restored = space.restore(space.prepare(X))
    if not sparse:  # sparse rows are not moved: what their mean has beside the components is lost
        np.testing.assert_allclose(restored, X, atol=0.01 * np.ptp(X))
    B = space.basis.astype(np.float64)
    np.testing.assert_allclose(restored, (X - space.offset) @ B @ B.T + space.offset, atol=1e-5 * X.max())


@pytest.mark.parametrize(
    ("n", "d", "n_components", "q"),
    [
        (400, 90, "auto", COMPONENTS),
        (400, COMPONENTS, "auto", None),  # few features
        (40, 90, "auto", None),  # few rows
        (400, 90, None, None),
        (400, 90, 90, None),
        (400, 90, 89, 89),
        (400, 4, 2, 2),
    ],
)
def test_number_of_components(n, d, n_components, q, engine):
    X = low_rank(n, d, min(d, 6))
    space = projected(X, engine, n_components)
    assert space.projects == (q is not None)
    assert space.prepare(X).shape == (n, q or d)
    assert set(space.arrays()) == ({"offset", "scale", "basis", "center"} if q else {"offset", "scale"})
    again = Preprocessor.from_arrays("euclidean", space.arrays())
    assert again.prepare(X).tobytes() == space.prepare(X).tobytes()


def test_components_of_wide_rows_are_computed_from_few(engine, monkeypatch):
    monkeypatch.setattr(preprocess, "COMPONENT_VALUES", 90 * 100)
    space = projected(low_rank(2000), engine, 6)
    check_distances(low_rank(2000)[:300], space.prepare(low_rank(2000)[:300]), space.scale**2, rtol=0.1)


def test_rows_that_are_projected_are_dense_and_narrow(engine, monkeypatch):
    X = scipy.sparse.csr_array(low_rank())
    space = projected(X, engine, 6)
    for kind in (PreparedRows, UnseenRows):
        rows = kind(SparseRows(X), space)
        assert rows.n_features == 6
        assert not rows.sparse
        assert rows.read(3, 17).tobytes() == space.prepare(X[3:17]).tobytes()
    stored = prepare_rows(SparseRows(X), space, engine)
    assert isinstance(stored, ArrayRows)
    assert stored.read(0, 400).tobytes() == space.prepare(X).tobytes()


def test_small_dense_rows_are_preprocessed_once(engine, monkeypatch):
    X = blobs(600)[0]
    space = fitted(X, engine)
    prepared = prepare_rows(ArrayRows(X), space, engine)
    assert isinstance(prepared, ArrayRows)
    assert prepared.read(0, 600).tobytes() == space.prepare(X).tobytes()
    sparse = SparseRows(scipy.sparse.csr_array(X))
    assert isinstance(prepare_rows(sparse, space, engine), PreparedRows)
    monkeypatch.setattr(preprocess, "PREPARED_BYTES", 600 * 3 * 4 - 1)
    assert isinstance(prepare_rows(ArrayRows(X), space, engine), PreparedRows)


def test_rows_stay_finite_if_directions_are_not_orthogonal():
    """As those of a file may be: all are the same, and a row lies along them."""
    d, q = 2**14, 2**13
    basis = np.full((d, q), 1 / np.sqrt(d), dtype=np.float32)
    space = Preprocessor("euclidean", np.zeros(d), 1.0, basis, np.zeros(q, dtype=np.float32))
    with np.errstate(over="raise"):
        row = space.prepare_new(np.full((1, d), 1e300))
        assert np.isfinite((2 * row) ** 2).all()
        assert np.isfinite(((2 * row) ** 2).sum())


def test_new_rows_far_out_are_clipped_before_the_projection(engine):
    X = low_rank()
    space = projected(X, engine, 6)
    far = np.full((2, 90), 1e300)
    assert np.isfinite(space.prepare_new(far)).all()
    assert (np.abs(space.prepare_new(far)) <= 2 * LARGEST * 90).all()
