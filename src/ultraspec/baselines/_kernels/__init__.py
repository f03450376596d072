"""Numba kernels that only the baselines use."""
