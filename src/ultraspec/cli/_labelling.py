"""Labels in blocks: label rows with a fitted model, count the rows of each cluster."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._estimator import fitted, open_gappy
from ultraspec._input import open_input
from ultraspec.engines.finite import counting_not_finite
from ultraspec.engines.progress import Reporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows

BLOCK_ROWS = 2**22
BLOCKS_PER_THREAD = 8  # that are labelled before they are written


def label_blocks(model: Any, rows: Rows, reporter: Reporter) -> Generator[tuple[npt.NDArray[Any], ...]]:
    """Label rows with a fitted model, in order; memory does not grow with the number of rows.

    Yields
    ------
    tuple of ndarray
        Labels of a block of rows and, for an ensemble, their confidence.
    """
    state = fitted(model)
    source = open_input(model, rows, reset=False)
    has_confidence = state.model.has_confidence
    unseen, label = open_gappy(
        model, source, state.model.label_with_confidence if has_confidence else state.model.label
    )
    names = getattr(model, "feature_names_in_", None)
    spans = source.blocks()

    def label_span(span: tuple[int, int]) -> tuple[npt.NDArray[Any], ...]:
        result = label(unseen.read(*span))
        return result if has_confidence else (result,)

    counting = counting_not_finite(source, model.n_jobs, names)
    with counting, ThreadEngine(model.n_jobs) as engine, reporter.phase("labels"):
        reporter.begin_pass(len(spans))
        step = BLOCKS_PER_THREAD * engine.n_jobs
        for first in range(0, len(spans), step):
            for labels in engine.map(label_span, spans[first : first + step]):
                reporter.advance()
                yield labels
            reporter.measure()


def split_blocks(*columns: Any) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Split columns, which may be memory-mapped, into blocks of rows."""
    for start in range(0, len(columns[0]), BLOCK_ROWS):
        yield tuple(np.asarray(column[start : start + BLOCK_ROWS]) for column in columns)


class ClusterSizes:
    """Numbers of rows per cluster, and of rows without one, counted while blocks of labels pass through."""

    def __init__(self, n_clusters: int) -> None:
        self.counts = np.zeros(n_clusters, dtype=np.int64)
        self.missing = 0

    def count(self, blocks: Iterator[tuple[npt.NDArray[Any], ...]]) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """Pass blocks on; count the labels, which are the first column."""
        for block in blocks:
            labels = block[0][block[0] >= 0]
            self.counts += np.bincount(labels, minlength=len(self.counts))
            self.missing += len(block[0]) - len(labels)
            yield block
