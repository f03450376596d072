"""The command line: ``ultraspec`` and ``python -m ultraspec``.

Exit codes: 0 all is well; 2 something is wrong with the input, the options or the machine (one line on standard error
says what and where); 1 a bug; 130 interrupted from the keyboard. Results go to standard output, all else to standard
error. Nothing heavy is imported before it is needed: the help appears at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["main"]

FINE, BUG, BAD, INTERRUPTED, CLOSED = 0, 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words of the command line without the program's name; those of the process by default.

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
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        job = _parse([word for word in words if word != "--debug"])
        return _run(job, debug) if callable(job) else job
    except KeyboardInterrupt:
        _tell("interrupted")
        return INTERRUPTED


def _parse(words: list[str]) -> Callable[[], int | None] | int:
    """The work that a command line asks for, or the exit code where that is done (help, a mistake)."""
    try:
        import typer
    except ImportError:
        _tell("error: the command line needs typer: pip install 'ultraspec[cli]'")
        return BAD
    from ultraspec.cli._app import app

    # Releases of typer differ in where click's exceptions live, not in their names and order.
    mistake: Any = typer.BadParameter.__mro__[2]
    command = typer.main.get_command(app)  # called directly: `app()` would set the process's excepthook
    try:
        found: Any = command.main(args=words, prog_name="ultraspec", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except mistake as error:
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context is not None else ""
        from ultraspec.cli._errors import in_own_words

        _tell(f"error: {in_own_words(error.format_message()).rstrip('.')}{where}")
        return BAD
    return found if callable(found) else int(found or FINE)


def _run(job: Callable[[], int | None], debug: bool) -> int:
    """Do the work, which may give an exit code; turn what goes wrong into a line and another one."""
    from ultraspec.cli._errors import describe, foreseen, in_own_words, short_warnings
    from ultraspec.cli._screen import tell

    try:
        with short_warnings(lambda text: tell(f"warning: {text}")):
            return job() or FINE
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except Exception as error:
        if debug:
            traceback.print_exc()
        if foreseen(error):
            tell(f"error: {in_own_words(describe(error))}")
            return BAD
        more = "" if debug else " Run it with --debug to see where."
        tell(
            f"error: this is a bug, please report it: {type(error).__name__}: {' '.join(describe(error).split())}{more}"
        )
        return BUG


def _tell(text: str) -> None:
    print(f"ultraspec: {text}", file=sys.stderr, flush=True)
