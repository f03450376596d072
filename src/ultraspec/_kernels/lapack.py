"""Largest eigenvalues of a symmetric matrix by LAPACK, called without Python's global lock.

The wrapper of SciPy holds the lock while LAPACK computes, so members of an ensemble in several threads would wait for
each other. SciPy publishes the addresses of the routines for Cython, and this module calls these.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

ARGUMENTS = 21  # of ?syevr, of which the first three are characters


def largest_eigenpairs(A: npt.NDArray[Any], k: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Compute the `k` largest eigenvalues, ascending, of a symmetric float32 or float64 matrix.

    Also return their eigenvectors (n, k).
    """
    n = len(A)
    syevr = _syevr(A.dtype.char)
    if syevr is None:
        options: dict[str, Any] = {"subset_by_index": [n - k, n - 1], "driver": "evr", "check_finite": False}
        values, vectors = scipy.linalg.eigh(A, **options)
        return values, vectors
    matrix = A.copy()  # LAPACK overwrites it; it is symmetric, so the order of rows and columns does not matter
    values = np.empty(n, dtype=A.dtype)
    vectors = np.empty((k, n), dtype=A.dtype)  # LAPACK writes columns: the transpose of (n, k)
    support = np.empty(2 * max(1, k), dtype=np.intc)
    # arguments by reference: size, first and last index (counted from one), number of eigenvalues that were computed
    size, first, last, n_computed = (np.array([value], dtype=np.intc) for value in (n, n - k + 1, n, 0))
    unused_limit = np.zeros(1, dtype=A.dtype)  # of the values; they are chosen by index
    tolerance = np.zeros(1, dtype=A.dtype)  # 0: the default

    def call(work: npt.NDArray[Any], int_work: npt.NDArray[np.intc], lengths: tuple[int, int]) -> int:
        work_length, int_work_length = (np.array([length], dtype=np.intc) for length in lengths)
        status = np.zeros(1, dtype=np.intc)
        arrays = (
            *(size, matrix, size, unused_limit, unused_limit, first, last, tolerance, n_computed),
            *(values, vectors, size, support, work, work_length, int_work, int_work_length, status),
        )
        # eigenvectors ("V") of the indices in a range ("I"), from the lower triangle ("L")
        syevr(b"V", b"I", b"L", *(array.ctypes.data for array in arrays))
        return int(status[0])

    work = np.empty(1, dtype=A.dtype)
    int_work = np.empty(1, dtype=np.intc)
    call(work, int_work, (-1, -1))  # asks for the sizes of the buffers, which it writes to their first entries
    work = np.empty(int(work[0]), dtype=A.dtype)
    int_work = np.empty(int(int_work[0]), dtype=np.intc)
    status = call(work, int_work, (len(work), len(int_work)))
    if status:
        raise np.linalg.LinAlgError(f"LAPACK's syevr found no eigenvectors (status {status}).")
    return values[:k], vectors.T


@functools.cache
def _syevr(kind: str) -> Callable[..., None] | None:
    """Return the LAPACK routine for float32 ("f") or float64 ("d"), or None if SciPy was built with 64-bit integers."""
    from numba.extending import get_cython_function_address
    from scipy.linalg import cython_lapack

    name = {"f": "ssyevr", "d": "dsyevr"}[kind]
    capsule = cython_lapack.__pyx_capi__[name]
    signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    if signature.count(b", int *") < 8:
        return None
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    characters = [ctypes.c_char_p] * 3
    pointers = [ctypes.c_void_p] * (ARGUMENTS - 3)
    return ctypes.CFUNCTYPE(None, *characters, *pointers)(address)
