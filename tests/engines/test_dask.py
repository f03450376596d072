"""Fits of Dask collections, on local schedulers: the same labels as threads give, lazily, and nothing large here."""

import functools
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from ultraspec import USENC, USPEC, datasets, load, metrics, save
from ultraspec.baselines import KMeansLite
from ultraspec.rows import ArrayRows
from ultraspec.rows.dask import DaskRows, chunk_runs, open_dask

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytest.importorskip("dask.callbacks")

pytestmark = pytest.mark.usefixtures("few_halves")

X, Y = datasets.generate("cc", 20_000, random_state=0)
CUTS = (9_000, 0, 300, 10_700)


class ChunkedRows(ArrayRows):
    """An array of this process that is cut as a Dask array is, for the thread engine."""

    def __init__(self, array, lengths):
        super().__init__(array)
        self._lengths = np.array(lengths)

    def blocks(self):
        return [span for run in self.runs(0) for span in run]

    def runs(self, most):
        return chunk_runs(self._lengths, self.block_rows)


def chunked(array, lengths=CUTS):
    return da.concatenate([da.from_array(part) for part in np.split(array, np.cumsum(lengths)[:-1])])


@pytest.fixture(autouse=True)
def scheduler(request):
    """Use threads, as Dask does, unless the test asks for another scheduler."""
    with dask.config.set(scheduler=getattr(request, "param", "threads")):
        yield


both_schedulers = pytest.mark.parametrize("scheduler", ["sync", "threads"], indirect=True)


VARIANTS = [
    {},
    {"neighbors": "exact"},
    {"metric": "cosine"},
    {"selection": "kmeans"},
    {"selection": "random"},
    {"discretize": "kmeans"},
    {"discretize": "linked"},
    {"affinity": "paper", "neighbors": "approx", "discretize": "agreement"},
    {"graph_rows": 5_000},
    {"n_clusters": "auto"},
]
FIXED = {"n_clusters": 3, "n_representatives": 200, "random_state": 0}


@functools.cache
def fitted_here(number):
    """A model of the rows in this process, which is only read."""
    return USPEC(**FIXED | VARIANTS[number]).fit(ChunkedRows(X, CUTS))


@both_schedulers
@pytest.mark.parametrize("number", range(len(VARIANTS)), ids=lambda number: str(VARIANTS[number]))
def test_labels_equal_those_of_threads_with_equal_blocks(number):
    there, here = USPEC(**FIXED | VARIANTS[number]).fit(chunked(X)), fitted_here(number)
    assert (there.labels_.compute() == here.labels_).all()
    assert (there.eigenvalues_ == here.eigenvalues_).all()
    assert there.sigma_ == here.sigma_
    assert (there._fitted.model.partition.spectrum.vectors == here._fitted.model.partition.spectrum.vectors).all()


@both_schedulers
@pytest.mark.parametrize("consensus", ["auto", "transfer_cut"])
def test_ensembles_equal_those_of_threads_with_equal_blocks(consensus):
    options = {"n_estimators": 4, "n_representatives": 150, "consensus": consensus, "random_state": 0}
    there, here = USENC(3, **options).fit(chunked(X)), USENC(3, **options).fit(ChunkedRows(X, CUTS))
    assert (there.labels_.compute() == here.labels_).all()
    assert (there.base_labels_.compute() == here.base_labels_).all()
    assert (there.confidence_.compute() == here.confidence_).all()
    assert there.base_labels_.dtype == here.base_labels_.dtype
    assert there.labels_.dtype == np.int32
    assert there.confidence_.dtype == np.float32
    assert (there.cut(5).labels_.compute() == here.cut(5).labels_).all()
    cuts = there.cut(4, consensus="transfer_cut"), here.cut(4, X, consensus="transfer_cut")
    assert (cuts[0].labels_.compute() == cuts[1].labels_).all()
    assert (cuts[0].confidence_.compute() == cuts[1].confidence_).all()


