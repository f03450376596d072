"""Label matrices for tests: noisy base clusterings of planted clusters, and their microclusters."""

from __future__ import annotations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.helpers.cases import SEEDS
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.transfer_cut import ConsensusGraph


def noisy(truth, m, noise, random, *, finest=3, missing=0.0):
    """Give m base clusterings: each cuts true clusters into pieces at random, errs on some rows and leaves some out."""
    k = int(truth.max()) + 1
    columns = []
    for _ in range(m):
        pieces = int(random.integers(1, finest + 1))
        column = truth * pieces + random.integers(pieces, size=len(truth))
        wrong = random.random(len(truth)) < noise
        column[wrong] = random.integers(k * pieces, size=wrong.sum())
        column[random.random(len(truth)) < missing] = -1
        columns.append(column)
    return np.stack(columns, axis=1)


def planted(k=3, n=300, m=10, noise=0.1, seed=0, **options):
    """True clusters and noisy base clusterings; every row has at least one label."""
    random = np.random.default_rng(seed)
    truth = random.permutation(np.arange(n) % k)
    labels = noisy(truth, m, noise, random, **options)
    labels[(labels < 0).all(axis=1), 0] = 0
    return truth, labels


@st.composite
def label_matrices(draw, most_rows=60):
    """Labels at random or around planted clusters, with or without missing ones; at least one is there."""
    n, m, k = draw(st.integers(1, most_rows)), draw(st.integers(1, 8)), draw(st.integers(1, 6))
    noise, missing = draw(st.sampled_from([0.0, 0.2, 1.0])), draw(st.sampled_from([0.0, 0.2, 0.7]))
    random = np.random.default_rng(draw(SEEDS))
    labels = noisy(random.integers(k, size=n), m, noise, random, missing=missing)
    assume((labels >= 0).any())
    return labels


def built(labels, engine, tau=1e-3, n_clusters=1):
    """Give microclusters, their graph, and the place of every row's microcluster in that graph (-1 for none)."""
    micro = microclusters.find(labels, engine)
    graph = ConsensusGraph.build(micro, n_clusters, tau, engine)
    places = np.full(len(micro.columns), -1)
    places[graph.assigned] = np.arange(len(graph.assigned))
    return micro, graph, micro.spread(places, engine)


def as_objects(base, name, none):
    """Give the names of labels, and `none` for missing ones."""
    out = np.empty(base.shape, dtype=object)
    for at, label in np.ndenumerate(base):
        out[at] = none if label == -1 else name(int(label))
    return out
