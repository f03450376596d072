"""Decorators that compile kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` at its first call, without the global lock, and cache the machine code on disk if possible.

    ``parallel=True`` is never used: the threads of the engine are the only parallelism. Arithmetic is strict: LLVM may
    not reorder sums, so a row gives the same bits whether the vectorised part of a loop or its remainder handles it.
    """
    return _compile(function, fastmath=False)


def reordering_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` like `kernel`, but allow sums and minima in any order, so that LLVM vectorises them.

    Use it for sums along one row, whose order depends on the length of the row only. Values must not be NaN; infinity
    keeps its meaning.
    """
    return _compile(function, fastmath={"reassoc", "contract", "nsz", "nnan"})


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    options |= {"nogil": True, "no_cfunc_wrapper": True}  # C never calls kernels
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written, as in a read-only container: compile in memory
        return numba.njit(**options)(function)
