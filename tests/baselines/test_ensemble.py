"""What all ensemble baselines share: the scikit-learn interface, label matrices of any kind, bad input, determinism."""

from __future__ import annotations

import inspect
import io
import re
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.helpers.common import blobs, documents, python, same_partition
from tests.helpers.ensembles import clusterings_of
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec import baselines, open_rows
from ultraspec.baselines import _kmeans_members
from ultraspec.baselines._base_clusterings import BaseClusterings
from ultraspec.baselines._kmeans_members import limit_base_clusters

ENSEMBLE = ("EAC", "WCT", "KCC", "PTGP", "ECC", "SEC", "LWGP")
FUNCTIONS = tuple(name.lower() for name in ENSEMBLE)

pytestmark = pytest.mark.filterwarnings("ignore:Found .* instead of")


def make(name, k=3, **options):
    return getattr(baselines, name)(k, **{"random_state": 0, "n_estimators": 6, **options})


@parametrize_with_checks([make(name, n_estimators=3) for name in ENSEMBLE])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=ENSEMBLE)
def name(request):
    return request.param


@pytest.fixture
def function(name):
    return getattr(baselines, name.lower())


# Estimators


def test_blobs_are_found(name):
    X, y = blobs()
    # k-means on base clusters needs several starts, and members that are hardly finer than the clusters
    options = {"n_init": 30, "base_clusters": (4, 6)} if name in ("KCC", "ECC", "SEC") else {}
    assert same_partition(make(name, 4, n_estimators=20, **options).fit(X).labels_, y)


def test_interface(name):
    X = blobs()[0]
    model = make(name).fit(X)
    assert is_clusterer(model)
    assert get_tags(model).input_tags.sparse
    assert get_tags(model).transformer_tags is None
    assert model.labels_.dtype == np.int32
    assert model.n_clusters_ == 3
    assert model.base_labels_.shape == (400, 6)
    assert (model.fit_predict(X) == model.labels_).all()
    assert clone(model).get_params() == model.get_params()
    assert list(model.fit_profile_) == ["survey", "members", "consensus"]
    assert not hasattr(model, "predict")


def test_everything_is_documented(name, function):
    kind = getattr(baselines, name)
    parameters = inspect.signature(kind).parameters
    assert kind().get_params() == {key: parameter.default for key, parameter in parameters.items()}
    documented = re.findall(r"^(\w+) : ", inspect.getdoc(kind).split("See Also")[0], flags=re.MULTILINE)
    assert [key for key in documented if not key.endswith("_")] == list(parameters)
    public = {key for key in vars(make(name).fit(blobs()[0])) if key.endswith("_")}
    assert public <= {*documented, "feature_names_in_"}
    assert {"References", "Examples", "Notes"} <= set(
        re.findall(r"^(\w+)\n-+$", inspect.getdoc(kind), flags=re.MULTILINE)
    )
    documented = re.findall(r"^(\w+) : ", inspect.getdoc(function).split("Returns")[0], flags=re.MULTILINE)
    assert documented == list(inspect.signature(function).parameters)
    own = set(inspect.signature(function).parameters) - {"base_labels"}
    assert own <= set(parameters)
    for key in own - {"n_clusters"}:
        assert inspect.signature(function).parameters[key].default == parameters[key].default


@pytest.mark.parametrize("parallel", [True, False])
def test_same_labels_for_any_number_of_threads(name, parallel, monkeypatch):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    one = make(name, 5, n_jobs=1).fit(X)
    if not parallel:
        monkeypatch.setattr(_kmeans_members, "PARALLEL_BYTES", 0)
    three = make(name, 5, n_jobs=3).fit(X)
    assert (three.base_labels_ == one.base_labels_).all()
    assert (three.labels_ == one.labels_).all()
    assert (make(name, 5, random_state=1).fit(X).base_labels_ != one.base_labels_).any()


def test_members_are_kmeans_with_different_numbers_of_clusters():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    labels = make("LWGP", n_estimators=30).fit(X).base_labels_
    counts = [len(set(column)) for column in labels.T]
    assert 20 <= min(counts) < max(counts) <= 60
    assert len(set(counts)) > 10
    for column in labels.T[:3]:  # k-means has settled, or nearly: rows are in the cluster of the nearest mean
        means = np.stack([X[column == c].mean(axis=0) for c in range(column.max() + 1)])
        nearest = ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        assert (nearest == column).mean() > 0.99


