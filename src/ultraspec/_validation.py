"""Checks of parameters and input, with messages that say what to do."""

from __future__ import annotations

import numbers
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec.rows import ArrayRows, Rows, SparseRows


def check_integer(name: str, value: Any, *, least: int, most: int | None = None, other: str = "") -> None:
    """Raise unless `value` is a whole number from `least` to `most`; `other` names what else would be allowed."""
    wanted = f"a whole number >= {least}" + (f" and <= {most:,}" if most is not None else "") + other
    if not isinstance(value, numbers.Integral) or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be {wanted}, got {value!r} ({type(value).__name__}).")
    if not least <= int(value) <= (int(value) if most is None else most):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def check_number(name: str, value: Any, *, least: float) -> None:
    """Raise unless `value` is a finite number of at least `least`."""
    wanted = f"a finite number >= {least:g}"
    if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be {wanted}, got {value!r} ({type(value).__name__}).")
    if not np.isfinite(float(value)) or value < least:
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def check_jobs(n_jobs: Any) -> None:
    """Raise unless `n_jobs` is None or a whole number other than zero."""
    if n_jobs is None:
        return
    check_integer("n_jobs", n_jobs, least=-sys.maxsize, other=" (not 0) or None")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: pass a number of threads, or None for every core.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, naming the user's line: the nearest one outside of this package and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("ultraspec.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Seeds from what scikit-learn calls `random_state`, or from a NumPy Generator; draws from instances."""
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, (bool, np.bool_)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}.")
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(2**31, size=4).tolist())
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**31, size=4).tolist())
    raise TypeError(
        "random_state must be None, a whole number, a numpy.random.RandomState or a numpy.random.Generator, "
        f"got {random_state!r}."
    )


def open_input(estimator: Any, X: Any, *, reset: bool) -> Rows:
    """Row source of what a user passes as X; sets or checks the estimator's feature count and names.

    Arrays are neither copied nor cast here, and not looked at for NaN: the passes over blocks do that.
    """
    from sklearn.utils.validation import validate_data

    if isinstance(X, Rows):
        if reset:
            estimator.n_features_in_ = X.n_features
        elif X.n_features != estimator.n_features_in_:
            raise ValueError(
                f"X has {X.n_features} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input."
            )
        return X
    _refuse_masked(X)
    X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
    if scipy.sparse.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return SparseRows(X)
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X must hold numbers, got {X.dtype}. Turn it into numbers first, for example into seconds.")
    return ArrayRows(X)


def _refuse_masked(X: Any) -> None:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"X has {int(np.ma.getmaskarray(X).sum()):,} masked values, and rows with gaps have no distances. "
            "Fill them (X.filled(...), or an imputer) or drop their rows."
        )
