"""Rows of .npz files: uncompressed arrays are read in place, compressed ones are written out once."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ultraspec.rows.array_files import ArrayInfo, check_matrix, choose_array
from ultraspec.rows.columns import Columns
from ultraspec.rows.errors import InvalidFile
from ultraspec.rows.file_rows import FileSource
from ultraspec.rows.file_state import FileState
from ultraspec.rows.in_memory import SparseRows
from ultraspec.rows.interface import Rows
from ultraspec.rows.npy import NpyHeader, read_header
from ultraspec.rows.raw_matrix import RUN_BYTES, MatrixRows, WatchedFile, create_file, report_written
from ultraspec.storage.temporary import RandomAccessFile

KIND = "an .npz file"
ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)
SPARSE_MEMBERS = {"format", "shape", "data"}  # of a file that scipy.sparse.save_npz wrote


def open_npz(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> Rows:
    """Open an .npz file: one of its arrays, or the sparse matrix that SciPy saved."""
    state = FileState.of(path)
    with state.reading(KIND, *ERRORS):
        archive = zipfile.ZipFile(path)
    with archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        if array is None and members.keys() >= SPARSE_MEMBERS:
            return _open_sparse(path, columns)
        with state.reading(KIND, *ERRORS):
            headers = {name: _header(path, archive, member) for name, member in members.items()}
        name = choose_array(path, {name: header.info for name, header in headers.items()}, array)
        header = headers[name]
        member = archive.getinfo(members[name])
        file, offset = _open_member(path, state, archive, member)
        n_rows, total = header.info.shape
        return NpzRows(
            FileSource(path, open_npz, {} if array is None else {"array": array}),
            file,
            n_rows,
            Columns.choose(columns, path, total),
            header.info.dtype,
            offset=offset + header.n_bytes,
            by_column=header.by_column,
        )


class NpzRows(MatrixRows):
    """Rows of an array in an .npz file."""


def _header(path: Path, archive: zipfile.ZipFile, member: str) -> NpyHeader:
    with archive.open(member) as stream:
        header = read_header(stream)
    header.check_size(archive.getinfo(member).file_size, path, f" {member!r}")
    return header


def _open_member(
    path: Path, state: FileState, archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[RandomAccessFile, int]:
    """Return a file with the bytes of a member, and their offset."""
    if member.compress_type == zipfile.ZIP_STORED:
        file = WatchedFile(path)
        # the member's header has 30 bytes, of which the last four are the lengths of the name and an extra field
        header = np.empty(30, dtype=np.uint8)
        file.read_into(header, member.header_offset)
        return file, member.header_offset + 30 + sum(struct.unpack("<HH", header[26:].tobytes()))
    target = create_file(path, member.file_size)
    written = 0
    with archive.open(member) as stream:
        while True:
            with state.reading(KIND, *ERRORS):
                data = stream.read(RUN_BYTES)
            if not data:
                return target, 0
            target.write_from(np.frombuffer(data, dtype=np.uint8), written)
            written += len(data)
            report_written(written / member.file_size)


def _open_sparse(path: Path, columns: Sequence[str | int] | None) -> SparseRows:
    import scipy.sparse

    with FileState.of(path).reading("a sparse matrix that scipy.sparse.save_npz wrote", *ERRORS, KeyError):
        matrix = scipy.sparse.csr_array(scipy.sparse.load_npz(path))
        matrix.check_format(full_check=True)  # indices outside of the matrix would crash the kernels
    check_matrix(path, "a sparse matrix", ArrayInfo(matrix.shape, matrix.dtype))
    if 0 in matrix.shape:
        raise InvalidFile(path, f"has no {'rows' if matrix.shape[0] == 0 else 'columns'}")
    if columns is not None:
        matrix = matrix[:, Columns.choose(columns, path, matrix.shape[1]).numbers]
    matrix.sum_duplicates()
    return SparseRows(matrix)
