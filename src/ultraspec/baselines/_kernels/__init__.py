"""Kernels that only the baselines use."""
