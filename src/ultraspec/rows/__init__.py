"""Row sources: what every pass over the data reads from.

A row source knows how many rows and features there are, gives the rows of a range (`read`) and of a sorted list of
indices (`take`), and cuts itself into blocks. The block boundaries depend on the data's shape alone, never on the
number of threads, so that sums taken block by block are the same on any machine.
"""

from ultraspec.rows._base import Block, Rows, RowView, Span, cut_span, is_lazy, sample_indices
from ultraspec.rows._file import FileRows
from ultraspec.rows._open import check_path, open_file
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
    MalformedCsv,
    NotFinite,
    NotNumeric,
    OptionNotApplicable,
    UnknownFormat,
    UnreadableFile,
    ValuesTooLarge,
    ZeroRow,
)
from ultraspec.rows.in_memory import ArrayRows, SparseRows, subset
from ultraspec.rows.scaled import ScaledRows, Scaling

__all__ = [
    "AmbiguousArray",
    "AmbiguousColumn",
    "ArrayNotFound",
    "ArrayRows",
    "Block",
    "ColumnNotFound",
    "FileRows",
    "HeaderGuessed",
    "InconsistentFiles",
    "IndexGuessed",
    "InvalidData",
    "InvalidFile",
    "InvalidSelection",
    "MalformedCsv",
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
    "check_finite",
    "check_not_masked",
    "check_numeric_frame",
    "check_path",
    "cut_span",
    "is_lazy",
    "open_file",
    "sample_indices",
    "subset",
]
