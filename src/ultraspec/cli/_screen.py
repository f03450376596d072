"""Output of the commands: progress on standard error, results on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ultraspec.engines.progress import CLEAR_LINE, Console, Reporter, is_terminal

PARTS = 1000  # of a file, that the bar moves by


class Screen:
    """Where a command shows its progress, unless `quiet`, and its result, on request as one JSON object."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self._json = as_json
        self._quiet = quiet

    def say(self, text: str) -> None:
        """Print a line about the next step."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def reporter(self, title: str) -> Reporter:
        """Return a reporter for estimators and passes over data."""
        return Reporter() if self._quiet else Console(title)

    @contextmanager
    def reading(self, path: Path) -> Iterator[None]:
        """Show what fraction of a file has been read, while the body opens it."""
        from ultraspec.rows import watch_writing

        in_log = not is_terminal(sys.stderr)
        if in_log:
            self.say(f"Reading {path} ...")
        reporter = Reporter() if in_log else self.reporter("Reading")
        done = 0

        def hear(share: float) -> None:
            nonlocal done
            for _ in range(int(share * PARTS) - done):
                reporter.advance()
                done += 1

        with watch_writing(hear), reporter.phase(path.name):
            reporter.begin_pass(PARTS)
            yield

    def result(self, facts: dict[str, Any], lines: Sequence[tuple[str, str]]) -> None:
        """Print the result: `facts` as JSON, or `lines` of a name and a value each."""
        if self._json:
            print(json.dumps(facts, allow_nan=False), flush=True)
            return
        width = max((len(name) for name, _ in lines), default=0)
        for name, value in lines:
            print(f"{name:<{width}}  {value}".rstrip())
        sys.stdout.flush()


def print_message(text: str) -> None:
    """Print an error or a warning; it takes the place of a bar, which is drawn again below it."""
    start = CLEAR_LINE if is_terminal(sys.stderr) else ""
    print(f"{start}ultraspec: {text}", file=sys.stderr, flush=True)


def format_bytes(n_bytes: float | None) -> str:
    """Format an amount of memory.

    Examples
    --------
    >>> format_bytes(1_500_000), format_bytes(None)
    ('2 MB', 'unknown')
    """
    if n_bytes is None:
        return "unknown"
    return f"{n_bytes / 1e6:,.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:,.2f} GB"


def format_sizes(sizes: Iterable[int], most: int = 12) -> str:
    """Format cluster sizes, the largest first.

    Examples
    --------
    >>> format_sizes([5, 1000])
    '1,000, 5'
    """
    ordered = sorted(map(int, sizes), reverse=True)
    more = f", ... ({len(ordered)} in all)" if len(ordered) > most else ""
    return ", ".join(f"{size:,}" for size in ordered[:most]) + more
