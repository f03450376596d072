"""What users of USPEC rely on."""

from __future__ import annotations

import copy
import itertools
import logging
import pickle
import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from tests.helpers.common import blobs, documents, frames, python, same_partition
from ultraspec import USPEC, datasets, metrics
from ultraspec._estimator import fitted
from ultraspec._input import open_input
from ultraspec.engines.threads import ThreadEngine

SELECTIONS = ("hybrid", "random", "kmeans")
NEIGHBORS = ("approx", "exact")
METRICS = ("euclidean", "cosine")
OPTIONS = [
    pytest.param({"selection": s, "neighbors": n, "metric": m}, id=f"{s}-{n}-{m}")
    for s, n, m in itertools.product(SELECTIONS, NEIGHBORS, METRICS)
]
# One more option than needed would only cost time: searches differ in their kernels, metrics in how rows are prepared.
GRAPHS = [pytest.param({"neighbors": n, "metric": m}, id=f"{n}-{m}") for n, m in zip(NEIGHBORS, METRICS, strict=True)]

# Every kind of input that takes its own way through the code: few and many features, sparse, types, orders.
INPUTS = {
    "float64": lambda: blobs()[0],
    "20 features": lambda: blobs(d=20)[0],
    "300 features": lambda: blobs(d=300)[0],
    "CSR": lambda: documents()[0],
    "float32": lambda: blobs()[0].astype(np.float32),
    "float16": lambda: blobs()[0].astype(np.float16),
    "longdouble": lambda: blobs()[0].astype(np.longdouble),
    "int64": lambda: np.rint(1000 * blobs()[0]).astype(np.int64),
    "uint8": lambda: np.rint(10 * blobs()[0] + 120).astype(np.uint8),
    "big-endian": lambda: blobs()[0].astype(">f8"),
    "F-order": lambda: np.asfortranarray(blobs()[0]),
    "strided": lambda: np.repeat(blobs()[0], 2, axis=1)[:, ::2],
    "1 feature": lambda: blobs()[0][:, :1],
    "9 features": lambda: blobs(d=9)[0],
    "20 features, F-order": lambda: np.asfortranarray(blobs(d=20)[0]),
    "CSR, float32": lambda: documents()[0].astype(np.float32),
}


SHAPES = ["float64", "20 features", "300 features", "CSR"]  # each with kernels of its own
# All searches of all shapes; selections, which do not depend on them, meet each shape, search and metric once or more.
SEARCHES = [
    pytest.param(shape, {"selection": SELECTIONS[(s + n + m) % 3], "neighbors": NEIGHBORS[n], "metric": METRICS[m]})
    for s, shape in enumerate(SHAPES)
    for n, m in itertools.product(range(2), range(2))
]


@pytest.fixture(params=INPUTS)
def X(request):
    return INPUTS[request.param]()


@pytest.fixture(params=INPUTS, scope="module")
def fit_of_input(request):
    """An input and a model of it, which is only read."""
    X = INPUTS[request.param]()
    return X, USPEC(4, random_state=0).fit(X)


@pytest.fixture(params=SHAPES)
def X_of_shape(request):
    return INPUTS[request.param]()


@pytest.fixture(scope="module")
def circles():
    return datasets.generate("cc", 3000, random_state=0)


@pytest.fixture(scope="module")
def model():
    """A model of four blobs, which is only read."""
    return USPEC(4, random_state=0).fit(blobs()[0])


def rows_of(X, rows):
    return X[rows] if scipy.sparse.issparse(X) else np.asarray(X)[rows]


def state(model):
    """All public results of a fit, to be compared bit for bit."""
    return model.labels_, model.eigenvalues_, model.sigma_, model.representatives_, model.n_iter_


def assert_same(a, b):
    for one, other in zip(state(a), state(b), strict=True):
        np.testing.assert_array_equal(one, other)


# Clusters


@pytest.mark.parametrize("options", OPTIONS)
def test_finds_blobs(options):
    for seed in range(2):
        X, y = blobs(seed=seed)
        assert same_partition(y, USPEC(4, random_state=seed, **options).fit_predict(X))


@pytest.mark.parametrize("options", OPTIONS)
def test_finds_topics_in_sparse_documents(options):
    X, y = documents()
    assert same_partition(y, USPEC(4, random_state=0, **options).fit_predict(X))


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("regularization", [1e-3, 0])
def test_finds_circles(circles, selection, neighbors, regularization):
    X, y = circles
    model = USPEC(3, n_representatives=300, selection=selection, neighbors=neighbors, random_state=0)
    model.set_params(regularization=regularization)
    assert metrics.nmi(y, model.fit_predict(X)) > 0.99


