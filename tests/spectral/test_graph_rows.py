"""The rows that a graph is built from: how many are sampled, and how they are read."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from tests.helpers.common import blobs, documents
from ultraspec import USENC, USPEC, open_rows
from ultraspec.rows import ArrayRows, LocalWeights, SparseRows, WeightedRows
from ultraspec.spectral import graph_rows
from ultraspec.spectral.graph_rows import sample_graph_rows, survey
from ultraspec.storage.checkpoint import NoCheckpoint

SEED = np.random.SeedSequence(0)


@pytest.mark.parametrize(
    ("n_features", "size"), [(1, 2_000_000), (33, 2_000_000), (128, 2**26 // 128), (335, 200_324), (10_000, 200_000)]
)
def test_auto_takes_fewer_rows_of_many_features(n_features, size):
    sample = sample_graph_rows(10**9, n_features, None, "auto", SEED)
    assert len(sample.indices) == size
    assert (np.diff(sample.indices) > 0).all()
    assert sample_graph_rows(size, n_features, None, "auto", SEED) is None


def test_no_sample_is_larger_than_the_data():
    assert sample_graph_rows(10**9, 2, None, None, SEED) is None
    assert sample_graph_rows(100, 2, None, 100, SEED) is None
    assert len(sample_graph_rows(100, 2, None, 99, SEED).indices) == 99


def survey_of(rows, sample, engine, n_components=None):
    return survey(rows, sample, "euclidean", n_components, np.random.default_rng(0), None, NoCheckpoint(), engine)


@pytest.mark.parametrize("n_components", [None, 3])
@pytest.mark.parametrize("kind", ["array", "file", "sparse"])
def test_samples_of_many_values_are_preprocessed_as_they_are_read(kind, n_components, engine, tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(5, size=(1_000, 7)).astype(np.float32)
    X[:, ::2] = 0
    np.save(tmp_path / "X.npy", X)
    sources = {"array": ArrayRows(X), "file": open_rows(tmp_path / "X.npy")}
    rows = sources.get(kind) or SparseRows(scipy.sparse.csr_array(X))
    sample = sample_graph_rows(1_000, 7, None, 600, SEED)
    wanted_space, wanted = survey_of(rows, sample, engine, n_components)
    monkeypatch.setattr(graph_rows, "SAMPLE_VALUES", 1)
    space, found = survey_of(rows, sample, engine, n_components)
    assert (space.offset == wanted_space.offset).all()
    assert space.scale == wanted_space.scale
    assert found.shape == wanted.shape
    a, b = (each.read(0, 600) for each in (found, wanted))
    assert (a != b).sum() == 0
    monkeypatch.setattr(graph_rows, "SURVEYED_VALUES", 1)  # scale and components are those of a part of the sample
    monkeypatch.setattr(graph_rows, "SURVEYED_ROWS", 50)
    assert survey_of(rows, sample, engine, n_components)[1].shape == wanted.shape


@pytest.mark.parametrize("kind", ["array", "file"])
def test_samples_of_weighted_rows_have_weights(kind, engine, tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(1_000, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    weights = LocalWeights.of(random.integers(0, 5, 1_000).astype(float))
    rows = WeightedRows(ArrayRows(X) if kind == "array" else open_rows(tmp_path / "X.npy"), weights)
    sample = sample_graph_rows(1_000, 3, weights, 300, SEED)
    _, wanted = survey_of(rows, sample, engine)
    assert wanted.n_rows == len(sample.indices)
    assert wanted.read_weights(0, wanted.n_rows).tolist() == sample.weights.tolist()
    monkeypatch.setattr(graph_rows, "SAMPLE_VALUES", 1)
    _, found = survey_of(rows, sample, engine)
    assert found.read_weights(0, found.n_rows).tolist() == sample.weights.tolist()


@pytest.mark.parametrize("make", [USPEC, lambda *args, **kwargs: USENC(*args, n_estimators=4, **kwargs)])
def test_auto_gives_all_that_a_graph_of_all_rows_gives(make, monkeypatch):
    X, _ = blobs(3_000)
    monkeypatch.setattr(graph_rows, "MOST_ROWS", 900)
    model = make(4, random_state=0).fit(X)
    assert model.labels_.tobytes() == make(4, graph_rows=900, random_state=0).fit(X).labels_.tobytes()
    assert model.predict(X).tobytes() == model.labels_.tobytes()
    labels, confidence = model.predict(X, return_confidence=True)
    assert confidence.tobytes() == model.confidence_.tobytes()
    assert model.outlier_score(X).tobytes() == model.outlier_scores_.tobytes()
    assert model.predict_proba(X).max(axis=1).tobytes() == model.probabilities_.tobytes()
    assert np.bincount(labels).tolist() == sorted(np.bincount(labels), reverse=True)
    share = (model.predict(X, outliers=0.9) == -1).mean()
    assert 0.05 < share < 0.15
    assert len(model.cut(3).labels_) == 3_000
    whole = make(4, graph_rows=None, random_state=0).fit(X)
    assert whole.representatives_.tobytes() != model.representatives_.tobytes() if make is USPEC else True


def test_bad_values_are_counted_in_all_rows_not_in_the_sample():
    X = blobs(3_000)[0].copy()
    X[[7, 1_500, 2_999], 1] = np.nan
    for make in (USPEC, USENC):
        with pytest.raises(ValueError, match=r"column 1, row 7\. In all, 3 of 3,000 rows"):
            make(4, graph_rows=500, random_state=0).fit(X)


def test_sparse_rows_without_projection(monkeypatch):
    X, _ = documents(1_500)
    monkeypatch.setattr(graph_rows, "SAMPLE_VALUES", 1)
    model = USPEC(3, graph_rows=800, n_components=None, metric="cosine", n_representatives=100, random_state=0).fit(X)
    assert model.predict(X).tobytes() == model.labels_.tobytes()


def test_members_of_the_paper_are_graphs_of_all_rows():
    X = blobs(900)[0]
    options = {"n_estimators": 2, "n_representatives": 50, "base_clusters": (4, 6), "random_state": 0}
    whole, sampled = (USENC.paper(3, graph_rows=rows, **options).fit(X) for rows in (None, 500))
    assert USENC.paper(3).graph_rows is None
    assert whole.base_labels_.tobytes() == sampled.base_labels_.tobytes()
