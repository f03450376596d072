"""Data of the commands: opening it, scaling it, and labelling it block by block."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._validation import open_input
from ultraspec.cli._screen import Screen
from ultraspec.engines import ThreadEngine
from ultraspec.progress import Silent
from ultraspec.rows import Rows, open_rows

Labels = npt.NDArray[np.int32]

SLOW = (".csv", ".tsv", ".gz")  # is read through on opening
NAMED = (*SLOW, ".parquet", ".pq", ".parq")
COUNT_ROWS = 2**22
SHARE = 8  # blocks per thread that are labelled before they are written


@dataclass(frozen=True)
class Input:
    """What the options say about the data."""

    path: Path
    columns: Sequence[str] | None = None
    array: str | None = None
    header: bool | None = None
    delimiter: str | None = None

    def open(self, screen: Screen, names: Sequence[str] | None = None) -> Rows:
        """Open it; where no columns were asked for and tables have names, those of a model.

        Columns are names first, and where there are no such names, numbers.
        """
        path = self.path.expanduser()
        if path.suffix.lower() in SLOW and path.is_file():
            screen.say(f"Reading {path} ...")
        columns = self.columns
        if columns is None and names is not None and self._is_table(path):
            columns = names
        try:
            return self._open(columns)
        except ValueError as error:
            numbers = columns is not None and all(name.isdecimal() for name in columns)
            if columns is None or not numbers or "has no column name" not in str(error):
                raise
        return self._open([int(name) for name in columns])

    def _open(self, columns: Sequence[str | int] | None) -> Rows:
        return open_rows(self.path, columns, array=self.array, header=self.header, delimiter=self.delimiter)

    def _is_table(self, path: Path) -> bool:
        if path.is_dir():
            return any(found.suffix.lower() in NAMED for found in path.rglob("*.*"))
        return path.suffix.lower() in NAMED and self.header is not False


def label_blocks(model: Any, rows: Rows, reporter: Silent) -> Generator[Labels]:
    """Labels of rows by a fitted model, in order, a few blocks at a time: nothing that grows with the rows is kept."""
    source = open_input(model, rows, reset=False)
    spans = source.blocks()
    with ThreadEngine(model.n_jobs) as engine, reporter.phase("labels"):
        reporter.begin_pass(len(spans))
        step = SHARE * engine.n_jobs
        for first in range(0, len(spans), step):
            for found in engine.map(
                lambda span: model._label(model._prepare_new(source, span)), spans[first : first + step]
            ):
                reporter.advance()
                yield found
            reporter.measure()


def slices(*columns: Any) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Columns that are arrays, also memory-mapped ones, in blocks."""
    for start in range(0, len(columns[0]), COUNT_ROWS):
        yield tuple(np.asarray(column[start : start + COUNT_ROWS]) for column in columns)


class Sizes:
    """Counts rows per cluster as they pass by."""

    def __init__(self, n_clusters: int) -> None:
        self.counts = np.zeros(n_clusters, dtype=np.int64)

    def of(self, blocks: Iterator[tuple[npt.NDArray[Any], ...]]) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """The same blocks; their first column is counted."""
        for block in blocks:
            self.counts += np.bincount(block[0], minlength=len(self.counts))
            yield block
