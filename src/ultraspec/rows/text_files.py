"""Text files, compressed or not, and text from a pipe, which can be read more than once here."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ultraspec._checks import import_optional
from ultraspec.rows.file_state import FileState
from ultraspec.storage.temporary import TemporaryFile

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
COPY_BYTES = 2**22  # copied from a pipe at once


def compressed(*suffixes: str) -> tuple[str, ...]:
    """Return suffixes, and each of them with every compression."""
    return tuple(suffix + ending for suffix in suffixes for ending in ("", *COMPRESSIONS))


class TextFile:
    """A text file that is read from its start, as often as needed.

    Attributes
    ----------
    path : Path
        The file, for messages.
    size : int
        Number of its bytes; 0 if they are compressed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._compression = COMPRESSIONS.get(path.suffix.lower())
        self._state: FileState | None = FileState.of(path)
        self.size = 0 if self._compression else path.stat().st_size

    @property
    def plain_name(self) -> str:
        """Name of the file without the suffix of its compression, in lower case."""
        name = self.path.name.lower()
        return name[: name.rindex(".")] if name.endswith(tuple(COMPRESSIONS)) else name

    def open(self) -> Any:
        """Open a stream of its bytes, which are decompressed."""
        arrow: Any = import_optional("pyarrow", "text files")
        return arrow.input_stream(self._source(), compression=self._compression)

    def _source(self) -> Any:
        return str(self.path)

    def start(self, n_bytes: int) -> bytes:
        """Return the first bytes; none if the file is damaged, which its reader will report."""
        arrow: Any = import_optional("pyarrow", "text files")
        try:
            with self.open() as stream:
                return stream.read(n_bytes)
        except (OSError, ValueError, arrow.ArrowException):
            return b""

    def check(self) -> None:
        """Raise if the file was changed meanwhile."""
        if self._state is not None:
            self._state.check()


class PipedText(TextFile):
    """Text from a pipe, copied to a temporary file that is deleted with this object."""

    def __init__(self, path: Path, stream: BinaryIO, start: bytes) -> None:
        self.path = path
        self._compression = next((name for magic, name in MAGIC.items() if start.startswith(magic)), None)
        self._state = None
        self._file = TemporaryFile(f"Copying {path}")
        size = 0
        while data := stream.read(COPY_BYTES):
            self._file.append(np.frombuffer(data, dtype=np.uint8))
            size += len(data)
        self._n_bytes = size
        self.size = 0 if self._compression else size

    def _source(self) -> Any:
        return io.BufferedReader(_Reader(self._file, self._n_bytes), COPY_BYTES)


class _Reader(io.RawIOBase):
    """A stream of the bytes of a temporary file, with a position of its own."""

    def __init__(self, file: TemporaryFile, n_bytes: int) -> None:
        self._file = file
        self._n_bytes = n_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = min(len(buffer), self._n_bytes - self._position)
        self._file.read_into(np.frombuffer(buffer, dtype=np.uint8)[:n], self._position)
        self._position += n
        return n
