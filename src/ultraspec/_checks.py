"""Checks of parameters, and the base classes of errors that keep their data."""

from __future__ import annotations

import copyreg
import importlib
import numbers
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import EllipsisType, ModuleType
from typing import Any

import numpy as np

MOST_SHOWN = 12  # names in a message


class Notation:
    """How messages write parameters and name the data: here as in Python.

    The command line passes a subclass to `Diagnostic.message`, which writes options and names the file.
    """

    data = "X"

    def parameter(self, name: str) -> str:
        """Return the name of a parameter: ``n_jobs``."""
        return name

    def argument(self, name: str, value: Any) -> str:
        """Return a parameter with a value: ``n_jobs=4``, ``columns=['a', 'b']``, or ``array=...`` for Ellipsis."""
        if isinstance(value, EllipsisType):
            return f"{name}=..."
        return f"{name}=[{join_names(value)}]" if isinstance(value, list) else f"{name}={value!r}"

    def estimator(self, name: str) -> str:
        """Return the name of an estimator's class."""
        return name

    def python(self, text: str) -> str:
        """Return a text that only users of Python understand, or an empty string for others."""
        return text


PYTHON = Notation()


class Diagnostic(Exception):
    """Base class of errors and warnings that keep their data in attributes and build their message from them.

    Subclasses are dataclasses, with ValueError, TypeError or UserWarning as a second base class, and implement
    `_problem` and, if there is something to advise, `_advice`. They can be pickled.
    """

    def problem(self, notation: Notation = PYTHON) -> str:
        """Return a sentence that says what is wrong."""
        return self._problem(notation)

    def message(self, notation: Notation = PYTHON) -> str:
        """Return the problem and the advice what to do."""
        problem = self._problem(notation)
        separator = "\n" if "\n" in problem else " "
        return f"{problem}{separator}{self._advice(notation)}".rstrip()

    def _problem(self, notation: Notation) -> str:
        raise NotImplementedError

    def _advice(self, notation: Notation) -> str:  # noqa: ARG002
        return ""

    def __str__(self) -> str:
        return self.message()

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), vars(self)  # type: ignore[attr-defined]


@dataclass(eq=False)
class ParameterError(Diagnostic):
    """A parameter has a value that is not allowed."""

    parameter: str  #: name of the parameter
    value: Any  #: its value
    expected: str  #: the allowed values: "an integer >= 1"
    alternatives: tuple[Any, ...] = ()  #: further allowed values, such as ``("auto",)`` or ``(None,)``
    hint: str = ""  #: what to do, if `expected` does not say so

    def _problem(self, notation: Notation) -> str:
        kind = f" ({type(self.value).__name__})" if isinstance(self, TypeError) else ""
        allowed = " or ".join([self.expected, *map(repr, self.alternatives)])
        return f"{notation.parameter(self.parameter)} must be {allowed}, got {self.value!r}{kind}."

    def _advice(self, notation: Notation) -> str:  # noqa: ARG002
        return self.hint


class InvalidParameter(ParameterError, ValueError):
    """A parameter has a value that is not allowed; a ValueError with the attributes of `ParameterError`."""


class InvalidParameterType(ParameterError, TypeError):
    """A parameter has a value of the wrong type; a TypeError with the attributes of `ParameterError`."""


def check_integer(
    name: str, value: Any, *, least: int, most: int | None = None, alternatives: tuple[Any, ...] = ()
) -> None:
    """Raise unless `value` is an integer from `least` to `most`; `alternatives` are mentioned in the message."""
    expected = f"an integer >= {least}" + (f" and <= {most:,}" if most is not None else "")
    if not isinstance(value, numbers.Integral) or isinstance(value, (bool, np.bool_)):
        raise InvalidParameterType(name, value, expected, alternatives)
    if not least <= int(value) <= (int(value) if most is None else most):
        raise InvalidParameter(name, value, expected, alternatives)


