"""Resampled graphs, and what is measured on them; tests/test_stability.py has whole models."""

import numpy as np
import pytest

from ultraspec import USPEC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, LocalWeights, WeightedRows
from ultraspec.spectral import stability
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.stability import best_match, cluster_stability, correct_for_size, resampled_judges


def test_parts_of_the_measure():
    labels = np.array([0, 0, 0, 1, 1, 2], dtype=np.int32)
    others = np.array([1, 1, 0, 0, 0, 2], dtype=np.int32)
    assert best_match(labels, 3, others) == pytest.approx([2 / 3, 2 / 3, 1])
    assert cluster_stability(labels, 3, [[labels, others], [others]]) == pytest.approx([5 / 6, 5 / 6, 1])
    assert correct_for_size(np.array([1.0, 0.5]), np.array([0.5, 0.5])).tolist() == [1, 0]


def test_each_graph_has_its_own_half_of_the_rows(monkeypatch):
    pools = []
    build = stability.build_judges
    monkeypatch.setattr(stability, "build_judges", lambda pool, *args: pools.append(pool) or build(pool, *args))
    numbers = np.arange(1000.0)[:, None].astype(np.float32)
    weights = np.where(np.arange(1000) < 500, 1.0, 0.0)
    options = GraphOptions.of(USPEC(2))
    with ThreadEngine(1) as engine:
        for rows in (ArrayRows(numbers), WeightedRows(ArrayRows(numbers), LocalWeights.of(weights))):
            resampled_judges(rows, numbers[:50], 3, 2, options, np.random.SeedSequence(0), engine)
    halves = [set(pool.read(0, pool.n_rows).ravel().astype(int).tolist()) for pool in pools]
    assert [len(half) for half in halves[:3]] == [500] * 3
    assert 150 < len(halves[0] & halves[1]) < 350
    assert all(max(half) < 500 for half in halves[3:])
