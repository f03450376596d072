"""Data of the figures: the same small arrays wherever labels come from."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.helpers.common import blobs, documents
from tests.helpers.model_files import as_loaded
from ultraspec import USENC, USPEC, datasets, metrics
from ultraspec.figures import Frame, Phase, compute_figures, eigengap, graph_layout, labeled_rows, palette, phases
from ultraspec.figures.frame import GRID_CELLS
from ultraspec.figures.graph_layout import lay_out, place_rows
from ultraspec.figures.representative_graph import affinity
from ultraspec.rows import ArrayRows
from ultraspec.spectral.edges import Edges

pytestmark = pytest.mark.usefixtures("few_halves")


@pytest.fixture(scope="module")
def rings():
    X = datasets.generate("cc", 2000, random_state=0)[0]
    return USPEC(3, random_state=0).fit(X), X


@pytest.fixture(scope="module")
def ensemble():
    X = blobs(1500, k=4, d=5)[0]
    X[:300] = np.random.default_rng(0).uniform(X.min(axis=0), X.max(axis=0), size=(300, 5))  # rows without a cluster
    return USENC(4, n_estimators=7, random_state=0).fit(X), X


@pytest.fixture
def large(monkeypatch):
    """Treat a few thousand rows as large data."""
    monkeypatch.setattr(labeled_rows, "SAMPLE_ROWS", 1000)
    monkeypatch.setattr(labeled_rows, "LEAST_SAMPLE", 1000)


# The map


def test_small_data_is_drawn_row_by_row(rings):
    model, X = rings
    found = compute_figures(model, X)
    assert found.map.kind == "points"
    assert np.array_equal(found.map.points, X)
    assert np.array_equal(found.map.codes, model.labels_)
    assert np.array_equal(found.counts.sizes, np.bincount(model.labels_))


def test_a_raster_counts_every_row_once(rings, large):
    model, X = rings
    found = compute_figures(model, X)
    frame, (w, h) = found.map.frame, found.map.frame.cells
    assert found.map.kind == "raster"
    assert found.map.points is None
    for code in range(3):
        mine = X[model.labels_ == code].astype(np.float64)
        bounds = [np.linspace(frame.low[i], frame.high[i], cells + 1) for i, cells in enumerate((w, h))]
        expected = np.histogram2d(*mine.T, bins=bounds)[0].T
        counted = found.counts.cells[:, code].reshape(h, w)
        assert counted.sum() == expected.sum()
        assert np.abs(counted - expected).sum() <= 4  # a row on the line between two cells may fall to either
        assert counted.sum() + found.counts.outside[code] == found.counts.sizes[code]
    assert np.array_equal(found.counts.sizes, np.bincount(model.labels_))


def test_a_raster_does_not_depend_on_threads(ensemble, large):
    model, X = ensemble
    one, two = copy.copy(model), copy.copy(model)
    one.n_jobs, two.n_jobs = 1, 3
    a, b = compute_figures(one, X), compute_figures(two, X)
    assert np.array_equal(a.counts.cells, b.counts.cells)
    assert np.array_equal(a.counts.levels, b.counts.levels)
    assert np.array_equal(a.map.name_positions, b.map.name_positions)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_axes_are_named_where_they_mean_something(d):
    X = blobs(600, k=3, d=max(d, 2))[0][:, :d]
    found = compute_figures(USPEC(3, random_state=0).fit(X), X)
    assert found.map.kind == ("histogram" if d == 1 else "points")
    assert found.map.axes == {1: ("feature 0", "rows"), 2: ("feature 0", "feature 1"), 3: ("", "")}[d]
    assert found.counts.sizes.sum() == 600


@pytest.mark.parametrize("d", [20, 70])  # beyond 50, rows are projected
def test_many_features_are_drawn_with_clusters_apart(d):
    X, _ = blobs(1200, k=4, d=d)
    model = USPEC(4, random_state=0).fit(X)
    found = compute_figures(model, X)
    centers = np.array([found.map.points[model.labels_ == code].mean(axis=0) for code in range(4)])
    far = np.linalg.norm(found.map.points[:, None] - centers, axis=2)
    assert np.array_equal(far.argmin(axis=1), model.labels_)


def test_names_are_written_inside_of_their_clusters(rings, large):
    model, X = rings
    for code, spot in enumerate(compute_figures(model, X).map.name_positions):
        nearest = np.square(X - spot).sum(axis=1).argmin()
        assert model.labels_[nearest] == code


def test_far_outliers_do_not_take_the_frame():
    X = np.concatenate([np.random.default_rng(0).normal(size=(3000, 2)), [[1e6, 0.0], [0.0, -1e6]]])
    model = USPEC(2, random_state=0).fit(X)
    found = compute_figures(model, X)
    assert found.counts.outside.sum() == 2
    assert (found.map.frame.high - found.map.frame.low < 100).all()
    assert found.counts.sizes.sum() == 3002


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 60), st.just(2)), elements=st.floats(-1e9, 1e9)),
    st.integers(1, 70),
    st.booleans(),
)
@example(np.full((1, 2), 5e-324), 1, False)
def test_a_frame_holds_nearly_all_points(xy, k, one_axis):
    if one_axis:
        xy = np.pad(xy[:, :1], ((0, 0), (0, 1)))
    frame = Frame.around(xy, k, one_axis=one_axis)
    assert (frame.low < frame.high).all()
    assert frame.n_cells * k <= 2 * GRID_CELLS
    inside = frame.contains(xy)
    assert inside.mean() >= 0.5 - 1 / len(xy)
    middle = frame.center_of(frame.cell_of(xy)[inside])
    size = (frame.high - frame.low) / frame.cells
    assert (np.abs(middle - xy[inside]) <= 0.5 * size * (1 + 1e-6) + 1e-12 * np.abs(xy[inside])).all()


# Where labels come from


def test_fitted_rows_are_recognised(rings):
    model, X = rings
    assert compute_figures(model, X, parts=()).is_training_data
    assert compute_figures(model, parts=()).is_training_data
    assert not compute_figures(model, X[::-1], parts=()).is_training_data
    assert not compute_figures(model, X[:-1], parts=()).is_training_data
    assert np.array_equal(compute_figures(model, X[::-1]).counts.sizes, np.bincount(model.labels_))


@pytest.mark.parametrize("which", ["rings", "ensemble"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_a_loaded_model_shows_what_the_fitted_one_shows(which, size, request):
    if size == "large":
        request.getfixturevalue("large")
    model, X = request.getfixturevalue(which)
    a, b = compute_figures(model, X), compute_figures(as_loaded(model), X)
    assert a.is_training_data
    assert not b.is_training_data
    assert np.array_equal(a.counts.sizes, b.counts.sizes)
    np.testing.assert_allclose(a.map.frame.low, b.map.frame.low, rtol=1e-4)
    assert np.array_equal(a.graph.codes, b.graph.codes)
    if size == "small":
        np.testing.assert_allclose(a.map.points, b.map.points, rtol=1e-4, atol=1e-4)
        if which == "ensemble":
            np.testing.assert_allclose(a.map.confidence, b.map.confidence, atol=1e-6)
    if which == "ensemble":
        np.testing.assert_allclose(a.agreement.members, b.agreement.members)
        means = [t.levels.sum(axis=0) @ np.linspace(0, 1, 21) / 1500 for t in (a.counts, b.counts)]
        assert abs(means[0] - means[1]) < 0.02


def test_a_loaded_model_needs_rows(rings):
    with pytest.raises(ValueError, match="Pass the rows X"):
        compute_figures(as_loaded(rings[0]), parts=())


def test_given_labels_are_shown_by_name(rings, large):
    model, X = rings
    labels = np.where(model.labels_ == 0, "outer", "inner").astype(object)
    found = compute_figures(model, X, labels)
    assert found.cluster_names == ["inner", "outer"]
    assert not found.has_model_labels
    assert found.counts.sizes.tolist() == [(model.labels_ > 0).sum(), (model.labels_ == 0).sum()]
    assert compute_figures(model, X, model.labels_ - 1).cluster_names == ["-1", "0", "1"]


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (np.zeros(7, dtype=int), ValueError, "one entry for each of the 2,000 rows"),
        (np.zeros(2000), TypeError, "integers or strings"),
        (np.arange(2000), ValueError, "too many clusters"),
    ],
)
def test_bad_labels_are_refused(rings, labels, error, message):
    with pytest.raises(error, match=message):
        compute_figures(*rings, labels)


def test_what_is_no_model_is_refused(rings):
    from sklearn.cluster import KMeans
    from sklearn.exceptions import NotFittedError

    with pytest.raises(TypeError, match="KMeans"):
        compute_figures(KMeans(), rings[1])
    with pytest.raises(NotFittedError):
        compute_figures(USPEC(), rings[1])
    with pytest.raises(ValueError, match="features"):
        compute_figures(rings[0], np.zeros((5, 3)))
    X = rings[1].copy()
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match="column 1, row 7"):
        compute_figures(rings[0], X)


class Stream(ArrayRows):
    """Rows that record the largest block read."""

    largest = 0

    def read(self, start, stop):
        self.largest = max(self.largest, stop - start)
        return super().read(start, stop)

    def take(self, indices):
        self.largest = max(self.largest, len(indices))
        return super().take(indices)


@pytest.mark.parametrize("which", ["rings", "ensemble"])
def test_large_data_is_read_block_by_block(which, large, request):
    model, X = request.getfixturevalue(which)
    rows = Stream(X)
    found = compute_figures(as_loaded(model), rows)
    assert rows.largest <= 1000 < len(X)
    assert np.array_equal(found.counts.sizes, np.bincount(model.labels_))


def test_sparse_rows():
    X, _ = documents(900)
    model = USENC(4, n_estimators=5, metric="cosine", random_state=0).fit(X)
    found, same = compute_figures(model, X), compute_figures(as_loaded(model), X.tocsc())
    assert np.array_equal(found.counts.sizes, same.counts.sizes)
    assert found.map.kind == "points"
    np.testing.assert_allclose(found.feature_spread, X.toarray().std(axis=0), atol=1e-12)


# The graph


def test_the_graph_counts_shared_rows():
    rng = np.random.default_rng(0)
    ids = np.array([rng.choice(6, 3, replace=False) for _ in range(50)]).astype(np.uint16)
    weights = rng.random((50, 3)).astype(np.float32)
    B = np.zeros((50, 6))
    np.put_along_axis(B, ids.astype(int), weights, axis=1)
    expected = B.T @ B
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(affinity(Edges(ids, weights), 6).toarray(), expected, rtol=1e-6)


def test_representatives_of_clean_clusters_do_not_touch_others():
    X, _ = blobs(900, k=3, d=2)
    model = USPEC(3, random_state=0).fit(X)
    graph = compute_figures(model, X, parts=("graph",)).graph
    assert graph.touching_clusters(3) == []
    assert (graph.codes[graph.edges[:, 0]] == graph.codes[graph.edges[:, 1]]).all()
    assert graph.rows.sum() == 900
    centers = np.array([X[model.labels_ == code].mean(axis=0) for code in range(3)])
    there = graph.drawn
    far = np.linalg.norm(graph.positions[there][:, None] - centers, axis=2)
    assert np.array_equal(far.argmin(axis=1), graph.codes[there])


def test_clusters_that_touch_are_told():
    X = np.random.default_rng(0).uniform(size=(2000, 2)) * [3, 1]
    model = USPEC(3, random_state=0).fit(X)
    pairs = compute_figures(model, X, parts=("graph",)).graph.touching_clusters(3)
    order = np.argsort([X[model.labels_ == code, 0].mean() for code in range(3)])  # from left to right
    ends = {int(order[0]), int(order[2])}
    assert {frozenset(pair[:2]) for pair in pairs[:2]} == {frozenset({int(order[1]), end}) for end in ends}
    assert all(0 < share < 1 for *_, share in pairs)


def test_a_drawing_is_the_same_every_time_and_has_a_place_for_all(monkeypatch):
    rng = np.random.default_rng(0)
    graph = scipy.sparse.random_array((900, 900), density=0.002, rng=rng).toarray()
    graph[[0, 1]] = graph[:, [0, 1]] = 0  # two that share no row with any
    graph = scipy.sparse.csr_array(graph + graph.T)
    vectors, features = rng.normal(size=(900, 4)), rng.normal(size=(900, 3))
    monkeypatch.setattr(graph_layout, "MOST_NODES", 500)  # others lie among these
    positions = lay_out(graph, vectors, features)
    assert positions.shape == (900, 2)
    assert np.isfinite(positions).all()
    assert np.array_equal(positions, lay_out(graph, vectors, features))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_drawing_of_very_few(n):
    graph = scipy.sparse.csr_array(np.ones((n, n)) - np.eye(n))
    positions = lay_out(graph, np.ones((n, 1)), np.ones((n, 2)))
    assert positions.shape == (n, 2)
    assert np.isfinite(positions).all()


def test_rows_lie_at_the_mean_of_their_representatives():
    positions = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 8.0]])
    edges = Edges(np.array([[0, 1], [1, 2]], dtype=np.uint16), np.array([[0.75, 0.25], [0.5, 0.5]], dtype=np.float32))
    np.testing.assert_allclose(place_rows(edges, positions), [[1.0, 0.0], [2.0, 4.0]])


def test_kept_edges_are_those_that_are_found():
    X = blobs(800, d=4)[0]
    model = USPEC(4, random_state=0).fit(X)
    kept, found = compute_figures(model, X).graph, compute_figures(as_loaded(model), X).graph
    np.testing.assert_allclose(kept.affinity.toarray(), found.affinity.toarray(), rtol=1e-5)


# The ensemble


def test_confidence_is_the_models(ensemble):
    model, X = ensemble
    found = compute_figures(model, X)
    np.testing.assert_array_equal(found.map.confidence, model.confidence_)
    levels = np.rint(model.confidence_ * 20).astype(int)
    for code in range(4):
        assert np.array_equal(found.counts.levels[code], np.bincount(levels[model.labels_ == code], minlength=21))


def test_confidence_of_a_single_graph(rings):
    model, X = rings
    stored = compute_figures(model, X, parts=("map", "confidence"))
    np.testing.assert_array_equal(stored.map.confidence, model.confidence_)
    computed = compute_figures(as_loaded(model), X, parts=("map", "confidence"))
    np.testing.assert_allclose(computed.map.confidence, model.confidence_, atol=1e-6)
    assert compute_figures(model, X, model.labels_, parts=("map", "confidence")).map.confidence is None


def test_confidence_in_labels_that_are_given(ensemble):
    model, X = ensemble
    same = compute_figures(model, X, model.labels_, parts=("map", "confidence"))
    other = compute_figures(model, X, np.arange(len(X)) % 4, parts=("map", "confidence"))
    assert other.map.confidence.mean() < 0.5 < same.map.confidence.mean()


def test_agreement_is_nmi_of_members(ensemble):
    model, _ = ensemble
    found = compute_figures(model, parts=("agreement",)).agreement
    assert found.members.shape == (7, 7)
    assert np.array_equal(found.members, found.members.T)
    assert found.members[2, 5] == pytest.approx(metrics.nmi(model.base_labels_[:, 2], model.base_labels_[:, 5]))
    assert found.consensus[3] == pytest.approx(metrics.nmi(model.base_labels_[:, 3], model.labels_))
    assert found.n_clusters.tolist() == [len(np.unique(column)) for column in model.base_labels_.T]
    supported = [
        np.array([np.bincount(model.labels_[column == c]).argmax() for c in range(column.max() + 1)])[column]
        == model.labels_
        for column in model.base_labels_.T
    ]
    np.testing.assert_allclose(found.support, np.mean(supported, axis=1), atol=1e-6)


def test_a_single_clustering_has_no_ensemble(rings):
    found = compute_figures(*rings)
    assert found.agreement is None


# Facts


def test_the_gap_is_where_auto_puts_it(rings):
    model, X = rings
    auto = USPEC("auto", random_state=0).fit(X)
    found = eigengap(auto)
    assert found.chosen == found.largest == auto.n_clusters_ == 3
    assert found.ratios[2] == max(found.ratios[1:])
    assert (np.diff(found.distances) >= 0).all()
    assert eigengap(model.cut(5)).chosen == 5


def test_parts_of_the_graph_are_counted():
    X, _ = blobs(1000, k=6, d=2)
    with pytest.warns(UserWarning, match="connected components"):
        model = USPEC(3, random_state=0).fit(X)
    assert eigengap(model).n_components == 6


def test_phases_are_told_in_order(rings):
    model = copy.copy(rings[0])
    model.fit_profile_ = {"b": {"seconds": 1.5, "resident_bytes": 7}, "a": {"seconds": 0.5, "resident_bytes": None}}
    assert phases(model) == [Phase("b", 1.5, 7), Phase("a", 0.5, None)]
    assert phases(as_loaded(model)) == []


# How a person with each kind of vision sees linear red, green and blue (Machado, Oliveira and Fernandes 2009).
VISION = {
    "normal": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_CONES = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
TO_OKLAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
def test_colours_of_clusters_differ_for_all_readers(theme, vision):
    colors = np.array([palette.channels(color) for color in getattr(palette, theme)])
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(VISION[vision]), 0, 1)
    lab = np.cbrt(seen @ np.transpose(TO_CONES)) @ np.transpose(TO_OKLAB)
    distances = np.sqrt(((lab[:, None] - lab) ** 2).sum(axis=-1))
    assert distances[~np.eye(len(lab), dtype=bool)].min() > (0.085 if vision == "normal" else 0.045)
    assert len(lab) == 20
    assert math.gcd(len(lab), len(palette.MARKERS)) == 1
