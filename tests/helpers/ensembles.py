"""Literal algebra on label matrices for the tests of the ensemble baselines: every row, no microclusters."""

from __future__ import annotations

import numpy as np

from ultraspec.baselines._base_clusterings import BaseClusterings
from ultraspec.ensemble import microclusters


def clusterings_of(labels, engine):
    """Microclusters of a label matrix without unassigned rows, and the microcluster of every row."""
    micro = microclusters.find(labels, engine)
    assert len(micro.assigned) == len(micro.columns)
    clusterings = BaseClusterings(micro.columns, micro.weights, tuple(map(len, micro.values)))
    return clusterings, micro.spread(np.arange(len(clusterings)), engine)


def base_clusters(labels):
    """Membership (N,) of every base cluster and its clustering, numbered through all columns in order of labels."""
    columns = [(labels[:, j] == c, j) for j in range(labels.shape[1]) for c in np.unique(labels[:, j]) if c != -1]
    return np.stack([members for members, _ in columns], axis=1).astype(float), [j for _, j in columns]


def pair_similarity(labels, likeness):
    """Mean over the clusterings that assign both of two rows of ``likeness(j, a, b)``."""
    n, m = labels.shape
    S = np.zeros((n, n))
    for u in range(n):
        for v in range(n):
            both = [j for j in range(m) if labels[u, j] != -1 and labels[v, j] != -1]
            S[u, v] = np.mean([likeness(j, labels[u, j], labels[v, j]) for j in both]) if both else 0.0
    return S


def assert_average_linkage(S, cut, most):
    """Going down from `most` clusters, ``cut(k)`` always merges two that are the most similar on average over rows."""
    labels = cut(most)
    for k in range(most - 1, 0, -1):
        groups = [np.flatnonzero(labels == c) for c in range(k + 1)]
        means = {(a, b): S[np.ix_(groups[a], groups[b])].mean() for a in range(k + 1) for b in range(a)}
        labels = cut(k)
        assert sorted(set(labels)) == list(range(k))
        merged = [pair for pair in means if labels[groups[pair[0]][0]] == labels[groups[pair[1]][0]]]
        assert len(merged) == 1
        assert means[merged[0]] >= max(means.values()) - 1e-5
        assert all(len(set(labels[group])) == 1 for group in groups)