def test_finds_circles_in_many_rows_and_few():
    for n, least in ((120_000, 0.99), (1500, 0.95)):
        X, y = datasets.generate("cc", n, random_state=1)
        assert metrics.nmi(y, USPEC(3, random_state=1).fit_predict(X)) > least


@pytest.mark.parametrize("n_neighbors", [1, 2, 12])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_finds_blobs_with_few_and_many_neighbors(n_neighbors, neighbors):
    X, y = blobs()
    model = USPEC(4, n_representatives=40, n_neighbors=n_neighbors, neighbors=neighbors, random_state=0)
    with warnings.catch_warnings():
        if n_neighbors == 1:  # each representative is a piece of its own then
            warnings.filterwarnings("ignore", message="The graph has")
            assert len(set(model.fit_predict(X))) == 4
        else:
            assert same_partition(y, model.fit_predict(X))


@pytest.mark.filterwarnings("ignore:The graph has")
def test_one_cluster():
    model = USPEC(1, random_state=0).fit(blobs()[0])
    assert not model.labels_.any()
    assert not model.predict([[0.0, 0.0, 0.0]]).any()


def test_small_data_uses_a_third_of_its_rows():
    X, y = blobs(n=90)
    model = USPEC(4, selection="random", random_state=0).fit(X)
    assert len(model.representatives_) == 30
    assert same_partition(y, model.labels_)


def test_tiny_data_still_has_a_representative_for_each_cluster_and_neighbor():
    X, y = blobs(n=12)
    model = USPEC(4, n_neighbors=6, selection="random", random_state=0).fit(X)
    assert len(model.representatives_) == 7
    assert same_partition(y, model.labels_)


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e8])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:The graph has")
def test_an_outlier_takes_no_cluster_of_its_own(distance, seed):
    X, y = blobs(seed=seed)
    labels = USPEC(4, random_state=seed).fit_predict(np.vstack([X, np.full(3, distance)]))
    assert same_partition(y, labels[:-1])


# Labels


def test_labels_are_small_integers_from_zero(fit_of_input):
    X, model = fit_of_input
    assert model.labels_.dtype == np.int32
    assert model.labels_.shape == (X.shape[0],)
    assert model.labels_.flags.c_contiguous
    np.testing.assert_array_equal(np.unique(model.labels_), np.arange(4))


def test_predict_of_fitted_rows_equals_labels(fit_of_input):
    X, model = fit_of_input
    predicted = model.predict(X)
    assert predicted.dtype == np.int32
    np.testing.assert_array_equal(predicted, model.labels_)


@pytest.mark.parametrize(("shape", "options"), SEARCHES)
def test_predict_of_fitted_rows_equals_labels_for_all_options(shape, options):
    X = INPUTS[shape]()
    model = USPEC(7, random_state=0, **options)  # more clusters than blobs: many rows lie on borders
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))


