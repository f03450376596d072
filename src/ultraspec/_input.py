"""Row sources for what users pass as X: rows of files, arrays, data frames and Dask collections."""

from __future__ import annotations

import copy
import numbers
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse

from ultraspec._checks import Diagnostic, InvalidParameter, Notation, warn_user
from ultraspec.engines.finite import drop_missing
from ultraspec.engines.moments import measure_scaling
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import (
    ArrayRows,
    FileRows,
    InvalidData,
    InvalidWeight,
    LocalWeights,
    Rows,
    ScaledPlaces,
    ScaledRows,
    SparseRows,
    WeightedRows,
    allocate_rows,
    check_length,
    check_not_masked,
    check_numeric_frame,
    data_array_values,
    is_anndata,
    is_data_array,
    is_lazy,
    is_tensor,
    missing_of,
    open_anndata,
    open_file,
    open_table,
    tensor_values,
    to_canonical_csr,
)
from ultraspec.storage.spool import as_array


@dataclass(eq=False)
class FeatureCountMismatch(InvalidData):
    """The number of features differs from that of the rows that a model was fitted on."""

    n_features: int  #: number of features of the rows
    expected: int  #: number of features of the model
    estimator: str  #: class of the model

    def _problem(self, notation: Notation) -> str:
        expecting = f"{notation.estimator(self.estimator)} is expecting {self.expected} features as input"
        return f"{notation.data} has {self.n_features} features, but {expecting}."


@dataclass(eq=False)
class FeatureNamesMismatch(InvalidData):
    """The feature names, or their order, differ from those of the rows that a model was fitted on."""

    fitted: list[str]  #: feature names of the model
    given: list[str]  #: feature names of the rows

    def _problem(self, notation: Notation) -> str:  # noqa: ARG002
        lines = ["The feature names should match those that were passed during fit."]
        for title, names in (
            ("unseen at fit time", sorted(set(self.given) - set(self.fitted))),
            ("seen at fit time, yet now missing", sorted(set(self.fitted) - set(self.given))),
        ):
            if names:
                lines += [f"Feature names {title}:", *(f"- {name}" for name in names[:5])]
                lines += ["- ..."] if len(names) > 5 else []
        if len(lines) == 1:
            lines.append("Feature names must be in the same order as they were in fit.")
        return "\n".join(lines)

    def _advice(self, notation: Notation) -> str:
        if set(self.given) == set(self.fitted):
            return ""
        columns = notation.argument("columns", ...)
        return f"Choose the columns that were fitted{notation.python(', as in open_rows')}: {columns}."


@dataclass(eq=False)
class FeatureNamesIgnored(Diagnostic, UserWarning):
    """Only one of the rows and the model has feature names, so names are not compared."""

    estimator: str  #: class of the model
    fitted_with_names: bool  #: whether it is the model that has names

    def _problem(self, notation: Notation) -> str:
        has = "does not have valid feature names" if self.fitted_with_names else "has feature names"
        fitted = "with" if self.fitted_with_names else "without"
        return f"{notation.data} {has}, but {notation.estimator(self.estimator)} was fitted {fitted} feature names"


