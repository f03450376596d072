"""Standard input and other pipes, which can be read only once."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, NoReturn

STDIN = Path("standard input")  # as messages call it


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of a pipe: "-" for standard input, a named pipe, a terminal."""
    if os.fspath(path) == "-":
        return True
    try:
        mode = os.stat(Path(path).expanduser()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def refuse_pipe(path: Path, *args: Any, **options: Any) -> NoReturn:  # noqa: ARG001
    """Raise because a pipe cannot be opened again, as an unpickled row source would."""
    raise OSError(f"{path} was a pipe, which can be read only once. Write the rows to a file to open them again.")