def test_results_are_lazy_and_chunked_like_the_input():
    lazy = chunked(X)
    model = USPEC(3, n_representatives=250, random_state=0).fit(lazy)
    embedded, predicted = model.transform(lazy), model.predict(lazy)
    for result in (model.labels_, predicted, embedded):
        assert isinstance(result, da.Array)
        assert result.chunks[0] == lazy.chunks[0]
    assert (predicted.compute() == model.labels_.compute()).all()
    assert (predicted.compute() == model.predict(X)).all()
    assert np.array_equal(embedded.compute(), model.transform(X))
    assert embedded.shape == (len(X), 3)
    assert model.fit_predict(lazy).chunks == model.labels_.chunks
    assert model.fit_transform(lazy).shape == embedded.shape
    assert metrics.nmi(Y, model.labels_.compute()) > 0.99


def test_a_model_does_not_care_where_its_rows_were(tmp_path):
    model = USPEC(3, n_representatives=250, random_state=0).fit(chunked(X))
    labels = model.labels_.compute()
    save(model, tmp_path / "m.ultraspec")
    for other in (load(tmp_path / "m.ultraspec"), pickle.loads(pickle.dumps(model))):
        assert (other.predict(X) == labels).all()
        assert (other.predict(chunked(X)).compute() == labels).all()
        assert (other.cut(2, chunked(X)).labels_.compute() == model.cut(2).labels_.compute()).all()
    here = USPEC(3, n_representatives=250, random_state=0).fit(X)
    assert (here.predict(chunked(X)).compute() == here.labels_).all()


def test_cut_does_not_build_the_graph_again(monkeypatch):
    model = USPEC(3, n_representatives=250, random_state=0).fit(chunked(X))
    there = USPEC(5, n_representatives=250, random_state=0).fit(chunked(X)).labels_.compute()
    for phase in ("connect", "reduce_graph", "transfer_cut"):
        monkeypatch.setattr(f"ultraspec.uspec.{phase}", None)
    assert (model.cut(5).labels_.compute() == there).all()
    assert len(np.unique(model.cut(7, discretize="agreement").labels_.compute())) == 7


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), min_size=1, max_size=6), seed=st.integers(0, 3), d=st.integers(1, 11))
def test_any_chunks(cuts, seed, d):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(sum(cuts) + 60, d)).astype(np.float32)
    cuts = [*cuts, 60]
    options = {"n_representatives": 20, "n_neighbors": 3, "random_state": seed}
    there, here = USPEC(2, **options).fit(chunked(rows, cuts)), USPEC(2, **options).fit(ChunkedRows(rows, cuts))
    assert (there.labels_.compute() == here.labels_).all()


def test_sparse_chunks():
    dense = np.where(np.random.default_rng(0).random((3_000, 40)) < 0.8, 0, X[:3_000, :1]).astype(np.float32)
    dense[:, 0] = 1
    matrix = scipy.sparse.csr_array(dense)
    parts = [
        da.from_delayed(dask.delayed(matrix[a:b]), (b - a, 40), meta=matrix[:0])
        for a, b in ((0, 1_000), (1_000, 3_000))
    ]
    lazy = da.concatenate(parts)
    options = {"n_representatives": 60, "random_state": 0}
    assert (USPEC(4, **options).fit(lazy).labels_.compute() == USPEC(4, **options).fit(matrix).labels_).all()


def test_column_chunks_are_joined():
    labels = USPEC(3, n_representatives=250, random_state=0).fit(da.from_array(X, chunks=(8_000, 1))).labels_
    assert labels.chunks == ((8_000, 8_000, 4_000),)
    assert metrics.nmi(Y, labels.compute()) > 0.99


def test_unknown_chunk_sizes_are_counted():
    lazy = chunked(X)
    unknown = lazy[lazy[:, 0] > -10]
    assert np.isnan(unknown.shape[0])
    model = USPEC(3, n_representatives=250, random_state=0).fit(unknown)
    known = USPEC(3, n_representatives=250, random_state=0).fit(lazy)
    assert (model.labels_.compute() == known.labels_.compute()).all()
    assert model.labels_.chunks == known.labels_.chunks  # which the fit has counted
    assert (model.predict(unknown).compute() == known.predict(X)).all()


def test_data_frames():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=["east", "north"])
    lazy = dd.from_pandas(frame, npartitions=3)
    model = USPEC(3, n_representatives=250, random_state=0).fit(lazy)
    assert model.feature_names_in_.tolist() == ["east", "north"]
    labels = model.labels_.compute()
    assert metrics.nmi(Y, labels) > 0.99
    assert (model.predict(lazy).compute() == labels).all()
    assert (model.predict(frame) == labels).all()
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(lazy[["north", "east"]])
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        model.predict(lazy.rename(columns={"east": "west"}))
    ensemble = USENC(3, n_estimators=6, n_representatives=250, random_state=0).fit(lazy)
    assert metrics.nmi(Y, ensemble.labels_.compute()) > 0.9


