"""Votes in many cuts at once, against the vote of one cut, and against all cuts of a tree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ultraspec._kernels import cuts
from ultraspec._kernels.agreement import vote
from ultraspec.cluster.linkage import agglomerate
from ultraspec.figures.cuts import TopTree

M = 6


def random_edges(rng, n, K, p):
    ids = np.stack([rng.permutation(p)[:K] for _ in range(n)]).astype(np.uint16)
    weights = rng.random((n, K)).astype(np.float32) ** 3
    weights[: n // 4] = np.float32(1 / K)  # ties
    return ids, weights / weights.sum(axis=1, keepdims=True, dtype=np.float32)


def labels_by(ids, weights, groups):
    labels = np.empty(len(ids), dtype=np.int32)
    vote(ids, weights, groups.astype(np.int32), labels)
    return labels


@pytest.mark.parametrize("seed", range(5))
def test_all_cuts_are_counted_like_one(seed):
    rng = np.random.default_rng(seed)
    n, K, p, C = 400, 5, 40, 7
    ids, weights = random_edges(rng, n, K, p)
    units = rng.integers(0, 12, p).astype(np.int32)
    groups = np.stack([rng.integers(0, k, 12) for k in range(2, 2 + C)]).astype(np.int32)
    found, at_border = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.bool_)
    cuts.assign_units(ids, weights, units, found, at_border)
    assert np.array_equal(found, labels_by(ids, weights, units))
    assert np.array_equal(at_border, (units[ids] != units[ids[:, :1]]).any(axis=1))
    counts = np.zeros((C, C + 1), dtype=np.int64)
    least = np.full((C, C + 1), np.inf, dtype=np.float32)
    least_rows = np.full((C, C + 1), -1, dtype=np.int64)
    numbers = np.arange(1000, 1000 + n)
    cuts.count_votes(ids, weights, units, groups, numbers, counts, least, least_rows)
    for c in range(C):
        labels = labels_by(ids, weights, groups[c][units])
        assert np.array_equal(counts[c], np.bincount(labels, minlength=C + 1))
        shares = (weights * (groups[c][units[ids]] == labels[:, None])).sum(axis=1) / weights.sum(axis=1)
        for code in range(C + 1):
            mine = shares[labels == code]
            if mine.size and mine.min() < 0.999:
                assert least[c, code] == pytest.approx(mine.min(), rel=1e-5)
                assert shares[least_rows[c, code] - 1000] == pytest.approx(mine.min(), rel=1e-5)


def all_cuts(tree):
    """Yield the cluster of each leaf for every cut of a tree, horizontal or not."""
    L = tree.n_leaves
    children = {L + t: pair for t, pair in enumerate(tree.merges.tolist())}

    def below(node):
        return [node] if node < L else [leaf for child in children[node] for leaf in below(child)]

    def options(node):
        yield [node]
        if node >= L:
            left, right = children[node]
            for a, b in itertools.product(list(options(left)), list(options(right))):
                yield a + b

    for nodes in options(2 * L - 2):
        owner = np.empty(L, dtype=np.int32)
        for i, node in enumerate(nodes):
            owner[below(node)] = i
        yield owner


@pytest.mark.parametrize("seed", range(4))
def test_patterns_know_the_vote_of_every_cut_of_a_tree(seed):
    rng = np.random.default_rng(seed)
    n, K, p = 300, 5, 60
    ids, weights = random_edges(rng, n, K, p)
    points = rng.normal(size=(9, 2))
    whole = agglomerate(np.linalg.norm(points[:, None] - points, axis=2))
    tree = TopTree.of("tree", whole, rng.integers(0, 9, p).astype(np.int32), 8)
    records = np.zeros((n, 1 + M + 2 ** (M - 1)), dtype=np.uint8)
    cuts.vote_patterns(ids, weights, tree.leaf_of, tree.joined_at, records)
    assert (records[:, 0] == 1).mean() > 0.3
    assert (records[:, 0] > 1).any()
    for owner in all_cuts(tree):
        expected = labels_by(ids, weights, owner[tree.leaf_of])
        found = []
        for record in records.tolist():
            m, leaves = record[0], record[1 : 1 + record[0]]
            mask = sum(1 << j for j in range(m - 1) if owner[leaves[j]] == owner[leaves[j + 1]])
            found.append(owner[leaves[record[1 + M + mask] if m > 1 else 0]])
        assert np.array_equal(found, expected)