@pytest.mark.parametrize("options", GRAPHS)
def test_predict_of_a_row_does_not_depend_on_its_company(X_of_shape, options):
    X = X_of_shape
    model = USPEC(7, random_state=0, **options).fit(X)
    shuffled = np.random.default_rng(0).permutation(X.shape[0])
    picks = [shuffled, shuffled[:7], slice(150, 280), slice(None, None, -1), *([i] for i in (0, 199, 399))]
    embedded = model.transform(X)
    for rows in picks:
        part = rows_of(X, rows)
        np.testing.assert_array_equal(model.predict(part), model.labels_[rows])
        np.testing.assert_array_equal(model.transform(part), embedded[rows])


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_predict_of_fitted_rows_equals_labels_in_overlapping_clusters(neighbors):
    """Many rows lie on borders here, and k-means runs on samples before it sees all rows."""
    X, _ = datasets.generate("cg", 130_000, random_state=0)
    model = USPEC(11, neighbors=neighbors, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    some = np.random.default_rng(0).integers(len(X), size=5000)
    np.testing.assert_array_equal(model.predict(X[some]), model.labels_[some])


def test_predict_of_fitted_rows_equals_labels_when_k_means_is_cut_short():
    X = np.random.default_rng(0).normal(size=(3000, 4))
    model = USPEC(7, max_iter=1, n_representatives=300, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_predict_of_new_rows():
    X, y = blobs(n=1200)
    model = USPEC(4, random_state=0).fit(X[:400])
    assert same_partition(y, np.concatenate([model.labels_, model.predict(X[400:])]))


def test_fit_predict_and_fit_transform_are_fit_and_then_the_other():
    X, _ = blobs()
    model = USPEC(4, random_state=0).fit(X)
    np.testing.assert_array_equal(USPEC(4, random_state=0).fit_predict(X), model.labels_)
    np.testing.assert_array_equal(USPEC(4, random_state=0).fit_transform(X), model.transform(X))


def test_fit_returns_the_estimator_and_can_be_repeated():
    X, _ = blobs()
    model = USPEC(4, random_state=0)
    assert model.fit(X) is model
    first = state(model)
    model.fit(blobs(d=5, seed=1)[0])
    model.fit(X)
    for one, other in zip(first, state(model), strict=True):
        np.testing.assert_array_equal(one, other)


def test_transform_gives_rows_of_unit_length(fit_of_input):
    X, model = fit_of_input
    embedded = model.transform(X)
    assert embedded.dtype == np.float32
    assert embedded.shape == (X.shape[0], 4)
    np.testing.assert_allclose(np.linalg.norm(embedded, axis=1), 1, atol=1e-5)


def test_embedding_separates_the_clusters(circles):
    X, _ = circles
    model = USPEC(3, random_state=0).fit(X)
    embedded = model.transform(X)
    means = np.array([embedded[model.labels_ == c].mean(axis=0) for c in range(3)])
    nearest = np.linalg.norm(embedded[:, None] - means, axis=2).argmin(axis=1)
    assert (nearest == model.labels_).mean() > 0.99


def test_fitted_attributes(circles):
    X, _ = circles
    model = USPEC(3, n_representatives=200, random_state=0).fit(X)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert model.representatives_.shape == (200, 2)
    assert model.representatives_.dtype == np.float64
    radii = np.linalg.norm(X, axis=1), np.linalg.norm(model.representatives_, axis=1)
    assert radii[1].max() <= radii[0].max()
    nearest = np.sort(np.linalg.norm(X[:, None] - model.representatives_, axis=2), axis=1)[:, :5]
    assert model.sigma_ == pytest.approx(0.7 * np.median(nearest), rel=1e-3)
    assert model.eigenvalues_[0] == pytest.approx(1)
    assert (np.diff(model.eigenvalues_) <= 1e-9).all()
    assert model.eigenvalues_.min() >= 0
    assert model.n_iter_ == 0
    assert 1 <= model.cut(3, discretize="kmeans").n_iter_ <= 100


def test_sigma_of_the_paper_is_the_mean_distance(circles):
    X, _ = circles
    model = USPEC.paper(3, n_representatives=200, random_state=0).fit(X)
    nearest = np.sort(np.linalg.norm(X[:, None] - model.representatives_, axis=2), axis=1)[:, :5]
    assert model.sigma_ == pytest.approx(nearest.mean(), rel=1e-3)
    assert 1 <= model.n_iter_ <= 100


def test_sigma_and_representatives_are_in_the_units_of_the_data():
    X, _ = blobs()
    plain, scaled = (USPEC(4, random_state=0).fit(x) for x in (X, 1024 * X))
    assert scaled.sigma_ == 1024 * plain.sigma_
    np.testing.assert_allclose(scaled.representatives_, 1024 * plain.representatives_)


def test_representatives_are_directions_under_cosine():
    model = USPEC(4, metric="cosine", random_state=0).fit(blobs()[0])
    np.testing.assert_allclose(np.linalg.norm(model.representatives_, axis=1), 1, atol=1e-6)


# Determinism


@pytest.mark.parametrize("options", GRAPHS)
def test_same_seed_gives_the_same_bits_on_any_number_of_threads(X_of_shape, options):
    X = X_of_shape
    alone = USPEC(4, random_state=3, n_jobs=1, **options).fit(X)
    for n_jobs in (2, 3, None):
        other = USPEC(4, random_state=3, n_jobs=n_jobs, **options).fit(X)
        assert_same(alone, other)
        np.testing.assert_array_equal(alone.transform(X), other.transform(X))


def test_same_seed_gives_the_same_bits_for_many_rows():
    X, _ = datasets.generate("cg", 130_000, random_state=0)
    fits = [USPEC(11, random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 3)]
    for other in fits[1:]:
        assert_same(fits[0], other)
        np.testing.assert_array_equal(fits[0].transform(X[:2000]), other.transform(X[:2000]))


def test_memory_order_and_type_do_not_change_the_result():
    X = blobs()[0].astype(np.float32)
    plain = USPEC(4, random_state=0).fit(X)
    for other in (np.asfortranarray(X), X.astype(np.float64), X.astype(np.float64)[::-1][::-1], X.astype(">f4")):
        assert_same(plain, USPEC(4, random_state=0).fit(other))


@pytest.mark.parametrize(
    "make",
    [
        lambda: 7,
        lambda: np.int64(7),
        lambda: np.uint8(7),
        lambda: np.random.RandomState(7),
        lambda: np.random.default_rng(7),
    ],
    ids=["int", "int64", "uint8", "RandomState", "Generator"],
)
def test_random_state_types(make):
    X, _ = blobs()
    one, other = (USPEC(4, random_state=make()).fit(X) for _ in range(2))
    assert_same(one, other)


@pytest.mark.parametrize("instance", [np.random.RandomState(0), np.random.default_rng(0)], ids=lambda g: str(g))
def test_random_state_instances_move_on(instance):
    X, _ = blobs()
    one, other = (USPEC(4, random_state=instance).fit(X) for _ in range(2))
    assert not np.array_equal(one.representatives_, other.representatives_)


def test_seeds_differ_and_no_seed_means_a_new_one():
    X, _ = blobs()
    for a, b in ((0, 1), (None, None)):
        one, other = (USPEC(4, random_state=seed).fit(X) for seed in (a, b))
        assert not np.array_equal(one.representatives_, other.representatives_)


@pytest.mark.filterwarnings("ignore:The graph has")
@pytest.mark.parametrize("metric", METRICS)
def test_process_wide_settings_stay_as_they_are(metric):
    X, _ = blobs()

    def settings():
        loggers = [logging.getLogger(), *map(logging.getLogger, sorted(logging.root.manager.loggerDict))]
        return (
            [np.array_equal(np.random.get_state()[1], numbers), np.random.get_state()[2:]],  # noqa: NPY002
            random.getstate(),
            list(warnings.filters),
            [(logger.name, logger.level, list(logger.handlers)) for logger in loggers],
            blas_threads(),
            np.geterr(),
        )

    USPEC(2, random_state=0).fit(X[:50])  # loads what is loaded lazily
    numbers = np.random.get_state()[1].copy()  # noqa: NPY002
    before = settings()
    model = USPEC(4, metric=metric, n_jobs=2).fit(X)
    model.predict(X)
    model.transform(X)
    model.cut(3)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((10, 2), np.nan))
    assert settings() == before


def blas_threads():
    return sorted((lib["filepath"], lib["num_threads"]) for lib in threadpool_info())


def test_fits_in_several_threads_at_once_give_the_same_as_alone(circles):
    X, _ = circles
    before = blas_threads()

    def fit(seed):
        return USPEC(3, n_representatives=200, random_state=seed).fit(X)

    alone = [fit(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(4)))
        predicted = list(pool.map(lambda model: model.predict(X), [alone[0]] * 4))
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)
    for labels in predicted:
        np.testing.assert_array_equal(labels, alone[0].labels_)
    assert blas_threads() == before


