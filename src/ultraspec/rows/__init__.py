"""Row sources: all passes over the data read from them.

A row source has a number of rows and features, returns the rows of a range (`read`) and of sorted indices (`take`), and
divides the rows into blocks. The block boundaries depend on the shape of the data alone, not on the number of threads,
so that sums over blocks are the same on any machine.

`Rows` is the interface; the estimators accept any implementation of it. `open_file` opens files, by the table of
`formats`. Errors about files and rows are in `errors`.
"""

from ultraspec.rows.checks import check_finite, check_not_masked, check_numeric_frame
from ultraspec.rows.errors import (
    AmbiguousArray,
    AmbiguousColumn,
    ArrayNotFound,
    ColumnNotFound,
    HeaderGuessed,
    InconsistentFiles,
    IndexGuessed,
    InvalidData,
    InvalidFile,
    InvalidSelection,
    NotFinite,
    NotNumeric,
    OptionNotApplicable,
    UnknownFormat,
    UnreadableFile,
    ValuesTooLarge,
    ZeroRow,
)
from ultraspec.rows.file_rows import FileRows
from ultraspec.rows.formats import FORMATS, Format, find_format, open_file
from ultraspec.rows.in_memory import ArrayRows, SparseRows, subset, to_canonical_csr
from ultraspec.rows.interface import Block, Rows, RowView, Span, cut_span, is_lazy, sample_indices
from ultraspec.rows.raw_matrix import watch_writing
from ultraspec.rows.results import allocate_matrix, allocate_rows, stays_in_memory
from ultraspec.rows.scaled import ScaledRows, Scaling

__all__ = [
    "FORMATS",
    "AmbiguousArray",
    "AmbiguousColumn",
    "ArrayNotFound",
    "ArrayRows",
    "Block",
    "ColumnNotFound",
    "FileRows",
    "Format",
    "HeaderGuessed",
    "InconsistentFiles",
    "IndexGuessed",
    "InvalidData",
    "InvalidFile",
    "InvalidSelection",
    "NotFinite",
    "NotNumeric",
    "OptionNotApplicable",
    "RowView",
    "Rows",
    "ScaledRows",
    "Scaling",
    "Span",
    "SparseRows",
    "UnknownFormat",
    "UnreadableFile",
    "ValuesTooLarge",
    "ZeroRow",
    "allocate_matrix",
    "allocate_rows",
    "check_finite",
    "check_not_masked",
    "check_numeric_frame",
    "cut_span",
    "find_format",
    "is_lazy",
    "open_file",
    "sample_indices",
    "stays_in_memory",
    "subset",
    "to_canonical_csr",
    "watch_writing",
]
