"""The decorators that compile kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` for block threads: no GIL, compiled at its first call, kept on disk where that is possible.

    ``parallel=True`` is never used: the engine's threads are the only parallelism. Arithmetic is strict: a row gives
    the same bits whether it meets the vectorised part of a loop or its remainder.
    """
    return _compile(function, fastmath=False)


def reordering_kernel(function: Callable[..., Any]) -> Any:
    """`kernel`, but sums and minima may be taken in any order, which lets LLVM vectorise them along one row.

    Values must not be NaN; infinity keeps its meaning.
    """
    return _compile(function, fastmath={"reassoc", "contract", "nsz", "nnan"})


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    options |= {"nogil": True, "no_cfunc_wrapper": True}  # C never calls these
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # numba found no folder it may write its cache to (a read-only container): compile in memory then.
        return numba.njit(**options)(function)
