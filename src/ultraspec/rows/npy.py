"""Rows of .npy files: takes a file, gives its rows by reading ranges of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from ultraspec.rows._arrays import Found, check_matrix
from ultraspec.rows._file import Columns, readable
from ultraspec.rows._matrix import MatrixRows, OpenFile
from ultraspec.rows.errors import InvalidFile


@dataclass(frozen=True)
class Header:
    """What the header of a .npy array says: shape and type, whether it is stored by column, and its own length."""

    found: Found
    by_column: bool
    n_bytes: int

    def check_size(self, n_bytes: int, path: Path, member: str = "") -> None:
        """Raise if an array with this header and of `n_bytes` in all is incomplete."""
        if self.found.dtype.hasobject:
            return
        if n_bytes < self.n_bytes + math.prod(self.found.shape) * self.found.dtype.itemsize:
            raise InvalidFile(path, f"is incomplete: it is too short for its array{member} ({self.found})")


def read_header(stream: IO[bytes]) -> Header:
    """Read the header of a .npy array; leaves the stream at the first value."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_2_0(stream)
    else:  # in use for records only
        raise ValueError(f"arrays of version {version} of the format hold records, not numbers")
    return Header(Found(tuple(shape), dtype), bool(by_column), stream.tell())


class NpyRows(MatrixRows):
    """Rows of a .npy file."""

    def __init__(self, path: Path, columns: Sequence[str | int] | None) -> None:
        with readable(path, "a .npy file"), open(path, "rb") as stream:
            header = read_header(stream)
        found = header.found
        check_matrix(path, "an array", found)
        header.check_size(path.stat().st_size, path)
        n_rows, total = found.shape
        chosen = Columns.choose(columns, path, total)
        file = OpenFile.open(path)
        super().__init__(path, file, n_rows, chosen, found.dtype, offset=header.n_bytes, by_column=header.by_column)
