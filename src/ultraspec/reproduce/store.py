"""The store: one line of JSON per run, on disk before the next run starts. A torn last line is mended on opening."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ultraspec.reproduce.declarations import Run

Row = dict[str, Any]


def run_of(row: Row) -> Run:
    """Which run a line is about."""
    return Run(row["dataset"], row["scale"], row["method"], json.dumps(row["parameters"], sort_keys=True), row["seed"])


def read(path: Path) -> list[Row]:
    r"""The lines of a store, the last of each run; without a torn last line, which a killed process may leave.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "runs.jsonl")
    ...     row = {"dataset": "a", "scale": 1.0, "method": "b", "parameters": {}, "seed": 0}
    ...     _ = path.write_text(json.dumps(row) + "\n" + '{"dataset": "a", "sca')
    ...     len(read(path))
    1
    """
    if not path.exists():
        return []
    return _parse(path, path.read_bytes())[0]


def _parse(path: Path, data: bytes) -> tuple[list[Row], int]:
    """Rows, and the length of the part that is whole."""
    whole = data.rfind(b"\n") + 1
    rows: dict[Run, Row] = {}
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            row = json.loads(line)
            run = run_of(row)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}, is no result of a run. Take the line out, or the file."
            ) from error
        rows.pop(run, None)
        rows[run] = row
    return list(rows.values()), whole


class Store:
    """A store that is open for more lines; one process at a time.

    Parameters
    ----------
    path : Path
        The file; made where there is none.

    Attributes
    ----------
    rows : list of dict
        What it held when it was opened.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = open(path, "a+b")  # noqa: SIM115 - open as long as the store is
        try:
            _lock(self._file, path)
            self._file.seek(0)
            self.rows, whole = _parse(path, self._file.read())
            if whole < self._file.tell():
                self._file.truncate(whole)
        except BaseException:
            self._file.close()
            raise

    def append(self, row: Row) -> None:
        """Add a line and wait until it is on disk."""
        self._file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """A store that is closed in the end."""
    store = Store(path)
    try:
        yield store
    finally:
        store.close()


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ValueError(
            f"{path} is in use by another run of this command. Wait for it, or write elsewhere."
        ) from error
