"""`sample_weight`: a row of weight 2 counts as two equal rows, one of weight 0 is labelled but does not count."""

import pickle

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.helpers.common import blobs, documents
from ultraspec import USENC, USPEC, datasets, load, metrics, open_rows, save, uspec
from ultraspec._estimator import fitted
from ultraspec._input import open_weighted
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import members
from ultraspec.rows import ArrayRows, InvalidWeight, LocalWeights, WeightedRows
from ultraspec.spectral import choice
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor
from ultraspec.spectral.representatives import select_representatives

pytestmark = pytest.mark.usefixtures("few_halves")

X, Y = datasets.generate("cc", 400, random_state=0)
WEIGHTS = np.random.default_rng(0).integers(0, 4, len(X))


def choose_every_few(rows, p, *args):
    """Choose representatives that depend on the set of rows that count only."""
    counted = rows.take(np.arange(rows.n_rows) if rows.weights is None else rows.weights.positive())
    distinct = np.unique(counted, axis=0)
    return distinct[:: max(1, len(distinct) // p)][:p].copy()


@pytest.fixture
def same_representatives(monkeypatch):
    for module in (uspec, choice, members):
        monkeypatch.setattr(module, "select_representatives", choose_every_few)


VARIANTS = [
    {},
    {"affinity": "paper"},
    {"discretize": "kmeans"},
    {"discretize": "linked"},
    {"discretize": "agreement", "affinity": "paper", "regularization": 0.0},
    {"neighbors": "approx", "discretize": "border"},
]


@pytest.mark.filterwarnings("ignore:The graph has")
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_an_integer_weight_repeats_the_row(same_representatives, variant):
    parameters = {"n_clusters": 4, "n_representatives": 60, "random_state": 0, **variant}
    weighted = USPEC(**parameters).fit(X, sample_weight=WEIGHTS)
    repeated = USPEC(**parameters).fit(np.repeat(X, WEIGHTS, axis=0))
    assert np.repeat(weighted.labels_, WEIGHTS).tolist() == repeated.labels_.tolist()
    assert weighted.eigenvalues_ == pytest.approx(repeated.eigenvalues_, abs=1e-9)
    assert weighted.candidates_ == repeated.candidates_
    assert (fitted(weighted).outlier_quantiles == fitted(repeated).outlier_quantiles).all()
    assert weighted.predict(X).tolist() == weighted.labels_.tolist()


@pytest.mark.filterwarnings("ignore:The graph has")
@pytest.mark.parametrize("consensus", ["auto", "transfer_cut"])
def test_an_integer_weight_repeats_the_row_in_an_ensemble(same_representatives, consensus):
    parameters = {"n_representatives": 60, "n_estimators": 4, "consensus": consensus, "random_state": 0}
    weighted = USENC(4, **parameters).fit(X, sample_weight=WEIGHTS)
    repeated = USENC(4, **parameters).fit(np.repeat(X, WEIGHTS, axis=0))
    assert np.repeat(weighted.labels_, WEIGHTS).tolist() == repeated.labels_.tolist()
    assert np.repeat(weighted.base_labels_, WEIGHTS, axis=0).tolist() == repeated.base_labels_.tolist()
    assert weighted.predict(X).tolist() == weighted.labels_.tolist()
    assert np.repeat(weighted.cut(3).labels_, WEIGHTS).tolist() == repeated.cut(3).labels_.tolist()


@pytest.mark.parametrize("kind", [USPEC, USENC])
def test_rows_of_weight_zero_do_not_count(kind):
    junk = np.random.default_rng(1).normal(size=(150, 2))
    everything = np.concatenate([junk, X])
    weights = np.repeat([0.0, 1.0], [len(junk), len(X)])
    options = {"n_estimators": 4} if kind is USENC else {}
    model = kind(3, random_state=0, **options).fit(everything, sample_weight=weights)
    alone = kind(3, random_state=0, **options).fit(X)
    assert model.labels_[len(junk) :].tolist() == alone.labels_.tolist()
    assert model.labels_.tolist() == model.predict(everything).tolist()
    assert len(model.labels_) == len(everything)


def test_equal_weights_change_nothing():
    model = USPEC(3, random_state=0).fit(X)
    for weights in (np.ones(len(X)), np.full(len(X), 0.3), 7, [2] * len(X)):
        assert USPEC(3, random_state=0).fit(X, sample_weight=weights).labels_.tolist() == model.labels_.tolist()


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"n_clusters": "auto"},
        {"selection": "random"},
        {"selection": "kmeans", "discretize": "kmeans"},
        {"graph_rows": 1_000},
        {"graph_rows": 1_000, "discretize": "kmeans"},
    ],
    ids=str,
)
def test_samples_follow_the_weights(variant):
    """Without weights, a tall rectangle is cut across; with weights, its middle column is almost empty."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(3_000, 2)) * [1, 3]
    side = points[:, 0] > 0.5
    weights = np.where(np.abs(points[:, 0] - 0.5) < 0.15, 1e-6, rng.uniform(0.5, 1.5, len(points)))
    parameters = {"n_clusters": 2, "random_state": 0, **variant}
    model = USPEC(**parameters).fit(points, sample_weight=weights)
    assert metrics.nmi(side, model.labels_) > 0.9
    if "n_clusters" not in variant:
        assert metrics.nmi(side, USPEC(**parameters).fit(points).labels_) < 0.1


def test_only_proportions_matter():
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    model = USPEC(3, random_state=0).fit(X, sample_weight=weights)
    other = USPEC(3, random_state=0).fit(X, sample_weight=2.0**-40 * weights)
    assert model.labels_.tolist() == other.labels_.tolist()


def test_clusters_are_numbered_by_weight():
    points, y = blobs(600, k=3)
    weights = np.array([1.0, 5.0, 2.0])[y]
    for kind in (USPEC(3, random_state=0), USENC(3, n_estimators=4, random_state=0)):
        model = kind.fit(points, sample_weight=weights)
        assert [int(y[model.labels_ == c][0]) for c in range(3)] == [1, 2, 0]
        order = np.argsort(-np.bincount(model.cut(2).labels_, weights), kind="stable")
        assert order.tolist() == [0, 1]


def test_other_cuts_of_a_pickled_model_take_weights():
    points, y = blobs(600, k=4)
    weights = np.array([1.0, 5.0, 2.0, 4.0])[y]
    for kind in (USPEC(4, random_state=0), USENC(4, n_estimators=4, random_state=0)):
        model = kind.fit(points, sample_weight=weights)
        copied = pickle.loads(pickle.dumps(model))
        assert copied.cut(3, points, sample_weight=weights).labels_.tolist() == model.cut(3).labels_.tolist()
        assert model.cut(3, points).labels_.tolist() == model.cut(3).labels_.tolist()  # it holds the weights


def test_wide_and_sparse_rows():
    documents_, y = documents(1200)
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    for data in (documents_, documents_.toarray()):
        model = USPEC(4, random_state=0).fit(data, sample_weight=weights)
        assert metrics.nmi(y, model.labels_) > 0.95
        assert model.predict(data).tolist() == model.labels_.tolist()
    model = USPEC(4, n_components=None, metric="cosine", random_state=0).fit(documents_, sample_weight=weights)
    assert metrics.nmi(y, model.labels_) > 0.95


def test_rows_with_missing_values_may_be_dropped():
    data = X.copy()
    data[::7, 1] = np.nan
    complete = np.isfinite(data).all(axis=1)
    model = USPEC(3, missing="drop", random_state=0).fit(data, sample_weight=WEIGHTS)
    expected = USPEC(3, random_state=0).fit(data[complete], sample_weight=WEIGHTS[complete])
    assert model.labels_[complete].tolist() == expected.labels_.tolist()
    assert (model.labels_[~complete] == -1).all()


# Input


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.0] * 200, "200 invalid weights, the first in row 1: -2"),
        ([np.nan, *[1.0] * 399], "an invalid weight in row 0: nan"),
        (np.zeros(400), "no weight above zero"),
        (np.ones(399), "399 weights, but X has 400 rows"),
        (np.ones((400, 1)), "2 dimensions"),
        (["a"] * 400, "has type <U1"),
        (["a", None] * 200, "no numbers"),
        ("n", "X has no column names"),
        (-1, "an invalid weight in row 0: -1"),
        (np.repeat([0.0, 1.0], [399, 1]), "n_samples=1 rows cannot form n_clusters=3"),
    ],
)
def test_invalid_weights_are_refused(weights, message):
    model = USPEC(3, random_state=0)
    with pytest.raises(ValueError, match=message):
        model.fit(X, sample_weight=weights)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("make", [pd.DataFrame, polars.DataFrame])
def test_a_column_of_a_frame_holds_the_weights(make):
    frame = make({"a": X[:, 0], "n": WEIGHTS, "b": X[:, 1]})
    model = USPEC(3, random_state=0).fit(frame, sample_weight="n")
    assert model.labels_.tolist() == USPEC(3, random_state=0).fit(X, sample_weight=WEIGHTS).labels_.tolist()
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(InvalidWeight, match="'m', which X does not have"):
        model.fit(frame, sample_weight="m")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_column_of_a_file_holds_the_weights(tmp_path, suffix, scale):
    path = tmp_path / f"x.{suffix}"
    frame = pd.DataFrame({"a": X[:, 0], "n": WEIGHTS, "b": X[:, 1]})
    frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    with open_rows(path, scale=scale) as rows:
        model = USPEC(3, random_state=0).fit(rows, sample_weight="n")
        with pytest.raises(ValueError, match="no column named 'm'"):
            USPEC(3).fit(rows, sample_weight="m")
    data = X if scale is None else StandardScaler().fit_transform(X)
    expected = USPEC(3, random_state=0).fit(data, sample_weight=WEIGHTS)
    assert model.labels_.tolist() == expected.labels_.tolist()
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with open_rows(path, columns=["a", "b"]) as rows, open_rows(path, columns=["n"]) as weights:
        assert model.predict(rows).tolist() == model.labels_.tolist()
        assert USPEC(3, random_state=0).fit(rows, sample_weight=weights).n_clusters_ == 3
        with pytest.raises(InvalidWeight, match="2 columns"):
            USPEC(3).fit(rows, sample_weight=rows)


def test_a_name_alone_is_no_data():
    with pytest.raises(InvalidWeight, match="only column of X"):
        USPEC(2).fit(open_table_of_one_column(), sample_weight="n")


def open_table_of_one_column():
    import pyarrow

    return pyarrow.table({"n": np.arange(10.0)})


@pytest.mark.parametrize("kind", [USPEC(3, random_state=0), USENC(3, n_estimators=3, random_state=0)])
def test_an_interrupted_fit_continues_with_the_same_weights(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("ultraspec.rows.results.MOST_MEMORY_BYTES", 0)
    rows = ArrayRows(X, in_memory=False)
    kind.set_params(checkpoint=tmp_path / "c")
    first = kind.fit(rows, sample_weight=WEIGHTS).labels_.tolist()
    assert kind.fit(rows, sample_weight=WEIGHTS).labels_.tolist() == first
    for other in (WEIGHTS[::-1].copy(), None):
        with pytest.raises(ValueError, match="the weights of the rows differ"):
            kind.fit(rows, sample_weight=other)
    kind.set_params(checkpoint=None)
    assert kind.fit(X, sample_weight=WEIGHTS).labels_.tolist() == first


def test_a_user_may_change_the_array_afterwards():
    weights = np.array([1.0, 5.0, 2.0])[blobs(600, k=3)[1]]
    model = USPEC(3, random_state=0).fit(blobs(600, k=3)[0], sample_weight=weights)
    before = model.cut(2).labels_
    weights[:] = 1
    assert model.cut(2).labels_.tolist() == before.tolist()


def test_model_files_do_not_store_weights(tmp_path):
    model = USPEC(3, random_state=0).fit(X, sample_weight=WEIGHTS)
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").predict(X).tolist() == model.labels_.tolist()


# scikit-learn


def test_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        model = USPEC(3, random_state=0).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        labels = pipeline.fit_predict(X, sample_weight=WEIGHTS)
    expected = USPEC(3, random_state=0).fit_predict(StandardScaler().fit_transform(X), sample_weight=WEIGHTS)
    assert labels.tolist() == expected.tolist()


def test_fit_transform_takes_weights():
    weights = WEIGHTS + 1
    model = USPEC(3, random_state=0)
    assert (model.fit_transform(X, sample_weight=weights) == model.transform(X)).all()
    assert model.labels_.tolist() == USPEC(3, random_state=0).fit(X, sample_weight=weights).labels_.tolist()


# Dask


@pytest.fixture
def chunks():
    da = pytest.importorskip("dask.array")
    import dask

    with dask.config.set(scheduler="sync"):
        yield da.from_array(X, chunks=((150, 0, 250), 2))


@pytest.mark.parametrize(
    "model",
    [
        USPEC(3, random_state=0),
        USPEC(3, selection="kmeans", discretize="kmeans", affinity="paper", random_state=0),
        USPEC(3, graph_rows=200, random_state=0),
        USENC(3, n_estimators=3, random_state=0),
        USENC(3, n_estimators=3, consensus="transfer_cut", random_state=0),
    ],
    ids=lambda model: repr(model),
)
def test_weights_of_rows_on_a_cluster(chunks, model):
    import dask.array as da

    expected = model.fit(X, sample_weight=WEIGHTS).labels_
    model.fit(chunks, sample_weight=da.from_array(WEIGHTS, chunks=100))
    assert metrics.ari(np.asarray(model.labels_), expected) > 0.99
    first = np.asarray(model.labels_)
    assert np.asarray(model.fit(chunks, sample_weight=WEIGHTS).labels_).tolist() == first.tolist()
    assert np.asarray(model.predict(chunks)).tolist() == first.tolist()


def test_a_column_of_a_frame_on_a_cluster_holds_the_weights(chunks):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"a": X[:, 0], "n": WEIGHTS, "b": X[:, 1]})
    frame.loc[::9, "a"] = np.nan
    complete = frame["a"].notna().to_numpy()
    model = USPEC(3, missing="drop", random_state=0).fit(dd.from_pandas(frame, npartitions=3), sample_weight="n")
    expected = USPEC(3, random_state=0).fit(X[complete], sample_weight=WEIGHTS[complete])
    labels = np.asarray(model.labels_)
    assert (labels[~complete] == -1).all()
    assert metrics.ari(labels[complete], expected.labels_) > 0.99


def test_workers_do_not_receive_all_weights(chunks):
    """A view is sent to all workers for each pass, and must be small."""
    estimator = USPEC(3)
    rows, _ = open_weighted(estimator, chunks, WEIGHTS)
    view = PreparedRows(rows, Preprocessor("euclidean", np.zeros(2), 1.0))
    assert view.weights is rows.weights is not None
    assert view.with_source(None).weights is None
    assert PreparedRows(chunk_source(chunks), view._space).with_source(rows).weights is rows.weights


def chunk_source(chunks):
    from ultraspec.rows.dask import open_dask

    return open_dask(chunks, count=True)


def test_weights_on_a_cluster_must_fit_the_rows(chunks):
    import dask.array as da

    with pytest.raises(ValueError, match="399 weights, but X has 400 rows"):
        USPEC(3).fit(chunks, sample_weight=da.ones(399))
    with pytest.raises(ValueError, match="one dimension"):
        USPEC(3).fit(chunks, sample_weight=da.ones((400, 1)))
    with pytest.raises(ValueError, match="invalid weight in row 150"):
        USPEC(3).fit(chunks, sample_weight=np.where(np.arange(400) == 150, -1.0, 1.0))
    with pytest.raises(ValueError, match="on a cluster, and X is not"):
        USPEC(3).fit(X, sample_weight=da.ones(400))


def test_weights_of_a_sparse_matrix_are_a_vector():
    column = scipy.sparse.csr_array(WEIGHTS[:, None])
    with pytest.raises(ValueError, match=r"sample_weight|dimension"):
        USPEC(3).fit(X, sample_weight=column)


@pytest.mark.parametrize("p", [40, 2_050])  # beyond 2,000, in two levels
def test_representatives_follow_the_weights(p):
    points = np.random.default_rng(0).uniform(size=(6_000, 2)).astype(np.float32)
    weights = np.where(points[:, 0] < 0.5, 1.0, 1e-9)
    rows = WeightedRows(ArrayRows(points), LocalWeights.of(weights))
    with ThreadEngine(1) as engine:
        for selection in ("hybrid", "random"):
            chosen = select_representatives(rows, p, selection, 2, "euclidean", np.random.default_rng(0), engine)
            assert 0.9 * p < len(chosen) <= 1.05 * p
            assert (chosen[:, 0] < 0.5).mean() > 0.95
