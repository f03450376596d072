"""Discretisations: the registry, and clusters of the embedding by each of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.common import same_partition
from tests.helpers.edges import clumps
from ultraspec import USPEC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import agreement
from ultraspec.spectral.discretize import DISCRETIZATIONS, Discretization
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition, VotePartition

OPTIONS = LabelOptions(3, 100, np.random.SeedSequence(0))


def rows_of(p, n=600, seed=0):
    """Rows with all of their weight on one of p representatives, each of which has some."""
    ids = np.random.default_rng(seed).permutation(np.arange(n) % p).astype(np.uint16)[:, None]
    return Edges(ids, np.ones((n, 1), dtype=np.float32))


@pytest.fixture(params=DISCRETIZATIONS)
def name(request):
    return request.param


def test_the_registry_has_the_values_of_the_parameter():
    assert list(DISCRETIZATIONS) == ["kmeans", "representatives", "consensus"]
    assert all(isinstance(each, Discretization) for each in DISCRETIZATIONS.values())
    assert USPEC().discretize in DISCRETIZATIONS
    with pytest.raises(ValueError, match="discretize must be one of 'kmeans', 'representatives', 'consensus'"):
        USPEC(2, discretize="magic").fit(np.eye(9))


@pytest.mark.parametrize(
    ("name", "votes", "has_tree"),
    [("kmeans", False, False), ("representatives", True, False), ("consensus", True, True)],
)
def test_kinds(name, votes, has_tree):
    assert DISCRETIZATIONS[name].votes == votes
    assert DISCRETIZATIONS[name].has_tree == has_tree


def test_more_vectors_are_computed_than_clusters_need(name):
    n_vectors = DISCRETIZATIONS[name].n_vectors
    assert n_vectors(1) == n_vectors(30) == 60
    assert n_vectors(100) == (200 if name == "consensus" else 101)


def test_bundles_of_directions_are_divided(name, engine):
    spectrum, bundles = clumps()
    edges = rows_of(len(bundles))
    partition, n_iter = DISCRETIZATIONS[name].divide(spectrum, edges, 4, OPTIONS, engine)
    assert isinstance(partition, VotePartition if DISCRETIZATIONS[name].votes else CenterPartition)
    assert partition.n_clusters == 4
    assert n_iter >= 1
    assert same_partition(partition.label(edges), bundles[edges.ids[:, 0]])
    assert (getattr(partition, "tree", None) is not None) == DISCRETIZATIONS[name].has_tree


def test_clusters_do_not_depend_on_threads(name):
    spectrum, bundles = clumps(spread=0.4)
    edges = rows_of(len(bundles))
    labels = []
    for n_jobs in (1, 3):
        with ThreadEngine(n_jobs) as threads:
            labels.append(DISCRETIZATIONS[name].divide(spectrum, edges, 5, OPTIONS, threads)[0].label(edges))
    assert labels[0].tobytes() == labels[1].tobytes()


def test_a_tree_that_was_built_before_is_cut(engine, monkeypatch):
    spectrum, bundles = clumps()
    edges = rows_of(len(bundles))
    consensus = DISCRETIZATIONS["consensus"]
    n_clusters, tree = consensus.choose_n_clusters(spectrum, 1e-3, OPTIONS, engine)
    assert n_clusters == 4
    monkeypatch.setattr(agreement, "agreement_tree", None)
    partition, _ = consensus.divide(spectrum, edges, 4, OPTIONS, engine, tree)
    assert partition.tree is tree
    assert same_partition(partition.label(edges), bundles[edges.ids[:, 0]])


@pytest.mark.parametrize("name", ["kmeans", "representatives"])
def test_the_number_of_clusters_is_that_of_the_eigengap(name, engine):
    spectrum, _ = clumps()
    spectrum.eigenvalues[:] = [1.0, 0.99, 0.98, 0.5, *[0.4] * 8]
    assert DISCRETIZATIONS[name].choose_n_clusters(spectrum, 0.0, OPTIONS, engine) == (3, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kmeans", "Found 4 clusters instead of 6: the embedding has too few distinct rows"),
        ("representatives", "Found 4 clusters instead of 6: the representatives have too few distinct embeddings"),
    ],
)
def test_too_few_distinct_embeddings_are_warned_of(name, message, engine):
    spectrum, bundles = clumps(spread=0.0, n_vectors=6)
    with pytest.warns(ConvergenceWarning, match=message):
        partition, _ = DISCRETIZATIONS[name].divide(spectrum, rows_of(len(bundles)), 6, OPTIONS, engine)
    assert partition.n_clusters == 4


def test_more_clusters_than_representatives_are_warned_of(engine):
    spectrum, _ = clumps(p=5, k=2)
    with pytest.warns(ConvergenceWarning, match="Found 5 clusters instead of 9: there are only 5 representatives"):
        partition, _ = DISCRETIZATIONS["consensus"].divide(spectrum, rows_of(5), 9, OPTIONS, engine)
    assert partition.n_clusters == 5
