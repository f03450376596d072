"""Labels of new rows by an ensemble, and the confidence in them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from ultraspec import USENC, datasets, load, save
from ultraspec.ensemble.members import base_columns
from ultraspec.spectral.partition import VotePartition


@pytest.fixture(scope="module")
def circles():
    return datasets.generate("cc", 4000, random_state=0)


@pytest.fixture(scope="module", params=["auto", "transfer_cut"])
def fitted(request, circles):
    """Preprocessed rows, a fitted estimator and its model."""
    X = circles[0][:1500]
    estimator = USENC(3, n_estimators=4, base_clusters=(4, 8), consensus=request.param, random_state=0).fit(X)
    return estimator._fitted.preprocessor.prepare(X), estimator, estimator._fitted.model


def test_a_model_labels_and_embeds_by_the_edges_of_its_members(fitted):
    block, estimator, model = fitted
    edges = model.edges(block)
    if isinstance(model.partition, VotePartition):
        assert edges.ids.tobytes() == model.members[0].edges(block).ids.tobytes()
    else:
        assert (edges.ids == base_columns(model.members, block)).all()
    assert (model.label(block) == estimator.labels_).all()
    assert model.embed(block).tobytes() == model.partition.embed(edges).tobytes()
    assert (model.marks(block) == estimator.base_labels_).all()
    assert len(model.members) == 4


def test_confidence_comes_with_labels(fitted):
    block, estimator, model = fitted
    assert model.has_confidence
    labels, confidence = model.label_with_confidence(block)
    assert (labels == estimator.labels_).all()
    assert confidence.tobytes() == estimator.confidence_.tobytes()


def test_models_of_older_files_have_no_confidence(fitted):
    block, _, model = fitted
    partition = model.partition
    if isinstance(partition, VotePartition):
        partition = replace(partition, trust=None)
    older = replace(model, majority=None, partition=partition)
    assert not older.has_confidence
    assert (older.label(block) == model.label(block)).all()
    with pytest.raises(ValueError, match="a file of an older release, which did not store what confidence needs"):
        older.label_with_confidence(block)


@pytest.mark.parametrize("consensus", ["auto", "transfer_cut"])
def test_confidence_of_further_rows(circles, consensus, tmp_path):
    X, _ = circles
    options = {"n_estimators": 8, "base_clusters": (5, 9), "n_representatives": 200}
    model = USENC(4, consensus=consensus, random_state=0, **options).fit(X[:3000])
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    for other in (model, loaded, pickle.loads(pickle.dumps(model))):
        labels, confidence = other.predict(X[:3000], return_confidence=True)
        assert labels.tobytes() == model.labels_.tobytes()
        assert confidence.tobytes() == model.confidence_.tobytes()
    assert (model.confidence_ < 1).any()  # or there would be nothing to compare
    labels, confidence = loaded.predict(X[3000:], return_confidence=True)
    assert (labels == loaded.predict(X[3000:])).all()
    again = loaded.cut(3, X[:3000])
    assert again.predict(X[:3000], return_confidence=True)[1].tobytes() == again.confidence_.tobytes()
    if consensus == "auto":
        block = model._fitted.preprocessor.prepare_new(X[3000:], np.arange(1000))
        edges = model._fitted.model.edges(block)
        assert confidence.tobytes() == model._fitted.partition.confidence(edges).tobytes()
        return
    expected = np.zeros(1000)  # asked of the members one by one, by their majorities in the fit
    for member, column in zip(model._fitted.members, model.base_labels_.T, strict=True):
        votes = np.zeros((column.max() + 1, 4))
        np.add.at(votes, (column, model.labels_), 1)
        block = model._fitted.preprocessor.prepare_new(X[3000:], np.arange(1000))
        expected += votes.argmax(axis=1)[member.label(block)] == labels
    np.testing.assert_allclose(confidence, expected / 8, rtol=1e-6)
