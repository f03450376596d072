"""Labels of the commands: rows labelled block by block, and counted."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._input import open_input
from ultraspec.engines.progress import Reporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows

COUNT_ROWS = 2**22
SHARE = 8  # blocks per thread that are labelled before they are written


def label_blocks(model: Any, rows: Rows, reporter: Reporter) -> Generator[tuple[npt.NDArray[Any], ...]]:
    """Labels of rows by a fitted model, in order, a few blocks at a time: nothing that grows with the rows is kept.

    With the labels of an ensemble comes the confidence in them.
    """
    backed = getattr(model, "_majority", None) is not None
    source = open_input(model, rows, reset=False)
    spans = source.blocks()

    def label(span: tuple[int, int]) -> tuple[npt.NDArray[Any], ...]:
        block = model._prepare_new(source, span)
        return model._placement.label_backed(block) if backed else (model._label(block),)

    with ThreadEngine(model.n_jobs) as engine, reporter.phase("labels"):
        reporter.begin_pass(len(spans))
        step = SHARE * engine.n_jobs
        for first in range(0, len(spans), step):
            for found in engine.map(label, spans[first : first + step]):
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
