"""The number of clusters that n_clusters="auto" reads from eigenvalues and from a tree of representatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.cases import SEEDS
from tests.helpers.common import blobs, same_partition
from ultraspec import USPEC, datasets, load, metrics, save
from ultraspec.cluster.linkage import agglomerate
from ultraspec.spectral.n_clusters import largest_fall


def between(C, labels):
    """Similarities of all pairs of clusters: means of C."""
    k = labels.max() + 1
    means = np.full((k, k), -np.inf)
    for a in range(k):
        for b in range(a):
            means[a, b] = C[np.ix_(labels == a, labels == b)].mean()
    return means


@settings(max_examples=60)
@given(seed=SEEDS, p=st.integers(1, 30))
def test_largest_fall_is_its_definition(seed, p):
    """What is merged from k clusters is the most alike pair of them."""
    C = np.random.default_rng(seed).random((p, p)) ** 3
    C = C + C.T
    tree = agglomerate(C, similarity=True)
    k = largest_fall(tree)
    if p < 3:
        assert k == p
        return
    falls = {}
    for n in range(2, p):
        left, further = between(C, tree.cut(n + 1)).max(), between(C, tree.cut(n)).max()
        falls[n] = (left + 0.1) / (further + 0.1)
    assert falls[k] == pytest.approx(max(falls.values()))


def test_no_more_than_fifty_clusters():
    """Two hundred pairs, all alike: the fall after the pairs is out of sight."""
    C = np.kron(np.eye(200), np.ones((2, 2)))
    assert largest_fall(agglomerate(C, similarity=True)) <= 50


def test_the_tree_sees_classes_that_touch():
    """Eleven classes, of which the eigengap sees three."""
    X, y = datasets.generate("cg", 20_000, random_state=0)
    for seed in range(2):
        model = USPEC("auto", discretize="consensus", random_state=seed).fit(X)
        assert model.n_clusters_ == 11
        assert metrics.nmi(y, model.labels_) > 0.9


@pytest.mark.parametrize(("k", "d"), [(3, 3), (6, 20)])
def test_a_clear_step_of_the_eigenvalues_is_taken(k, d):
    for seed in range(2):
        X, y = blobs(k=k, d=d, seed=seed)
        assert same_partition(y, USPEC("auto", discretize="consensus", random_state=seed).fit_predict(X))


def test_auto_is_a_fit_with_that_number(tmp_path):
    X, _ = datasets.generate("cg", 5_000, random_state=1)
    model = USPEC("auto", discretize="consensus", random_state=0).fit(X)
    k = model.n_clusters_
    fixed = USPEC(k, discretize="consensus", random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, fixed.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.cut(k + 2).labels_, fixed.cut(k + 2).labels_)
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(X), model.labels_)


@pytest.mark.filterwarnings("ignore:Found")
@pytest.mark.parametrize("rows", [2, 3, 5, 12])
def test_auto_of_few_rows(rows):
    X = np.random.default_rng(0).standard_normal((rows, 2))
    model = USPEC("auto", discretize="consensus", random_state=0).fit(X)
    assert 1 <= model.n_clusters_ <= rows
