"""Missing values: counted by column, or their rows left out and labelled -1; in memory, from files and on Dask."""

from __future__ import annotations

import logging
import pickle

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from tests.helpers.common import blobs
from ultraspec import USENC, USPEC, load, open_rows, report, save
from ultraspec.rows import ArrayRows, CompleteRows, IdColumn, NotFinite

X = blobs(1500, 3, 3, seed=4)[0]
GAPS = np.array([0, 1, 255, 256, 700, 1499])
COMPLETE = np.setdiff1d(np.arange(len(X)), GAPS)


def gappy(dtype=np.float64):
    values = X.astype(dtype)
    values[GAPS, GAPS % 3] = np.nan
    return values


def make(kind, **options):
    if kind is USENC:
        options = {"n_estimators": 4, **options}
    return kind(3, n_representatives=100, random_state=0, **options)


@pytest.fixture(scope="module", params=[USPEC, USENC], ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind):
    return make(kind, missing="drop").fit(gappy())


# Left out


def spread(values, fill):
    out = np.full((len(X), *values.shape[1:]), fill, dtype=values.dtype)
    out[COMPLETE] = values
    return out


def test_a_fit_is_that_of_the_complete_rows(kind, model):
    expected = make(kind).fit(X[COMPLETE])
    np.testing.assert_array_equal(model.labels_, spread(expected.labels_, -1))
    assert model.labels_.dtype == np.int32
    np.testing.assert_array_equal(model.confidence_, spread(expected.confidence_, np.nan))
    np.testing.assert_array_equal(model.probabilities_, spread(expected.probabilities_, np.nan))
    np.testing.assert_array_equal(model.outlier_scores_, spread(expected.outlier_scores_, np.nan))
    assert model.explain() == expected.explain()


def test_prediction_equals_labels(model):
    labels, confidence = model.predict(gappy(), return_confidence=True)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(confidence, model.confidence_)
    np.testing.assert_array_equal(model.predict(gappy()), model.labels_)
    assert (model.predict(gappy(), outliers=0.9)[GAPS] == -1).all()
    assert np.isnan(model.predict_proba(gappy())[GAPS]).all()
    assert np.isnan(model.transform(gappy())[GAPS]).all()


def test_cuts(model):
    other = model.cut(2)
    np.testing.assert_array_equal(other.labels_ == -1, model.labels_ == -1)
    np.testing.assert_array_equal(other.predict(gappy()), other.labels_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).cut(2, gappy()).labels_, other.labels_)


@pytest.mark.usefixtures("few_cuts", "few_halves")
def test_model_files_and_reports(model, tmp_path):
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.missing == "drop"
    np.testing.assert_array_equal(again.predict(gappy()), model.labels_)
    np.testing.assert_array_equal(again.cut(2, gappy()).labels_, model.cut(2).labels_)
    report.write(model, gappy(), tmp_path / "r.html")
    report.write(again, gappy(), tmp_path / "s.html", labels=model.labels_)
    assert model._repr_html_()


@pytest.mark.parametrize("scale", [None, "standard"])
def test_files(kind, tmp_path, scale):
    pd.DataFrame(gappy(), columns=list("abc")).to_parquet(tmp_path / "x.parquet", row_group_size=200)
    pd.DataFrame(X[COMPLETE], columns=list("abc")).to_parquet(tmp_path / "y.parquet")
    if scale:
        with pytest.raises(NotFinite, match="In all, 6 of 1,500 rows"):
            open_rows(tmp_path / "x.parquet", scale=scale)
        return
    model = make(kind, missing="drop").fit(open_rows(tmp_path / "x.parquet"))
    expected = make(kind).fit(open_rows(tmp_path / "y.parquet"))
    np.testing.assert_array_equal(model.labels_, spread(expected.labels_, -1))
    np.testing.assert_array_equal(model.predict(open_rows(tmp_path / "x.parquet")), model.labels_)


def test_dask(kind):
    expected = make(kind, missing="drop").fit(da.from_array(X[COMPLETE], chunks=(400, 3)))
    with dask.config.set(scheduler="threads"):
        model = make(kind, missing="drop").fit(da.from_array(gappy(), chunks=(400, 3)))
        labels = model.labels_.compute()
        np.testing.assert_array_equal(model.predict(da.from_array(gappy(), chunks=(250, 3))).compute(), labels)
        assert (labels == -1).sum() == len(GAPS)
        np.testing.assert_array_equal(model.predict(gappy()), labels)
        np.testing.assert_array_equal(labels[COMPLETE], model.predict(X[COMPLETE]))
        assert model.cut(2).labels_.compute().min() == -1
    assert expected.labels_.compute().min() == 0