def open_rows(
    path: str | os.PathLike[str] | Any,
    columns: Sequence[str | int] | None = None,
    *,
    array: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    scale: Literal["standard"] | None = None,
) -> Rows:
    """Open a file of rows that need not fit into memory, for the estimators to read.

    The format is recognized by the name:

    ================================================  ================================================================
    ``.npy``                                          a 2-d array
    ``.npz``                                          a 2-d array, or a matrix saved by `scipy.sparse.save_npz`
    ``.h5``, ``.hdf5``                                a 2-d dataset
    ``.h5ad``                                         X, raw/X, a layer or obsm of an AnnData, dense or sparse
    ``.zarr``                                         a folder with a 2-d array, or the only one in a group; also an
                                                      AnnData; format 2 or 3
    ``.parquet``, ``.pq``, ``.parq``                  a table; also a folder of them, with subfolders, in the order of
                                                      their names
    ``.arrow``, ``.feather``, ``.ipc``                a table: an Arrow file or stream
    ``.csv``, ``.tsv``, ``.txt``                      a table as text, also compressed (.gz, .bz2, .zst) or a folder
                                                      of them; read completely on opening
    ``.jsonl``, ``.ndjson``                           an object on each line, also compressed; read completely on
                                                      opening
    ================================================  ================================================================

    ``"-"``, standard input, and other pipes hold CSV, compressed or not, or an Arrow stream. An AnnData object is
    accepted, too; if it is in backed mode, X is read from its file.

    Parameters
    ----------
    path : str or path-like
        The file or folder, or an AnnData object. ``~`` is the home folder.
    columns : list of str or int, optional
        Columns to read, by name (tables) or number, in this order. By default all; those of a table must hold numbers
        or booleans. The index that pandas writes with a frame is left out unless it is chosen.
    array : str, optional
        Name of the array of an .npz, HDF5 or Zarr file, or of the matrix of an AnnData, such as "obsm/X_pca". By
        default the only 2-d one.
    header : bool, optional
        Whether the first line of a CSV file holds the column names. By default it does, unless it holds only numbers
        (but 0, 1, 2, ... are the names that pandas writes for none); a warning says how such numbers were read. A first
        column without a name is treated as the index that pandas writes, and left out with a warning.
    delimiter : str, optional
        Character between the values of a CSV file. By default ",", a tab for .tsv files, and what separates the first
        lines of .txt files.
    decimal : str, optional
        Decimal character of a CSV file. By default ".".
    scale : {"standard"}, optional
        "standard" scales every column to mean 0 and variance 1, for which the rows are read once on opening. A model
        that is fitted on such rows stores the scaling as `scaling_`, also in its file, and scales new rows itself:
        leave `scale` out for `predict`. (For an array, use scikit-learn's ``StandardScaler`` in a pipeline.)

    Returns
    -------
    Rows
        Row source for `fit`, `predict` and other methods, see `ultraspec.rows.Rows`. ``shape`` (``n_rows``,
        ``n_features``) and ``names`` describe the data, ``read(start, stop)`` and ``take(indices)`` return rows,
        ``select(columns)`` returns a source with fewer columns. Close it, or use it in a ``with`` statement, to close
        the file; otherwise the file is closed when nothing refers to the source any more.

    See Also
    --------
    ultraspec.USPEC.fit : Accepts row sources.
    ultraspec.rows.Rows : The interface of row sources, to write one for data of another kind.

    Notes
    -----
    Labels do not depend on the format. Missing values are detected when the rows are first read; the error names their
    column and row. Parquet, HDF5 and Zarr data is decoded in chunks, of which few are cached in memory.

    CSV files, JSON lines, streams, compressed arrays in .npz files, and other data with row groups or chunks that span
    more than 128 MB, cannot be read from the middle. They are written once, on opening, to a temporary file that is
    deleted with the source. It has 8 bytes per value for text, and otherwise as many as the values take in memory. Set
    the environment variable ``TMPDIR`` if the default folder for temporary files is too small.

    The names of folders (as in ``year=2026/part.parquet``) are not columns. The columns of X and of the layers of an
    AnnData have the names of its variables. A sparse matrix that is stored by column (CSC) is read into memory.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from ultraspec import USPEC, datasets, open_rows
    >>> X, _ = datasets.generate("cc", 5_000, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "x.npy"), X)
    ...     with open_rows(Path(folder, "x.npy")) as rows:
    ...         labels = USPEC(3, random_state=0).fit_predict(rows)
    >>> bool((labels == USPEC(3, random_state=0).fit_predict(X)).all())
    True
    """
    if scale not in (None, "standard"):
        raise InvalidParameter("scale", scale, "'standard'", (None,))
    if is_anndata(path):
        rows = open_anndata(path, columns, array)
    else:
        rows = open_file(path, columns, array=array, header=header, delimiter=delimiter, decimal=decimal)
    if scale is None:
        return rows
    with ThreadEngine(None) as engine:
        return ScaledRows(rows, measure_scaling(rows, engine))


def open_weighted(estimator: Any, X: Any, sample_weight: Any) -> tuple[Rows, float]:
    """Return the row source of what a user passes to `fit` as X, with the weights of the rows, and their scale.

    `sample_weight` is None, a number, an array, a row source of one column, a Dask collection beside that of X, or the
    name of a column of X, which is then no feature.
    """
    if isinstance(sample_weight, str):
        X, sample_weight = split_column(X, sample_weight)
    return with_weights(open_input(estimator, X, reset=True), sample_weight, estimator.n_jobs)


def open_further(estimator: Any, X: Any, sample_weight: Any, scale: float) -> Rows:
    """Return the row source of rows that are added to a fitted model, with weights that are scaled as before."""
    if isinstance(sample_weight, str):
        X, sample_weight = split_column(X, sample_weight)
    rows = open_input(estimator, X, reset=False, drop=True, count=True)
    if sample_weight is None and scale == 1.0:
        return rows
    return with_weights(rows, 1.0 if sample_weight is None else sample_weight, estimator.n_jobs, scale)[0]


