"""Rows of .npy files, which are read in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from ultraspec.rows.array_files import ArrayInfo, check_matrix
from ultraspec.rows.columns import Columns
from ultraspec.rows.errors import InvalidFile
from ultraspec.rows.file_rows import FileSource
from ultraspec.rows.file_state import reading
from ultraspec.rows.raw_matrix import MatrixRows, WatchedFile


@dataclass(frozen=True)
class NpyHeader:
    """Header of an array in .npy format."""

    info: ArrayInfo  #: shape and type of the array
    by_column: bool  #: whether it is stored in Fortran order
    n_bytes: int  #: length of the header

    def check_size(self, n_bytes: int, path: Path, member: str = "") -> None:
        """Raise if `n_bytes`, with the header, are too few for the array."""
        if self.info.dtype.hasobject:
            return
        if n_bytes < self.n_bytes + math.prod(self.info.shape) * self.info.dtype.itemsize:
            raise InvalidFile(path, f"is incomplete: it is too short for its array{member} ({self.info})")


def read_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header of an array in .npy format; leave the stream at the first value."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_2_0(stream)
    else:  # used for records only
        raise ValueError(f"arrays of version {version} of the format hold records, not numbers")
    return NpyHeader(ArrayInfo(tuple(shape), dtype), bool(by_column), stream.tell())


class NpyRows(MatrixRows):
    """Rows of a .npy file."""

    def __init__(self, path: Path, columns: Sequence[str | int] | None) -> None:
        with reading(path, "a .npy file"), open(path, "rb") as stream:
            header = read_header(stream)
        info = header.info
        check_matrix(path, "an array", info)
        header.check_size(path.stat().st_size, path)
        n_rows, total = info.shape
        super().__init__(
            FileSource(path, NpyRows),
            WatchedFile(path),
            n_rows,
            Columns.choose(columns, path, total),
            info.dtype,
            offset=header.n_bytes,
            by_column=header.by_column,
        )
