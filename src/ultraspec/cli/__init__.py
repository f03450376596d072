"""Command line: ``ultraspec`` and ``python -m ultraspec``.

Exit codes: 0 for success; 1 for a bug; 2 for a problem with the input, the options or the machine, which one line on
standard error describes; 130 for an interrupt from the keyboard. Results go to standard output, everything else to
standard error. Slow imports are deferred, so that help pages appear at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ultraspec.cli._screen import print_message

__all__ = ["main"]

SUCCESS = 0
BUG = 1
REFUSED = 2
INTERRUPTED = 130
CLOSED = 141  # the reader of standard output has gone


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments without the name of the program. By default those of the process.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    ultraspec ...
    0
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    try:
        job = _parse([argument for argument in arguments if argument != "--debug"])
        return _run(job, debug) if callable(job) else job
    except KeyboardInterrupt:
        print_message("interrupted")
        return INTERRUPTED


def _parse(arguments: list[str]) -> Callable[[], int | None] | int:
    """Return the work that the arguments ask for, or the exit code if there is none (help, a mistake)."""
    try:
        import typer
    except ImportError:
        print_message("error: the command line needs typer: pip install 'ultraspec[cli]'")
        return REFUSED
    from ultraspec.cli._app import app

    # Where the exceptions of click live differs between releases of typer; their names and order do not.
    usage_error: Any = typer.BadParameter.__mro__[2]
    command = typer.main.get_command(app)  # `app()` would replace the excepthook of the process
    try:
        result: Any = command.main(args=arguments, prog_name="ultraspec", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except usage_error as error:
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context is not None else ""
        print_message(f"error: {' '.join(error.format_message().split()).rstrip('.')}{where}")
        return REFUSED
    return result if callable(result) else int(result or SUCCESS)


def _run(job: Callable[[], int | None], debug: bool) -> int:
    """Do the work and return the exit code; print a line if something goes wrong."""
    from ultraspec.cli._errors import describe_error, is_foreseen, one_line_warnings

    try:
        with one_line_warnings(lambda text: print_message(f"warning: {text}")):
            return job() or SUCCESS
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = " ".join(describe_error(error).split())
        if is_foreseen(error):
            print_message(f"error: {text}")
            return REFUSED
        more = "" if debug else " Run the command with --debug to see the traceback."
        print_message(f"error: this is a bug, please report it: {type(error).__name__}: {text}{more}")
        return BUG