def test_blas_threads_come_back_after_overlapping_fits():
    """One fit starts first and ends first, each in a thread that lives on."""
    before = blas_threads()
    engines = ThreadEngine(1), ThreadEngine(1)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(engines[0].__enter__).result()
        other.submit(engines[1].__enter__).result()
        one.submit(engines[0].__exit__).result()
        between = blas_threads()
        other.submit(engines[1].__exit__).result()
        after = blas_threads()
    assert all(n == 1 for path, n in between if "blas" in path)
    assert after == before


def limited_to(n_threads, function, *args):
    with threadpool_limits(n_threads, user_api="blas"):
        return function(*args)


def test_other_threads_may_still_limit_blas_after_a_fit():
    USPEC(4, random_state=0).fit(blobs()[0])
    with ThreadPoolExecutor(1) as pool:
        limited = pool.submit(limited_to, 1, blas_threads).result()
    assert all(n == 1 for path, n in limited if "blas" in path)


def test_limits_of_blas_around_a_fit_change_no_bit(circles):
    """The eigenvectors of 1,000 representatives, rounded differently on one BLAS thread and on two."""
    X, _ = circles
    model = USPEC(3, random_state=0).fit(X)
    assert len(model.representatives_) == 1000
    for n_threads in (1, 2):
        assert_same(limited_to(n_threads, clone(model).fit, X), model)


