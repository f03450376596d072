"""Rows without structure."""

from __future__ import annotations

import numpy as np
import pytest

from ultraspec.spectral.null import draw_gaussian


@pytest.fixture
def clusters():
    random = np.random.default_rng(0)
    centers, widths = np.array([9, 0, 2]), np.array([1, 4, 1])
    return np.vstack([random.normal(size=(500, 3)) + centers, random.normal(size=(500, 3)) * widths])


def draw(X, weights, metric="euclidean", n=200_000):
    return draw_gaussian(X, weights, n, metric, np.random.default_rng(1))


def test_mean_and_covariance_are_those_of_the_rows(clusters):
    drawn = draw(clusters, np.ones(1000))
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.mean(axis=0), clusters.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(clusters.T), atol=0.2)


def test_a_weight_of_two_counts_as_two_rows(clusters):
    weights = np.repeat([2.0, 1.0], 500)
    repeated = np.repeat(clusters, np.repeat([2, 1], 500), axis=0)
    np.testing.assert_allclose(draw(clusters, weights, n=50), draw(repeated, np.ones(1500), n=50), rtol=1e-3, atol=1e-3)


def test_there_is_no_gap(clusters):
    first = draw(clusters, np.ones(1000))[:, 0]
    counts, _ = np.histogram(first, bins=np.linspace(-3, 12, 16))
    peak = int(counts.argmax())
    assert (np.diff(counts[: peak + 1]) > 0).all()
    assert (np.diff(counts[peak:]) < 0).all()


def test_rows_have_unit_length_for_the_cosine(clusters):
    drawn = draw(clusters, np.ones(1000), "cosine", n=100)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-5)


def test_rows_that_are_all_the_same_give_that_row():
    assert (draw(np.full((10, 2), 3.0), np.ones(10), n=5) == 3).all()
