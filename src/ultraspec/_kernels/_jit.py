"""The one decorator that compiles kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` for block threads: no GIL, compiled at its first call, kept on disk where that is possible.

    ``parallel=True`` is never used: the engine's threads are the only parallelism. Sums may be reordered and
    multiply-adds fused (SIMD needs both), but NaN and infinity keep their meaning, as padding relies on them.
    """
    options = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # numba found no folder it may write its cache to (a read-only container): compile in memory then.
        return numba.njit(**options)(function)
