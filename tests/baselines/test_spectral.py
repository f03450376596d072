"""What all spectral baselines share: the scikit-learn interface, bad input, determinism, files, degenerate data."""

from __future__ import annotations

import inspect
import re
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.helpers.cases import KINDS, points
from tests.helpers.common import blobs, documents, python, same_partition
from ultraspec import baselines, open_rows
from ultraspec.baselines import _memory_limit
from ultraspec.baselines._memory_limit import check_memory

SPECTRAL = ("KMeansLite", "SC", "ESCG", "Nystrom", "LSC", "FastESC", "EulerSC")
# small enough for small data
SMALL = {"Nystrom": {"n_landmarks": 60}, "LSC": {"n_landmarks": 60}, "FastESC": {"n_frequencies": 20}}

pytestmark = pytest.mark.filterwarnings("ignore:The graph of nearest neighbours has", "ignore:Found .* instead of")


def make(name, k=3, **options):
    return getattr(baselines, name)(k, **{"random_state": 0, **SMALL.get(name, {}), **options})


@parametrize_with_checks([*map(make, SPECTRAL), make("LSC", selection="random"), make("SC", assign_labels="kmeans")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=SPECTRAL)
def name(request):
    return request.param


def test_blobs_are_found(name):
    X, y = blobs()
    # k-means needs several starts; LSC's first eigenvector is needed where the graph is not connected
    options = {"KMeansLite": {"n_init": 10}, "EulerSC": {"n_init": 10}, "LSC": {"drop_first": False}}
    assert same_partition(make(name, 4, **options.get(name, {})).fit(X).labels_, y)


def test_interface(name):
    model = make(name).fit(blobs()[0])
    assert is_clusterer(model)
    assert get_tags(model).input_tags.sparse
    assert get_tags(model).transformer_tags is None
    assert model.labels_.dtype == np.int32
    assert (model.fit_predict(blobs()[0]) == model.labels_).all()
    assert clone(model).get_params() == model.get_params()
    for missing in ("predict", "transform", "fit_transform", "get_feature_names_out"):
        assert not hasattr(model, missing)


def test_everything_is_documented(name):
    kind = getattr(baselines, name)
    parameters = inspect.signature(kind).parameters
    assert kind().get_params() == {key: parameter.default for key, parameter in parameters.items()}
    documented = re.findall(r"^(\w+) : ", inspect.getdoc(kind), flags=re.MULTILINE)
    assert [key for key in documented if not key.endswith("_")] == list(parameters)
    public = {key for key in vars(make(name).fit(blobs()[0])) if key.endswith("_")}
    assert public <= {*documented, "feature_names_in_"}
    assert {"References", "Examples", "Notes"} <= set(
        re.findall(r"^(\w+)\n-+$", inspect.getdoc(kind), flags=re.MULTILINE)
    )


@pytest.mark.parametrize("d", [3, 20])
def test_same_labels_for_any_number_of_threads(name, d):
    X = np.random.default_rng(0).normal(size=(1200, d))
    one = make(name, 5, n_jobs=1).fit(X)
    assert (make(name, 5, n_jobs=3).fit(X).labels_ == one.labels_).all()
    assert (make(name, 5, n_jobs=1, random_state=np.random.default_rng(0)).fit(X).labels_ != one.labels_).any()


def test_units_and_origin_of_the_data_do_not_matter(name):
    X = np.random.default_rng(0).normal(size=(600, 4))
    options = {"bandwidth": "distance"} if name == "LSC" else {}
    labels = make(name, **options).fit(X).labels_
    assert same_partition(make(name, **options).fit(X * 2.0**70 + 2.0**72).labels_, labels)


def test_files_give_the_labels_of_arrays(name, tmp_path):
    X = np.random.default_rng(0).normal(size=(1500, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    with open_rows(tmp_path / "X.npy") as rows:
        assert (make(name).fit(rows).labels_ == make(name).fit(X).labels_).all()


def test_sparse_rows(name):
    X, y = documents()
    X.data /= np.repeat(np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()), np.diff(X.indptr))
    options = {"SC": {"n_neighbors": 20}, "ESCG": {"n_neighbors": 20}, "LSC": {"n_landmarks": 200}}.get(name, {})
    model = make(name, 4, **options)
    if name not in ("Nystrom", "FastESC", "EulerSC"):
        assert same_partition(model.fit(X).labels_, model.fit(X.toarray()).labels_) or name in ("LSC", "ESCG")
    assert len(set(model.fit(X).labels_)) == 4
    assert same_partition(make("SC", 4, n_neighbors=20, assign_labels="kmeans").fit(X).labels_, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_refused_with_their_place(name, value):
    X = blobs()[0]
    X[277, 2] = value
    with pytest.raises(ValueError, match=r"X contains .* in column 2, row 277\..* Drop or impute"):
        make(name).fit(X)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": 0}, ValueError, "n_clusters must be an integer >= 1"),
        ({"k": 2.5}, TypeError, "n_clusters must be an integer >= 1"),
        ({"k": "auto"}, TypeError, "n_clusters must be an integer"),
        ({"k": 2000}, ValueError, "n_samples=400 rows cannot form n_clusters=2000 clusters"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be a non-zero integer"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"random_state": -1}, ValueError, "random_state must be a non-negative integer"),
    ],
)
def test_bad_parameters(name, options, error, message):
    if options.get("k") == 2000 and name == "ESCG":
        options = {**options, "n_supernodes": 4000}
    with pytest.raises(error, match=re.escape(message)):
        make(name, **options).fit(blobs()[0])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("SC", {"assign_labels": "qr"}, "assign_labels must be one of 'orthogonal', 'kmeans', got 'qr'."),
        ("SC", {"n_neighbors": 0}, "n_neighbors must be an integer >= 1"),
        ("ESCG", {"n_supernodes": 2}, "n_supernodes=2 is less than n_clusters=3"),
        ("Nystrom", {"sigma": 0.0}, "sigma must be a finite number > 0"),
        ("Nystrom", {"rcond": -1.0}, "rcond must be a finite number >= 0"),
        ("Nystrom", {"n_landmarks": 0}, "n_landmarks must be an integer >= 1"),
        ("LSC", {"selection": "hybrid"}, "selection must be one of 'kmeans', 'random'"),
        ("LSC", {"bandwidth": 1.0}, "bandwidth must be one of 'code', 'distance'"),
        ("LSC", {"n_landmarks": 70_000}, "n_landmarks must be an integer >= 1 and <= 65,535"),
        ("FastESC", {"n_frequencies": 0}, "n_frequencies must be an integer >= 1"),
        ("FastESC", {"sigma": 0}, "sigma must be a finite number > 0"),
        ("EulerSC", {"alpha": 0}, "alpha must be a finite number > 0"),
        ("EulerSC", {"scaling": "unit"}, "scaling must be one of 'global', 'columns', 'none'"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(name, **options).fit(blobs()[0])


def test_a_failed_fit_leaves_the_estimator_as_it_was(name):
    X = blobs()[0]
    model = make(name).fit(X)
    before = dict(vars(model))
    broken = np.column_stack([X, np.full(len(X), np.nan)])
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(broken)
    assert vars(model) == before


def test_a_log_gets_one_line_per_phase(name, capsys):
    model = make(name, verbose=1).fit(blobs()[0])
    out, err = capsys.readouterr()
    assert out == ""
    assert re.findall(rf"^{name}  ([\w-]+) ", err, flags=re.MULTILINE) == list(model.fit_profile_)
    assert next(iter(model.fit_profile_)) == "survey"


@pytest.mark.parametrize(
    "name", ["KMeansLite", "LSC", "EulerSC"]
)  # in others copies differ: by neighbours, by rounding
def test_fewer_distinct_rows_than_clusters(name):
    X = np.repeat(np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]]), 50, axis=0)
    with pytest.warns(ConvergenceWarning, match="Found 3 clusters instead of 5"):
        model = make(name, 5).fit(X)
    assert model.n_clusters_ == 3
    assert set(model.labels_) == set(range(model.n_clusters_))


