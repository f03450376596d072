"""Scores without known classes."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import davies_bouldin_score
from sklearn.model_selection import GridSearchCV

from tests.helpers.common import blobs
from ultraspec import USPEC, open_rows
from ultraspec.metrics import davies_bouldin, silhouette


def slow_silhouette(X, labels):
    """The definition, row by row."""
    X = np.asarray(X, dtype=np.float64)
    means = {c: X[labels == c].mean(axis=0) for c in np.unique(labels)}
    scores = []
    for x, c in zip(X, labels, strict=True):
        a = np.linalg.norm(x - means[c])
        b = min(np.linalg.norm(x - mean) for other, mean in means.items() if other != c)
        scores.append((b - a) / max(a, b) if max(a, b) > 0 else 0.0)
    return np.mean(scores)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_scores_are_their_definitions(k, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(40, d)).astype(np.float32)
    labels = np.concatenate([np.arange(k), rng.integers(k, size=40 - k)]) * 10
    assert silhouette(X, labels) == pytest.approx(slow_silhouette(X, labels), abs=1e-9)
    assert davies_bouldin(X, labels) == pytest.approx(davies_bouldin_score(X.astype(np.float64), labels), rel=1e-9)


def test_every_kind_of_rows_gives_the_same(tmp_path):
    X, y = blobs(5000, k=4)
    X = X.astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    rows = open_rows(tmp_path / "X.npy")
    for score in (silhouette, davies_bouldin):
        wanted = score(X, y)
        for other in (X.tolist(), pandas.DataFrame(X), scipy.sparse.csr_array(X), rows):
            assert score(other, y) == pytest.approx(wanted, rel=1e-5)
        assert score(rows, y, n_jobs=1) == score(rows, y, n_jobs=2)


def test_dask():
    da = pytest.importorskip("dask.array")
    X, y = blobs(900, k=3)
    lazy = da.from_array(X, chunks=(400, 2))
    sparse = da.from_array(scipy.sparse.csr_matrix(X), chunks=(400, -1), asarray=False)
    frame = pytest.importorskip("dask.dataframe").from_pandas(pandas.DataFrame(X).add_prefix("c"), npartitions=2)
    for score in (silhouette, davies_bouldin):
        for rows in (lazy, sparse, frame):
            assert score(rows, y) == pytest.approx(score(X, y), rel=1e-6)
    model = USPEC(3, random_state=0).fit(lazy)
    assert model.score(lazy) == pytest.approx(silhouette(X, y), rel=1e-4)
    assert silhouette(lazy, model.labels_) == pytest.approx(silhouette(X, y), rel=1e-6)
    X[500, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in column 1, row 500"):
        silhouette(da.from_array(X, chunks=(400, 2)), y)


def test_rows_without_a_cluster_are_left_out():
    X, y = blobs(300, k=3)
    noisy = np.concatenate([X, np.full((5, X.shape[1]), 1e3)])
    labels = np.concatenate([y, [-1] * 5])
    assert silhouette(noisy, labels) == pytest.approx(silhouette(X, y))
    assert davies_bouldin(noisy, labels) == pytest.approx(davies_bouldin(X, y))
    names = np.array(["a", "b", "c"])[y]
    assert silhouette(X, names) == silhouette(X, y)


@pytest.mark.parametrize("score", [silhouette, davies_bouldin])
def test_bad_input(score):
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match="needs at least two, but labels have 1"):
        score(X, [0, 0, 0, -1])
    with pytest.raises(ValueError, match=r"labels must have shape \(4,\)"):
        score(X, [0, 1])
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        score(X, [0, 0, 1, 1])


def test_score_of_a_model_and_grid_search():
    X, _ = blobs(400, k=4)
    model = USPEC(4, random_state=0).fit(X)
    assert model.score(X) == pytest.approx(silhouette(X, model.labels_), abs=1e-6)
    search = GridSearchCV(USPEC(random_state=0), {"n_clusters": [2, 4, 7]}, cv=2).fit(X)
    assert search.best_params_ == {"n_clusters": 4}
