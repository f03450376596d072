"""Checks of parameters, with error messages that say what to do."""

from __future__ import annotations

import importlib
import numbers
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

MOST_SHOWN = 12  # names in a message


def check_integer(name: str, value: Any, *, least: int, most: int | None = None, other: str = "") -> None:
    """Raise unless `value` is a whole number from `least` to `most`; `other` names what else would be allowed."""
    wanted = f"a whole number >= {least}" + (f" and <= {most:,}" if most is not None else "") + other
    if not isinstance(value, numbers.Integral) or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be {wanted}, got {value!r} ({type(value).__name__}).")
    if not least <= int(value) <= (int(value) if most is None else most):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def check_clusters(n_clusters: Any) -> None:
    """Raise unless `n_clusters` is a whole number of at least one, or "auto"."""
    if not (isinstance(n_clusters, str) and n_clusters == "auto"):
        check_integer("n_clusters", n_clusters, least=1, other=" or 'auto'")


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


def check_range(name: str, value: Any) -> tuple[int, int]:
    """The fewest and the most clusters that `value` names; raise unless it is such a pair."""
    try:
        low, high = value
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a pair (fewest, most), got {value!r}. Pass (30, 30) for 30.") from error
    check_integer(f"{name}[0]", low, least=1)
    check_integer(f"{name}[1]", high, least=1)
    if low > high:
        raise ValueError(f"{name} must be a pair (fewest, most), got {value!r}: the smaller number comes first.")
    return int(low), int(high)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_checkpoint(checkpoint: Any) -> None:
    """Raise unless `checkpoint` may name a folder."""
    if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a folder's path, a URL or None, got {checkpoint!r}.")
    if checkpoint is not None and not str(checkpoint):
        raise ValueError("checkpoint is an empty string. Pass a folder, or None for no checkpoint.")


def plain(value: Any) -> Any:
    """A parameter as Python has it, not NumPy."""
    return value.item() if isinstance(value, np.generic) else value


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


def need(module: str, what: str) -> ModuleType:
    """Import an optional module, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"Reading {what} needs {package}: pip install 'ultraspec[files]'") from error


def listed(names: Iterable[Any]) -> str:
    """Names for a message: quoted, and cut where there are many."""
    shown = [repr(name) for name in names]
    more = f", ... ({len(shown)} in all)" if len(shown) > MOST_SHOWN else ""
    return ", ".join(shown[:MOST_SHOWN]) + more