# Invariance


@pytest.mark.parametrize("power", [-100, 90])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("d", [3, 20])
def test_scale_of_the_data_changes_nothing(power, neighbors, d):
    X, _ = blobs(d=d)
    plain, scaled = (USPEC(4, neighbors=neighbors, random_state=0).fit(x) for x in (X, X * 2.0**power))
    np.testing.assert_array_equal(plain.labels_, scaled.labels_)
    np.testing.assert_array_equal(plain.eigenvalues_, scaled.eigenvalues_)


@pytest.mark.parametrize("d", [3, 20])
def test_offset_of_the_data_changes_nothing(d):
    X = np.rint(blobs(d=d)[0] * 2**10) / 2**10  # sums with 1e8 are exact then
    plain = USPEC(4, random_state=0).fit(X)
    for offset in (1e8, -3e6, 1e8 * np.arange(d)):
        moved = USPEC(4, random_state=0).fit(X + offset)
        np.testing.assert_array_equal(plain.labels_, moved.labels_)
        np.testing.assert_array_equal(plain.eigenvalues_, moved.eigenvalues_)


@pytest.mark.parametrize("options", GRAPHS)
@pytest.mark.parametrize("d", [5, 30])
def test_order_of_columns_does_not_matter(options, d):
    X, y = blobs(d=d)
    order = np.random.default_rng(0).permutation(d)
    assert same_partition(y, USPEC(4, random_state=0, **options).fit_predict(X[:, order]))


@pytest.mark.parametrize("n_constant", [1, 20])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_constant_columns_change_nothing(n_constant, neighbors):
    X, y = blobs()
    X = np.hstack([X, np.full((len(X), n_constant), 1e5)])
    model = USPEC(4, neighbors=neighbors, random_state=0).fit(X)
    assert same_partition(y, model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("options", GRAPHS)
def test_equal_rows_get_equal_labels(options):
    X = np.random.default_rng(0).normal(size=(400, 3))
    copies = np.random.default_rng(1).integers(400, size=3000)
    labels = USPEC(6, random_state=0, **options).fit_predict(X[copies])
    for row in range(400):
        assert len(set(labels[copies == row])) <= 1


# Choosing the number of clusters


@pytest.mark.parametrize(("k", "d"), [(3, 3), (4, 20), (5, 3), (6, 20)])
def test_auto_finds_the_number_of_blobs(k, d):
    X, y = blobs(k=k, d=d, seed=k)
    model = USPEC("auto", random_state=k).fit(X)
    assert same_partition(y, model.labels_)
    assert model.transform(X[:5]).shape == (5, k)
    assert model.n_clusters == "auto"
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_auto_finds_the_number_of_circles():
    for seed in range(3):
        X, y = datasets.generate("cc", 5000, random_state=seed)
        assert metrics.nmi(y, USPEC("auto", random_state=seed).fit_predict(X)) > 0.99


@pytest.mark.parametrize("k", [1, 3, 9, 30])
@pytest.mark.filterwarnings("ignore:The graph has")
def test_cut_equals_a_fit_with_that_number_of_clusters(X_of_shape, k):
    X = X_of_shape
    model = USPEC.paper(4, regularization=1e-3, random_state=0).fit(X)
    fresh = USPEC.paper(k, regularization=1e-3, random_state=0).fit(X)
    cut = model.cut(k)
    assert_same(cut, fresh)
    assert cut.get_params() == fresh.get_params()
    np.testing.assert_array_equal(cut.predict(X), fresh.labels_)
    np.testing.assert_array_equal(cut.transform(X), fresh.transform(X))
    np.testing.assert_array_equal(cut.get_feature_names_out(), fresh.get_feature_names_out())
    assert_same(model.cut(k, X), fresh)


def test_cut_leaves_the_model_as_it_is(model):
    X, _ = blobs()
    before, embedded = copy.deepcopy(state(model)), model.transform(X)
    model.cut(7)
    for one, other in zip(before, state(model), strict=True):
        np.testing.assert_array_equal(one, other)
    assert model.n_clusters == 4
    np.testing.assert_array_equal(model.transform(X), embedded)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_cuts_can_be_chained(model):
    assert_same(model.cut(2).cut(9).cut(4), model)
    assert_same(model.cut(9).cut(3), model.cut(3))


@pytest.mark.filterwarnings("ignore:The graph has")
def test_cut_from_auto():
    X, _ = blobs(k=5)
    model = USPEC("auto", random_state=0).fit(X)
    assert_same(model.cut(3), USPEC(3, random_state=0).fit(X))


def test_cut_of_a_model_with_many_clusters():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    model = USPEC(70, random_state=0).fit(X)
    assert len(np.unique(model.cut(65).labels_)) == 65


def test_cut_after_pickling_needs_the_rows(model):
    X, _ = blobs()
    other = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match=r"does not hold its rows: it came from a file.*cut\(n_clusters, X\)"):
        other.cut(3)
    assert_same(other.cut(3, X), model.cut(3))
    assert_same(other.cut(3, X).cut(6), model.cut(6))


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "n_clusters must be an integer >= 1, got 0"),
        (-2, ValueError, "n_clusters must be an integer >= 1, got -2"),
        (400, ValueError, r"has \d+ leaves of its trees, too few for n_clusters=400\. Fit again with n_clusters=400\."),
        (2.0, TypeError, "n_clusters must be an integer >= 1, got 2.0"),
        ("auto", TypeError, "n_clusters must be an integer >= 1, got 'auto'"),
        (True, TypeError, "n_clusters must be an integer >= 1, got True"),
    ],
)
def test_cut_refuses_other_numbers(model, k, error, message):
    with pytest.raises(error, match=message):
        model.cut(k)


