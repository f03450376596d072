"""Models: all that labels and embeds a new row."""

from __future__ import annotations

import pickle

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


def test_a_single_model_has_no_confidence(made):
    X, _, model = made
    assert not model.has_confidence
    with pytest.raises(TypeError, match=r"^Model has no confidence\.$"):
        model.label_with_confidence(X)


def test_a_row_model_needs_edges_and_marks():
    class Incomplete(RowModel):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Incomplete()
