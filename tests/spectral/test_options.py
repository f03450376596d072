"""Options: the parameters of an estimator, as the phases take them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ultraspec import USENC, USPEC
from ultraspec.spectral.options import PAPER_GRAPH, GraphOptions, LabelOptions


@pytest.mark.parametrize("estimator", [USPEC, USENC])
def test_options_are_parameters_of_the_estimators(estimator):
    options = GraphOptions.of(estimator())
    assert dataclasses.asdict(options).items() <= estimator().get_params().items()
    assert GraphOptions.of(estimator.paper()).n_representatives == 1000


def test_rows_weigh_as_their_degree_or_its_root():
    assert GraphOptions.of(USPEC()).row_power == 0.5
    assert GraphOptions.of(USPEC.paper()).row_power == 1.0


@pytest.mark.parametrize("estimator", [USPEC, USENC])
def test_the_parameters_of_the_paper_are_parameters_and_can_be_changed(estimator):
    paper = estimator.paper(3)
    assert paper.n_clusters == 3
    assert PAPER_GRAPH.items() <= paper.get_params().items()
    assert paper.affinity == "paper"
    changed = estimator.paper(3, regularization=0.5, n_neighbors=7)
    assert (changed.regularization, changed.n_neighbors) == (0.5, 7)
    assert changed.get_params() == {**paper.get_params(), "regularization": 0.5, "n_neighbors": 7}


def test_numpy_numbers_become_python_numbers():
    options = GraphOptions.of(USPEC(n_neighbors=np.int64(7), regularization=np.float32(0.5)))
    assert type(options.n_neighbors) is int
    assert options.n_neighbors == 7
    assert type(options.regularization) is float
    assert options == GraphOptions.of(USPEC(n_neighbors=7, regularization=0.5))


def test_options_do_not_change():
    options = GraphOptions.of(USPEC())
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.n_neighbors = 3


def test_random_numbers_are_the_same_each_time():
    options = LabelOptions(3, 100, np.random.SeedSequence(7))
    assert options.rng.random() == options.rng.random() == np.random.default_rng(np.random.SeedSequence(7)).random()
