"""Tables, lazy frames and tensors of other libraries: the real ones, where they are installed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

from tests.helpers.common import blobs
from tests.helpers.row_files import frame
from ultraspec import USENC, USPEC
from ultraspec.rows import InvalidData, NotFinite, frames, is_anndata, open_table

X = blobs(1200, 3, 3, seed=5)[0]


def arrow_table():
    return pyarrow.Table.from_pandas(frame(X), preserve_index=False)


class Stream:
    """An object that is nothing but an Arrow stream."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def duckdb_relation(path):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().sql(f"select * from read_parquet('{path}')")


def ibis_table(path):
    ibis = pytest.importorskip("ibis")
    return ibis.polars.connect().read_parquet(path)


def huggingface_dataset(path):
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_parquet(str(path), cache_dir=str(path.parent / "cache"))


def huggingface_stream(path):
    datasets = pytest.importorskip("datasets")
    return datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)


def sql_frame(path):
    """A lazy frame that has no Arrow stream of its own here, but that narwhals knows."""
    pytest.importorskip("narwhals")
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().sql(f"select * from read_parquet('{path}')")
    import narwhals

    return narwhals.from_native(relation)


TABLES = {
    "pyarrow table": lambda path: arrow_table(),
    "pyarrow batch": lambda path: arrow_table().combine_chunks().to_batches()[0],
    "pyarrow reader": lambda path: arrow_table().to_reader(100),
    "pyarrow dataset": pyarrow.dataset.dataset,
    "arrow stream": lambda path: Stream(arrow_table()),
    "polars lazy": polars.scan_parquet,
    "duckdb": duckdb_relation,
    "ibis": ibis_table,
    "datasets": huggingface_dataset,
    "datasets stream": huggingface_stream,
    "narwhals": sql_frame,
}


@pytest.fixture
def path(tmp_path):
    pyarrow.parquet.write_table(arrow_table(), tmp_path / "x.parquet", row_group_size=200)
    return tmp_path / "x.parquet"


@pytest.mark.parametrize("name", TABLES)
def test_tables(path, name):
    expected = USPEC(3, random_state=0).fit(frame(X))
    model = USPEC(3, random_state=0).fit(TABLES[name](path))
    assert model.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.predict(TABLES[name](path)), model.labels_)


def test_ensembles_and_columns_in_another_order(path):
    model = USENC(3, n_estimators=4, random_state=0).fit(polars.scan_parquet(path))
    np.testing.assert_array_equal(model.predict(arrow_table().select(["c2", "c0", "c1"])), model.labels_)
    np.testing.assert_array_equal(model.predict(frame(X)), model.labels_)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(arrow_table().rename_columns(["a", "b", "c"]))


def test_bad_tables(path):
    table = arrow_table().append_column("name", pyarrow.array(["x"] * len(X)))
    for bad in (table, Stream(table), polars.LazyFrame(polars.from_arrow(table))):
        with pytest.raises(InvalidData, match=r"X: column 'name' .* must hold numbers. Pass X\[\['c0', 'c1', 'c2'\]\]"):
            USPEC(3).fit(bad)
    with pytest.raises(InvalidData, match="X has no rows"):
        USPEC(3).fit(arrow_table()[:0])
    with pytest.raises(InvalidData, match="X has more than one column named 'a'"):
        USPEC(3).fit(arrow_table().rename_columns(["a", "a", "b"]))
    with pytest.raises(NotFinite, match="X contains NaN in column 'a', row 1"):
        USPEC(2).fit(pyarrow.table({"a": [1, None, 3], "b": [1, 2, 3]}))


def test_a_single_column_is_no_table():
    for column in (pyarrow.chunked_array([X[:, 0]]), polars.Series(X[:, 0])):
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
            USPEC(3).fit(column)
    with pytest.raises(InvalidData, match="X cannot be read as a table"):
        USPEC(3).fit(Stream(pyarrow.chunked_array([X[:, 0]])))


def test_objects_with_any_attribute_are_no_anndata():
    """Expressions of Ibis and mocks return something for any name."""

    class Anything:
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return self

    assert not is_anndata(Anything())


def test_a_query_that_fails(path):
    lazy = polars.scan_parquet(path).with_columns(polars.col("c0").cast(polars.String).str.to_integer(strict=True))
    with pytest.raises(Exception, match=r"conversion|failed"):
        USPEC(3).fit(lazy)


def test_streams_are_never_collected():
    """At most a few batches exist at a time."""
    most = 0

    def batches():
        nonlocal most
        for _ in range(200):
            most = max(most, pyarrow.total_allocated_bytes())
            yield pyarrow.record_batch({"a": pyarrow.array(np.zeros(2**15)), "b": pyarrow.array(np.ones(2**15))})

    schema = pyarrow.schema([("a", pyarrow.float64()), ("b", pyarrow.float64())])
    before = pyarrow.total_allocated_bytes()
    rows = open_table(pyarrow.RecordBatchReader.from_batches(schema, batches()))
    assert rows.n_rows == 200 * 2**15
    assert most - before < 8 * 2**19  # of 100 MB


