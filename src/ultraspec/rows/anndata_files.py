"""Rows of AnnData: files (.h5ad), Zarr folders and objects. The matrices of cells are X, raw/X, layers and obsm.

Dense matrices are read like other arrays of HDF5 and Zarr files. Of sparse ones, blocks of rows are read; the start of
each row is in memory. Matrices that are stored by column (CSC) are read into memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameterType, import_optional
from ultraspec.rows.array_files import ArrayInfo
from ultraspec.rows.columns import Columns
from ultraspec.rows.errors import AmbiguousArray, ArrayNotFound, InvalidFile, UnreadableFile
from ultraspec.rows.file_rows import FileRows, FileSource
from ultraspec.rows.file_state import FileState
from ultraspec.rows.hdf5 import ERRORS, Hdf5Rows, open_dataset
from ultraspec.rows.in_memory import ArrayRows, SparseRows, small_blocks, to_canonical_csr
from ultraspec.rows.interface import Block, Rows, is_lazy
from ultraspec.rows.raw_matrix import cut_runs

KIND = "an .h5ad file"
SPARSE = {"csr_matrix": "CSR", "csc_matrix": "CSC"}
Open = Callable[[], AbstractContextManager[Any]]  # returns the root group of an open file


@dataclass(frozen=True)
class SparseInfo(ArrayInfo):
    """Shape, type and format of a sparse matrix in a file."""

    layout: str  #: "CSR" or "CSC"

    def __str__(self) -> str:
        return f"{super().__str__()}, sparse {self.layout}"


def is_anndata(value: Any) -> bool:
    """Return whether an object is an AnnData."""
    return all(hasattr(type(value), name) for name in ("obs_names", "var_names", "obsm", "layers", "n_obs"))


def open_h5ad(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> Rows:
    """Open an .h5ad file."""
    h5py = import_optional("h5py", "HDF5 files")
    state = FileState.of(path)

    @contextmanager
    def opened() -> Iterator[Any]:
        with state.reading(KIND, *ERRORS), h5py.File(path, "r") as file:
            yield file

    with opened() as file:
        found = find_matrices(file)
    name = choose_matrix(path, found, array)
    with opened() as file:
        names = feature_names(file, name)
    source = FileSource(path, open_h5ad, {} if array is None else {"array": array})
    info = found[name]
    if isinstance(info, SparseInfo):
        return open_sparse(source, opened, name, info, columns, names)
    chosen = Columns.choose(columns, path, info.shape[1], names)
    return open_dataset(Hdf5Rows, source, state, name, info, chosen)


def find_matrices(root: Any) -> dict[str, ArrayInfo]:
    """Return the matrices of an AnnData file that have a row for each cell, by name."""
    names = [name for name in ("X", "raw/X") if name in root]
    for folder in ("layers", "obsm"):
        if folder in root:
            names += [f"{folder}/{name}" for name in root[folder].keys()]  # noqa: SIM118  groups are no mappings
    found: dict[str, ArrayInfo] = {}
    for name in names:
        item = root[name]
        if hasattr(item, "dtype"):
            info = ArrayInfo(tuple(item.shape or ()), item.dtype)
        elif item.attrs.get("encoding-type") in SPARSE:
            shape = tuple(int(n) for n in item.attrs["shape"])
            info = SparseInfo(shape, item["data"].dtype, SPARSE[item.attrs["encoding-type"]])
        else:
            continue  # data frames
        if info.is_numeric and len(info.shape) == 2:
            found[name] = info
    return found


def choose_matrix(path: Path, found: Mapping[str, Any], array: str | None) -> str:
    """Return the name of the matrix that was chosen, or of the only one; raise if there is none or several."""
    if array is None:
        if len(found) == 1:
            return next(iter(found))
        raise AmbiguousArray(path, found) if found else ArrayNotFound(None, path, found)
    if not isinstance(array, str):
        raise InvalidParameterType("array", array, "the name of a matrix, such as 'X' or 'obsm/X_pca'")
    if array.strip("/") not in found:
        raise ArrayNotFound(array, path, found)
    return array.strip("/")


def feature_names(root: Any, name: str) -> list[str] | None:
    """Return the names of the variables, if the columns of a matrix are these and the names are distinct."""
    where = {"X": "var", "raw": "raw/var", "layers": "var"}.get(name.split("/")[0])
    if where is None or where not in root:
        return None
    group = root[where]
    index = group.attrs.get("_index", "_index")
    if index not in group:
        return None
    item = group[index]
    values = item.asstr()[:] if hasattr(item, "asstr") else item[:]
    names = [str(value) for value in values]
    return names if len(set(names)) == len(names) else None


def open_sparse(
    source: FileSource,
    opened: Open,
    name: str,
    info: SparseInfo,
    columns: Sequence[str | int] | None,
    names: list[str] | None,
) -> Rows:
    """Open a sparse matrix in a group of three arrays."""
    path = source.path
    n_rows, n_columns = info.shape
    if names is not None and len(names) != n_columns:
        raise InvalidFile(path, f"is damaged: {name!r} has {n_columns} columns and {len(names)} names")
    chosen = Columns.choose(columns, path, n_columns, names)
    with opened() as root:
        group = root[name]
        starts = np.asarray(group["indptr"][:], dtype=np.int64)
        sizes = {group["data"].shape[0], group["indices"].shape[0]}
    n_starts = (n_rows if info.layout == "CSR" else n_columns) + 1
    ordered = len(starts) == n_starts and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
    if not ordered or sizes != {int(starts[-1])}:
        raise InvalidFile(path, f"is damaged: the sparse matrix {name!r} has rows that do not follow each other")
    if info.layout == "CSR":
        return SparseFileRows(source, opened, name, info, chosen, starts)
    import scipy.sparse

    with opened() as root:
        group = root[name]
        parts = np.asarray(group["data"][:]), np.asarray(group["indices"][:]), starts
    _check_indices(path, name, parts[1], n_rows)
    if n_rows == 0:
        raise InvalidFile(path, "has no rows")
    matrix = to_canonical_csr(scipy.sparse.csc_array(parts, shape=info.shape))
    rows = SparseRows(matrix if chosen.is_all else matrix[:, chosen.numbers])
    rows.names = chosen.names
    return rows


def _check_indices(path: Path, name: str, indices: npt.NDArray[Any], limit: int) -> None:
    if indices.dtype.kind not in "iu" or (len(indices) and not 0 <= indices.min() <= indices.max() < limit):
        raise InvalidFile(path, f"is damaged: the sparse matrix {name!r} has indices outside of its shape")


class SparseFileRows(FileRows):
    """Rows of a CSR matrix in a file; blocks are sparse. `starts` are the positions of the first value of each row."""

    sparse = True

    def __init__(
        self,
        source: FileSource,
        opened: Open,
        name: str,
        info: SparseInfo,
        columns: Columns,
        starts: npt.NDArray[np.int64],
    ) -> None:
        super().__init__(source, info.shape[0], columns, info.dtype)
        self._opened = opened
        self._name = name
        self._total = info.shape[1]
        self._starts = starts

    @property
    def block_rows(self) -> int:
        """Number of rows of a block."""
        return small_blocks(self.n_rows, super().block_rows)

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``."""
        return self._read(*self._clip_span(start, stop))

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`, which are read in runs."""
        import scipy.sparse

        self._check_indices(indices)
        row_bytes = 1 + int(self._starts[-1]) * (self.dtype.itemsize + 4) // self.n_rows
        runs = [indices[part] for part in cut_runs(indices, row_bytes)]
        parts = [self._read(int(run[0]), int(run[-1]) + 1)[run - run[0]] for run in runs]
        return scipy.sparse.vstack(parts, format="csr") if parts else self._read(0, 0)

    def _read(self, start: int, stop: int) -> Any:
        import scipy.sparse

        self._check_open()
        low, high = int(self._starts[start]), int(self._starts[stop])
        with self._opened() as root:
            group = root[self._name]
            data = np.asarray(group["data"][low:high])
            indices = np.asarray(group["indices"][low:high])
        if len(data) != high - low or len(indices) != high - low:
            raise UnreadableFile(self.path, "AnnData", f"{len(data)} of {high - low} values could be read")
        _check_indices(self.path, self._name, indices, self._total)
        starts = self._starts[start : stop + 1] - low
        matrix = scipy.sparse.csr_array((data, indices, starts), shape=(stop - start, self._total))
        matrix = to_canonical_csr(matrix)
        return matrix if self._columns.is_all else matrix[:, self._columns.numbers]


def open_anndata(adata: Any, columns: Sequence[str | int] | None, array: str | None) -> Rows:
    """Open a matrix of an AnnData object; X in backed mode is read from its file."""
    shown = Path("AnnData")
    found = {name: _describe(value) for name, value in _matrices_of(adata).items()}
    name = choose_matrix(shown, {name: info for name, info in found.items() if info is not None}, array)
    if name == "X" and getattr(adata, "isbacked", False):
        if adata.is_view:
            raise ValueError(
                "A view of an AnnData in backed mode cannot be read in blocks. Call adata = adata.to_memory() first."
            )
        path = Path(adata.filename).absolute()
        try:
            return open_h5ad(path, columns, array="X")
        except UnreadableFile as error:
            if getattr(adata.file, "_filemode", "r") != "r":
                raise ValueError(f"{path} is open for writing. Open it with backed='r'.") from error
            raise
    value = without_view(_matrices_of(adata)[name])
    names = None if name.startswith("obsm/") else [str(each) for each in adata.var_names]
    if name == "raw/X":
        names = [str(each) for each in adata.raw.var_names]
    if names is not None and len(set(names)) < len(names):
        names = None
    chosen = Columns.choose(columns, shown, value.shape[1], names)
    if not chosen.is_all:
        value = value[:, chosen.numbers]
    rows: Rows
    if is_lazy(value):
        from ultraspec.rows.dask import open_dask

        rows = open_dask(value, count=True)
    else:
        rows = SparseRows(to_canonical_csr(value)) if hasattr(value, "tocsr") else ArrayRows(np.asarray(value))
    rows.names = chosen.names
    return rows


def without_view(matrix: Any) -> Any:
    """Return arrays and matrices, those of Dask too, without the subclasses that views of an AnnData have."""
    if isinstance(matrix, np.ndarray) and not isinstance(matrix, np.memmap):
        return matrix.view(np.ndarray)
    if hasattr(matrix, "__dask_graph__") and not is_lazy(matrix):
        import dask.array as da

        return da.Array(matrix.dask, matrix.name, matrix.chunks, meta=matrix._meta)
    if hasattr(matrix, "indptr") and matrix.format == "csr":
        import scipy.sparse

        kind = scipy.sparse.csr_array if isinstance(matrix, scipy.sparse.sparray) else scipy.sparse.csr_matrix
        return kind((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    return matrix


def _matrices_of(adata: Any) -> dict[str, Any]:
    found = {"X": adata.X}
    if getattr(adata, "raw", None) is not None:
        found["raw/X"] = adata.raw.X
    found |= {f"layers/{name}": value for name, value in adata.layers.items()}
    found |= {f"obsm/{name}": value for name, value in adata.obsm.items()}
    return {name: value for name, value in found.items() if value is not None}


def _describe(value: Any) -> ArrayInfo | None:
    """Return shape and type of a matrix; None for data frames and others."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or hasattr(value, "columns") or len(value.shape) != 2:
        return None
    info = ArrayInfo(tuple(value.shape), np.dtype(dtype))
    return info if info.is_numeric else None