@given(n=st.integers(1, 10_000), k=st.integers(1, 80), low=st.integers(1, 60), more=st.integers(0, 200))
def test_range_of_clusters(n, k, low, more):
    """Never beyond the rows, in order, and as asked where rows are many."""
    found = limit_base_clusters((low, low + more), n, k)
    assert 1 <= found[0] <= found[1] <= n
    if n >= (low + more) ** 2:
        assert found == (low, low + more)


def test_a_range_of_the_user_is_reduced_with_a_warning():
    with pytest.warns(
        UserWarning, match=r"base_clusters was reduced from \(50, 100\) to \(5, 10\) because X has only 100 rows"
    ):
        make("KCC", base_clusters=(50, 100)).fit(np.random.default_rng(0).normal(size=(100, 2)))


def test_files_give_the_labels_of_arrays(name, tmp_path):
    X = np.random.default_rng(0).normal(size=(1500, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    with open_rows(tmp_path / "X.npy") as rows:
        assert (make(name).fit(rows).labels_ == make(name).fit(X).labels_).all()


def test_labels_of_data_from_files_may_be_on_disk(name, tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(1500, 3)).astype(np.float32)
    usual = make(name).fit(X)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("ultraspec.rows.results.MOST_MEMORY_BYTES", 0)
    with open_rows(tmp_path / "X.npy") as rows:
        model = make(name).fit(rows)
    assert isinstance(model.base_labels_, np.memmap)
    assert (model.base_labels_ == usual.base_labels_).all()
    assert (model.labels_ == usual.labels_).all()


def test_sparse_rows_and_frames(name):
    X, _ = documents(n=400)
    assert same_partition(make(name).fit(X).labels_, make(name).fit(X.toarray()).labels_)
    frame = pd.DataFrame(blobs()[0], columns=["a", "b", "c"])
    model = make(name).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (model.labels_ == make(name).fit(blobs()[0]).labels_).all()


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
        ({"n_estimators": 0}, ValueError, "n_estimators must be an integer >= 1"),
        ({"base_max_iter": 0}, ValueError, "base_max_iter must be"),
        ({"base_clusters": 30}, TypeError, "base_clusters must be a pair (fewest, most), got 30 (int). Pass (30, 30)"),
        ({"base_clusters": (30, 20)}, ValueError, "(fewest, most), got (30, 20). The smaller number comes first"),
        ({"base_clusters": (30, 0)}, ValueError, "base_clusters[1] must be an integer >= 1"),
        ({"random_state": -1}, ValueError, "random_state must be a non-negative integer"),
    ],
)
def test_bad_parameters(name, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make(name, **options).fit(blobs()[0])


def test_a_fit_that_fails_leaves_the_estimator_as_it_was():
    model = make("EAC").fit(blobs()[0])
    before = dict(vars(model))
    with pytest.raises(MemoryError):
        model.set_params(max_pairs_bytes=1).fit(np.zeros((20, 7)) + np.arange(20)[:, None])
    assert {**vars(model), "max_pairs_bytes": None} == before


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_and_constant_data(name, n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert len(set(make(name, 1).fit(X).labels_)) == 1
        assert set(make(name, n).fit(X).labels_) <= set(range(n))
    with pytest.warns(ConvergenceWarning, match="Found 1 clusters instead of 3"):
        assert (make(name, 3).fit(np.ones((10, 2))).labels_ == 0).all()


def test_progress_is_shown(name, monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    make(name, verbose=1).fit(blobs()[0])
    phases = [line.split()[:2] for line in log.getvalue().splitlines()]
    assert [name, "members"] in phases
    assert phases[-1] == [name, "consensus"]


# Functions of label matrices


@settings(max_examples=50)
@given(labels=label_matrices(), k=st.integers(1, 6), which=st.sampled_from(FUNCTIONS), seed=st.integers(0, 9))
def test_any_label_matrix(labels, k, which, seed):
    """Clusters are unions of groups of rows with equal labels, as many as asked for where there are so many groups."""
    known = (labels >= 0).any(axis=1)
    groups = len(np.unique(labels[known], axis=0))
    n_columns = sum(len(set(column) - {-1}) for column in labels.T)
    function = getattr(baselines, which)
    if k > len(labels) or (k > n_columns and groups > k and which in ("ptgp", "lwgp")):
        with pytest.raises(ValueError, match="n_clusters="):
            function(labels, k, random_state=seed)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = function(labels, k, random_state=seed)
        again = function(labels, k, random_state=seed, n_jobs=3)
    assert found.dtype == np.int32
    assert (found == again).all()
    assert ((found == -1) == ~known).all()
    used = sorted(set(found[known]))
    assert used == list(range(len(used)))
    assert len(used) <= k
    if which in ("eac", "wct"):
        assert len(used) == min(k, groups)
    kinds = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    assert all(len(set(found[kinds == kind])) == 1 for kind in set(kinds))


def test_labels_of_any_kind(function):
    truth, labels = planted(k=3, n=200, m=6, noise=0.05)
    ours = function(labels, 3, random_state=0)
    words = np.array([f"c{x}" for x in labels.ravel()]).reshape(labels.shape)
    names = [f"run {j}" for j in range(labels.shape[1])]
    for same in (
        labels.astype(np.int8),
        labels.astype(np.uint64) + 2**63,
        np.asfortranarray(labels),
        labels.astype(float),
        labels.tolist(),
        words,
        pd.DataFrame(words, columns=names),
        pl.DataFrame(labels, schema=names),
    ):
        assert same_partition(function(same, 3, random_state=0), ours)
    assert len(truth) == len(ours)


def test_missing_labels(function):
    labels = [
        ["a", 1, None],
        ["a", 1, 0],
        ["a", None, 0],
        ["b", 2, 3],
        ["b", 2, np.nan],
        [None, 2, 3],
        [None, -1, None],
    ]
    with pytest.warns(UserWarning, match="1 rows have no label in any base clustering; they get -1"):
        found = function(labels, 2, random_state=0)
    assert found[6] == -1
    assert same_partition(found[:6], [0, 0, 0, 1, 1, 1])


def test_a_clustering_without_labels_changes_nothing(function):
    _, labels = planted(k=3, n=150, m=6)
    more = np.insert(labels, 2, -1, axis=1)
    assert same_partition(function(labels, 3, random_state=0), function(more, 3, random_state=0))


@pytest.mark.parametrize(
    ("labels", "k", "error", "message"),
    [
        ([0, 1, 2], 2, ValueError, "base_labels must be a matrix"),
        ([[0.5, 1], [1, 2]], 2, ValueError, "not integers"),
        ([[-1, -1], [-1, -1]], 1, ValueError, "No row of base_labels has a label"),
        (np.empty((0, 3)), 1, ValueError, "base_labels is empty"),
        (scipy.sparse.eye(3), 1, TypeError, "sparse matrix"),
        ([[0], [1]], 0, ValueError, "n_clusters must be an integer >= 1"),
        ([[0], [1]], "auto", TypeError, "n_clusters must be an integer"),
        ([[0], [1]], 3, ValueError, "2 rows cannot form n_clusters=3 clusters"),
    ],
)
def test_bad_labels(function, labels, k, error, message):
    with pytest.raises(error, match=message):
        function(labels, k)


def test_fewer_kinds_of_rows_than_clusters(function):
    with pytest.warns(ConvergenceWarning, match="Found 2 clusters instead of 3: no more groups of rows"):
        assert function([[0, 0], [0, 0], [1, 1], [1, 1]], 3).tolist() == [0, 0, 1, 1]


def test_transposed_matrices_are_noticed(function):
    with pytest.warns(UserWarning, match="each column a clustering"):
        function(np.tile([[0], [0], [1]], 50), 2)


@settings(max_examples=50)
@given(labels=label_matrices())
def test_counts_of_shared_rows(labels, engine):
    labels = labels[(labels >= 0).any(axis=1)]
    clusterings, _ = clusterings_of(labels, engine)
    B = np.concatenate(
        [labels[:, [j]] == [c for c in np.unique(labels[:, j]) if c != -1] for j in range(labels.shape[1])], 1
    )
    np.testing.assert_array_equal(clusterings.contingency(engine), B.T.astype(float) @ B)
    np.testing.assert_array_equal(clusterings.sizes, B.sum(axis=0))
    assert isinstance(clusterings, BaseClusterings)


def test_import_is_lazy():
    """Neither the package nor the names of one method load the others."""
    loaded = python(
        """
        import json, sys
        import ultraspec
        before = [name for name in sys.modules if name.startswith("ultraspec.baselines")]
        from ultraspec.baselines import eac
        eac([[0], [1]], 2)
        print(json.dumps([before, "ultraspec.baselines.ptgp" in sys.modules, callable(eac)]))
        """
    )
    assert loaded == [[], False, True]