def with_weights(rows: Rows, sample_weight: Any, n_jobs: int | None, scale: float | None = None) -> tuple[Rows, float]:
    """Return rows with weights, and the scale of these.

    Without a given `scale`, rows that all have the same weight are returned as they are.
    """
    if sample_weight is None:
        return rows, 1.0
    if isinstance(sample_weight, numbers.Real):
        LocalWeights.of(np.full(1, sample_weight, dtype=np.float64))  # one weight of all rows, but a valid one
        if scale is None:
            return rows, 1.0 / float(sample_weight)
        missing = missing_of(rows)
        sample_weight = np.full(rows.n_rows + (0 if missing is None else len(missing)), float(sample_weight))
    values = _weight_values(sample_weight, n_jobs)
    if rows.remote:
        from ultraspec.rows.dask import open_weights, source_of

        source = source_of(rows)
        remote = open_weights(source, values, scale)
        if scale is None and remote.equal:
            return rows, 1.0 / remote.most
        return rows.with_source(source.with_weights(remote)), remote.scale
    if is_lazy(values):
        raise InvalidWeight("is on a cluster, and X is not", "Pass sample_weight.compute().")
    missing = missing_of(rows)
    check_length(len(values), rows.n_rows + (0 if missing is None else len(missing)))
    if missing is not None:
        values = np.delete(as_array(values), missing)
    weights = LocalWeights.of(values, scale)
    if scale is None and weights.equal:
        return rows, 1.0 / weights.most
    return WeightedRows(rows, weights), weights.scale


def _weight_values(sample_weight: Any, n_jobs: int | None) -> Any:
    """Return weights as a vector: an array, a `Spool` or a Dask collection."""
    if is_lazy(sample_weight):
        return sample_weight
    if isinstance(sample_weight, Rows):
        return _read_column(sample_weight, n_jobs)
    check_not_masked(sample_weight)
    if is_tensor(sample_weight):
        sample_weight = tensor_values(sample_weight)
    values = np.asarray(sample_weight)
    if values.ndim != 1:
        raise InvalidWeight(f"has {values.ndim} dimensions", "Sample weights must be 1D array or scalar.")
    if values.dtype == object:
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidWeight(f"holds values that are no numbers ({error})") from error
    if values.dtype.kind not in "biuf":
        raise InvalidWeight(f"has type {values.dtype}")
    return values.astype(np.float64)  # a copy: the user may change the array


def _read_column(rows: Rows, n_jobs: int | None) -> Any:
    """Read the only column of a row source: into memory if that is small, otherwise into a temporary file."""
    if rows.n_features != 1:
        raise InvalidWeight(f"has {rows.n_features} columns", "Weights are one column.")
    out = allocate_rows(rows, np.float64)

    def fill(block: Any, span: tuple[int, int]) -> None:
        out[slice(*span)] = (block.toarray() if scipy.sparse.issparse(block) else block)[:, 0]

    with ThreadEngine(n_jobs) as engine:
        engine.map_rows(rows, fill)
    return out


def split_column(X: Any, name: str) -> tuple[Any, Any]:
    """Return X without one of its columns, and this column."""
    if not isinstance(X, Rows) and not is_lazy(X):
        table = open_table(X)
        X = X if table is None else table
    if hasattr(X, "columns") and hasattr(X, "drop"):  # a data frame
        if name not in list(X.columns):
            raise InvalidWeight(f"names the column {name!r}, which X does not have", "Pass the name of a column.")
        return X.drop(columns=[name]) if hasattr(X, "iloc") else X.drop(name), X[name]
    if not isinstance(X, Rows) or X.names is None:
        raise InvalidWeight(
            f"is {name!r}, the name of a column, and X has no column names", "Pass an array of weights."
        )
    others = [each for each in X.names if each != name]
    source = X.rows if isinstance(X, ScaledRows) else X
    weights = source.select([name])
    if not others:
        raise InvalidWeight(f"names the only column of X, {name!r}", "X needs columns to cluster, too.")
    return X.select(others), weights


def open_input(
    estimator: Any, X: Any, *, reset: bool, predicts: bool = True, drop: bool = False, count: bool = False
) -> Rows:
    """Return the row source of what a user passes as X; set or check the estimator's feature count and names.

    If the estimator's parameter `missing` is "drop", rows with NaN are left out if `reset` or `drop` is True. Rows on a
    cluster whose number is not known are counted if `reset` or `count` is True.

    Arrays are neither copied nor cast here, and not checked for NaN: the passes over blocks do that. For an estimator
    that was fitted on scaled rows (see `ultraspec.rows.scaled`), the rows are scaled. An estimator that does not label
    new rows (`predicts` is False) does not store a scaling, and does not support Dask.
    """
    kind = type(estimator).__name__
    scaling = vars(estimator).get("scaling_")
    if is_lazy(X) and not predicts:
        raise TypeError(
            f"{kind} does not support Dask; USPEC and USENC do. Pass X.compute() if it fits into memory, or "
            "open_rows(path) if X is stored in files."
        )
    if reset:
        rows = _open(estimator, X, reset=True)
        new_scaling = rows.scaling if isinstance(rows, ScaledRows) else None
        if new_scaling is not None and getattr(estimator, "metric", None) == "haversine":
            raise ScaledPlaces
        if predicts:
            estimator.scaling_ = new_scaling
        if scaling is not None and new_scaling is None:
            warn_user(
                f"This {kind} was fitted on scaled rows, and these are not scaled. To scale them too, pass "
                "open_rows(path, scale='standard'), or an array that StandardScaler has transformed."
            )
        return _drop_missing(estimator, rows)
    if isinstance(X, ScaledRows):
        if scaling is None:
            raise ValueError(
                f"X was opened with scale='standard', but {kind} was fitted on rows without scaling. Leave scale out."
            )
        X = X.rows  # the scaling of the model is used
    rows = _open(estimator, X, reset=False, count=count)
    if drop:
        rows = _drop_missing(estimator, rows)
    return rows if scaling is None else ScaledRows(rows, scaling)


