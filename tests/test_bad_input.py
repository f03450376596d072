"""Bad input gets a clear error or a right answer: each message says what is wrong and what to do."""

from __future__ import annotations

import datetime
import functools
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from tests.helpers.common import blobs, documents, frames, python, same_partition
from ultraspec import USPEC, uspec

AS_THEY_ARE = {"array": np.asarray, "sparse": scipy.sparse.csr_array}


@pytest.fixture(params=["euclidean", "cosine"])
def metric(request):
    return request.param


@pytest.fixture(params=AS_THEY_ARE)
def container(request):
    """A function that returns an array as it is or as a sparse matrix."""
    return AS_THEY_ARE[request.param]


@pytest.fixture(scope="module")
def model():
    return USPEC(4, random_state=0).fit(blobs()[0])


def raises(message, error=ValueError):
    """Expect an error with this message."""
    return pytest.raises(error, match=re.escape(message))


def fit_quietly(X, k=4, **options):
    """Fit, and fail on warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return USPEC(k, random_state=0, **options).fit(X)


# NaN and infinity


@functools.cache
def fitted(d, metric, container):
    """A model of finite rows, which is only read."""
    return USPEC(4, metric=metric, random_state=0).fit(container(blobs(d=d)[0]))


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity (inf)"), (-np.inf, "infinity (inf)")])
@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nan_and_infinity_are_refused_with_their_place(value, name, d, dtype, container, metric):
    X = blobs(d=d)[0].astype(dtype)
    broken = X.copy()
    broken[277, 2] = value
    broken[320:, 1] = value
    counts = "In all, 81 of 400 rows have such values, in columns 1 (80), 2 (1)."
    message = f"X contains {name} in column 2, row 277. {counts}"
    with raises(message):
        USPEC(4, metric=metric, random_state=0).fit(container(broken))
    model = fitted(d, metric, container)
    for call in (model.predict, model.transform):
        with raises(message):
            call(container(broken))
    broken[320:] = X[320:]
    with raises(f"X contains {name} in column 2, row 277. Drop or impute such rows first"):
        model.cut(3, container(broken))


@pytest.mark.parametrize("frame", list(frames()))
def test_nan_in_a_frame_is_named_by_its_column(frame):
    X, _ = blobs()
    columns = {"age": X[:, 0], "body height": X[:, 1], "weight": X[:, 2]}
    fine = frame(columns)
    model = USPEC(4, random_state=0).fit(fine)
    columns["body height"] = np.where(np.arange(400) == 77, np.nan, X[:, 1])
    for call in (USPEC(4).fit, model.predict, model.transform):
        with raises("X contains NaN in column 'body height', row 77."):
            call(frame(columns))


def test_missing_values_of_pandas_are_refused():
    X = pd.DataFrame(blobs()[0], columns=list("abc"))
    X["d"] = pd.array([1] * 9 + [None] + [1] * 390, dtype="Int64")
    with raises("X contains NaN in column 'd', row 9."):
        USPEC(4).fit(X)


# Few rows


@pytest.mark.parametrize("k", [1, "auto"])
def test_one_row_is_one_cluster(k):
    if k == "auto":
        with pytest.warns(UserWarning, match="No structure found"):
            model = USPEC(k).fit([[1.0, 2.0]])
    else:
        model = fit_quietly([[1.0, 2.0]], k)
    assert model.labels_.tolist() == [0]
    assert model.predict([[5.0, 5.0], [1.0, 2.0]]).tolist() == [0, 0]


@pytest.mark.parametrize(("n", "k"), [(1, 2), (1, 8), (7, 8)])
def test_fewer_rows_than_clusters_are_refused(n, k):
    with raises(f"n_samples={n} rows cannot form n_clusters={k} clusters. Pass more rows or a smaller n_clusters."):
        USPEC(k).fit(blobs()[0][:n])


@pytest.mark.parametrize("n", [4, 8, 11, 20, 40, 70])
@pytest.mark.parametrize(
    "options", [{}, {"n_neighbors": 30}, {"n_representatives": 30}, {"neighbors": "exact"}], ids=str
)
def test_fewer_rows_than_neighbors_or_representatives_are_enough(n, options):
    X, y = blobs(n=n, k=2)
    model = fit_quietly(X, 2, **options)
    assert same_partition(y, model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_as_many_clusters_as_rows(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    assert sorted(fit_quietly(X, n).labels_) == list(range(n))


def test_more_neighbors_than_representatives_are_refused():
    with raises(
        "n_neighbors=7 is more than n_representatives=5: each row has edges to its nearest representatives. "
        "Lower n_neighbors or raise n_representatives."
    ):
        USPEC(2, n_neighbors=7, n_representatives=5).fit(blobs()[0])


def test_more_clusters_than_representatives_are_refused():
    with raises(
        "n_clusters=21 is more than n_representatives=20: clusters are groups of representatives. "
        "Ask for fewer clusters, or raise n_representatives if X has enough rows."
    ):
        USPEC(21, n_representatives=20).fit(blobs()[0])


@pytest.mark.parametrize("options", [{"n_representatives": 5}, {"n_representatives": 20, "n_neighbors": 20}], ids=str)
def test_as_many_representatives_as_clusters_or_neighbors_will_do(options):
    assert len(set(fit_quietly(blobs(1000)[0], 4, **options).labels_)) == 4


# Few distinct rows


@pytest.mark.parametrize("value", [0.0, 1.0, 1e30, -1e-30])
def test_equal_rows_make_one_cluster_and_a_warning(value, container):
    X = container(np.full((50, 3), value))
    with pytest.warns(ConvergenceWarning, match="Found 1 clusters instead of 3: .* too few distinct rows"):
        model = USPEC(3, random_state=0).fit(X)
    assert not model.labels_.any()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.representatives_).all()
    assert model.sigma_ > 0


def test_equal_rows_make_one_cluster_by_themselves(container):
    assert not fit_quietly(container(np.ones((50, 3))), 1).labels_.any()
    with pytest.warns(UserWarning, match="No structure found"):
        assert not USPEC("auto", random_state=0).fit(container(np.ones((50, 3)))).labels_.any()


@pytest.mark.parametrize("k", [2, 3, 4, 9])
def test_fewer_distinct_rows_than_clusters_make_as_many_as_there_are(k, metric, container):
    X = np.repeat([[1.0, 0.0, 0.1], [0.0, 5.0, 0.1], [9.0, 9.0, 0.1]], 40, axis=0)
    fit = USPEC(k, metric=metric, random_state=0).fit
    if k <= 3:
        model = fit_quietly(container(X), k, metric=metric)
    else:
        with pytest.warns(ConvergenceWarning, match=f"Found 3 clusters instead of {k}: .* too few distinct rows"):
            model = fit(container(X))
    found = min(k, 3)
    np.testing.assert_array_equal(np.unique(model.labels_), np.arange(found))
    np.testing.assert_array_equal(model.predict(container(X)), model.labels_)
    assert all(len(set(model.labels_[i : i + 40])) == 1 for i in (0, 40, 80))


@pytest.mark.parametrize("selection", ["hybrid", "random", "kmeans"])
@pytest.mark.parametrize("neighbors", ["approx", "exact"])
def test_many_duplicates(selection, neighbors):
    X, y = blobs(n=60)
    copies = np.random.default_rng(0).integers(60, size=3000)
    model = fit_quietly(X[copies], 4, selection=selection, neighbors=neighbors)
    assert same_partition(y[copies], model.labels_)


@pytest.mark.parametrize(
    "times",
    [
        300,
        pytest.param(
            10_000, marks=pytest.mark.xfail(reason="ten of eleven rows at distance zero: sigma, their mean, collapses")
        ),
    ],
)
def test_one_row_many_times_among_others(times):
    X, y = blobs()
    X, y = np.vstack([X, np.tile(X[:1], (times, 1))]), np.concatenate([y, np.tile(y[:1], times)])
    assert same_partition(y, fit_quietly(X).labels_)


def test_constant_columns_only_beside_one_that_varies():
    y = np.arange(900) % 3
    X = np.full((900, 12), 7.0)
    X[:, 5] += 10 * y + np.random.default_rng(0).uniform(size=900)
    assert same_partition(y, fit_quietly(X, 3, n_representatives=60).labels_)


# Large and small values


@pytest.mark.parametrize("factor", [1e30, 1e-30, 1e300, 1e-300])
@pytest.mark.parametrize("d", [3, 20])
def test_huge_and_tiny_values(factor, d, metric, container):
    X, y = blobs(d=d)
    X = container(X * factor)
    model = fit_quietly(X, metric=metric)
    assert same_partition(y, model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.transform(X)).all()


def test_subnormal_values():
    same = python("""
        import json, sys
        sys.path.insert(0, "tests")
        from tests.helpers.common import blobs, same_partition
        from ultraspec import USPEC

        X, y = blobs()
        print(json.dumps(same_partition(y, USPEC(4, random_state=0).fit_predict(X * 1e-310))))
    """)
    assert same


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_huge_and_tiny_float32(factor, metric):
    X, y = blobs()
    assert same_partition(y, fit_quietly((X * factor).astype(np.float32), metric=metric).labels_)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("d", [3, 20])
def test_integers_whose_squares_overflow(dtype, d):
    X, y = blobs(d=d)
    X = (X * 2**55).astype(np.int64) + 2**60  # near the end of int64; float32 keeps 24 bits
    assert same_partition(y, fit_quietly(X.astype(dtype)).labels_)


def test_small_integers_do_not_wrap_around():
    X, y = blobs()
    for dtype, scale, offset in ((np.int8, 12, 0), (np.uint8, 12, 128), (np.int16, 3000, 0), (np.uint16, 3000, 32768)):
        assert same_partition(y, fit_quietly((X * scale + offset).astype(dtype), n_representatives=60).labels_)


def test_columns_of_very_different_size():
    """The largest column alone counts, without overflow of it or trouble from the others."""
    X, y = blobs(k=3)
    X = np.column_stack([X * 1e-25, 1e20 * (10 * y + np.random.default_rng(0).uniform(size=len(y)))])
    assert same_partition(y, fit_quietly(X, 3, n_representatives=60).labels_)


def test_rows_far_beyond_the_fitted_ones_get_a_label():
    """Run in another process, as a kernel that meets NaN may crash it."""
    python("""
        import itertools, json, sys
        sys.path.insert(0, "tests")
        import numpy as np, scipy.sparse
        from tests.helpers.common import blobs
        from ultraspec import USPEC

        containers = np.asarray, scipy.sparse.csr_array
        for d, neighbors, container in itertools.product((3, 20), ("approx", "exact"), containers):
            model = USPEC(4, neighbors=neighbors, random_state=0).fit(container(blobs(d=d)[0]))
            for value in (1e5, 1e10, 1e20, 1e30, 1e39, 1e300):
                far = np.full((3, d), value)
                far[1] *= -1
                far[2, 1:] = 0
                labels, embedded = model.predict(container(far)), model.transform(container(far))
                assert set(labels) <= {0, 1, 2, 3}
                assert np.isfinite(embedded).all(), (d, neighbors, container, value)
        print(json.dumps(True))
    """)


# Cosine


def test_zero_rows_have_no_direction(container):
    X, _ = blobs()
    broken = X.copy()
    broken[[300, 350]] = 0
    message = "Row 300 of X is all zeros, so its direction is undefined under metric='cosine'"
    advice = "Drop such rows or use metric='euclidean'."
    model = USPEC(4, metric="cosine", random_state=0).fit(container(X))
    for call in (USPEC(4, metric="cosine").fit, model.predict, model.transform, lambda rows: model.cut(3, rows)):
        with pytest.raises(ValueError, match=f"{re.escape(message)}.*{re.escape(advice)}"):
            call(container(broken))
    fit_quietly(container(broken), 5, regularization=1e-2)


@pytest.mark.parametrize("selection", ["hybrid", "random", "kmeans"])
def test_the_zero_row_is_named_where_representatives_come_from_a_sample(selection, container):
    X, _ = blobs(n=3000)
    X[2000:] = 0
    with pytest.raises(ValueError, match=r"Row 2\d\d\d of X is all zeros"):
        USPEC(4, metric="cosine", n_representatives=30, selection=selection, random_state=0).fit(container(X))


# Things that are no matrix of numbers


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 3)), "Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required"),
        (np.empty((10, 0)), "Found array with 0 feature(s) (shape=(10, 0)) while a minimum of 1 is required"),
        (
            scipy.sparse.csr_array((0, 3)),
            "Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required",
        ),
        (
            scipy.sparse.csr_array((9, 0)),
            "Found array with 0 feature(s) (shape=(9, 0)) while a minimum of 1 is required",
        ),
        (np.array([["a", "b"]] * 10), "Convert your data to numeric values explicitly"),
        ([["a", "b"]] * 10, "Convert your data to numeric values explicitly"),
        (pd.DataFrame({"a": ["x"] * 10, "b": range(10)}), "X: column 'a' ("),
        (pd.DataFrame({"a": ["x"] * 10, "b": range(10)}), ") must hold numbers. Pass X[['b']], which do, or convert"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=10), "b": range(10)}), "X: column 'a' (datetime64["),
        (pd.DataFrame({"a": pd.timedelta_range("1s", periods=10), "b": range(10)}), "X: column 'a' (timedelta64["),
        (
            pd.DataFrame({"a": pd.Categorical(["x"] * 10), "b": range(10)}),
            "X: column 'a' (category) must hold numbers.",
        ),
        (pd.DataFrame({"a": ["x"] * 10}), "must hold numbers. Convert these to numbers first."),
        (pl.DataFrame({"a": ["x"] * 10, "b": range(10)}), "X: column 'a' (String) must hold numbers."),
        (pl.DataFrame({"a": ["7"] * 10, "b": range(10)}), "X: column 'a' (String) must hold numbers."),
        (pd.DataFrame({"a": pd.Series(["7"] * 10, dtype=object), "b": range(10)}), "column 'a' (object) must hold"),
        (pd.DataFrame({"a": pd.Series(["7"] * 10, dtype="string"), "b": range(10)}), "column 'a' (string) must hold"),
        (pd.DataFrame({"a": pd.Categorical(["7", "8"] * 5), "b": range(10)}), "column 'a' (category) must hold"),
        (pd.DataFrame({"a": pd.Categorical([7, 8] * 5), "b": range(10)}), "column 'a' (category) must hold numbers"),
        (
            pd.DataFrame(np.ones((10, 3)), columns=["a", "b", "a"]),
            "X has more than one column named 'a'. Rename columns, or pass X.to_numpy(), which has no names.",
        ),
        (
            pl.DataFrame({"a": [datetime.date(2020, 1, 1)] * 10, "b": range(10)}),
            "X: column 'a' (Date) must hold numbers.",
        ),
        (np.ones((10, 3)) + 1j, "Complex data not supported"),
        (scipy.sparse.csr_array(np.ones((10, 3)) + 1j), "Complex data not supported"),
        (np.ones(10), "Expected 2D array, got 1D array instead"),
        (np.ones((4, 3, 2)), "Found array with dim 3"),
        (1.0, "Expected 2D array, got scalar array instead"),
        (None, "Expected 2D array, got scalar array instead"),
        ([[1.0, 2.0], [1.0]], "inhomogeneous"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_other_things_are_refused(X, message):
    with raises(message):
        USPEC(2).fit(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((5, 2)), "X has 2 features, but USPEC is expecting 3 features as input"),
        (np.ones((5, 4)), "X has 4 features, but USPEC is expecting 3 features as input"),
        (scipy.sparse.csr_array(np.ones((5, 4))), "X has 4 features, but USPEC is expecting 3 features as input"),
        (np.empty((0, 3)), "Found array with 0 sample(s)"),
        (np.ones(3), "Expected 2D array, got 1D array instead"),
        (np.ones((5, 3)) + 1j, "Complex data not supported"),
        (np.array([["a", "b", "c"]]), "Convert your data to numeric values explicitly"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize("method", ["predict", "transform"])
def test_other_things_are_refused_by_fitted_models(model, method, X, message):
    with raises(message):
        getattr(model, method)(X)


# The graph


@pytest.mark.parametrize("neighbors", ["approx", "exact"])
@pytest.mark.parametrize("d", [3, 20])
def test_a_representative_that_no_row_uses(monkeypatch, neighbors, d):
    select = uspec.select_representatives

    def with_one_far_away(*args, **options):
        R = select(*args, **options)
        return np.vstack([R, np.full((1, d), 300, dtype=np.float32)])

    monkeypatch.setattr(uspec, "select_representatives", with_one_far_away)
    X, y = blobs(d=d)
    model = fit_quietly(X, neighbors=neighbors)
    far = model.representatives_[np.abs(model.representatives_).max(axis=1).argmax()]
    assert same_partition(y, model.labels_)
    assert np.isfinite(model.eigenvalues_).all()
    near = far + np.linspace(-1, 1, 50)[:, None]
    assert set(model.predict(near)) <= {0, 1, 2, 3}
    assert np.isfinite(model.transform(near)).all()
    np.testing.assert_allclose(np.linalg.norm(model.transform(near), axis=1), 1, atol=1e-5)


def test_a_graph_in_many_pieces_is_explained():
    X, y = blobs(k=12, n=1800)
    with pytest.warns(UserWarning, match="The graph has") as caught:
        model = USPEC(5, n_neighbors=4, n_representatives=200, random_state=0).fit(X)
    assert len(caught) == 1
    text = str(caught[0].message)
    for part in (
        "The graph has 12 connected components",
        "(rows: 150, 150, 150, 150, 150, ...; smallest 150)",
        "more than the 5 clusters",
        "Weak edges (regularization=0.001) connect them",
        "raise n_clusters if the components are real",
        "raise n_neighbors (now 4)",
        "lower n_representatives (now 200)",
        "drop outliers",
    ):
        assert part in text
    np.testing.assert_array_equal(np.unique(model.labels_), np.arange(5))
    for piece in range(12):
        assert len(set(model.labels_[y == piece])) == 1, "a piece was cut although there are too few clusters"


def test_a_graph_in_many_pieces_without_regularization():
    with pytest.warns(UserWarning, match="With regularization=0, which components share a cluster is arbitrary"):
        model = USPEC(5, regularization=0, random_state=0).fit(blobs(k=12, n=1800)[0])
    np.testing.assert_array_equal(np.unique(model.labels_), np.arange(5))


def test_as_many_pieces_as_clusters_are_fine():
    X, y = blobs(k=12, n=1800)
    assert same_partition(y, fit_quietly(X, 12).labels_)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_warnings_point_to_the_line_that_called(k, method):
    X = np.ones((50, 3)) if k == 3 else blobs(k=12)[0]
    with pytest.warns(UserWarning, match=r"instead of|The graph has") as caught:
        getattr(USPEC(k, random_state=0), method)(X)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("rows", [1000, 8000], ids=["few blocks", "many blocks"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_far_outlier_that_widens_sigma_of_the_paper_is_named(rows, n_jobs):
    X = np.random.default_rng(0).normal(size=(rows, 2))
    options = {"affinity": "paper", "n_representatives": 200, "n_jobs": n_jobs}
    sigma = fit_quietly(X, 2, **options).sigma_
    X[777] = rows * 0.1, 0.0
    with pytest.warns(UserWarning, match=f"Row 777 of the {rows:,} rows in the graph .* widens sigma") as caught:
        model = USPEC(2, random_state=0, **options).fit(X)
    assert len(caught) == 1
    assert model.sigma_ > 1.25 * sigma


@pytest.mark.parametrize("rows", [1000, 8000], ids=["few blocks", "many blocks"])
def test_a_far_outlier_does_not_change_sigma(rows):
    X = np.random.default_rng(0).normal(size=(rows, 2))
    sigma = fit_quietly(X, 2, n_representatives=200).sigma_
    X[777] = rows * 0.1, 0.0
    assert fit_quietly(X, 2, n_representatives=200).sigma_ == pytest.approx(sigma, rel=0.02)


def test_outliers_that_change_little_are_no_reason_to_warn():
    X = np.random.default_rng(0).normal(size=(1000, 2))
    X[777] = 50.0, 0.0
    fit_quietly(X, 2)
    fit_quietly(np.random.default_rng(0).lognormal(size=(1000, 3)), 2)
    fit_quietly(np.r_[np.zeros((60, 2)), [[1e9, 0.0]]], 2)  # two places, of so few rows


# Parameters


def integers(name, least, other=""):
    """Return values that are refused for an integer parameter, with the error and its message."""
    wanted = re.escape(f"{name} must be an integer >= {least}") + f".*{re.escape(other)}.*got "
    for value in (least - 1, -7):
        yield name, value, ValueError, f"{wanted}{value}"
    for value in (2.0, np.float64(3), True, None, "many", [3]):
        yield name, value, TypeError, f"{wanted}{re.escape(repr(value))}"


PARAMETERS = [
    *(case for case in integers("n_clusters", 1, "or 'auto'")),
    *(case for name in ("n_representatives", "n_neighbors", "candidate_factor") for case in integers(name, 1)),
    *(case for name in ("neighborhood_factor", "n_init", "max_iter") for case in integers(name, 1)),
    *(case for case in integers("n_graphs", 2)),
    *(case for case in integers("n_components", 1, "or 'auto' or None") if case[1] is not None),
    ("affinity", "gaussian", ValueError, "affinity must be one of 'robust', 'paper', got 'gaussian'"),
    ("discretize", "consensus", ValueError, "discretize must be one of 'auto', .*, got 'consensus'"),
    ("n_representatives", 65536, ValueError, "n_representatives must be .* <= 65,535 or 'auto', got 65536"),
    ("selection", "best", ValueError, "selection must be one of 'hybrid', 'random', 'kmeans', got 'best'"),
    ("selection", None, ValueError, "selection must be one of 'hybrid', 'random', 'kmeans', got None"),
    ("neighbors", 5, ValueError, "neighbors must be one of 'auto', 'approx', 'exact', got 5"),
    ("metric", "manhattan", ValueError, "metric must be one of 'euclidean', 'cosine', 'haversine', got 'manhattan'"),
    ("regularization", -0.1, ValueError, "regularization must be a finite number >= 0, got -0.1"),
    ("regularization", np.nan, ValueError, "regularization must be a finite number >= 0, got nan"),
    ("regularization", np.inf, ValueError, "regularization must be a finite number >= 0, got inf"),
    ("regularization", None, TypeError, "regularization must be a finite number >= 0, got None"),
    ("regularization", True, TypeError, "regularization must be a finite number >= 0, got True"),
    ("random_state", -1, ValueError, "random_state must be a non-negative integer, .* or None, got -1"),
    ("random_state", 1.0, TypeError, "random_state must be a non-negative integer, .* or None, got 1.0"),
    ("random_state", "seed", TypeError, "random_state must be a non-negative integer, .* or None, got 'seed'"),
    ("n_jobs", 0, ValueError, "n_jobs must be a non-zero integer .* or None, got 0"),
    ("n_jobs", 1.5, TypeError, r"n_jobs must be a non-zero integer .* or None, got 1.5"),
    ("n_jobs", "all", TypeError, r"n_jobs must be a non-zero integer .* or None, got 'all'"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), PARAMETERS, ids=lambda value: str(value)[:20])
def test_wrong_parameters_are_refused(name, value, error, message):
    with pytest.raises(error, match=message):
        USPEC(**{name: value}).fit(blobs()[0])


def test_parameters_are_checked_in_fit_alone():
    assert USPEC("some", n_jobs=0, metric=3).get_params()["n_clusters"] == "some"


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_neighbors", np.int64(4)), ("n_clusters", np.uint8(4)), ("regularization", np.float32(1e-3)), ("n_jobs", -1)],
)
def test_numbers_of_numpy_are_numbers(name, value):
    X, y = blobs()
    model = USPEC(random_state=0).set_params(n_clusters=4).set_params(**{name: value})
    assert same_partition(y, model.fit_predict(X))


# States


@pytest.mark.parametrize("method", ["predict", "transform", "cut", "get_feature_names_out"])
def test_nothing_works_before_fit(method):
    args = {"cut": [3], "get_feature_names_out": []}.get(method, [blobs()[0]])
    with raises("This USPEC instance is not fitted yet. Call 'fit'", NotFittedError):
        getattr(USPEC(), method)(*args)


@pytest.mark.parametrize(
    "bad",
    [
        np.full((50, 3), np.nan),
        np.full((50, 2), np.nan),
        np.ones((2, 3)),
        pd.DataFrame({"a": [np.nan] * 50}),
    ],
    ids=["NaN", "other features", "few rows", "frame"],
)
def test_a_fit_that_fails_leaves_the_model_before_it(bad):
    X, _ = blobs()
    model = USPEC(4, random_state=0).fit(X)
    labels = model.labels_.copy()
    with pytest.raises(ValueError, match=r"NaN|cannot form"):
        model.fit(bad)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_array_equal(model.predict(X), labels)
    assert not hasattr(model, "feature_names_in_")


def test_a_first_fit_that_fails_leaves_the_model_unfitted():
    model = USPEC(4)
    with raises("NaN"):
        model.fit(np.full((50, 3), np.nan))
    assert not [name for name in vars(model) if name.endswith("_")]
    with raises("is not fitted yet", NotFittedError):
        model.predict(np.ones((5, 3)))


def test_documents_without_words():
    """Rows of zeros are fine where distances are Euclidean."""
    X, _ = documents()
    X = scipy.sparse.vstack([X, scipy.sparse.csr_array((20, X.shape[1]))], format="csr")
    model = USPEC(4, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert len(set(model.labels_[400:])) == 1


@pytest.mark.parametrize("path", ["points.csv", Path("points.csv")])
@pytest.mark.parametrize("method", ["fit", "predict"])
def test_a_path_is_answered_with_the_way_to_open_it(model, path, method):
    with pytest.raises(TypeError, match=r"X is a path, 'points.csv'. Open the file first: .*open_rows\('points.csv'\)"):
        getattr(model, method)(path)


def test_frames_of_any_numbers():
    X = np.random.default_rng(0).integers(0, 9, size=(300, 3))
    labels = USPEC(2, random_state=0).fit_predict(X)
    frame = pd.DataFrame(X, columns=list("abc"))
    mixed = frame.astype({"b": "Int64", "c": object})
    for other in (mixed, pl.DataFrame(frame).with_columns(pl.col("a").cast(pl.Decimal(10, 2)))):
        np.testing.assert_array_equal(USPEC(2, random_state=0).fit_predict(other), labels)


def test_dates_are_refused_in_words():
    X = np.arange("2020-01-01", "2020-03-01", dtype="datetime64[D]").reshape(-1, 2)
    with pytest.raises(TypeError, match=r"X must hold numbers, got datetime64\[D\]. Convert it to numbers first"):
        USPEC(2).fit(X)


def test_masked_values_are_refused():
    X = np.ma.array(np.random.default_rng(0).normal(size=(300, 2)), mask=False)
    USPEC(2, random_state=0).fit(X)  # nothing is masked
    X[5, 1] = np.ma.masked
    with pytest.raises(ValueError, match=r"X has 1 masked values.*Fill them"):
        USPEC(2).fit(X)
