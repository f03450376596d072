"""Messages about errors and warnings: one line, with options in place of parameters."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Any

from ultraspec._checks import MOST_SHOWN, Diagnostic, Notation, ParameterError
from ultraspec.cli._options import format_names
from ultraspec.cli._parameters import option_name

FULL = {errno.ENOSPC, errno.EFBIG, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)}


class CommandLineNotation(Notation):
    """How messages write parameters on the command line: as options. `data` is the file with the rows.

    Examples
    --------
    >>> notation = CommandLineNotation("data.csv")
    >>> notation.argument("columns", ["a", "b"]), notation.argument("header", False), notation.argument("decimal", ",")
    ('--columns a,b', '--no-header', "--decimal ','")
    """

    def __init__(self, data: str | Path) -> None:
        self.data = str(data)

    def parameter(self, name: str) -> str:
        """Return the option that stands for a parameter."""
        return option_name(name)

    def argument(self, name: str, value: Any) -> str:
        """Return an option with its value."""
        if isinstance(value, EllipsisType):
            return f"{option_name(name)} ..."
        if isinstance(value, bool):
            return option_name(name if value else f"no_{name}")
        text = str(value)
        if isinstance(value, list):
            text = format_names(map(str, value[:MOST_SHOWN])) + ",..." * (len(value) > MOST_SHOWN)
        return f"{option_name(name)} {text if re.fullmatch(r'[-,./:0-9A-Z_a-z]*[0-9A-Z_a-z]', text) else repr(text)}"

    def estimator(self, name: str) -> str:  # noqa: ARG002
        """Return what users of the command line call an estimator."""
        return "the model"

    def python(self, text: str) -> str:  # noqa: ARG002
        """Leave out what only users of Python understand."""
        return ""


def write_message(diagnostic: Diagnostic, data: str | Path = "the data") -> str:
    """Return the message of an error or a warning of this package."""
    if isinstance(diagnostic, ParameterError):  # None cannot be written on the command line
        alternatives = tuple(value for value in diagnostic.alternatives if value is not None)
        diagnostic = replace(diagnostic, alternatives=alternatives)
    return diagnostic.message(CommandLineNotation(data))


def describe_error(error: BaseException) -> str:
    """Return the message of an error."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {error}".strip()
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error.strerror)
    if isinstance(error, Diagnostic):
        return write_message(error)
    return str(error) or type(error).__name__


def is_foreseen(error: BaseException) -> bool:
    """Tell whether an error is about the input or the machine: raised by this package or by the system."""
    if isinstance(error, (OSError, MemoryError, Diagnostic)):
        return True
    return isinstance(error, (ValueError, ImportError)) and _is_ours(error.__traceback__)


def _is_ours(trace: TracebackType | None) -> bool:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "ultraspec"


@contextmanager
def one_line_warnings(show: Callable[[str], None]) -> Iterator[None]:
    """Pass each warning of the body to `show`, as one line."""

    def show_line(message: Any, *_: Any, **__: Any) -> None:
        text = write_message(message) if isinstance(message, Diagnostic) else str(message)
        show(" ".join(text.split()))

    with warnings.catch_warnings():
        warnings.showwarning = show_line
        yield


@contextmanager
def naming_input(path: Path) -> Iterator[None]:
    """Name the input file in errors about its rows."""
    try:
        yield
    except Diagnostic as error:
        shown = "standard input" if str(path) == "-" else path
        raise ValueError(write_message(error, shown)) from error


@contextmanager
def naming_output(path: Path, *, only_if_full: bool = False) -> Iterator[None]:
    """Name the output file in errors of the system: that of a full disk names none.

    With `only_if_full`, other errors pass unchanged, because the body also reads.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or (only_if_full and error.errno not in FULL):  # no number: the message is complete
            raise
        raise OSError(f"{path} cannot be written: {error.strerror}.") from error
