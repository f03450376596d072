"""How sure a model is: confidence, memberships, outlier scores, and what it says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_circles

from tests.helpers.common import blobs
from ultraspec import USPEC, load, save

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def made():
    """Three blobs that touch, and a model of them."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((400, 2)) + np.array([4.0 * c, 0]) for c in range(3)])
    return X, USPEC(3, random_state=0).fit(X)


# Memberships


def check_memberships(model, X):
    M = model.predict_proba(X)
    assert M.shape == (len(X), model.n_clusters_)
    assert M.min() >= 0
    np.testing.assert_allclose(M.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(M.argmax(axis=1), model.predict(X))
    return M


def test_memberships_add_up_to_one(made):
    X, model = made
    M = check_memberships(model, X)
    np.testing.assert_array_equal(model.probabilities_, M.max(axis=1))
    assert 0.3 < M.max(axis=1).min() < 0.7 < 0.99 < np.median(M.max(axis=1))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=30), k=st.integers(1, 4))
def test_memberships_with_ties_and_duplicates(rows, k):
    X = np.array(rows, dtype=np.float64)
    model = USPEC(k, random_state=0, n_jobs=1).fit(X)
    check_memberships(model, X)
    check_memberships(model, X + 0.5)  # between points of the grid


def test_centres_have_no_memberships():
    model = USPEC.paper(3, n_representatives=50, random_state=0).fit(blobs()[0])
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match=r"probabilities_.*discretize"):
        model.probabilities_  # noqa: B018
    with pytest.raises(AttributeError, match=r"no confidence_: no other graphs have judged its clusters"):
        model.confidence_  # noqa: B018
    with pytest.raises(ValueError, match=r'no other graphs that give confidence\. Fit again with discretize="auto"'):
        model.predict(blobs()[0], return_confidence=True)


# Confidence


def test_confidence_is_that_of_predict(made):
    X, model = made
    labels, confidence = model.predict(X, return_confidence=True)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(confidence, model.confidence_)
    assert confidence.dtype == np.float32
    assert 0 <= confidence.min() <= confidence.max() <= 1
    assert model.cluster_confidence_.shape == (3,)


def test_separate_blobs_are_sure():
    model = USPEC(4, random_state=0).fit(blobs()[0])
    assert model.confidence_.min() > 0.99
    assert model.cluster_confidence_.min() > 0.99


@pytest.mark.parametrize("seed", range(3))
def test_a_ring_that_is_cut_is_not_trusted(seed):
    X, y = make_circles(2000, noise=0.03, factor=0.4, random_state=seed)
    model = USPEC(3, random_state=seed).fit(X)
    n_cut = 0
    for ring in range(2):
        parts, sizes = np.unique(model.labels_[y == ring], return_counts=True)
        parts = parts[sizes > 50]
        if len(parts) > 1:
            n_cut += 1
            assert model.cluster_confidence_[parts].max() < 0.9
            assert max(model.confidence_[model.labels_ == part].mean() for part in parts) < 0.9
    assert n_cut  # three clusters of two rings


# Outliers


def test_far_rows_rank_above_all_others():
    rng = np.random.default_rng(0)
    narrow = rng.uniform(-1, 1, (1000, 2))
    wide = rng.uniform(-8, 8, (1000, 2)) + np.array([40, 0])
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    far = 60 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + np.array([20, 100])
    X = np.concatenate([narrow, wide])
    model = USPEC(2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.outlier_score(X), model.outlier_scores_)
    scores = model.outlier_scores_
    assert model.outlier_score(far).min() > scores.max()
    assert abs(np.median(scores[:1000]) - np.median(scores[1000:])) < 0.1  # a wide cluster is not odd
    assert (model.predict(far, outliers=0.99) == -1).all()
    assert (model.predict(far) >= 0).all()


def test_outliers_are_a_share_of_the_fitted_rows(made):
    X, model = made
    labels, confidence = model.predict(X, outliers=0.99, return_confidence=True)
    odd = labels == -1
    assert 0.005 < odd.mean() < 0.015
    np.testing.assert_array_equal(labels[~odd], model.labels_[~odd])
    assert model.outlier_scores_[odd].min() >= model.outlier_scores_[~odd].max()
    np.testing.assert_array_equal(confidence, model.confidence_)
    assert (model.predict(X, outliers=1.0) >= 0).all()


@pytest.mark.parametrize(("value", "error"), [(1.5, ValueError), (-0.1, ValueError), ("a", TypeError)])
def test_refused_quantiles(made, value, error):
    with pytest.raises(error, match="outliers must be a number from 0 to 1, got"):
        made[1].predict(made[0], outliers=value)


# Files, and words


def test_files_keep_everything(tmp_path):
    X, _ = blobs()
    model = USPEC("auto", random_state=0).fit(X)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.layers_ == model.layers_
    assert again.cluster_confidence_.tobytes() == model.cluster_confidence_.tobytes()
    assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert again.outlier_score(X).tobytes() == model.outlier_scores_.tobytes()
    assert again.predict(X, return_confidence=True)[1].tobytes() == model.confidence_.tobytes()
    np.testing.assert_array_equal(again.predict(X, outliers=0.9), model.predict(X, outliers=0.9))
    assert again.explain().startswith("4 clusters were found in 400 rows")
    with pytest.raises(
        AttributeError, match=r"call model\.predict\(X, return_confidence=True\) instead of confidence_"
    ):
        again.confidence_  # noqa: B018


def test_old_files_say_what_they_lack():
    X, _ = blobs(300, k=3, d=2)
    model = load(DATA / "model-1-uspec.safetensors")
    assert model.layers_ is None
    with pytest.raises(ValueError, match="file of an older release, which did not store outlier scores"):
        model.predict(X, outliers=0.9)
    with pytest.raises(ValueError, match="no other graphs that give confidence"):
        model.predict(X, return_confidence=True)
    assert model.explain() == "300 rows were divided into 3 clusters, as asked for."


def test_a_model_explains_itself(made):
    text = made[1].explain()
    assert text.startswith("1,200 rows were divided into 3 clusters, as asked for.")
    assert "These touch: " in text
    found = USPEC("auto", random_state=0).fit(blobs()[0]).explain()
    assert found.startswith("4 clusters were found in 400 rows")
    assert "No two clusters touch." in found
    assert "Every cluster is found again" in found
