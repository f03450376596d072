"""Tables and tensors of other libraries: streams of Arrow record batches, DLPack tensors, arrays of xarray.

None of these libraries is imported, except pyarrow, which tables need. Rows of a table are written to a temporary file
while they are streamed, so a query or a dataset that is larger than memory is never collected.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import import_optional, join_names
from ultraspec.rows.arrow_columns import write_batches
from ultraspec.rows.errors import InvalidFile, NotNumeric
from ultraspec.rows.file_rows import FileSource
from ultraspec.rows.file_state import reading
from ultraspec.rows.interface import Rows
from ultraspec.rows.parquet import open_parquet
from ultraspec.rows.pipes import refuse_pipe

X_PATH = Path("X")  # as messages call the data
BATCH_ROWS = 2**16  # of a stream, if its source leaves the choice


def library_of(value: Any) -> str:
    """Return the name of the package that defines the class of a value."""
    return type(value).__module__.partition(".")[0].removeprefix("_")


def open_table(X: Any) -> Rows | None:
    """Return the rows of a table that is no data frame in memory, or None if X is something else."""
    batches = _stream(X)
    if batches is None:
        return _sink(X)
    first = next(batches, None)
    if first is None:
        raise InvalidFile(X_PATH, "has no rows")
    source = FileSource(X_PATH, refuse_pipe)
    try:
        return write_batches(source, first.schema, itertools.chain([first], batches), None, _reading)
    except NotNumeric as error:
        error.path = None  # so that the advice is to choose columns of X
        raise


def _reading() -> Any:
    arrow: Any = import_optional("pyarrow", "tables")
    return reading(X_PATH, "a table", OSError, ValueError, arrow.ArrowException)


def _stream(X: Any) -> Iterator[Any] | None:
    """Return the record batches of a table, in the order of its rows; None if it has none."""
    library = library_of(X)
    name = type(X).__name__
    if library == "pandas" or (library == "polars" and name == "DataFrame"):
        return None  # in memory, and read without a copy
    if library == "polars" and hasattr(X, "collect_batches"):
        frames = X.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        return _batches(frame.to_arrow() for frame in frames)
    if library == "duckdb" and hasattr(X, "fetch_record_batch"):
        read = X.to_arrow_reader if hasattr(X, "to_arrow_reader") else X.fetch_record_batch
        return _batches([read(BATCH_ROWS)])
    if library == "ibis" and hasattr(X, "to_pyarrow_batches"):  # its Arrow stream would collect the whole table
        return _batches([X.to_pyarrow_batches(chunk_size=BATCH_ROWS)])
    if library == "datasets" and isinstance(X, dict):
        raise TypeError(
            f"X is a {name} of the splits {join_names(X)}. Pass one of them, as in X[{next(iter(X), 'train')!r}]."
        )
    if library == "datasets" and hasattr(X, "with_format"):
        return _batches(X.with_format("arrow").iter(batch_size=BATCH_ROWS))
    if library == "pyarrow" and hasattr(X, "scanner"):
        return _batches([X.scanner(batch_size=BATCH_ROWS, **_scan_options(X)).to_reader()])
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "iloc"):
        arrow: Any = import_optional("pyarrow", "Arrow streams")
        try:
            reader = arrow.RecordBatchReader.from_stream(X)
        except arrow.ArrowInvalid as error:  # a single column
            if hasattr(X, "__array__"):
                return None
            raise InvalidFile(X_PATH, f"cannot be read as a table ({error})") from error
        return _batches([reader])
    return None


def _scan_options(dataset: Any) -> dict[str, Any]:
    """Return options with which a dataset of pyarrow is read ahead by a few batches; by default all of it may be.

    Without threads (use_threads=False) the whole dataset would be read before the first batch is returned.
    """
    options: dict[str, Any] = {"batch_readahead": 1, "fragment_readahead": 1}
    if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
        arrow: Any = import_optional("pyarrow.dataset", "datasets")
        options["fragment_scan_options"] = arrow.ParquetFragmentScanOptions(pre_buffer=False)
    return options


def _batches(tables: Iterable[Any]) -> Iterator[Any]:
    """Yield the record batches of tables and of readers."""
    for table in tables:
        yield from table.to_batches() if hasattr(table, "to_batches") else table


def _sink(X: Any) -> Rows | None:
    """Return the rows of a lazy frame that narwhals knows, by way of a Parquet file; None if X is something else."""
    if hasattr(X, "__array__") or hasattr(X, "iloc") or library_of(X) in ("builtins", "numpy", "scipy"):
        return None
    try:
        import narwhals
    except ImportError:
        return None
    frame = narwhals.from_native(X, pass_through=True)
    if not isinstance(frame, narwhals.LazyFrame):
        return None
    with tempfile.TemporaryDirectory(prefix="ultraspec-") as folder:
        path = Path(folder, "rows.parquet")
        frame.sink_parquet(path)
        rows = open_parquet(path, None)
        batches = rows.batches()
        assert batches is not None
        first = next(batches, None)
        if first is None:
            raise InvalidFile(X_PATH, "has no rows")
        source = FileSource(X_PATH, refuse_pipe)
        return write_batches(source, first.schema, itertools.chain([first], batches), None, partial(_reading))


def is_tensor(X: Any) -> bool:
    """Return whether X is a tensor of another library, on a CPU or another device, that DLPack can exchange."""
    return hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray) and library_of(X) not in ("dask", "pandas")


def tensor_values(X: Any) -> npt.NDArray[Any]:
    """Return the values of a tensor, without a copy if it is in memory and NumPy knows its type."""
    try:
        if hasattr(X, "detach"):  # torch
            X = X.detach().cpu().resolve_neg()
            if "bfloat16" in str(X.dtype) or "float8" in str(X.dtype):
                X = X.float()
        try:
            return np.from_dlpack(X)
        except (BufferError, RuntimeError, TypeError, ValueError):
            for name in ("get", "numpy"):  # cupy, and others that copy from their device
                if hasattr(X, name):
                    return np.asarray(getattr(X, name)())
            raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:  # NotImplementedError is a RuntimeError
        raise TypeError(
            f"X is a tensor of {library_of(X)} that NumPy cannot read ({error}). Pass a dense tensor of numbers on the "
            "CPU."
        ) from error


def is_data_array(X: Any) -> bool:
    """Return whether X is a DataArray of xarray."""
    return library_of(X) == "xarray" and hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "data")


def data_array_values(X: Any) -> tuple[Any, list[str] | None]:
    """Return the values of a DataArray, which may be a Dask array, and the names of its columns if they have some."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got a DataArray with the dimensions {X.dims}. Stack those of the rows, as in "
            "X.stack(row=('y', 'x')).transpose('row', 'band')."
        )
    column = X.dims[1]
    names = [str(name) for name in X.indexes[column]] if column in X.indexes else None
    if names is not None and not all(isinstance(name, str) for name in X.indexes[column]):
        names = None
    return X.data, names


def like_rows(X: Any, values: Any) -> Any:
    """Return results with one value per row with the coordinates of X if it is a DataArray, else unchanged."""
    if not is_data_array(X):
        return values
    if isinstance(values, tuple):
        return tuple(like_rows(X, each) for each in values)
    rows = X.isel({X.dims[1]: 0}, drop=True).copy(data=values).rename(None)
    rows.attrs = {}
    return rows
