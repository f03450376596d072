"""`stability`: clusters against those of resampled graphs, and against rows without structure."""

import numpy as np
import pytest

from tests.helpers.common import blobs
from ultraspec import USENC, USPEC, load, open_rows, save
from ultraspec._estimator import fitted
from ultraspec.engines.threads import ThreadEngine
from ultraspec.figures.cuts import judge_cut

X, Y = blobs(600, d=3)
RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=(900, 3))


@pytest.fixture(scope="module")
def model():
    return USPEC(4, random_state=0).fit(X)


def test_clusters_stand_out_from_rows_without_structure(model):
    for found in (model.stability(), model.stability(X, n_graphs=3)):
        assert found.clusters == pytest.approx(np.ones(4), abs=0.02)
        assert found.stands_out.all()
        assert found.agreement > 0.98
        assert found.null_agreement < 0.9
        assert 0 < found.null < 1
    assert found.n_graphs == 3


def test_noise_does_not_stand_out():
    model = USPEC(5, random_state=0).fit(NOISE)
    found = model.stability(NOISE, n_graphs=3)
    assert found.stands_out.mean() <= 0.2
    assert found.agreement < found.null_agreement + 0.2
    assert found.clusters.max() < 0.95


def test_one_of_three_clusters_is_real():
    """A far blob, and one cloud of which a part is split off by chance."""
    data = np.concatenate([RNG.normal([25, 0], 1, size=(600, 2)), RNG.normal(size=(1200, 2))])
    model = USPEC(3, discretize="kmeans", random_state=0).fit(data)
    far = model.labels_[0]
    found = model.stability(data, n_graphs=3)
    assert found.clusters[far] > 0.95
    assert found.stands_out[far]
    assert not found.stands_out.all()


def test_the_page_and_the_model_agree(model):
    """What the report shows of the judges is what `stability()` measures."""
    with ThreadEngine(1) as engine:
        judged = judge_cut(fitted(model).model.choice, "auto", 4, engine)
    found = model.stability()
    assert np.sort(judged.stability).tolist() == np.sort(found.clusters).tolist()
    assert judged.agreement == found.agreement


def test_results_repeat(model):
    one, two, other = (model.stability(X, n_graphs=2, random_state=seed) for seed in (0, 0, 1))
    assert one.clusters.tolist() == two.clusters.tolist()
    assert one.null == two.null
    model.n_jobs = 1
    assert model.stability(X, n_graphs=2).clusters.tolist() == one.clusters.tolist()
    model.n_jobs = None
    assert other.n_graphs == 2


def test_models_of_all_kinds(tmp_path, model):
    ensemble = USENC(4, n_estimators=4, random_state=0).fit(X)
    assert ensemble.stability().clusters.min() > 0.95
    assert ensemble.stability(X, n_graphs=2).clusters.min() > 0.95
    assert USENC.paper(4, n_estimators=4, random_state=0).fit(X).stability(X, n_graphs=2).clusters.min() > 0.95
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.stability().clusters.tolist() == model.stability().clusters.tolist()
    assert loaded.stability(X, n_graphs=2).clusters.min() > 0.95


def test_rows_of_files_and_of_a_cluster(tmp_path, model):
    np.save(tmp_path / "x.npy", X)
    with open_rows(tmp_path / "x.npy") as rows:
        found = model.stability(rows, n_graphs=2)
    assert found.clusters.tolist() == model.stability(X, n_graphs=2).clusters.tolist()
    da = pytest.importorskip("dask.array")
    import dask

    with dask.config.set(scheduler="sync"):
        there = model.stability(da.from_array(X, chunks=(250, 3)), n_graphs=2)
    assert there.clusters.tolist() == found.clusters.tolist()


def test_weights_count():
    """Rows of weight zero, which would fill the gap between two clusters, have no effect."""
    points = np.concatenate([RNG.uniform(size=(1200, 2)) * [1, 3], RNG.uniform(size=(300, 2)) * [1, 3]])
    weights = np.where(np.abs(points[:, 0] - 0.5) < 0.2, 0.0, 1.0)
    model = USPEC(2, random_state=0).fit(points, sample_weight=weights)
    assert model.stability(points, n_graphs=3, sample_weight=weights).clusters.min() > 0.95
    assert model.stability(points, n_graphs=3).clusters.max() < 0.9


def test_what_cannot_be_measured(model):
    with pytest.raises(ValueError, match="single cluster"):
        model.cut(1).stability(X)
    with pytest.raises(ValueError, match=r"No other graphs judge.*stability\(X\)"):
        USPEC.paper(4, random_state=0).fit(X).stability()
    with pytest.raises(ValueError, match="too few to resample"):
        model.stability(X[:20])
    with pytest.raises(ValueError, match="n_graphs must be an integer >= 1"):
        model.stability(X, n_graphs=0)
    with pytest.raises(ValueError, match="features"):
        model.stability(np.zeros((100, 5)))
