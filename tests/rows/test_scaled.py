"""Columns brought to mean 0 and variance 1, in one pass, and models that keep it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import StandardScaler

from tests.helpers.common import blobs
from ultraspec import USENC, USPEC, load, open_rows, save
from ultraspec.engines.moments import measure_scaling as measure
from ultraspec.engines.threads import ThreadEngine
from ultraspec.persistence.model_files import ModelFileError
from ultraspec.rows import ArrayRows
from ultraspec.rows.scaled import ScaledRows, Scaling
from ultraspec.spectral.model_checks import InvalidModel


def fit_scaled(model, X):
    """Fit as the command line does."""
    with ThreadEngine(1) as engine:
        scaling = measure(ArrayRows(X), engine)
    model.fit(ScaledRows(ArrayRows(X), scaling))
    return model


@pytest.fixture(scope="module")
def wide():
    """Blobs that only show when the columns are of one scale."""
    X, y = blobs(900, 3, 4)
    return X * [1.0, 1e4, 1e-3, 1.0] + [0.0, 1e7, 5.0, -3.0], y


class TestMeasure:
    @given(hnp.arrays(np.float64, st.tuples(st.integers(2, 900), st.integers(1, 5)), elements=st.floats(-1e6, 1e6)))
    def test_is_that_of_numpy(self, X):
        with ThreadEngine(1) as engine:
            found = measure(ArrayRows(X), engine)
        np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=1e-9, atol=1e-9)
        varying = X.std(axis=0) > 1e-6 * (1 + np.abs(X.mean(axis=0)))
        np.testing.assert_allclose(found.deviation[varying], X.std(axis=0)[varying], rtol=1e-6)

    def test_digits_survive_a_large_mean(self):
        X = 1e9 + np.random.default_rng(0).normal(size=(5000, 1))
        with ThreadEngine(1) as engine:
            assert measure(ArrayRows(X), engine).deviation[0] == pytest.approx((X - 1e9).std(), rel=1e-6)

    @pytest.mark.parametrize("value", [0.0, 0.1, -1e9 / 3, 7])
    def test_constant_columns_become_zero(self, value):
        X = np.column_stack([np.full(3000, value), np.arange(3000.0)])
        with ThreadEngine(1) as engine:
            scaling = measure(ArrayRows(X), engine)
        assert scaling.deviation[0] == 1.0
        assert (scaling.apply(X)[:, 0] == 0).all()

    def test_threads_make_no_difference(self, wide):
        found = []
        for n_jobs in (1, 2, 5):
            with ThreadEngine(n_jobs) as engine:
                found.append(measure(ArrayRows(wide[0]), engine))
        for other in found[1:]:
            np.testing.assert_array_equal(other.mean, found[0].mean)
            np.testing.assert_array_equal(other.deviation, found[0].deviation)

    @pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, ">f4"])
    def test_any_type(self, dtype):
        X = np.random.default_rng(0).integers(0, 255, (700, 3)).astype(dtype)
        with ThreadEngine(1) as engine:
            scaling = measure(ArrayRows(X), engine)
        rows = ScaledRows(ArrayRows(X), scaling)
        np.testing.assert_allclose(rows.read(0, 700), StandardScaler().fit_transform(X.astype(float)), atol=1e-12)
        some = np.array([3, 8, 699])
        np.testing.assert_array_equal(rows.take(some), rows.read(0, 700)[some])

    def test_bad_values_are_named(self):
        X = np.ones((700, 2))
        X[650, 1] = np.inf
        with ThreadEngine(1) as engine, pytest.raises(ValueError, match="column 1, row 650"):
            measure(ArrayRows(X), engine)
        with ThreadEngine(1) as engine, pytest.raises(ValueError, match="column 0 are too large"):
            measure(ArrayRows(np.array([[1e300], [-1e300]])), engine)


@pytest.mark.parametrize("make", [lambda: USPEC(3, random_state=0), lambda: USENC(3, n_estimators=4, random_state=0)])
class TestModels:
    def test_equals_scaling_by_hand(self, wide, make):
        from ultraspec.metrics import ari

        X, y = wide
        model = fit_scaled(make(), X)
        assert ari(y, model.labels_) == 1.0
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        by_hand = make().fit(model.scaling_.apply(X))
        np.testing.assert_array_equal(by_hand.labels_, model.labels_)
        np.testing.assert_array_equal(by_hand.transform(model.scaling_.apply(X)), model.transform(X))

    def test_files_copies_and_cuts_keep_it(self, wide, make, tmp_path):
        X, _ = wide
        model = fit_scaled(make(), X)
        save(model, tmp_path / "m")
        for other in (load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            np.testing.assert_array_equal(other.predict(X), model.labels_)
            np.testing.assert_array_equal(other.cut(2, X).labels_, model.cut(2).labels_)

    def test_another_fit_forgets_it(self, wide, make):
        X, _ = wide
        model = fit_scaled(make(), X)
        labels = model.labels_
        with pytest.warns(UserWarning, match="not scaled"), pytest.raises(ValueError, match="NaN"):
            model.fit(np.full((50, 4), np.nan))
        np.testing.assert_array_equal(model.predict(X), labels)  # a failed fit changes nothing
        with pytest.warns(UserWarning, match="was fitted on scaled rows, and these are not scaled"):
            model.fit(X)
        assert model.scaling_ is None
        np.testing.assert_array_equal(model.labels_, make().fit(X).labels_)
        np.testing.assert_array_equal(model.predict(X), model.labels_)


class TestFromFiles:
    """``open_rows(path, scale="standard")``, the twin of ``--scale standard``."""

    @pytest.fixture
    def path(self, wide, tmp_path):
        lines = [",".join(map(repr, row)) for row in wide[0].tolist()]
        (tmp_path / "x.csv").write_text("\n".join(["a,b,c,d", *lines]))
        return tmp_path / "x.csv"

    def test_fits_as_scaled_arrays_and_takes_rows_as_they_are(self, wide, path, tmp_path):
        X, _ = wide
        with open_rows(path, scale="standard") as rows:
            assert rows.shape == X.shape
            assert len(rows) == len(X)
            assert "scaled" in repr(rows)
            np.testing.assert_allclose(rows.read(0, len(X)), StandardScaler().fit_transform(X), atol=1e-9)
            model = USPEC(3, random_state=0).fit(rows)
            np.testing.assert_array_equal(model.labels_, fit_scaled(USPEC(3, random_state=0), X).labels_)
            np.testing.assert_array_equal(model.predict(rows), model.labels_)  # not scaled twice
        save(model, tmp_path / "m")
        again = load(tmp_path / "m")
        np.testing.assert_allclose(again.scaling_.mean, X.mean(axis=0))
        with open_rows(path) as plain:
            np.testing.assert_array_equal(again.predict(plain), model.labels_)

    def test_columns_and_copies(self, wide, path):
        with open_rows(path, ["d", "b"], scale="standard") as rows:
            expected = StandardScaler().fit_transform(wide[0][:, [3, 1]])
            np.testing.assert_allclose(rows.read(0, 50), expected[:50], atol=1e-9)
            np.testing.assert_allclose(rows.select(["b"]).read(0, 50), expected[:50, 1:], atol=1e-9)
            again = pickle.loads(pickle.dumps(rows))
            np.testing.assert_array_equal(again.read(0, 50), rows.read(0, 50))

    def test_refuses_scaled_rows_where_the_model_has_no_scaling(self, wide, path):
        model = USPEC(3, random_state=0).fit(wide[0])
        with (
            open_rows(path, scale="standard") as rows,
            pytest.raises(ValueError, match=r"fitted on rows without scaling\. Leave scale out"),
        ):
            model.predict(rows)

    def test_another_word_is_refused(self, path):
        with pytest.raises(ValueError, match="scale must be 'standard' or None, got 'robust'"):
            open_rows(path, scale="robust")


@pytest.mark.parametrize(
    ("mean", "deviation", "says"),
    [
        (np.zeros(3), np.ones(4), "scaling.mean has 3 entries for 4 features"),
        (np.zeros(4), np.array([1.0, 0.0, 1.0, 1.0]), "scaling.deviation must be positive"),
        (np.zeros(4), np.array([1.0, -1.0, 1.0, 1.0]), "scaling.deviation must be positive"),
        (np.array([0.0, np.nan, 0.0, 0.0]), np.ones(4), "NaN or infinity"),
    ],
)
def test_a_file_with_a_bad_scaling_is_refused(wide, tmp_path, monkeypatch, mean, deviation, says):
    model = fit_scaled(USPEC(3, random_state=0), wide[0])
    model.scaling_ = Scaling(mean, deviation)
    with pytest.raises(ValueError, match="cannot be saved") as caught:
        save(model, tmp_path / "m")
    assert isinstance(caught.value.__cause__, InvalidModel)
    monkeypatch.setattr("ultraspec.persistence.model_files.check_contents", lambda *_: None)
    save(model, tmp_path / "m")
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=says):
        load(tmp_path / "m")
