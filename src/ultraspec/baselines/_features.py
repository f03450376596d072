"""Passes over dense features of the rows that are not stored.

Nystrom and FastESC map every row to a few hundred features, too many to store for millions of rows. They make a few
passes over the rows instead, and recompute the features in each pass, for a few thousand rows at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span

CHUNK_ROWS = 2048

Floats = npt.NDArray[np.float64]


def chunks(rows: Rows, span: Span) -> Iterator[tuple[slice, Block]]:
    """Yield the rows of a block, a few at a time, after their positions."""
    block = rows.read(*span)
    for low in range(0, block.shape[0], CHUNK_ROWS):
        part = block[low : low + CHUNK_ROWS]
        yield slice(span[0] + low, span[0] + low + part.shape[0]), part


def sum_over(
    rows: Rows, shape: tuple[int, ...], add: Callable[[slice, Block], npt.NDArray[Any]], engine: ThreadEngine
) -> Floats:
    """Return the sum of ``add(where, rows)`` over a few rows at a time, in float64."""

    def step(total: Floats, span: Span) -> None:
        for where, part in chunks(rows, span):
            total += add(where, part)

    return engine.fold(rows.blocks(), lambda: np.zeros(shape), step, operator.iadd, most_groups=16)


def fill_rows(
    rows: Rows, out: npt.NDArray[Any], make: Callable[[slice, Block], npt.NDArray[Any]], engine: ThreadEngine
) -> None:
    """Set the rows of `out` to ``make(where, rows)``, a few rows at a time."""

    def run(span: Span) -> None:
        for where, part in chunks(rows, span):
            out[where] = make(where, part)

    engine.map(run, rows.blocks())


def pair_squares(S: npt.NDArray[np.float32]) -> Floats:
    """Return the squared distances (p, p) of all pairs of a few rows, by one matrix product in float64."""
    points = S.astype(np.float64)
    points -= points.mean(axis=0)  # smaller squares lose fewer digits in the difference below
    norms = np.einsum("ij,ij->i", points, points)
    squares = np.maximum(norms[:, None] + norms - 2.0 * (points @ points.T), 0.0)
    np.fill_diagonal(squares, 0.0)
    return squares


def mean_distance(squares: Floats) -> float:
    """Return the mean distance of different rows from the squared distances of all pairs, or 1 if it is zero."""
    n = len(squares)
    return float(np.sqrt(squares).sum() / max(n * (n - 1), 1)) or 1.0
