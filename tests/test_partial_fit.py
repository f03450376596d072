"""`partial_fit`: rows are added to the graph of a fitted model."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tests.helpers.common import blobs, documents
from ultraspec import USENC, USPEC, datasets, load, metrics, open_rows, save
from ultraspec._estimator import fitted
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, LocalWeights, WeightedRows
from ultraspec.spectral import edges as edges_module
from ultraspec.spectral import neighbors, transfer_cut
from ultraspec.spectral.edges import connect_exactly, find_edges
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.outliers import QUANTILES, DistantRows, join_quantiles
from ultraspec.spectral.partition import continued_numbers
from ultraspec.spectral.transfer_cut import reduce_graph

X, Y = datasets.generate("cc", 1_200, random_state=0)
DAYS = [X[:600], X[600:900], X[900:]]


def graph_of(model, data, weights=None):
    """Sum up the graph of all rows in one pass, with the representatives and sigma of a model."""
    state = fitted(model)
    rows = ArrayRows(data) if weights is None else WeightedRows(ArrayRows(data), LocalWeights.of(weights))
    rows = model._unseen(rows, state.preprocessor)
    with ThreadEngine(2) as engine:
        index, sigma = state.model.index, state.model.sigma
        edges = connect_exactly(rows, index, sigma, engine)
        return reduce_graph(edges, rows, len(index.representatives), engine, GraphOptions.of(model).row_power)


@pytest.fixture
def model():
    return USPEC(3, random_state=0).fit(DAYS[0])


def same_bits(graph, sums):
    assert (graph.affinity != sums.graph().affinity).sum() == 0
    assert graph.counts.tolist() == sums.counts.tolist()


@pytest.mark.parametrize(
    "parameters", [{}, {"affinity": "paper", "discretize": "linked"}, {"neighbors": "approx"}], ids=str
)
def test_the_graph_is_that_of_all_rows_bit_for_bit(parameters):
    model = USPEC(3, random_state=0, **parameters).fit(DAYS[0])
    for day in DAYS[1:]:
        model.partial_fit(day)
    same_bits(graph_of(model, X), fitted(model).sums)


def test_the_graph_of_many_representatives_is_that_of_all_rows_bit_for_bit(monkeypatch):
    monkeypatch.setattr(transfer_cut, "DENSE_REPRESENTATIVES", 50)
    model = USPEC(3, n_representatives=200, random_state=0).fit(DAYS[0])
    assert scipy.sparse.issparse(fitted(model).sums.graph().affinity)
    model.partial_fit(DAYS[1]).partial_fit(DAYS[2])
    same_bits(graph_of(model, X), fitted(model).sums)
    assert metrics.nmi(Y, model.predict(X)) > 0.99


def test_sums_in_several_pieces_agree_up_to_rounding(monkeypatch):
    monkeypatch.setattr(transfer_cut, "_worthwhile_groups", lambda *_, **__: 4)
    data, _ = datasets.generate("cc", 9_000, random_state=0)
    model = USPEC(3, n_representatives=100, random_state=0).fit(data[:4000])
    model.partial_fit(data[4000:])
    assert abs(graph_of(model, data).affinity - fitted(model).sums.graph().affinity).max() < 1e-11


def test_it_equals_a_fit_of_all_rows_with_the_same_representatives(monkeypatch, model):
    """A fit of all rows is given what the first fit chose: representatives, sigma, offset and scale."""
    from ultraspec import uspec
    from ultraspec.spectral.preprocess import Preprocessor

    first = fitted(model)
    for day in DAYS[1:]:
        model.partial_fit(day)
    monkeypatch.setattr(Preprocessor, "fit", lambda *_: first.preprocessor)
    monkeypatch.setattr(uspec, "build_index", lambda *_: first.model.index)
    monkeypatch.setattr(edges_module, "_robust_sigma", lambda _: first.model.sigma)
    common = first.preprocessor.prepare(DAYS[0])
    pilot = uspec.Pilot(len(first.model.index.representatives), first.model.choice.judges, common)
    monkeypatch.setattr(uspec, "run_pilot", lambda *_: pilot)
    at_once = USPEC(3, random_state=0).fit(X)
    assert at_once.eigenvalues_.tolist() == model.eigenvalues_.tolist()
    assert at_once.candidates_ == model.candidates_
    assert metrics.ari(at_once.labels_, model.predict(X)) == 1.0
    assert at_once.cluster_confidence_ == pytest.approx(model.cluster_confidence_)


def test_attributes_are_those_of_the_last_rows(model):
    assert model.n_samples_seen_ == 600
    model.partial_fit(DAYS[1]).partial_fit(DAYS[2])
    assert model.n_samples_seen_ == 1200
    assert model.labels_.tolist() == model.predict(DAYS[2]).tolist()
    _, confidence = model.predict(DAYS[2], return_confidence=True)
    assert confidence.tolist() == model.confidence_.tolist()
    assert model.outlier_scores_.tolist() == model.outlier_score(DAYS[2]).tolist()
    assert model.probabilities_ == pytest.approx(model.predict_proba(DAYS[2]).max(axis=1))
    assert model.cut(2).labels_.tolist() == model.cut(2, DAYS[2]).labels_.tolist()
    with pytest.raises(ValueError, match="300 rows were fitted"):
        model.cut(2, DAYS[0])
    assert metrics.nmi(Y, model.predict(X)) > 0.99
    assert model.n_clusters_ == 3
    assert "300 rows" in model.explain()


def test_the_small_problem_is_solved_when_it_is_needed(monkeypatch, model):
    from ultraspec import uspec

    calls = []
    monkeypatch.setattr(uspec, "transfer_cut", lambda *args: calls.append(1) or transfer_cut.transfer_cut(*args))
    model.partial_fit(DAYS[1]).partial_fit(DAYS[2])
    assert model.n_samples_seen_ == 1200
    assert not calls
    model.eigenvalues_, model.labels_, model.predict(X)
    assert len(calls) == 1


def test_clusters_keep_their_numbers():
    points, _ = blobs(900, k=3)
    model = USPEC(3, random_state=0).fit(points[:300])
    before = model.predict(points)
    model.partial_fit(points[before == 2])  # now the largest
    assert model.predict(points).tolist() == before.tolist()


def test_numbers_of_clusters_that_split_or_vanish():
    weights = np.array([5.0, 1, 3, 1, 1, 1])
    before = np.array([0, 0, 0, 1, 1, 2], dtype=np.int32)
    split = np.array([1, 1, 0, 2, 2, 3], dtype=np.int32)  # the first became two, the heavier part keeps its number
    order = continued_numbers(before, split, weights)
    assert np.argsort(order)[split].tolist() == [0, 0, 3, 1, 1, 2]
    merged = np.array([1, 1, 1, 0, 0, 0], dtype=np.int32)
    assert np.argsort(continued_numbers(before, merged, weights))[merged].tolist() == [0, 0, 0, 1, 1, 1]


def test_distant_rows_are_told_of(model):
    with pytest.warns(DistantRows, match=r"100% of the 300 rows lie farther .* times the usual distance") as caught:
        model.partial_fit(DAYS[1] + 9)
    assert caught[0].message.distance > 10 * caught[0].message.limit
    assert caught[0].filename == __file__


@pytest.mark.parametrize("size", [3, 30, 300])
def test_similar_rows_are_not_told_of(model, size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(DAYS[1][:size])


def test_quantiles_are_joined_by_weight():
    low, high = np.linspace(0.0, 0.1, QUANTILES), np.linspace(0.5, 0.6, QUANTILES)
    joined = join_quantiles([low.astype(np.float32), high.astype(np.float32)], [3.0, 1.0])
    assert len(joined) == QUANTILES
    assert (np.diff(joined) >= 0).all()
    assert np.mean(joined < 0.3) == pytest.approx(0.75, abs=0.01)


def test_an_unfitted_estimator_is_fitted():
    model = USPEC(3, random_state=0).partial_fit(DAYS[0])
    assert model.labels_.tolist() == USPEC(3, random_state=0).fit(DAYS[0]).labels_.tolist()


def test_parameters_are_those_of_the_call(model):
    model.partial_fit(DAYS[1])
    model.set_params(discretize="kmeans", n_clusters=7)
    assert model.n_clusters_ == 3
    assert len(model.labels_) == 300


def test_a_fit_starts_again(model):
    again = model.partial_fit(DAYS[1]).fit(DAYS[0])
    assert again.n_samples_seen_ == 600
    assert again.labels_.tolist() == USPEC(3, random_state=0).fit(DAYS[0]).labels_.tolist()


def test_a_failed_call_changes_nothing(model):
    model.partial_fit(DAYS[1])
    sums = vars(model)["_stale"].state.sums
    for bad, message in ((np.full((3, 2), np.nan), "NaN"), (np.zeros((3, 5)), "5 features")):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(bad)
    with pytest.raises(ValueError, match="weight"):
        model.partial_fit(DAYS[2], sample_weight=[1.0])
    assert vars(model)["_stale"].state.sums is sums
    assert model.labels_.tolist() == model.predict(DAYS[1]).tolist()


def test_copies_and_pickles_of_a_model_with_added_rows(model):
    model.partial_fit(DAYS[1])
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict(X).tolist() == model.predict(X).tolist()
    assert copied.partial_fit(DAYS[2]).predict(X).tolist() == model.partial_fit(DAYS[2]).predict(X).tolist()
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_models_from_files_go_on(tmp_path, model):
    save(model.partial_fit(DAYS[1]), tmp_path / "m")
    loaded = load(tmp_path / "m").partial_fit(DAYS[2])
    model.partial_fit(DAYS[2])
    same_bits(graph_of(model, X), fitted(loaded).sums)
    assert loaded.n_samples_seen_ == 1200
    assert loaded.labels_.tolist() == model.labels_.tolist()


def test_files_of_sums_are_small(tmp_path):
    data, _ = datasets.generate("cc", 20_000, random_state=0)
    model = USPEC(3, random_state=0).fit(data)
    arrays = fitted(model).sums.arrays()
    assert len(fitted(model).model.index.representatives) == 1000
    assert sum(array.nbytes for array in arrays.values()) < 150_000


def test_weights_of_added_rows():
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    model = USPEC(3, random_state=0).fit(X[:600], sample_weight=weights[:600])
    model.partial_fit(X[600:], sample_weight=weights[600:])
    same_bits(graph_of(model, X, weights.astype(float)), fitted(model).sums)
    assert fitted(model).sums.mass == weights.sum()


def test_weights_are_scaled_as_before():
    rng = np.random.default_rng(0)
    weights = np.concatenate([rng.uniform(0.1, 0.3, 600), rng.uniform(3, 5, 600)])
    model = USPEC(3, random_state=0).fit(X[:600], sample_weight=weights[:600])
    model.partial_fit(X[600:], sample_weight=weights[600:])
    sums = fitted(model).sums
    expected = graph_of(model, X, weights)  # with another scale of weights
    factor = expected.counts.sum() / sums.counts.sum()
    assert factor * sums.counts == pytest.approx(expected.counts)
    assert factor * sums.graph().affinity == pytest.approx(expected.affinity)
    equal = USPEC(3, random_state=0).fit(X[:600], sample_weight=np.full(600, 0.5)).partial_fit(X[600:])
    assert fitted(equal).sums.mass == 600 + 2 * 600  # a row counts as two of weight 0.5


@pytest.mark.parametrize("weighted", [False, True])
def test_a_graph_of_sampled_rows_gets_the_same_share(weighted):
    points, y = blobs(1200)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(points)) if weighted else None
    first, last = (None, None) if weights is None else (weights[:600], weights[600:])
    model = USPEC(4, graph_rows=300, random_state=0).fit(points[:600], sample_weight=first)
    model.partial_fit(points[600:], sample_weight=last)
    sums = fitted(model).sums
    assert sums.counts.sum() == pytest.approx(sums.mass / 2, rel=0.01)
    assert model.labels_.tolist() == model.predict(points[600:]).tolist()
    assert metrics.nmi(y, model.predict(points)) > 0.99


def test_a_graph_of_many_representatives_gets_the_same_share(monkeypatch):
    monkeypatch.setattr(neighbors, "EXACT_REPRESENTATIVES", 60)
    monkeypatch.setattr(neighbors, "ROWS_PER_REPRESENTATIVE", 3)
    monkeypatch.setattr(edges_module, "ROWS_PER_REPRESENTATIVE", 3)
    monkeypatch.setattr(neighbors, "PROBES", 2)
    data, y = blobs(3000, d=12)
    model = USPEC(4, n_representatives=200, random_state=0).fit(data[:2000])
    assert isinstance(fitted(model).model.index, neighbors.ProbeIndex)
    model.partial_fit(data[2000:])
    assert fitted(model).sums.counts.sum() == 900
    assert metrics.nmi(y, model.predict(data)) > 0.99


def test_wide_and_sparse_rows():
    data, y = documents(900)
    model = USPEC(4, random_state=0).fit(data[:600]).partial_fit(data[600:])
    assert metrics.nmi(y, model.predict(data)) > 0.95
    assert model.labels_.tolist() == model.predict(data[600:]).tolist()


def test_rows_of_files(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "n": 2})
    for number in range(3):
        frame[400 * number : 400 * (number + 1)].to_parquet(tmp_path / f"{number}.parquet")
    model = USPEC(3, random_state=0)
    for number in range(3):
        with open_rows(tmp_path / f"{number}.parquet") as rows:
            model.partial_fit(rows, sample_weight="n")
            labels = model.labels_
    assert model.n_samples_seen_ == 1200
    assert labels.tolist() == model.predict(frame[["a", "b"]][800:]).tolist()


def as_file(array):
    """Return rows that are treated like those of a file."""
    return ArrayRows(array, in_memory=False)


def test_rows_that_are_read_again(monkeypatch, model):
    other = pickle.loads(pickle.dumps(model))
    monkeypatch.setattr("ultraspec.rows.results.MOST_MEMORY_BYTES", 0)
    model.partial_fit(as_file(DAYS[1])).partial_fit(as_file(DAYS[2]))
    other.partial_fit(DAYS[1]).partial_fit(DAYS[2])
    assert fitted(model).edges.rows.n_rows == 300
    same_bits(fitted(other).sums.graph(), fitted(model).sums)
    assert model.labels_.tolist() == other.labels_.tolist()
    assert model.outlier_scores_.tolist() == other.outlier_scores_.tolist()


def test_rows_with_missing_values_may_be_dropped():
    gaps = DAYS[1].copy()
    gaps[::5, 0] = np.nan
    model = USPEC(3, missing="drop", random_state=0).fit(DAYS[0]).partial_fit(gaps)
    assert (model.labels_[::5] == -1).all()
    assert model.n_samples_seen_ == 600 + 240
    assert model.labels_.tolist() == model.predict(gaps).tolist()


def test_rows_on_a_cluster(model):
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    import dask

    other = pickle.loads(pickle.dumps(model)).partial_fit(DAYS[1]).partial_fit(DAYS[2])
    with dask.config.set(scheduler="sync"):
        model.partial_fit(da.from_array(DAYS[1], chunks=(100, 2)))
        frame = dd.from_pandas(pd.DataFrame(DAYS[2]), npartitions=2)  # of unknown length
        model.partial_fit(frame)
        assert model.n_samples_seen_ == 1200
        assert np.asarray(model.labels_).tolist() == other.labels_.tolist()
        assert np.asarray(model.predict(frame)).tolist() == other.labels_.tolist()
    assert fitted(model).sums.counts.tolist() == fitted(other).sums.counts.tolist()


def test_where_rows_cannot_be_added(tmp_path, model):
    assert not hasattr(USENC(3), "partial_fit")
    assert not hasattr(USPEC.paper(3), "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        USPEC(3, discretize="kmeans").partial_fit(X)
    assert "k-means on all rows" in str(caught.value.__cause__)
    state = fitted(model)
    model._fitted = type(state)(**{**vars(state), "sums": None})  # as a file of an older release
    with pytest.raises(ValueError, match="older release"):
        model.partial_fit(DAYS[1])


def test_a_number_of_clusters_that_was_chosen_stays():
    points, _ = blobs(900)
    model = USPEC("auto", random_state=0).fit(points[:600])
    layers = model.layers_
    assert model.n_clusters_ == 4
    model.partial_fit(points[600:])
    assert model.n_clusters_ == 4
    assert model.layers_ == layers


def test_the_edges_of_added_rows_are_those_of_new_rows(model):
    state = fitted(model.partial_fit(DAYS[1]))
    with ThreadEngine(1) as engine:
        rows = model._unseen(ArrayRows(DAYS[1]), state.preprocessor)
        expected = find_edges(rows, state.model.index, state.model.sigma, engine)
    assert (state.edges.ids == expected.ids).all()
    assert (state.edges.weights == expected.weights).all()