def test_cut_by_kmeans_needs_eigenvectors(model):
    assert model.cut(60, discretize="kmeans").n_clusters_ == 60
    with pytest.raises(ValueError, match=r"has 60 eigenvectors, .* n_clusters=61\. Fit again with n_clusters=61\."):
        model.cut(61, discretize="kmeans")


def test_cut_refuses_other_rows(model):
    X, _ = blobs()
    with pytest.raises(ValueError, match=r"X has 10 rows, but 400 rows were fitted. Pass the same rows"):
        model.cut(3, X[:10])
    with pytest.raises(ValueError, match="X has 2 features, but USPEC is expecting 3 features"):
        model.cut(3, X[:, :2])
    with pytest.raises(ValueError, match="NaN in column 1, row 300"):
        model.cut(3, np.where(np.arange(1200).reshape(400, 3) == 901, np.nan, X))


# Storing, copying, composing


@pytest.mark.parametrize("options", GRAPHS)
def test_pickled_models_give_the_same(X_of_shape, options):
    X = X_of_shape
    model = USPEC(4, random_state=0, **options).fit(X)
    embedded = model.transform(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_same(model, other)
        np.testing.assert_array_equal(other.predict(X), model.labels_)
        np.testing.assert_array_equal(other.transform(X), embedded)


def test_a_pickled_model_is_small():
    X, _ = datasets.generate("cc", 120_000, random_state=0)
    for make, most in ((USPEC.paper, 1_000_000), (USPEC, 2_500_000)):  # with trees and judges by default
        model = make(3, random_state=0).fit(X)
        model.predict(X[:10])
        assert len(pickle.dumps(model)) < most + model.labels_.nbytes


@pytest.mark.parametrize("options", GRAPHS)
def test_a_model_mapped_from_a_file_gives_the_same(tmp_path, X_of_shape, options):
    X = X_of_shape
    model = USPEC(4, random_state=0, **options).fit(X)
    joblib.dump(model, tmp_path / "model.joblib")
    other = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert isinstance(other.labels_, np.memmap)
    np.testing.assert_array_equal(other.predict(X), model.labels_)
    np.testing.assert_array_equal(other.transform(X), model.transform(X))
    np.testing.assert_array_equal(other.cut(3, X).labels_, model.cut(3).labels_)


def test_clone_keeps_parameters_and_nothing_else(model):
    other = clone(model)
    assert other.get_params() == model.get_params()
    assert not hasattr(other, "labels_")
    assert_same(other.fit(blobs()[0]), model)


def test_in_a_pipeline():
    X, y = blobs()
    pipeline = make_pipeline(StandardScaler(), USPEC(4, random_state=0))
    assert same_partition(y, pipeline.fit_predict(X * [1, 100, 1e4]))
    np.testing.assert_array_equal(pipeline.predict(X * [1, 100, 1e4]), pipeline[-1].labels_)
    assert pipeline.transform(X).shape == (len(X), 4)
    assert_same(pickle.loads(pickle.dumps(pipeline))[-1], pipeline[-1])


# Frames


@pytest.fixture(params=frames())
def frame(request):
    """A function that makes a frame of columns a, b, c."""
    return lambda X: request.param(dict(zip("abc", np.asarray(X).T, strict=False)))


def test_frames_give_the_same_as_arrays_and_keep_names(frame, model):
    X, _ = blobs()
    other = USPEC(4, random_state=0).fit(frame(X))
    assert_same(other, model)
    assert other.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(other.predict(frame(X)), model.labels_)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(other.predict(X), model.labels_)
    np.testing.assert_array_equal(other.cut(3, frame(X)).labels_, model.cut(3).labels_)


@pytest.mark.parametrize("method", ["predict", "transform"])
def test_frames_with_other_columns_are_refused(frame, method):
    X = frame(blobs()[0])
    call = getattr(USPEC(4, random_state=0).fit(X), method)
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*unseen at fit time:\n- z"):
        call(X.rename(columns={"b": "z"}) if isinstance(X, pd.DataFrame) else X.rename({"b": "z"}))
    with pytest.raises(ValueError, match=r"(?s)feature names.*same order"):
        call(X[["b", "a", "c"]])
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*missing:\n- c"):
        call(X[["a", "b"]])


def test_frames_of_mixed_types():
    X, y = blobs()
    mixed = pd.DataFrame({"a": X[:, 0].astype(np.float32), "b": np.rint(100 * X[:, 1]).astype(int) / 100, "c": X[:, 2]})
    mixed["d"] = pd.array(np.full(len(X), 3), dtype="Int64")
    mixed["e"] = y == 1
    assert same_partition(y, USPEC(4, random_state=0).fit_predict(mixed))


def test_set_output(frame):
    X = frame(blobs()[0])
    model = USPEC(4, random_state=0).fit(X)
    plain = model.transform(X)
    names = ["uspec0", "uspec1", "uspec2", "uspec3"]
    assert model.get_feature_names_out().tolist() == names
    for kind, container in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        out = model.set_output(transform=kind).transform(X)
        assert isinstance(out, container)
        assert list(out.columns) == names
        np.testing.assert_array_equal(out.to_numpy(), plain)


def test_set_output_keeps_the_index():
    X = pd.DataFrame(blobs()[0], columns=list("abc"), index=[f"row {i}" for i in range(400)])
    out = USPEC(4, random_state=0).set_output(transform="pandas").fit_transform(X)
    assert out.index.equals(X.index)
    assert (out.dtypes == np.float32).all()


# Arrays in files, read-only arrays, sparse matrices


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_memory_maps_are_read_as_they_are(tmp_path, dtype):
    X = np.rint(100 * blobs()[0]).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = USPEC(4, random_state=0).fit(mapped)
    assert_same(model, USPEC(4, random_state=0).fit(X))
    np.testing.assert_array_equal(model.predict(mapped), model.labels_)
    assert np.shares_memory(open_input(USPEC(), mapped, reset=True).read(0, 400), mapped)


def test_arrays_are_neither_written_to_nor_copied(X):
    before = X.copy()
    parts = [X.data, X.indices, X.indptr] if scipy.sparse.issparse(X) else [X]
    for part in parts:
        part.flags.writeable = False
    model = USPEC(4, random_state=0).fit(X)
    model.predict(X)
    model.transform(X)
    assert (abs(X - before)).max() == 0
    if not scipy.sparse.issparse(X):
        assert np.shares_memory(open_input(USPEC(), X, reset=True).read(0, 300), X)


def with_duplicates(X):
    """The same matrix with every entry split in two, the rows' entries in reverse order."""
    half = scipy.sparse.csr_array(
        (np.repeat(X.data / 2, 2)[::-1], np.repeat(X.indices, 2)[::-1], 2 * (X.indptr[-1] - X.indptr[::-1])),
        shape=X.shape,
    )
    return half[::-1]


def with_long_indices(X):
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_zeros(X):
    """The same matrix with every tenth column stored in full."""
    dense = X.toarray()
    stored = (dense != 0) | (np.arange(X.shape[1]) % 10 == 0)
    rows, columns = np.nonzero(stored)
    return scipy.sparse.csr_array((dense[rows, columns], (rows, columns)), shape=X.shape)


@pytest.mark.parametrize(
    "convert",
    [
        scipy.sparse.csr_matrix,
        scipy.sparse.csc_array,
        scipy.sparse.csc_matrix,
        scipy.sparse.coo_array,
        scipy.sparse.lil_array,
        with_long_indices,
        with_duplicates,
        with_zeros,
    ],
    ids=lambda f: f.__name__,
)
def test_sparse_formats_give_the_same(convert):
    X, _ = documents()
    other = convert(X)
    assert abs(other - X).max() < 1e-15
    model = USPEC(4, metric="cosine", random_state=0).fit(other)
    np.testing.assert_array_equal(model.labels_, USPEC(4, metric="cosine", random_state=0).fit(X).labels_)
    np.testing.assert_array_equal(model.predict(other), model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    if convert is with_duplicates:
        assert other.nnz == 2 * X.nnz, "the user's matrix was changed"


@pytest.mark.parametrize("options", GRAPHS)
def test_sparse_and_dense_give_the_same_clusters(options):
    X, _ = documents()
    sparse, dense = (USPEC(4, random_state=0, **options).fit(x) for x in (X, X.toarray()))
    assert same_partition(sparse.labels_, dense.labels_)
    assert sparse.sigma_ == pytest.approx(dense.sigma_, rel=0.05)


@pytest.mark.parametrize(
    ("metric", "offset"),
    list(itertools.product(METRICS, [0, 50])),
)
def test_predict_takes_sparse_and_dense_whatever_was_fitted(metric, offset):
    X, _ = blobs(d=5)
    X = X + offset * np.arange(5)
    sparse = scipy.sparse.csr_array(X)
    for trained in (X, sparse):
        model = USPEC(4, metric=metric, random_state=0).fit(trained)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        np.testing.assert_array_equal(model.predict(sparse), model.labels_)


def test_sparse_rows_stay_sparse():
    """10,000 x 30,000: 1.2 GB as dense float32, 4 MB as CSR."""
    peak = python("""
        import json, resource, sys
        sys.path.insert(0, "tests")
        from tests.helpers.common import documents
        from ultraspec import USPEC

        X, _ = documents(n=10_000, k=5, d=30_000)
        model = USPEC(5, metric="cosine", n_representatives=100, random_state=0)
        model.fit(X[:500])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert (model.fit(X).predict(X) == model.labels_).all()
        print(json.dumps((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024))
    """)
    assert peak < 600e6


class TestCutAtNodes:
    @pytest.fixture(scope="class")
    def model(self):
        X, _ = datasets.generate("cg", 3000, random_state=0)
        return USPEC(4, n_representatives=200, random_state=0).fit(X), X

    def test_horizontal_cuts_are_those_of_the_tree(self, model):
        model, _ = model
        for name, tree in fitted(model).model.choice.own.hierarchy.trees.items():
            for k in (2, 5, 9):
                cut = model.cut(nodes=tree.roots(k).tolist(), discretize=name)
                assert np.array_equal(cut.labels_, model.cut(k, discretize=name).labels_)
                assert cut.n_clusters_ == cut.n_clusters == k

    def test_one_branch_is_split_alone(self, model):
        model, X = model
        tree = fitted(model).model.choice.own.hierarchy.trees["border"]
        nodes = tree.roots(5).tolist()
        largest = max(nodes)
        split = [node for node in nodes if node != largest] + tree.merges[largest - tree.n_leaves].tolist()
        before, after = (model.cut(nodes=each, discretize="border") for each in (nodes, split))
        assert after.n_clusters_ == 6
        assert np.array_equal(after.predict(X), after.labels_)
        assert (np.diff(np.bincount(after.labels_)) <= 0).all()
        shared = metrics.contingency(before.labels_, after.labels_)
        assert (shared.counts > 0.9 * shared.cluster_sizes[shared.clusters]).sum() == 6

    def test_what_is_missing_is_said(self, model):
        model, X = model
        with pytest.raises(ValueError, match="Pass either n_clusters or nodes"):
            model.cut()
        with pytest.raises(ValueError, match="Pass either n_clusters or nodes"):
            model.cut(3, nodes=[1])
        with pytest.raises(ValueError, match=r"discretize='auto' is none\. Pass discretize='agreement' or"):
            model.cut(nodes=[1])
        with pytest.raises(ValueError, match="below none of them"):
            model.cut(nodes=[1], discretize="border")
        with pytest.raises(ValueError, match="has no trees"):
            USPEC.paper(3, random_state=0).fit(X[:300]).cut(nodes=[1], discretize="border")
