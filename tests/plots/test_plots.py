"""The figures of the report as matplotlib axes."""

from __future__ import annotations

import copy
import sys

import matplotlib
import numpy as np
import pytest

from tests.helpers.common import blobs
from tests.helpers.model_files import as_loaded
from ultraspec import USENC, USPEC, datasets, plots
from ultraspec.figures import cuts, labeled_rows

matplotlib.use("Agg")

import matplotlib.pyplot as plt

pytestmark = pytest.mark.usefixtures("few_cuts", "few_halves")


@pytest.fixture(scope="module")
def rings():
    X = datasets.generate("cc", 1500, random_state=0)[0]
    model = USPEC(3, random_state=0).fit(X)
    model.fit_profile_ = {"a": {"seconds": 1.0, "resident_bytes": 2**30}, "b": {"seconds": 2.0, "resident_bytes": None}}
    return model, X


@pytest.fixture(scope="module")
def ensemble():
    X = datasets.generate("tb", 1500, random_state=0)[0]
    return USENC(2, n_estimators=6, random_state=0).fit(X), X


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def colors_in(ax):
    """Count the pixels of drawn axes that are not grey."""
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[..., :3].astype(int)
    return int((np.ptp(pixels, axis=2) > 40).sum())


def every_plot(rings, ensemble):
    model, X = rings
    members, Y = ensemble
    return {
        "clusters": lambda ax: plots.clusters(model, X, ax=ax),
        "clusters by confidence": lambda ax: plots.clusters(members, Y, color="confidence", ax=ax),
        "eigenvalues": lambda ax: plots.eigenvalues(model, ax=ax),
        "sizes": lambda ax: plots.sizes(model, ax=ax),
        "graph": lambda ax: plots.graph(model, X, ax=ax),
        "confidence": lambda ax: plots.confidence(members, ax=ax),
        "agreement": lambda ax: plots.agreement(members, ax=ax),
        "phases": lambda ax: plots.phases(model, ax=ax),
        "tree": lambda ax: plots.tree(model, ax=ax),
        "means": lambda ax: plots.means(model, X, ax=ax),
        "stability": lambda ax: plots.stability(model, ax=ax),
    }


NAMES = list(every_plot((None, None), (None, None)))


@pytest.mark.parametrize("name", NAMES)
def test_a_plot_is_drawn_on_new_axes(rings, ensemble, name):
    ax = every_plot(rings, ensemble)[name](None)
    assert isinstance(ax, matplotlib.axes.Axes)
    assert len(plt.get_fignums()) == 1
    assert colors_in(ax) > 300


@pytest.mark.parametrize("name", NAMES)
def test_given_axes_are_used_and_nothing_else_changes(rings, ensemble, name):
    settings = dict(matplotlib.rcParams)
    figure = matplotlib.figure.Figure()
    other = plt.figure().add_subplot()
    ax = figure.add_subplot()
    assert every_plot(rings, ensemble)[name](ax) is ax
    assert plt.gca() is other
    assert len(plt.get_fignums()) == 1
    assert dict(matplotlib.rcParams) == settings


def test_all_names_are_plots():
    assert {name.split()[0] for name in NAMES} == set(plots.__all__)


def test_points_and_rasters_show_the_clusters(rings, monkeypatch):
    model, X = rings
    points = plots.clusters(model, X)
    assert sum(len(part.get_offsets()) for part in points.collections) == 1500
    assert points.get_xlabel() == "feature 0"
    assert [text.get_text() for text in points.texts] == ["0", "1", "2"]
    sizes = [text.get_text() for text in points.get_legend().get_texts()]
    assert sizes == [f"{i}  ({n:,})" for i, n in enumerate(np.bincount(model.labels_))]
    monkeypatch.setattr(labeled_rows, "SAMPLE_ROWS", 1000)
    monkeypatch.setattr(labeled_rows, "LEAST_SAMPLE", 1000)
    raster = plots.clusters(model, X)
    (image,) = raster.images
    assert not raster.collections
    pixels = image.get_array()
    assert 0.01 < (pixels[..., 3] > 0).mean() < 0.6
    x, y = X[0]  # the first row's pixel is of its cluster's colour
    left, right, bottom, top = image.get_extent()
    at = int((y - bottom) / (top - bottom) * len(pixels)), int((x - left) / (right - left) * pixels.shape[1])
    expected = matplotlib.colors.to_rgb(plots._draw.color_of(model.labels_[0]))
    np.testing.assert_allclose(pixels[at][:3], expected, atol=0.01)


