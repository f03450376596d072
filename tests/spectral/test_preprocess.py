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
from ultraspec.spectral.preprocess import LARGEST, PreparedRows, Preprocessor

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
