"""n_clusters="auto": the number of clusters that disjoint halves of the rows agree on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_circles, make_moons

from tests.helpers.common import blobs, same_partition
from ultraspec import USPEC, datasets, load, metrics, open_rows, save


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
    X, _ = datasets.generate("cg", 1_000, random_state=1)
    model = USPEC("auto", discretize=discretize, random_state=0).fit(X)
    k = model.n_clusters_
    fixed = USPEC(k, discretize=discretize, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, fixed.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.cut(k + 2).labels_, fixed.cut(k + 2).labels_)
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(X), model.labels_)


@pytest.mark.filterwarnings("ignore:Found", "ignore:No structure")
@pytest.mark.parametrize("discretize", ["auto", "agreement", "kmeans"])
@pytest.mark.parametrize("rows", [2, 3, 5, 12])
def test_auto_of_few_rows(rows, discretize):
    X = np.random.default_rng(0).standard_normal((rows, 2))
    model = USPEC("auto", discretize=discretize, random_state=0).fit(X)
    assert 1 <= model.n_clusters_ <= rows


def separate(n, k, d=2, seed=0):
    """Give k blobs of deviation 1, at least ten apart."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(np.stack(np.meshgrid(*[np.arange(7)] * 2), axis=-1).reshape(-1, 2))[:k]
    centers = np.concatenate([12.0 * cells, np.zeros((k, d - 2))], axis=1)
    return make_blobs(n, centers=centers, cluster_std=1.0, random_state=seed)


@pytest.mark.parametrize(("n", "k", "d"), [(1000, 5, 2), (1500, 15, 10), (3000, 30, 2), (300, 30, 2)])
def test_separate_blobs_are_found_exactly(n, k, d):
    X, y = separate(n, k, d)
    model = USPEC("auto", random_state=0).fit(X)
    assert model.layers_[0].n_clusters == model.n_clusters_ == k
    assert metrics.ari(y, model.labels_) > 0.99


@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_two_curved_clusters(make):
    X, y = make(1500, noise=0.05, random_state=0, **({"factor": 0.4} if make is make_circles else {}))
    model = USPEC("auto", random_state=0).fit(X)
    assert model.n_clusters_ == 2
    assert metrics.ari(y, model.labels_) > 0.98


@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("draw", ["uniform", "standard_normal"])
def test_data_without_structure(draw, d):
    rng = np.random.default_rng(0)
    X = rng.random((1500, d)) if draw == "uniform" else rng.standard_normal((1500, d))
    with pytest.warns(UserWarning, match="No structure found: graphs of disjoint halves of the rows agree on no"):
        model = USPEC("auto", random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert model.layers_ == [(1, 0.0)]
    assert not model.labels_.any()
    assert model.explain().startswith("No structure was found in 1,500 rows")


def test_layers_do_not_depend_on_threads_or_on_where_rows_are(tmp_path):
    dask_array = pytest.importorskip("dask.array")
    pandas = pytest.importorskip("pandas")
    X, _ = separate(700, 6, 3)
    X = X.astype(np.float32)
    model = USPEC("auto", random_state=0, n_jobs=1).fit(X)
    np.save(tmp_path / "rows.npy", X)
    pandas.DataFrame(X, columns=list("abc")).to_parquet(tmp_path / "rows.parquet")
    others = [open_rows(tmp_path / "rows.npy"), open_rows(tmp_path / "rows.parquet")]
    for other in (X, *others, dask_array.from_array(X, chunks=(250, 3))):
        again = USPEC("auto", random_state=0, n_jobs=2).fit(other)
        assert again.layers_ == model.layers_
        np.testing.assert_array_equal(np.asarray(again.labels_), model.labels_)


def test_layers_only_of_auto():
    assert USPEC(4, random_state=0).fit(blobs()[0]).layers_ is None
