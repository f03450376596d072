"""Models: all that labels and embeds a new row."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.cases import Case
from tests.helpers.edges import connected
from ultraspec.rows import ArrayRows
from ultraspec.spectral.model import Model, RowModel
from ultraspec.spectral.partition import CenterPartition, VotePartition
from ultraspec.spectral.transfer_cut import reduce_graph, transfer_cut


@pytest.fixture(scope="module", params=["centres", "votes"])
def made(request, engine):
    """Rows, their edges, and a model of them."""
    case = Case("clumps", 300, 40, 3, 4, 10, 0)
    index, edges, sigma = connected(case, engine, exact=False)
    graph = reduce_graph(edges, ArrayRows(case.X), case.p, engine)
    spectrum = transfer_cut(graph, 8, 1e-3, index.representatives)
    if request.param == "centres":
        partition = CenterPartition(spectrum, spectrum.unit_rows(4)[:4])
    else:
        partition = VotePartition(spectrum, (np.arange(case.p) % 4).astype(np.int32), 4)
    return case.X, edges, Model(index, sigma, partition)


def test_a_model_labels_and_embeds_by_the_edges_of_the_fit(made):
    X, edges, model = made
    assert model.label(X).tobytes() == model.partition.label(edges).tobytes()
    assert model.embed(X).tobytes() == model.partition.embed(edges).tobytes()
    assert (model.marks(X) == edges.ids).all()
    assert model.members == [model]


def test_models_come_back_from_arrays_and_pickles(made):
    X, _, model = made
    arrays = model.arrays()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    for again in (Model.from_arrays({**arrays, "other": np.ones(3)}), pickle.loads(pickle.dumps(model))):
        assert again.sigma == model.sigma
        assert type(again.index.n_neighbors) is int
        assert type(again.index.exact) is bool
        assert again.label(X).tobytes() == model.label(X).tobytes()
        assert again.embed(X).tobytes() == model.embed(X).tobytes()


def test_a_model_without_other_graphs_has_no_confidence(made):
    X, _, model = made
    assert not model.has_confidence
    with pytest.raises(ValueError, match=r'^This model has no other graphs .* Fit again with discretize="auto"\.$'):
        model.label_with_confidence(X)


def test_a_judged_model_has_confidence(made):
    X, edges, model = made
    if isinstance(model.partition, CenterPartition):
        return
    trust = np.linspace(0.0, 1.0, len(model.partition.groups), dtype=np.float32)
    judged = replace(model, partition=replace(model.partition, trust=trust))
    assert judged.has_confidence
    labels, confidence = judged.label_with_confidence(X)
    assert (labels == model.label(X)).all()
    T = np.zeros((len(X), len(trust)))
    np.add.at(T, (np.arange(len(X))[:, None], edges.ids.astype(np.int64)), edges.weights)
    wanted = (T * (model.partition.groups == labels[:, None])) @ trust
    np.testing.assert_allclose(confidence, wanted, atol=1e-6)
    again = Model.from_arrays(judged.arrays()).label_with_confidence(X)
    assert again[1].tobytes() == confidence.tobytes()


def test_memberships_are_shares_of_clusters(made):
    X, edges, model = made
    if isinstance(model.partition, CenterPartition):
        return
    T = np.zeros((len(X), len(model.partition.groups)))
    np.add.at(T, (np.arange(len(X))[:, None], edges.ids.astype(np.int64)), edges.weights)
    wanted = T @ np.eye(4)[model.partition.groups]
    found = model.memberships(X)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert (found.argmax(axis=1) == model.label(X)).all()


def test_a_row_model_needs_edges_and_marks():
    class Incomplete(RowModel):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Incomplete()