def test_one_feature_gives_a_histogram():
    X = blobs(700, k=3)[0][:, :1]
    model = USPEC(3, random_state=0).fit(X)
    ax = plots.clusters(model, X)
    assert len(ax.patches) == 3
    assert ax.get_ylabel() == "rows"
    assert plots.graph(model, X).get_ylabel() == "rows it stands for"


def test_many_features_have_no_ticks():
    X = blobs(400)[0]
    ax = plots.clusters(USPEC(4, random_state=0).fit(X), X, legend=False)
    assert len(ax.get_xticks()) == 0
    assert ax.get_legend() is None


def test_sizes_of_given_rows_and_labels(rings):
    model, X = rings
    assert sum(bar.get_height() for bar in plots.sizes(model, X[:100]).patches) == 100
    ax = plots.sizes(model, X, labels=np.where(model.labels_ == 0, "out", "in"))
    assert {text.get_text() for text in ax.get_xticklabels()} == {"out", "in"}


def test_confidence_adds_up(ensemble, rings):
    for model in (ensemble[0], rings[0]):
        heights = [bar.get_height() for bar in plots.confidence(model).patches]
        assert sum(heights) == pytest.approx(1.0)


def test_models_from_files_need_rows(ensemble):
    model, X = as_loaded(ensemble[0]), ensemble[1]
    for plot in (plots.sizes, plots.confidence, plots.agreement):
        with pytest.raises(ValueError, match="Pass the rows X"):
            plot(model)
        assert plt.get_fignums() == []
        assert isinstance(plot(model, X), matplotlib.axes.Axes)
        plt.close("all")


def test_what_cannot_be_drawn_is_refused(rings):
    model, X = copy.copy(rings[0]), rings[1]
    with pytest.raises(TypeError, match="needs a USENC model"):
        plots.agreement(model)
    with pytest.raises(TypeError, match="confidence of other labels needs a USENC model"):
        plots.confidence(model, labels=model.labels_)
    with pytest.raises(TypeError, match="color='confidence' needs a model whose clusters other graphs have judged"):
        plots.clusters(USPEC(2, discretize="kmeans", random_state=0).fit(X), X, color="confidence")
    with pytest.raises(ValueError, match="color must be one of"):
        plots.clusters(model, X, color="red")
    model.fit_profile_ = {}
    with pytest.raises(ValueError, match="fit_profile_"):
        plots.phases(model)
    assert plt.get_fignums() == []


def test_without_matplotlib_the_extra_is_named(rings, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'ultraspec\[plots\]'"):
        plots.eigenvalues(rings[0])


def test_a_tree_has_a_block_for_each_branch(rings, ensemble):
    model, X = rings
    ax = plots.tree(model)
    assert len(ax.patches) == 2 * cuts.MOST_CLUSTERS - 1
    widths = sum(patch.get_width() for patch in ax.patches[: cuts.MOST_CLUSTERS])
    assert widths == pytest.approx(1.0)
    assert len(plots.tree(as_loaded(model), X).patches) == len(ax.patches)
    assert plots.tree(ensemble[0]).get_ylabel() == "number of clusters"
    with pytest.raises(ValueError, match="has no tree"):
        plots.tree(USPEC.paper(3, random_state=0).fit(X[:400]))


def test_means_are_those_of_the_clusters(rings):
    model, X = rings
    (image,) = plots.means(model, X).images
    expected = np.array([(X[model.labels_ == code].mean(axis=0) - X.mean(axis=0)) / X.std(axis=0) for code in range(3)])
    assert np.allclose(np.sort(image.get_array(), axis=1), np.sort(expected, axis=1), atol=1e-4)
    assert len(plots.means(model, X, labels=X[:, 0] > 0, most=1).images[0].get_array()) == 2


def test_stability_is_above_that_of_noise_where_clusters_are(rings):
    data, null, _ = plots.stability(rings[0]).lines
    agreement = dict(zip(*data.get_data(), strict=True))
    noise = dict(zip(*null.get_data(), strict=True))
    assert agreement[3] > 0.95
    assert noise[3] < 0.8
    with pytest.raises(ValueError, match="No other graphs judge"):
        plots.stability(USPEC(3, n_representatives=60, discretize="border", random_state=0).fit(rings[1][:400]))
