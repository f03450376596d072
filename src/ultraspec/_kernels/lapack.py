"""LAPACK's eigensolver for the largest eigenvalues, called without Python's global lock.

SciPy's own wrapper holds the lock while it computes, so that members of an ensemble which run in threads would queue
for it. SciPy publishes the routines' addresses for Cython; they are called from here instead.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

ARGUMENTS = 21


def largest_eigenpairs(A: npt.NDArray[Any], k: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The `k` largest eigenvalues, ascending, of a symmetric float32 or float64 matrix, and their vectors (n, k)."""
    n = len(A)
    solve = _solver(A.dtype.char)
    if solve is None:
        options: dict[str, Any] = {"subset_by_index": [n - k, n - 1], "driver": "evr", "check_finite": False}
        values, vectors = scipy.linalg.eigh(A, **options)
        return values, vectors
    work = A.copy()  # LAPACK overwrites it; of a symmetric matrix rows are columns
    values, vectors = np.empty(n, dtype=A.dtype), np.empty((k, n), dtype=A.dtype)
    support = np.empty(2 * max(1, k), dtype=np.intc)
    limits, tolerance = np.zeros(1, dtype=A.dtype), np.zeros(1, dtype=A.dtype)
    sizes = {name: np.array([value], dtype=np.intc) for name, value in _sizes(n, k).items()}

    def call(scratch: npt.NDArray[Any], whole: npt.NDArray[np.intc], asked: int | None = None) -> int:
        lengths = np.array([len(scratch), len(whole)] if asked is None else [asked, asked], dtype=np.intc)
        status = np.zeros(1, dtype=np.intc)
        arrays = [
            *(sizes["n"], work, sizes["n"], limits, limits, sizes["low"], sizes["high"], tolerance, sizes["found"]),
            *(values, vectors, sizes["n"], support, scratch, lengths[:1], whole, lengths[1:], status),
        ]
        solve(b"V", b"I", b"L", *(array.ctypes.data for array in arrays))
        return int(status[0])

    scratch, whole = np.empty(1, dtype=A.dtype), np.empty(1, dtype=np.intc)
    call(scratch, whole, asked=-1)  # how much scratch it wants
    status = call(np.empty(int(scratch[0]), dtype=A.dtype), np.empty(int(whole[0]), dtype=np.intc))
    if status:
        raise np.linalg.LinAlgError(f"LAPACK's syevr found no eigenvectors (status {status}).")
    return values[:k], vectors.T


def _sizes(n: int, k: int) -> dict[str, int]:
    return {"n": n, "low": n - k + 1, "high": n, "found": 0}


@functools.cache
def _solver(kind: str) -> Callable[..., None] | None:
    """The routine for float32 ("f") or float64 ("d"), or None where SciPy's build has other integers."""
    from numba.extending import get_cython_function_address
    from scipy.linalg import cython_lapack

    name = {"f": "ssyevr", "d": "dsyevr"}[kind]
    capsule = cython_lapack.__pyx_capi__[name]
    signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    if signature.count(b", int *") < 8:
        return None
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    letters, pointers = [ctypes.c_char_p] * 3, [ctypes.c_void_p] * (ARGUMENTS - 3)
    return ctypes.CFUNCTYPE(None, *letters, *pointers)(address)