# Tensors


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_torch(dtype):
    torch = pytest.importorskip("torch")
    values = torch.tensor(X * 100).to(getattr(torch, dtype))
    expected = USPEC(3, random_state=0).fit_predict(values.to(torch.float64).numpy())
    model = USPEC(3, random_state=0).fit(values)
    np.testing.assert_array_equal(model.labels_, expected)
    np.testing.assert_array_equal(model.predict(values.requires_grad_(dtype != "int64")), model.labels_)
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.predict(values[:, 0].detach())


def test_torch_tensors_that_are_views_or_no_rows():
    torch = pytest.importorskip("torch")
    values = torch.tensor(X)
    model = USPEC(3, random_state=0).fit(X)
    turned = torch.complex(values, -values).conj().imag  # its sign is not in its memory
    assert turned.is_neg()
    for same in (torch.nn.Parameter(values), values.T.contiguous().T, turned):
        np.testing.assert_array_equal(model.predict(same), model.labels_)
    weighted = USPEC(3, random_state=0).fit(values, sample_weight=torch.ones(len(X)))
    np.testing.assert_array_equal(weighted.labels_, model.labels_)
    rough = model.predict(values.to(torch.float8_e4m3fn))
    np.testing.assert_array_equal(rough, model.predict(values.to(torch.float8_e4m3fn).double().numpy()))
    for bad in (values.to_sparse(), values.to_sparse_csr(), values.to("meta")):
        with pytest.raises(TypeError, match=r"X is a tensor of torch .* Pass a dense tensor"):
            model.predict(bad)


class Tensor:
    """A tensor that is nothing but DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_other_tensors():
    model = USPEC(3, random_state=0).fit(Tensor(X))
    np.testing.assert_array_equal(model.labels_, USPEC(3, random_state=0).fit_predict(X))

    class Elsewhere(Tensor):
        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, **options):
            raise BufferError("not on the CPU")

    with pytest.raises(TypeError, match=r"X is a tensor of .* on the CPU"):
        model.predict(Elsewhere(X))


# xarray


@pytest.mark.filterwarnings("error")  # also of feature names
def test_data_arrays_get_labels_with_their_coordinates():
    xarray = pytest.importorskip("xarray")
    cube = xarray.DataArray(
        X.reshape(40, 30, 3), dims=("y", "x", "band"), coords={"y": np.arange(40), "band": ["r", "g", "b"]}
    ).assign_attrs(units="reflectance")
    rows = cube.stack(row=("y", "x")).transpose("row", "band")
    model = USPEC(3, random_state=0)
    labels = model.fit_predict(rows)
    assert labels.dims == ("row",)
    assert labels.attrs == {}
    assert rows.attrs == {"units": "reflectance"}
    assert model.feature_names_in_.tolist() == ["r", "g", "b"]
    np.testing.assert_array_equal(labels, USPEC(3, random_state=0).fit_predict(X))
    image = model.predict(rows).unstack()
    assert image.dims == ("y", "x")
    np.testing.assert_array_equal(image, labels.to_numpy().reshape(40, 30))
    assert image.dtype == np.int32
    found, confidence = model.predict(rows, return_confidence=True)
    assert found.dims == confidence.dims == ("row",)
    lazy = model.predict(rows.chunk({"row": 300}))
    np.testing.assert_array_equal(lazy.compute(), labels)
    with pytest.raises(ValueError, match=r"dimensions \('y', 'x', 'band'\).*X.stack"):
        model.predict(cube)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(rows.assign_coords(band=["r", "g", "c"]))


def test_frames_in_memory_are_still_read_as_they_are():
    for X_ in (frame(X), polars.from_pandas(frame(X)), X.tolist()):
        assert open_table(X_) is None
    assert open_table(pd.DataFrame({"a": [1]})) is None


def test_datasets_are_not_read_ahead(tmp_path):
    """Parquet files of a dataset are by default buffered as a whole."""
    table = pyarrow.table({"a": np.random.default_rng(0).random(2**18), "b": np.zeros(2**18)})
    with pyarrow.parquet.ParquetWriter(tmp_path / "x.parquet", table.schema) as writer:
        for _ in range(48):
            writer.write_table(table)
    dataset = pyarrow.dataset.dataset(tmp_path / "x.parquet")
    before, most = pyarrow.total_allocated_bytes(), 0
    for _ in frames._stream(dataset):
        most = max(most, pyarrow.total_allocated_bytes() - before)
    assert most < 2**26  # of 200 MB; how far threads are ahead differs