def check_clusters(n_clusters: Any) -> None:
    """Raise unless `n_clusters` is a positive integer or "auto"."""
    if not (isinstance(n_clusters, str) and n_clusters == "auto"):
        check_integer("n_clusters", n_clusters, least=1, alternatives=("auto",))


def check_number(name: str, value: Any, *, least: float, most: float = np.inf) -> None:
    """Raise unless `value` is a finite number from `least` to `most`."""
    expected = f"a finite number >= {least:g}" if np.isinf(most) else f"a number from {least:g} to {most:g}"
    if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)):
        raise InvalidParameterType(name, value, expected)
    if not np.isfinite(float(value)) or not least <= float(value) <= most:
        raise InvalidParameter(name, value, expected)


def check_jobs(n_jobs: Any) -> None:
    """Raise unless `n_jobs` is None or an integer other than zero."""
    if n_jobs is None:
        return
    expected = "a non-zero integer (-1 uses all cores)"
    if not isinstance(n_jobs, numbers.Integral) or isinstance(n_jobs, (bool, np.bool_)):
        raise InvalidParameterType("n_jobs", n_jobs, expected, (None,))
    if n_jobs == 0:
        raise InvalidParameter("n_jobs", n_jobs, expected, (None,))


def check_range(name: str, value: Any) -> tuple[int, int]:
    """Return the pair of positive integers in `value`, the smaller one first; raise if it is something else."""
    expected = "a pair (fewest, most)"
    try:
        low, high = value
    except (TypeError, ValueError) as error:
        raise InvalidParameterType(name, value, expected, hint="Pass (30, 30) for 30.") from error
    check_integer(f"{name}[0]", low, least=1)
    check_integer(f"{name}[1]", high, least=1)
    if low > high:
        raise InvalidParameter(name, value, expected, hint="The smaller number comes first.")
    return int(low), int(high)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidParameter(name, value, f"one of {', '.join(map(repr, choices))}")


def check_checkpoint(checkpoint: Any) -> None:
    """Raise unless `checkpoint` is None, a path or a URL."""
    expected = "the path of a folder, a URL"
    if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
        raise InvalidParameterType("checkpoint", checkpoint, expected, (None,))
    if checkpoint is not None and not str(checkpoint):
        raise InvalidParameter("checkpoint", checkpoint, expected, (None,))


def to_python(value: Any) -> Any:
    """Return a NumPy scalar as a Python object, and anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn with the location of the user's code: the nearest frame outside of this package and scikit-learn."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("ultraspec.", "sklearn.")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Return a seed sequence for `random_state`: None, an integer, a RandomState or a Generator.

    A RandomState or Generator is advanced.
    """
    if random_state is None:
        return np.random.SeedSequence()
    expected = "a non-negative integer, a numpy.random.RandomState, a numpy.random.Generator"
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, (bool, np.bool_)):
        if random_state < 0:
            raise InvalidParameter("random_state", random_state, expected, (None,))
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(2**31, size=4).tolist())
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**31, size=4).tolist())
    raise InvalidParameterType("random_state", random_state, expected, (None,))


def import_optional(module: str, purpose: str) -> ModuleType:
    """Import a module that is not a required dependency; the error says what reading `purpose` needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"Reading {purpose} needs {package}: pip install 'ultraspec[files]'") from error


def join_names(names: Iterable[Any]) -> str:
    """Return names for a message: quoted, separated by commas, and truncated if there are many.

    Examples
    --------
    >>> join_names(["a", "b"])
    "'a', 'b'"
    """
    shown = [repr(name) for name in names]
    more = f", ... ({len(shown)} in all)" if len(shown) > MOST_SHOWN else ""
    return ", ".join(shown[:MOST_SHOWN]) + more


MOST_SEED = 2**4096


def is_entropy(value: Any) -> bool:
    """Return whether a value can be the entropy of a seed sequence: one non-negative integer or a few."""
    numbers_ = value if isinstance(value, list) else [value]
    return 1 <= len(numbers_) <= 64 and all(type(number) is int and 0 <= number <= MOST_SEED for number in numbers_)
