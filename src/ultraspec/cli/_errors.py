"""What users are told when something fails or looks odd: one line, in the command line's own words."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ultraspec.cli._parameters import option_name, parameters_of

FULL = {errno.ENOSPC, errno.EFBIG, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)}

# Names of parameters that are no words of the language, and those that are, where they are meant as names.
_OPTIONS = {name: option_name(name) for name in {**parameters_of("USPEC"), **parameters_of("USENC")}}
_WORDS = ("neighbors", "metric", "selection", "checkpoint", "discretize", "consensus")
_PLAIN = [name for name in _OPTIONS if name not in _WORDS]
_NAMES = re.compile(rf"(?<![\w-])(?:({'|'.join(_PLAIN)})(?!\w)|({'|'.join(_WORDS)})(?==| must))")
_COLUMNS = re.compile(r"(?<![\w-])columns=\[([^\]]*)\]")
_INPUT = re.compile(r"(?<![\w-])(array|delimiter|decimal)=")
_HEADER = re.compile(r"(?<![\w-])header=(True|False)")
_X = re.compile(r"\b(?:Input )?X\b")
# What only Python knows, and what stands for it.
_FOREIGN = (
    (re.compile(r" \(for example with sklearn[^)]*\)"), ""),
    (re.compile(r" Add base clusterings, or use USPEC\."), " Raise n_estimators, or leave --ensemble out."),
    (re.compile(r"\bUSPEC\b|\bUSENC\b"), "the model"),
    (re.compile(r", or None for every core"), ", or leave it out for every core"),
    (re.compile(r"(?<![\w-])columns (?=names |is empty|must )"), "--columns "),
    (re.compile(r", as in open_rows\(path, ([^)]*)\)"), r": \1"),
)


def in_own_words(message: str) -> str:
    """A message of the library on one line, with options where it names parameters.

    Examples
    --------
    >>> in_own_words("Raise n_representatives.")
    'Raise --n-representatives.'
    >>> in_own_words("Choose columns=['a', 'b'].")
    'Choose --columns a,b.'
    """
    message = " ".join(message.split())
    for pattern, instead in _FOREIGN:
        message = pattern.sub(instead, message)
    message = _COLUMNS.sub(lambda found: "--columns " + _plain_list(found[1]), message)
    message = _INPUT.sub(r"--\1=", message)
    message = _HEADER.sub(lambda found: "--header" if found[1] == "True" else "--no-header", message)
    return _NAMES.sub(lambda found: _OPTIONS[found[1] or found[2]], message)


def _plain_list(text: str) -> str:
    unquoted = re.sub(r"(['\"])(.*?)\1(,\s*)?", lambda found: found[2] + ("," if found[3] else ""), text)
    return re.sub(r"(?<=\d),\s+", ",", unquoted)


def describe(error: BaseException) -> str:
    """What an exception says."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {error}".strip()
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error.strerror)
    return str(error) or type(error).__name__


def foreseen(error: BaseException) -> bool:
    """Whether it is about the input or the machine: what this package raises itself, and what the system refuses."""
    if isinstance(error, (OSError, MemoryError)):
        return True
    return isinstance(error, (ValueError, TypeError, ImportError)) and _raised_here(error.__traceback__)


def _raised_here(trace: TracebackType | None) -> bool:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "ultraspec"


@contextmanager
def short_warnings(show: Callable[[str], None]) -> Iterator[None]:
    """Show warnings as one line each while the body runs."""

    def shown(message: Any, *_: Any, **__: Any) -> None:
        show(in_own_words(_X.sub("the data", str(message))))

    with warnings.catch_warnings():
        warnings.showwarning = shown
        yield


@contextmanager
def about(path: Any) -> Iterator[None]:
    """Name the file where the library speaks of X."""
    from ultraspec._checks import Diagnostic, Notation

    notation = Notation()
    notation.data = str(path)
    try:
        yield
    except Diagnostic as error:
        raise ValueError(error.message(notation)) from error


@contextmanager
def blaming(path: Any, *, only_if_full: bool = False) -> Iterator[None]:
    """Name the file that is being written in what the system says: a full disk names none.

    With `only_if_full`, other errors pass: the body also reads.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or (only_if_full and error.errno not in FULL):  # no number: says all in words already
            raise
        raise OSError(f"{path} cannot be written: {error.strerror}.") from error
