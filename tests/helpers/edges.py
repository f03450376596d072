"""Edges of rows to representatives for tests: random ones, those of a `Case`, and dense algebra on them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from ultraspec.rows import ArrayRows
from ultraspec.spectral.edges import Edges, connect
from ultraspec.spectral.partition import CenterPartition
from ultraspec.spectral.transfer_cut import Spectrum


def random_graph(n, p, K, k, random, groups=None):
    """Give transition edges of n rows, and vectors of p representatives; with groups, rows stay within theirs."""
    weights = np.sort(random.random((n, K)) + 0.01)[:, ::-1]
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    ids = random.random((n, p))
    vectors = 0.5 * random.standard_normal((p, k))
    if groups is not None:
        group = np.arange(p) % groups
        ids += group != random.integers(groups, size=n)[:, None]
        vectors = 0.1 * vectors + 3 * random.standard_normal((groups, k))[group]
    vectors[:, 0] = 1.0
    return Edges(ids.argsort(axis=1)[:, :K].astype(np.uint16), weights), vectors.astype(np.float32)


@st.composite
def graphs(draw, most_rows=200):
    p = draw(st.integers(1, 60))
    K = draw(st.integers(1, min(p, 8)))
    n, k = draw(st.integers(1, most_rows)), draw(st.integers(1, 30))
    return random_graph(n, p, K, k, np.random.default_rng(draw(SEEDS)))


def dense(edges, p):
    """Give T (n x p), the transition probabilities."""
    T = np.zeros((len(edges), p))
    np.add.at(T, (np.arange(len(edges))[:, None], edges.ids.astype(np.int64)), edges.weights)
    return T


def lifted(edges, vectors):
    """Embed rows as the oracle does."""
    return oracle.embedding(dense(edges, len(vectors)), vectors.astype(np.float64))


def connected(case, engine, exact=True):
    """Give index, edges and sigma of a case."""
    index = case.index(engine, exact=exact)
    edges = connect(ArrayRows(case.X), index, engine)
    return index, edges, edges.sigma


def plain_spectrum(vectors):
    """Give vectors as a spectrum whose representatives all have the same degree."""
    return Spectrum(np.ones(vectors.shape[1]), vectors, np.ones(len(vectors)))


def label(edges, vectors, centers):
    """Label rows with the nearest centre in the embedding."""
    return CenterPartition(plain_spectrum(vectors), centers).label(edges)


def clumps(p=240, k=4, n_vectors=12, spread=0.05, seed=0):
    """Give a spectrum whose representatives lie in k bundles of directions, of unequal degrees, and the bundles."""
    random = np.random.default_rng(seed)
    y = np.sort(random.integers(k, size=p))
    vectors = np.eye(k, n_vectors)[y] + spread * random.standard_normal((p, n_vectors))
    return Spectrum(np.linspace(1, 0.5, n_vectors), vectors.astype(np.float32), random.random(p) + 0.1), y
