"""The store: one line of JSON per run, on disk before the next run starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any, Self

from ultraspec.reproduce.declarations import Run, canonical_json
from ultraspec.storage.locks import lock_file

Record = dict[str, Any]


def run_of(record: Record) -> Run:
    """Return the run that a record of the store is about."""
    parameters = canonical_json(record["parameters"])
    return Run(record["dataset"], record["scale"], record["method"], parameters, record["seed"])


def read(path: Path) -> list[Record]:
    r"""Read the records of a store: the last one of each run, without an incomplete last line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "runs.jsonl")
    ...     record = {"dataset": "a", "scale": 1.0, "method": "b", "parameters": {}, "seed": 0}
    ...     _ = path.write_text(json.dumps(record) + "\n" + '{"dataset": "a", "sca')
    ...     len(read(path))
    1
    """
    return _parse(path, path.read_bytes())[0] if path.exists() else []


def _parse(path: Path, data: bytes) -> tuple[list[Record], int]:
    """Return the records and the number of bytes in complete lines."""
    n_bytes = data.rfind(b"\n") + 1
    records: dict[Run, Record] = {}
    for number, line in enumerate(data[:n_bytes].splitlines(), 1):
        try:
            record = json.loads(line)
            run = run_of(record)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}, is not the result of a run. Remove the line, or the file."
            ) from error
        records.pop(run, None)  # so that the new record comes last
        records[run] = record
    return list(records.values()), n_bytes


class Store:
    """A store that is open for appending, by one process at a time. Use it in a ``with`` statement.

    An incomplete last line, which a killed process may have left, is removed. `records` are those that the file held
    when it was opened.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = open(path, "a+b")  # noqa: SIM115 - closed by __exit__
        try:
            try:
                lock_file(self._file, wait=False)
            except OSError as error:
                raise ValueError(
                    f"{path} is in use by another run of this command. Wait for it, or write elsewhere."
                ) from error
            self._file.seek(0)
            self.records, n_bytes = _parse(path, self._file.read())
            if n_bytes < self._file.tell():
                self._file.truncate(n_bytes)
        except BaseException:
            self._file.close()
            raise

    def append(self, record: Record) -> None:
        """Append a record and wait until it is on disk."""
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()
