"""Places on the globe: metric="haversine"."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import pairwise_distances

from tests.helpers.common import same_partition
from ultraspec import USENC, USPEC, load, open_rows, save
from ultraspec.spectral.preprocess import from_sphere, to_sphere

CITIES = [(0.0, 179.9), (60.0, -179.8), (89.9, 40.0), (-89.9, 0.0), (48.9, 2.3), (48.4, 4.5)]


def places(n=3_000, width=0.5, seed=0, cities=CITIES):
    """Draw places around cities, `width` degrees of a great circle wide, also across the date line and the poles."""
    rng = np.random.default_rng(seed)
    y = rng.integers(len(cities), size=n)
    centers = to_sphere(np.array(cities))[y]
    X = from_sphere(centers + np.radians(width) * rng.normal(size=(n, 3)) / np.sqrt(2))
    return X, y


def test_points_of_the_sphere_are_as_far_apart_as_places():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-90, 90, 60), rng.uniform(-180, 180, 60)])
    arcs = pairwise_distances(np.radians(X), metric="haversine")
    chords = pairwise_distances(to_sphere(X))
    np.testing.assert_allclose(2 * np.arcsin(np.minimum(chords / 2, 1)), arcs, atol=1e-6)
    np.testing.assert_allclose(from_sphere(to_sphere(X)), X, atol=1e-9)


@pytest.mark.parametrize("kind", [USPEC, USENC])
def test_clusters_across_the_date_line_and_at_the_poles(kind, tmp_path):
    X, y = places(cities=CITIES[:5])
    assert np.ptp(X[y == 0, 1]) > 350  # on both sides of the date line
    options = {"n_representatives": 300} | ({"n_estimators": 3} if kind is USENC else {})
    model = kind(5, metric="haversine", random_state=0, **options).fit(X)
    assert same_partition(y, model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    turned = X + np.where(X[:, 1:] < 0, [[0.0, 360.0]], 0.0)  # 0 .. 360 degrees
    np.testing.assert_array_equal(model.predict(turned), model.labels_)
    save(model, tmp_path / "m.ultraspec")
    np.testing.assert_array_equal(load(tmp_path / "m.ultraspec").predict(X), model.labels_)
    np.save(tmp_path / "X.npy", X)
    np.testing.assert_array_equal(
        kind(5, metric="haversine", random_state=0, **options).fit(open_rows(tmp_path / "X.npy")).labels_, model.labels_
    )


def test_representatives_are_places():
    X, _ = places()
    model = USPEC(6, metric="haversine", n_representatives=300, random_state=0).fit(X)
    R = model.representatives_
    assert R.shape[1] == 2
    nearest = pairwise_distances(to_sphere(R), to_sphere(X)).min(axis=1)
    assert np.degrees(nearest.max()) < 0.5
    assert model.n_features_in_ == 2


def test_a_street_keeps_its_digits():
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=600)
    X = np.array([51.5, -0.12]) + 1e-5 * rng.normal(size=(600, 2)) + np.outer(y, [2e-4, 0])  # two houses, 22 m apart
    assert same_partition(y, USPEC(2, metric="haversine", random_state=0).fit_predict(X))


def test_places_that_are_none_are_refused():
    X, _ = places(200)
    with pytest.raises(ValueError, match=r"beyond 90. The second column has none: they look swapped"):
        USPEC(2, metric="haversine").fit(np.clip(X[:, ::-1], [-180, -80], [180, 80]))
    with pytest.raises(ValueError, match="the second column has values up to 1000, beyond 360"):
        USPEC(2, metric="haversine").fit(np.vstack([X, [[0.0, 1000.0]]]))
    with pytest.raises(ValueError, match="needs two columns, latitude and longitude in degrees, but X has 3"):
        USPEC(2, metric="haversine").fit(np.column_stack([X, X[:, 0]]))
    with pytest.warns(UserWarning, match=r"look like radians. If they are, convert them first, with numpy.degrees"):
        USPEC(2, metric="haversine", random_state=0).fit(np.radians(X))
    near = np.abs(X) % 60  # numbers that do not say which column is which
    for names in (["lon", "lat"], ["pickup_longitude", "pickup_latitude"], ["Lng", "Lat"]):
        with pytest.raises(
            ValueError, match=rf"called '{names[0]}'.*latitude first: columns=\['{names[1]}', '{names[0]}'\]"
        ):
            USPEC(2, metric="haversine").fit(pd.DataFrame(near, columns=names))
    for names in (["lat", "lon"], ["y", "x"], ["a", "lat"]):
        USPEC(2, metric="haversine", random_state=0).fit(pd.DataFrame(near, columns=names))
    model = USPEC(2, metric="haversine", random_state=0).fit(X)
    with pytest.raises(ValueError, match="beyond 90"):
        model.predict([[120.0, 10.0]])


def test_scaled_places_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", places(200)[0])
    with (
        open_rows(tmp_path / "X.npy", scale="standard") as rows,
        pytest.raises(ValueError, match=r"needs degrees, and scale='standard' changes them\. Leave"),
    ):
        USPEC(2, metric="haversine").fit(rows)