def test_sparse_rows(kind):
    dense = np.where(np.random.default_rng(0).random(X.shape) < 0.3, 0.0, X)
    dense[GAPS, GAPS % 3] = np.nan
    model = make(kind, missing="drop").fit(scipy.sparse.csr_array(dense))
    assert (np.flatnonzero(model.labels_ == -1) == GAPS).all()
    np.testing.assert_array_equal(model.predict(scipy.sparse.csr_array(dense)), model.labels_)


def test_rows_that_are_all_incomplete_or_infinite():
    with pytest.raises(ValueError, match="All 5 rows have missing values"):
        USPEC(2, missing="drop").fit(np.full((5, 2), np.nan))
    bad = gappy()
    bad[9, 1] = np.inf
    with pytest.raises(NotFinite, match=r"infinity \(inf\) in column 1, row 9\."):
        USPEC(2, missing="drop").fit(bad)
    with pytest.raises(ValueError, match="missing must be one of 'error', 'drop'"):
        USPEC(2, missing="fill").fit(X)


def test_views_without_some_rows():
    rows = CompleteRows(ArrayRows(X), GAPS)
    assert rows.shape == (1494, 3)
    for start, stop in [(0, 1494), (0, 1), (3, 3), (253, 256), (1400, 1494)]:
        np.testing.assert_array_equal(rows.read(start, stop), X[COMPLETE][start:stop])
    np.testing.assert_array_equal(rows.take(np.array([0, 253, 254, 1493])), X[COMPLETE][[0, 253, 254, 1493]])


# Counted


def test_errors_count_by_column(kind):
    bad = gappy()
    bad[5] = np.nan
    expected = (
        "X contains NaN in column 0, row 0. In all, 7 of 1,500 rows have such values, in columns 0 (3), 1 (4), 2 (2)."
    )
    with pytest.raises(NotFinite) as caught:
        make(kind).fit(bad)
    assert str(caught.value).startswith(expected)
    assert "missing='drop'" in str(caught.value)
    with pytest.raises(NotFinite) as caught:
        make(kind).fit(X).predict(bad)
    assert str(caught.value).startswith(expected)
    frame = pd.DataFrame(gappy(), columns=list("abc"))
    with pytest.raises(NotFinite, match=r"column 'a', row 0\..* 'a' \(2\), 'b' \(3\)"):
        make(kind).fit(frame)


def test_errors_on_dask_come_from_this_process(caplog):
    """Functions on workers that raise are logged there, with a traceback each."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        caplog.at_level(logging.WARNING),
        pytest.raises(NotFinite, match=r"row 0\. In all, 6 of 1,500 rows"),
    ):
        USPEC(3).fit(da.from_array(gappy(), chunks=(300, 3)))
    assert not [record for record in caplog.records if "Compute Failed" in record.getMessage()]


# Ids


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_a_column_that_counts_rows_is_probably_an_id(kind, dtype):
    frame = pd.DataFrame(X, columns=list("abc"))
    frame.insert(1, "id", (7 + 3 * np.arange(len(X))).astype(dtype))
    with pytest.warns(IdColumn, match=r"Column 'id' of X holds integers.*leave it out: columns=\['a', 'b', 'c'\]"):
        make(kind).fit(frame)


@pytest.mark.filterwarnings("error::ultraspec.rows.IdColumn")
def test_other_columns_are_no_ids(kind):
    steps = np.arange(len(X))
    for column in (steps // 2, steps + 0.5, steps % 1490, np.roll(steps, 300), steps[::-1] % 7):
        make(kind).fit(np.column_stack([X, column]))
    make(kind).fit(steps[:, None])  # all there is
    make(kind).fit(np.column_stack([X, steps])[:50])


def test_ids_are_no_advice(tmp_path):
    frame = pd.DataFrame({"id": np.arange(150), "a": X[:150, 0], "name": ["x"] * 150})
    with pytest.raises(ValueError, match=r"Pass X\[\['a'\]\], which do"):
        USPEC(2).fit(frame)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        with pytest.raises(ValueError, match=r"Choose columns=\['a'\], which do"):
            open_rows(tmp_path / name)