def test_frames_with_missing_values_and_strings():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"a": [1.0, 2.0, None, 4.0], "b": pd.array([1, 2, 3, None], dtype="Int64"), "c": list("wxyz")})
    with pytest.raises(ValueError, match=r"column 'c' .* must hold numbers"):
        USPEC(2).fit(dd.from_pandas(frame, npartitions=2))
    with pytest.raises(ValueError, match="contains NaN in column 'a', row 2"):
        USPEC(2).fit(dd.from_pandas(frame[["a", "b"]], npartitions=2))
    whole = pd.DataFrame({"a": np.arange(50.0), "b": pd.array(range(50), dtype="Int64")})
    lazy = dd.from_pandas(whole, npartitions=2)
    assert len(USPEC(2, n_representatives=10, random_state=0).fit(lazy).labels_.compute()) == 50


@both_schedulers
def test_bad_input():
    bad = X.copy()
    bad[15_000, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN in column 1, row 15000"):
        USPEC(3).fit(chunked(bad))
    model = USPEC(3, n_representatives=250, random_state=0).fit(chunked(X))
    with pytest.raises(ValueError, match="contains NaN in column 1, row 15000"):
        model.predict(chunked(bad)).compute()
    with pytest.raises(ValueError, match="Expected 2D array"):
        USPEC(3).fit(da.zeros(10))
    with pytest.raises(TypeError, match="must hold numbers"):
        USPEC(3).fit(da.from_array(np.array([["a", "b"]])))
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        USPEC(3).fit(da.zeros((0, 2)))
    with pytest.raises(ValueError, match="2 rows cannot form n_clusters=3"):
        USPEC(3).fit(da.zeros((2, 2)))
    with pytest.raises(ValueError, match="X has 3 features, but USPEC is expecting 2"):
        model.predict(da.zeros((5, 3)))
    with pytest.raises(TypeError, match=r"KMeansLite does not support Dask; USPEC and USENC do"):
        KMeansLite(3).fit(chunked(X))
    with pytest.raises(ValueError, match="Row 3 of X is all zeros"):
        USPEC(2, metric="cosine").fit(da.from_array(np.eye(5)[[0, 1, 2, 2]] * [[1], [1], [1], [0]]))
    with pytest.raises(ValueError, match="does not hold the rows that were fitted"):
        model.cut(2, chunked(X[::-1].copy()))


def test_other_input_is_refused_with_advice():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    with pytest.raises(TypeError, match=r"X is a Dask Delayed.*da.from_delayed"):
        USPEC(3).fit(dask.delayed(X))
    with pytest.raises(ValueError, match=r"Expected 2D array, got a 1D Dask Series.*to_frame"):
        USPEC(3).fit(dd.from_pandas(pd.DataFrame(X, columns=["a", "b"]), npartitions=2)["a"])
    masked = np.ma.masked_greater(X, 1.0)
    with pytest.raises(ValueError, match="masked values"):
        USPEC(3).fit(da.from_array(masked, chunks=(5_000, 2)))
    short = da.from_delayed(dask.delayed(X[:900]), (1_000, 2), np.float32)
    with pytest.raises(ValueError, match=r"A chunk has the shape \(900, 2\), but it has 1,000 rows according to"):
        USPEC(3, n_representatives=50).fit(short)
    with pytest.raises(TypeError, match="checkpoint must be the path of a folder, a URL or None, got 3"):
        USPEC(3, checkpoint=3).fit(X)
    with pytest.raises(ValueError, match=r"checkpoint='foo://a' cannot be opened: ValueError: Protocol not known"):
        USPEC(3, checkpoint="foo://a").fit(X)


@pytest.mark.usefixtures("few_cuts", "few_halves")
def test_figures_want_rows_of_this_machine(tmp_path):
    from ultraspec import plots, report

    lazy = chunked(X)
    model = USPEC(3, n_representatives=100, random_state=0).fit(lazy)
    where = tmp_path / "page.html"
    with pytest.raises(TypeError, match=r"on a cluster, .* X\[::100\].compute\(\)"):
        report.write(model, lazy, where)
    with pytest.raises(TypeError, match=r"on a cluster"):
        plots.sizes(model)
    report.write(model, X[::10], where)
    assert "</html>" in where.read_text()


@both_schedulers
def test_many_fits_at_once_keep_apart():
    """Fits in several threads, each with members in several threads, do not hear of each other."""
    lazy = chunked(X)
    options = {"n_estimators": 3, "n_representatives": 60, "random_state": 0}
    with ThreadPoolExecutor(3) as pool:
        fits = [pool.submit(lambda: USENC(3, **options).fit(lazy).labels_.compute()) for _ in range(9)]
        found = [fit.result() for fit in fits]
    assert all((labels == found[0]).all() for labels in found)
    assert da.ones(5).sum().compute() == 5
    assert not dask.callbacks.Callback.active


def test_a_cut_of_a_cut():
    model = USENC(3, n_estimators=3, n_representatives=100, random_state=0).fit(chunked(X))
    again = model.cut(5).cut(3)
    assert (again.labels_.compute() == model.labels_.compute()).all()
    assert (again.confidence_.compute() == model.confidence_.compute()).all()


def test_a_checkpoint_of_other_chunks_says_so(tmp_path):
    options = {"n_representatives": 50, "checkpoint": tmp_path / "run", "random_state": 0}
    USPEC(3, **options).fit(chunked(X))
    with pytest.raises(ValueError, match="the values of X or its chunks differ"):
        USPEC(3, **options).fit(chunked(X).rechunk((3_000, 2)))


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = USPEC(3, n_representatives=250, random_state=0).fit(chunked(X))
    before = model.labels_.compute()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(da.from_array(np.full((100, 5), np.nan)))
    assert model.n_features_in_ == 2
    assert (model.predict(chunked(X)).compute() == before).all()


def test_nothing_as_long_as_the_data_comes_here(monkeypatch):
    """What the client receives is counted, in bytes."""
    from ultraspec.engines import dask as engine

    received = []
    run = engine.run_graph

    def count(leaves, outputs, *rest):
        results = run(leaves, outputs, *rest)
        received.append(len(pickle.dumps(results)))
        return results

    monkeypatch.setattr(engine, "run_graph", count)
    monkeypatch.setattr("ultraspec.spectral.embedding.SAMPLE_ROWS", 1_000)
    monkeypatch.setattr("ultraspec.spectral.embedding.LARGE_SAMPLE", 2)
    sizes = {}
    for n in (20_000, 200_000):
        rows = datasets.generate("cc", n, random_state=0)[0]
        received.clear()
        USPEC(3, n_representatives=60, random_state=0).fit(da.from_array(rows, chunks=(n // 4, 2)))
        sizes[n] = sum(received)
    assert sizes[200_000] < 1.2 * sizes[20_000]


def test_state_is_one_node_of_the_graph():
    """Representatives are not copied into every task."""
    lazy = da.from_array(X, chunks=(500, 2))
    model = USPEC(3, n_representatives=250, random_state=0).fit(lazy)
    labels = model.labels_
    heavy = [key for key, task in dict(labels.__dask_graph__()).items() if len(pickle.dumps(task)) > 20_000]
    assert len(heavy) == 1


def test_progress_counts_chunks(capsys):
    USPEC(3, n_representatives=60, random_state=0, verbose=1).fit(chunked(X))
    shown = capsys.readouterr().err
    for phase in ("survey", "representatives", "neighbors", "graph", "eigenvectors", "labels"):
        assert phase in shown


def test_rows_of_a_collection():
    rows = open_dask(chunked(X), count=True)
    assert isinstance(rows, DaskRows)
    assert rows.shape == X.shape
    assert np.array_equal(rows.read(8_990, 9_310), X[8_990:9_310])
    at = np.array([0, 8_999, 9_000, 9_299, 9_300, 19_999])
    assert np.array_equal(rows.take(at), X[at])
    assert rows.take(np.empty(0, dtype=np.int64)).shape == (0, 2)
    assert [span for run in rows.runs(0) for span in run] == rows.blocks()
    assert all(not (low < 9_000 < high or low < 9_300 < high) for low, high in rows.blocks())
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(rows)
