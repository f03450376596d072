"""Numba kernels, one file per phase.

A kernel works on one block of rows, holds no Python object and releases the GIL, so that the engine's
threads run it side by side. Kernels take C-contiguous, writable arrays of few fixed types (float32 data,
uint16 representative ids, int32 labels, float64 sums): every further type would cost its own compilation.
"""
