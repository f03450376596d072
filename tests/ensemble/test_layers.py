"""The number of clusters of a consensus, from halves of the clusterings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.label_matrices import planted
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.label_matrix import read_label_matrix
from ultraspec.ensemble.layers import find_consensus_layers
from ultraspec.spectral.layers import Layer


def layers_for(base, n_jobs=1, seed=0):
    with ThreadEngine(n_jobs) as engine:
        micro = microclusters.find(read_label_matrix(base), engine)
        return find_consensus_layers(micro, np.random.default_rng(seed), engine)


@pytest.mark.parametrize("k", [2, 5, 12])
def test_the_planted_number_is_the_first_layer(k):
    _, base = planted(k, n=600, m=12, noise=0.05)
    layers = layers_for(base)
    assert layers[0].n_clusters == k
    assert layers[0].strength > 0.8
    assert layers_for(base, n_jobs=2) == layers


def test_random_labels_have_no_structure():
    base = np.random.default_rng(0).integers(4, size=(800, 12))
    assert layers_for(base) == [Layer(1, 0.0)]


def test_rows_that_are_never_assigned():
    _, base = planted(3, n=300, m=8, noise=0.05)
    base = np.concatenate([base, np.full((500, 8), -1)])
    assert layers_for(base)[0].n_clusters == 3


@pytest.mark.parametrize("base", [np.zeros((1, 4)), np.zeros((50, 4)), np.arange(4)[:, None] * np.ones(4)])
def test_few_microclusters(base):
    assert layers_for(base.astype(int)) == [Layer(1, 0.0)]


@pytest.mark.parametrize("m", [1, 3])
def test_too_few_clusterings(m):
    with pytest.raises(ValueError, match=rf"base_labels has only {m}\. Pass n_clusters, or at least 4 clusterings\."):
        layers_for(planted(3, m=m)[1])