@pytest.mark.parametrize("name", SPECTRAL)
@settings(max_examples=15)
@given(
    kind=st.sampled_from([*KINDS, "equal"]),
    n=st.integers(1, 60),
    d=st.integers(1, 12),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_any_shape(name, kind, n, d, seed, data):
    k = data.draw(st.integers(1, n))
    X = np.ones((n, d)) if kind == "equal" else points(kind, n, d, np.random.default_rng(seed))
    if data.draw(st.booleans()):
        X = scipy.sparse.csr_array(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = make(name, k, random_state=seed, n_jobs=1).fit(X)
    assert model.labels_.shape == (n,)
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert 1 <= model.n_clusters_ <= k


def test_nothing_heavy_is_imported_with_the_names():
    found = python(
        """
        import json, sys
        import ultraspec.baselines
        light = "sklearn" not in sys.modules and "numba" not in sys.modules
        from ultraspec.baselines.ecc import ECC  # loads the module kcc, too
        print(json.dumps([light, callable(ultraspec.baselines.kcc), callable(ultraspec.baselines.ecc)]))
        """
    )
    assert found == [True, True, True]
    with pytest.raises(AttributeError, match="no attribute 'SPEC'"):
        _ = baselines.SPEC


# Memory limit


def test_memory_is_refused_before_it_is_allocated(monkeypatch):
    X = blobs()[0]
    monkeypatch.setattr(_memory_limit, "available_bytes", lambda: 2 * 4 * X.size - 2)
    for name in ("SC", "ESCG"):
        with pytest.raises(MemoryError, match=rf"{name} needs 0\.0 GB for the 400 x 3 rows.*USPEC, or pass fewer rows"):
            make(name).fit(X)
    monkeypatch.setattr(_memory_limit, "available_bytes", lambda: 2 * 4 * X.size)
    make("SC").fit(X)


def test_memory_limit_of_pairs(monkeypatch):
    check_memory("EAC", "pairs", 10, 10, "Use U-SENC.")
    with pytest.raises(MemoryError, match=r"EAC needs 1\.5 GB for pairs, and its limit is 1\.0 GB\. Use U-SENC\."):
        check_memory("EAC", "pairs", 1_500_000_000, 10**9, "Use U-SENC.")
    monkeypatch.setattr(_memory_limit, "available_bytes", lambda: 2 * 10**9)
    with pytest.raises(MemoryError, match=r"half of the memory available now\) is 1\.0 GB"):
        check_memory("EAC", "pairs", 1_500_000_000, None, "Use U-SENC.")
    monkeypatch.setattr(_memory_limit, "available_bytes", lambda: None)
    check_memory("EAC", "pairs", 10**15, None, "Use U-SENC.")


def test_available_memory_is_plausible():
    free = _memory_limit.available_bytes()
    assert free is None or 10**6 < free < 10**15