def _drop_missing(estimator: Any, rows: Rows) -> Rows:
    return drop_missing(rows, estimator.n_jobs) if getattr(estimator, "missing", "error") == "drop" else rows


def _open(estimator: Any, X: Any, *, reset: bool, count: bool = False) -> Rows:
    from sklearn.utils.validation import validate_data

    if isinstance(X, Rows):
        return _reset_features(estimator, X) if reset else _match_features(estimator, X)
    if is_lazy(X):
        return _open_dask(estimator, X, reset=reset, count=reset or count)
    if isinstance(X, (str, bytes, os.PathLike)):
        shown = repr(os.fspath(X))
        raise TypeError(f"X is a path, {shown}. Open the file first: pass ultraspec.open_rows({shown}).")
    if is_anndata(X):
        raise TypeError(
            "X is an AnnData. Pass one of its matrices, as in open_rows(X, array='obsm/X_pca'), or call tl.uspec."
        )
    if is_data_array(X):
        return _open_data_array(estimator, X, reset=reset)
    table = open_table(X)
    if table is not None:
        return _reset_features(estimator, table) if reset else _match_features(estimator, table)
    if is_tensor(X):
        X = tensor_values(X)
    check_not_masked(X)
    numbers_only = check_numeric_frame(X)
    in_memory = not isinstance(X, np.memmap)
    X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
    if scipy.sparse.issparse(X):
        return SparseRows(to_canonical_csr(X))
    if X.dtype == object and numbers_only:
        X = X.astype(np.float64)  # decimals of polars
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X must hold numbers, got {X.dtype}. Convert it to numbers first, for example to seconds.")
    return ArrayRows(X, in_memory=in_memory)


def _open_data_array(estimator: Any, X: Any, *, reset: bool) -> Rows:
    """Return the row source of a DataArray of xarray; strings that are coordinates of its columns are their names."""
    values, names = data_array_values(X)
    if names is None:
        return _open(estimator, values, reset=reset)
    rows = _open(copy.copy(estimator), values, reset=True)  # a copy: the names are checked below
    rows.names = names
    return _reset_features(estimator, rows) if reset else _match_features(estimator, rows)


def _open_dask(estimator: Any, X: Any, *, reset: bool, count: bool) -> Rows:
    from ultraspec.rows.dask import open_dask

    rows = open_dask(X, count=count)
    if not count:
        return _match_features(estimator, rows)
    if rows.n_rows == 0 or rows.n_features == 0:
        what = "sample" if rows.n_rows == 0 else "feature"
        raise ValueError(f"Found array with 0 {what}(s) (shape={rows.shape}) while a minimum of 1 is required.")
    return _reset_features(estimator, rows) if reset else _match_features(estimator, rows)


def _reset_features(estimator: Any, rows: Rows) -> Rows:
    """Set the estimator's feature count and names to those of a row source."""
    estimator.n_features_in_ = rows.n_features
    if rows.names is not None:
        estimator.feature_names_in_ = np.array(rows.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return rows


def _match_features(estimator: Any, rows: Rows) -> Rows:
    """Return the row source with its columns in the order of the estimator's features; raise if they differ."""
    kind = type(estimator).__name__
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and rows.names is not None:
        if rows.names == fitted.tolist():
            return rows
        if set(rows.names) != set(fitted) or not isinstance(rows, FileRows):  # others cannot reorder columns
            raise FeatureNamesMismatch(fitted.tolist(), rows.names)
        return rows.select(fitted.tolist())
    if rows.n_features != estimator.n_features_in_:
        raise FeatureCountMismatch(rows.n_features, int(estimator.n_features_in_), kind)
    if (fitted is None) != (rows.names is None):
        warn_user(FeatureNamesIgnored(kind, fitted_with_names=fitted is not None))
    return rows
