"""Rows of .npz files: an array that is stored as it is is read in place, a compressed one is unpacked once."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec.rows._arrays import Found, check_matrix, choose_array
from ultraspec.rows._base import Rows
from ultraspec.rows._file import Columns, Stamp
from ultraspec.rows._matrix import RUN_BYTES, MatrixRows, OpenFile
from ultraspec.rows._temporary import TemporaryFile
from ultraspec.rows.errors import InvalidFile
from ultraspec.rows.in_memory import SparseRows
from ultraspec.rows.npy import Header, read_header

KIND = "an .npz file"
ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)
SPARSE_MEMBERS = {"format", "shape", "data"}  # of what scipy.sparse.save_npz writes


def open_npz(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> Rows:
    """Open an .npz file: one of its arrays, or the sparse matrix that SciPy saved there."""
    stamp = Stamp.of(path)
    with stamp.reading(KIND, *ERRORS):
        archive = zipfile.ZipFile(path)
    with archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        if array is None and members.keys() >= SPARSE_MEMBERS:
            return _open_sparse(path, columns)
        with stamp.reading(KIND, *ERRORS):
            headers = {name: _header(path, archive, member) for name, member in members.items()}
        name = choose_array(path, {name: header.found for name, header in headers.items()}, array)
        chosen = Columns.choose(columns, path, headers[name].found.shape[1])
        options = {} if array is None else {"array": array}
        return NpzRows(path, stamp, archive, members[name], headers[name], chosen, options)


class NpzRows(MatrixRows):
    """Rows of an array in an .npz file."""

    def __init__(
        self,
        path: Path,
        stamp: Stamp,
        archive: zipfile.ZipFile,
        member: str,
        header: Header,
        columns: Columns,
        options: Mapping[str, Any],
    ) -> None:
        info = archive.getinfo(member)
        if info.compress_type == zipfile.ZIP_STORED:
            file = OpenFile.open(path)
            offset = _first_byte(file, info) + header.n_bytes
        else:
            file, offset = _unpack(path, stamp, archive, info), header.n_bytes
        found = header.found
        super().__init__(
            path,
            file,
            found.shape[0],
            columns,
            found.dtype,
            offset=offset,
            by_column=header.by_column,
            options=options,
        )


def _header(path: Path, archive: zipfile.ZipFile, member: str) -> Header:
    with archive.open(member) as stream:
        header = read_header(stream)
    header.check_size(archive.getinfo(member).file_size, path, f" {member!r}")
    return header


def _first_byte(file: OpenFile, info: zipfile.ZipInfo) -> int:
    """Where a stored member's bytes are: behind its header of 30 bytes, its name and its extra field."""
    header = np.empty(30, dtype=np.uint8)
    file.read_into(header, info.header_offset)
    return info.header_offset + 30 + sum(struct.unpack("<HH", header[26:].tobytes()))


def _unpack(path: Path, stamp: Stamp, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> OpenFile:
    target = TemporaryFile(path, info.file_size)
    with archive.open(info) as stream:
        while True:
            with stamp.reading(KIND, *ERRORS):
                data = stream.read(RUN_BYTES)
            if not data:
                return target.file
            target.write(np.frombuffer(data, dtype=np.uint8))


def _open_sparse(path: Path, columns: Sequence[str | int] | None) -> SparseRows:
    import scipy.sparse

    with Stamp.of(path).reading("a sparse matrix that scipy.sparse.save_npz wrote", *ERRORS, KeyError):
        matrix = scipy.sparse.csr_array(scipy.sparse.load_npz(path))
        matrix.check_format(full_check=True)  # indices outside of the matrix would crash the kernels
    check_matrix(path, "a sparse matrix", Found(matrix.shape, matrix.dtype))
    if 0 in matrix.shape:
        raise InvalidFile(path, f"has no {'rows' if matrix.shape[0] == 0 else 'columns'}")
    if columns is not None:
        matrix = matrix[:, Columns.choose(columns, path, matrix.shape[1]).numbers]
    matrix.sum_duplicates()
    return SparseRows(matrix)
