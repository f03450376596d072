"""PTGP against its dense form: all powers of all transition probabilities between all microclusters."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.common import same_partition
from tests.helpers.ensembles import clusterings_of, pair_similarity
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec.baselines import _coassociation, ptgp
from ultraspec.baselines._transfer_cut import cut_affinities
from ultraspec.baselines.ptgp import elite_neighbor_graph, trajectory_affinities, trajectory_squared_lengths


def links(A, K):
    """Co-associations that reach the K-th largest of either row, the diagonal being zero."""
    A = A - np.diag(A.diagonal())
    thresholds = np.sort(A, axis=1)[:, -K]
    return np.where(np.minimum(thresholds[:, None], thresholds) <= A, A, 0)


def affinities(W, sizes, B, T):
    """Mean similarity of trajectories to those of the microclusters in each base cluster."""
    weighted = W * sizes
    totals = weighted.sum(axis=1)
    isolated = totals == 0
    P = weighted / np.where(isolated, 1, totals)[:, None]
    trajectories = np.hstack([np.linalg.matrix_power(P, t) for t in range(1, T + 1)])
    lengths = np.where(isolated, 1, np.linalg.norm(trajectories, axis=1))
    S = trajectories @ trajectories.T / np.outer(lengths, lengths)
    S[isolated] = S[:, isolated] = 1e-20
    return S @ (B / B.sum(axis=0))


def dense(clusterings):
    return clusterings.memberships(slice(0, len(clusterings))).toarray().astype(float)


@settings(max_examples=60)
@given(labels=label_matrices(most_rows=30), K=st.integers(1, 6))
def test_links_are_those_of_the_definition(labels, K, engine):
    assume((labels >= 0).any(axis=1).all())
    clusterings, places = clusterings_of(labels, engine)
    assume(len(clusterings) > 1)
    K = min(K, len(clusterings) - 1)
    firsts = np.unique(places, return_index=True)[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_coassociation, "BLOCK_PAIRS", 40)
        W = elite_neighbor_graph(clusterings, K, engine).toarray()
    A = pair_similarity(labels[firsts], lambda _, a, b: float(a == b)).astype(np.float32)
    np.testing.assert_allclose(W, links(A, K), rtol=1e-6)


@settings(max_examples=80)
@given(labels=label_matrices(most_rows=40), K=st.integers(1, 6), T=st.integers(1, 8), many=st.booleans())
def test_affinities_are_those_of_the_dense_form(labels, K, T, many, engine):
    assume((labels >= 0).any(axis=1).all())
    clusterings, _ = clusterings_of(labels, engine)
    assume(len(clusterings) > 1)
    W = elite_neighbor_graph(clusterings, min(K, len(clusterings) - 1), engine)
    with pytest.MonkeyPatch.context() as patch:
        module = trajectory_affinities.__globals__
        patch.setitem(module, "COLUMN_BYTES", module["COLUMN_BYTES"] if many else 1)
        patch.setitem(module, "WALKS", 64 if many else 3)
        ours = trajectory_affinities(clusterings, W, T, engine)
    theirs = affinities(W.toarray().astype(float), clusterings.weights, dense(clusterings), T)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-25)


def test_isolated_microclusters(engine):
    """Rows that share no base cluster with any other have no links: their similarities are next to nothing."""
    labels = np.array([[0, 0], [0, 1], [1, 1], [7, 7], [8, 8]])
    clusterings, _ = clusterings_of(labels, engine)
    W = elite_neighbor_graph(clusterings, 1, engine)
    assert W[[3, 4]].nnz == 0
    ours = trajectory_affinities(clusterings, W, 2, engine)
    theirs = affinities(W.toarray().astype(float), clusterings.weights, dense(clusterings), 2)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert (ours[3:] == np.float32(1e-20)).all()
    assert len(set(ptgp(labels, 2, random_state=0))) == 2


@settings(max_examples=40)
@given(n=st.integers(6, 60), q=st.integers(4, 12), k=st.integers(1, 4), seed=SEEDS)
def test_cut_of_affinities(n, q, k, seed, engine):
    """Planted: rows and columns in k groups, with faint ties between these."""
    random = np.random.default_rng(seed)
    truth = random.permutation(np.arange(n) % k)
    B = random.random((n, q)) * np.where(truth[:, None] == np.arange(q) % k, 1.0, 1e-3)
    found = cut_affinities(B.astype(np.float32), k, 10, 100, np.random.SeedSequence(seed), engine).labels
    assert same_partition(found, truth)


def test_cut_is_that_of_the_oracle(engine):
    random = np.random.default_rng(0)
    B = random.random((50, 7)).astype(np.float32)
    _, vectors = oracle.transfer_cut(oracle.reduced_affinity(B.astype(float)), 2)
    E = oracle.embedding(B.astype(float), vectors)
    found = cut_affinities(B, 2, 10, 100, np.random.SeedSequence(0), engine).labels
    centers = np.stack([E[found == j].mean(axis=0) for j in range(2)])
    assert (((E[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1) == found).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_planted_clusters_are_found(seed, missing):
    truth, labels = planted(k=4, n=400, m=15, noise=0.05, seed=seed, missing=missing)
    assert same_partition(ptgp(labels, 4, random_state=seed), truth)


def test_one_microcluster():
    assert ptgp([[0, 1]] * 5, 1).tolist() == [0] * 5


def test_no_pair_matrix_is_kept(engine):
    _, labels = planted(n=300, noise=0.5)
    W = elite_neighbor_graph(clusterings_of(labels, engine)[0], 3, engine)
    assert scipy.sparse.issparse(W)
    assert W.nnz < 0.5 * W.shape[0] ** 2


def test_bad_parameters():
    for name in ("n_neighbors", "n_steps"):
        with pytest.raises(ValueError, match=name):
            ptgp([[0], [1]], 2, **{name: 0})
    with pytest.raises(ValueError, match="too few for n_clusters=4"):
        ptgp([[0, 0], [1, 0], [0, -1], [1, -1], [-1, 0]], 4)


def test_walks_that_reach_few_places(engine):
    """A long chain, where short walks stay near their start, and the rest is skipped."""
    n, T = 300, 6
    random = np.random.default_rng(0)
    W = scipy.sparse.diags_array([random.random(n - 1)] * 2, offsets=[1, -1])
    P = scipy.sparse.csr_array(W.multiply(1 / W.sum(axis=1)[:, None])).astype(np.float32)
    found = trajectory_squared_lengths(P, scipy.sparse.csr_array(P.T), T, engine)
    powers = [np.linalg.matrix_power(P.toarray().astype(float), t) for t in range(1, T + 1)]
    np.testing.assert_allclose(found, sum((power**2).sum(axis=1) for power in powers), rtol=1e-5)
