"""Row sources: all passes over the data read from them.

A row source has a number of rows and features, returns the rows of a range (`read`) and of sorted indices (`take`), and
divides the rows into blocks. The block boundaries depend on the shape of the data alone, not on the number of threads,
so that sums over blocks are the same on any machine.

`Rows` is the interface; the estimators accept any implementation of it. `open_file` opens files, by the table of
`formats`. Errors about files and rows are in `errors`.
"""

from ultraspec.rows.anndata_files import is_anndata, open_anndata, without_view
from ultraspec.rows.checks import (
    LEAST_IDS,
    check_finite,
    check_not_masked,
    check_numeric_frame,
    is_increasing,
)
from ultraspec.rows.complete import CompleteRows, SelectedRows, has_missing, missing_of, spread, spread_block
from ultraspec.rows.errors import (
    AmbiguousArray,
    AmbiguousColumn,
    ArrayNotFound,
    ColumnNotFound,
    HeaderGuessed,
    IdColumn,
    InconsistentFiles,
    IndexGuessed,
    InvalidData,
    InvalidFile,
    InvalidPlaces,
    InvalidSelection,
    NotFinite,
    NotNumeric,
    OptionNotApplicable,
    RadiansGuessed,
    ScaledPlaces,
    UnknownFormat,
    UnreadableFile,
    ValuesTooLarge,
    ZeroRow,
)
from ultraspec.rows.file_rows import FileRows
from ultraspec.rows.formats import FORMATS, Format, find_format, open_file
from ultraspec.rows.frames import data_array_values, is_data_array, is_tensor, like_rows, open_table, tensor_values
from ultraspec.rows.in_memory import ArrayRows, SparseRows, to_canonical_csr
from ultraspec.rows.interface import NO_WEIGHTS, Block, Rows, RowView, Span, cut_span, is_lazy, sample_indices
from ultraspec.rows.raw_matrix import watch_writing
from ultraspec.rows.results import allocate_matrix, allocate_rows, stays_in_memory
from ultraspec.rows.scaled import ScaledRows, Scaling
from ultraspec.rows.weights import (
    InvalidWeight,
    LocalWeights,
    RowSample,
    RowWeights,
    WeightedRows,
    check_length,
    draw_rows,
    sample_rows,
    subset,
    take_draws,
    take_sample,
)

__all__ = [
    "FORMATS",
    "LEAST_IDS",
    "NO_WEIGHTS",
    "AmbiguousArray",
    "AmbiguousColumn",
    "ArrayNotFound",
    "ArrayRows",
    "Block",
    "ColumnNotFound",
    "CompleteRows",
    "FileRows",
    "Format",
    "HeaderGuessed",
    "IdColumn",
    "InconsistentFiles",
    "IndexGuessed",
    "InvalidData",
    "InvalidFile",
    "InvalidPlaces",
    "InvalidSelection",
    "InvalidWeight",
    "LocalWeights",
    "NotFinite",
    "NotNumeric",
    "OptionNotApplicable",
    "RadiansGuessed",
    "RowSample",
    "RowView",
    "RowWeights",
    "Rows",
    "ScaledPlaces",
    "ScaledRows",
    "Scaling",
    "SelectedRows",
    "Span",
    "SparseRows",
    "UnknownFormat",
    "UnreadableFile",
    "ValuesTooLarge",
    "WeightedRows",
    "ZeroRow",
    "allocate_matrix",
    "allocate_rows",
    "check_finite",
    "check_length",
    "check_not_masked",
    "check_numeric_frame",
    "cut_span",
    "data_array_values",
    "draw_rows",
    "find_format",
    "has_missing",
    "is_anndata",
    "is_data_array",
    "is_increasing",
    "is_lazy",
    "is_tensor",
    "like_rows",
    "missing_of",
    "open_anndata",
    "open_file",
    "open_table",
    "sample_indices",
    "sample_rows",
    "spread",
    "spread_block",
    "stays_in_memory",
    "subset",
    "take_draws",
    "take_sample",
    "tensor_values",
    "to_canonical_csr",
    "watch_writing",
    "without_view",
]
