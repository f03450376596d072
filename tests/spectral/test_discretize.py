"""Discretisations: the values of the parameter, and k-means of the embedded rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.common import same_partition
from tests.helpers.edges import clumps, lifted
from ultraspec import USPEC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral.discretize import DISCRETIZATIONS, cluster_rows
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition

OPTIONS = LabelOptions(3, 100, np.random.SeedSequence(0))


def rows_of(p, n=600, seed=0):
    """Rows with all of their weight on one of p representatives, each of which has some."""
    ids = np.random.default_rng(seed).permutation(np.arange(n) % p).astype(np.uint16)[:, None]
    return Edges(ids, np.ones((n, 1), dtype=np.float32))


def test_the_registry_has_the_values_of_the_parameter():
    assert DISCRETIZATIONS == ("auto", "agreement", "linked", "border", "kmeans")
    assert USPEC().discretize in DISCRETIZATIONS
    for name in ("magic", "consensus", "representatives"):
        with pytest.raises(ValueError, match="discretize must be one of 'auto', 'agreement', 'linked', 'border', 'k"):
            USPEC(2, discretize=name).fit(np.eye(9))


def test_bundles_of_directions_are_divided(engine):
    spectrum, bundles = clumps()
    edges = rows_of(len(bundles))
    partition, n_iter = cluster_rows(spectrum, edges, 4, OPTIONS, engine)
    assert isinstance(partition, CenterPartition)
    assert partition.n_clusters == partition.n_vectors == 4
    assert n_iter >= 1
    assert same_partition(partition.label(edges), bundles[edges.ids[:, 0]])


def test_centres_are_the_means_of_embedded_rows(engine):
    spectrum, bundles = clumps(spread=0.3)
    edges = rows_of(len(bundles))
    partition, _ = cluster_rows(spectrum, edges, 5, OPTIONS, engine)
    E = lifted(edges, spectrum.vectors[:, :5])
    labels = partition.label(edges)
    means = np.array([E[labels == c].mean(axis=0) for c in range(5)])
    np.testing.assert_allclose(partition.centers, means, atol=1e-4)


def test_clusters_do_not_depend_on_threads():
    spectrum, bundles = clumps(spread=0.4)
    edges = rows_of(len(bundles))
    labels = []
    for n_jobs in (1, 3):
        with ThreadEngine(n_jobs) as threads:
            labels.append(cluster_rows(spectrum, edges, 5, OPTIONS, threads)[0].label(edges))
    assert labels[0].tobytes() == labels[1].tobytes()


def test_too_few_distinct_embeddings_are_warned_of(engine):
    spectrum, bundles = clumps(spread=0.0, n_vectors=6)
    message = "Found 4 clusters instead of 6: the embedding has too few distinct rows"
    with pytest.warns(ConvergenceWarning, match=message):
        partition, _ = cluster_rows(spectrum, rows_of(len(bundles)), 6, OPTIONS, engine)
    assert partition.n_clusters == 4
