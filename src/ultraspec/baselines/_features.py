"""Blocks of dense features that are made of rows when they are needed, and k-means on what comes of them.

Nystrom and FastESC map every row to a few hundred numbers, too many to keep for millions of rows. They go over the
rows a few times instead, and make the numbers anew each time, for a few thousand rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span

CHUNK_ROWS = 2048

Floats = npt.NDArray[np.float64]


def chunks(rows: Rows, span: Span) -> Iterator[tuple[slice, Block]]:
    """Rows of a block, a few at a time, and where they are."""
    block = rows.read(*span)
    for low in range(0, block.shape[0], CHUNK_ROWS):
        part = block[low : low + CHUNK_ROWS]
        yield slice(span[0] + low, span[0] + low + part.shape[0]), part


def sum_over(
    rows: Rows, shape: tuple[int, ...], add: Callable[[slice, Block], npt.NDArray[Any]], engine: ThreadEngine
) -> Floats:
    """Sum of what ``add(where, rows)`` gives for a few rows at a time, in float64."""

    def step(total: Floats, span: Span) -> None:
        for where, part in chunks(rows, span):
            total += add(where, part)

    def merge(a: Floats, b: Floats) -> Floats:
        a += b
        return a

    return engine.fold(rows.blocks(), lambda: np.zeros(shape), step, merge, most_groups=16)


def fill_rows(
    rows: Rows, out: npt.NDArray[Any], make: Callable[[slice, Block], npt.NDArray[Any]], engine: ThreadEngine
) -> None:
    """Set the rows of `out` to what ``make(where, rows)`` gives for a few rows at a time."""

    def run(span: Span) -> None:
        for where, part in chunks(rows, span):
            out[where] = make(where, part)

    engine.map(run, rows.blocks())


def pair_squares(S: npt.NDArray[np.float32]) -> Floats:
    """Squared distances (p, p) of all pairs of a few rows, by one product in float64."""
    points = S.astype(np.float64)
    points -= points.mean(axis=0)
    norms = np.einsum("ij,ij->i", points, points)
    squares = np.maximum(norms[:, None] + norms - 2.0 * (points @ points.T), 0.0)
    np.fill_diagonal(squares, 0.0)
    return squares


def mean_distance(squares: Floats) -> float:
    """Mean distance of different rows, given the squared distances of all pairs; 1 if that is zero."""
    n = len(squares)
    return float(np.sqrt(squares).sum() / max(n * (n - 1), 1)) or 1.0
