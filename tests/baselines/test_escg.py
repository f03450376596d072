"""ESCG against one search per seed and a full singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph

from tests.helpers.common import blobs, same_partition
from tests.helpers.graphs import full_graph
from ultraspec.baselines import ESCG
from ultraspec.baselines.escg import bipartite_embedding, nearest_seeds


def full_embedding(W, owners, k):
    """Steps 3 and 4 of the method on dense matrices; isolated nodes have zeros."""
    R = np.eye(owners.max() + 1)[owners].T
    B = R @ W
    B = B[B.sum(axis=1) > 0]
    r, c = B.sum(axis=1), B.sum(axis=0)
    inverse = np.where(c > 0, 1 / np.sqrt(np.where(c > 0, c, 1)), 0)
    right = np.linalg.svd(B / np.sqrt(r)[:, None] * inverse)[2][:k]
    return (right * inverse).T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("apart", [0, 100])
def test_against_the_definition(seed, apart):
    random = np.random.default_rng(seed)
    X = random.normal(size=(150, 4))
    X[:20] += apart
    W = full_graph(X, 5)[0]
    seeds = np.sort(random.choice(np.arange(20 if apart else 0, 150), 12, replace=False))
    lengths = scipy.sparse.csr_array(W)
    lengths.data = -np.log(lengths.data / lengths.data.max()) + 1e-9
    paths = scipy.sparse.csgraph.dijkstra(lengths, indices=seeds)
    owners = nearest_seeds(scipy.sparse.csr_array(W), seeds)
    reached = np.isfinite(paths.min(axis=0))
    np.testing.assert_allclose(paths[owners, np.arange(150)][reached], paths.min(axis=0)[reached])
    assert (owners[~reached] == 0).all()
    assert reached.all() != bool(apart)
    E, expected = bipartite_embedding(scipy.sparse.csr_array(W), owners, 4), full_embedding(W, owners, 4)
    scale = np.sqrt(W.sum())
    np.testing.assert_allclose(E @ E.T, expected @ expected.T * scale**2, atol=1e-4)


def test_rows_without_neighbors():
    W = np.zeros((6, 6))
    W[0, 1] = W[1, 0] = W[2, 3] = W[3, 2] = 1.0
    owners = nearest_seeds(scipy.sparse.csr_array(W), np.array([0, 2, 5]))
    assert owners.tolist() == [0, 0, 1, 1, 0, 2]
    E = bipartite_embedding(scipy.sparse.csr_array(W), owners, 2)
    assert np.isfinite(E).all()
    assert (E[4:] == 0).all()
    np.testing.assert_allclose(E[0], E[1])
    assert (bipartite_embedding(scipy.sparse.csr_array((3, 3)), np.zeros(3, np.int32), 2) == 0).all()


def test_small_components_do_not_become_clusters():
    X, y = blobs(n=600, k=3)
    X = np.concatenate([X, [[1e3, 0, 0], [1e3, 1e-3, 0]]])  # a pair of outliers
    found = [ESCG(3, n_neighbors=20, n_supernodes=20, random_state=seed).fit_predict(X)[:-2] for seed in range(5)]
    assert sum(same_partition(labels, y) for labels in found) >= 4


def test_supernodes_are_kept():
    model = ESCG(3, n_supernodes=10, random_state=0).fit(blobs()[0])
    assert set(model.supernodes_) <= set(range(10))
    assert len(ESCG(30, random_state=0).fit(blobs()[0]).supernodes_) == 400
