"""n_clusters="auto" where representatives are divided: the number from the eigengap or from the merge tree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.common import blobs, same_partition
from ultraspec import USPEC, datasets, load, metrics, save


def test_the_tree_sees_classes_that_touch():
    """Eleven classes, of which the eigengap sees three."""
    X, y = datasets.generate("cg", 20_000, random_state=0)
    models = [USPEC("auto", random_state=seed).fit(X) for seed in range(4)]
    scores = [metrics.nmi(y, model.labels_) for model in models]
    assert sum(model.n_clusters_ == 11 for model in models) >= 3  # a tree may see one or two more
    assert np.median(scores) > 0.92
    assert min(scores) > 0.8


@pytest.mark.parametrize(("k", "d"), [(3, 3), (6, 20)])
def test_a_clear_step_of_the_eigenvalues_is_taken(k, d):
    for seed in range(2):
        X, y = blobs(k=k, d=d, seed=seed)
        assert same_partition(y, USPEC("auto", random_state=seed).fit_predict(X))


@pytest.mark.parametrize("discretize", ["agreement", "linked", "border"])
def test_auto_is_a_fit_with_that_number(discretize, tmp_path):
    X, _ = datasets.generate("cg", 5_000, random_state=1)
    model = USPEC("auto", discretize=discretize, random_state=0).fit(X)
    k = model.n_clusters_
    fixed = USPEC(k, discretize=discretize, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, fixed.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.cut(k + 2).labels_, fixed.cut(k + 2).labels_)
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(X), model.labels_)


@pytest.mark.filterwarnings("ignore:Found")
@pytest.mark.parametrize("discretize", ["auto", "agreement", "kmeans"])
@pytest.mark.parametrize("rows", [2, 3, 5, 12])
def test_auto_of_few_rows(rows, discretize):
    X = np.random.default_rng(0).standard_normal((rows, 2))
    model = USPEC("auto", discretize=discretize, random_state=0).fit(X)
    assert 1 <= model.n_clusters_ <= rows
