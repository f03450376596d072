"""Labels in blocks: label rows with a fitted model, count the rows of each cluster."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._estimator import fitted
from ultraspec._input import open_input
from ultraspec.engines.progress import Reporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import UnseenRows

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
    unseen = UnseenRows(source, state.preprocessor, getattr(model, "feature_names_in_", None))
    spans = source.blocks()

    def label(span: tuple[int, int]) -> tuple[npt.NDArray[Any], ...]:
        block = unseen.read(*span)
        return state.model.label_with_confidence(block) if state.model.has_confidence else (state.model.label(block),)

    with ThreadEngine(model.n_jobs) as engine, reporter.phase("labels"):
        reporter.begin_pass(len(spans))
        step = BLOCKS_PER_THREAD * engine.n_jobs
        for first in range(0, len(spans), step):
            for labels in engine.map(label, spans[first : first + step]):
                reporter.advance()
                yield labels
            reporter.measure()


def split_blocks(*columns: Any) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Split columns, which may be memory-mapped, into blocks of rows."""
    for start in range(0, len(columns[0]), BLOCK_ROWS):
        yield tuple(np.asarray(column[start : start + BLOCK_ROWS]) for column in columns)


class ClusterSizes:
    """Numbers of rows per cluster, counted while blocks of labels pass through."""

    def __init__(self, n_clusters: int) -> None:
        self.counts = np.zeros(n_clusters, dtype=np.int64)

    def count(self, blocks: Iterator[tuple[npt.NDArray[Any], ...]]) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """Pass blocks on; count the labels, which are the first column."""
        for block in blocks:
            self.counts += np.bincount(block[0], minlength=len(self.counts))
            yield block
