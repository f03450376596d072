"""What users see: progress on standard error, results on standard output."""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ultraspec.engines.progress import Console, Reporter

PARTS = 1000  # of a file, that the bar moves by
QUICK = 0.4  # seconds; passes that are over sooner get no bar of their own, which would only flicker


class Bar(Reporter):
    """A reporter for terminals: a moving bar with the time left, and a line that stays for every finished phase.

    Parameters
    ----------
    title : str
        Stands before every line.
    console : rich.console.Console
        Where to draw.
    """

    def __init__(self, title: str, console: Any) -> None:
        super().__init__()
        from rich.progress import BarColumn, Progress, TextColumn

        self._title, self._console = title, console
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[text]}", markup=False, justify="right"),
            console=console,
            transient=True,
            expand=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=None, text="")
        self._lock = threading.Lock()
        self._note = ""
        self._total = self._done = 0
        self._started = self._pass_started = 0.0
        self._end: float | None = None

    def begin_phase(self, name: str) -> None:
        """Show the bar."""
        self._note, self._total, self._done = "", 0, 0
        self._started = self._pass_started = time.perf_counter()
        self._progress.update(self._task, description=f"{self._title}  {name:<16}", total=None, text="")
        self._progress.start()

    def end_phase(self, name: str, done: bool) -> None:
        """Take the bar away and leave a line."""
        self._progress.stop()
        line = f"{self._title}  {name:<16} {duration(time.perf_counter() - self._started):>10}"
        self._console.print(line + ("" if done else "  stopped"), markup=False, highlight=False)

    def begin_pass(self, total: int) -> None:
        """Start the bar anew."""
        with self._lock:
            self._total, self._done, self._end, self._pass_started = total, 0, None, time.perf_counter()

    def expect(self, seconds: float) -> None:
        """Show another time left than the tasks done tell."""
        self._end = time.perf_counter() + seconds

    def note(self, text: str) -> None:
        """Show what is being done."""
        self._note = text
        self._update()

    def advance(self) -> None:
        """Move the bar."""
        with self._lock:
            self._done += 1
        self._update()

    def _update(self) -> None:
        with self._lock:
            done, total, spent = self._done, self._total, time.perf_counter() - self._pass_started
            if spent < QUICK or not total:
                return
            about = f"{done} of {total}, {self._note}" if self._note else f"{done / total:.0%}"
            left = f", {duration(round(spent * (total - done) / done))} left" if done else ""
            if self._end is not None:
                left = f", {duration(max(0, round(self._end - time.perf_counter())))} left"
            self._progress.update(self._task, total=total, completed=done, text=about + left)


class Screen:
    """Where a command shows what it does and what it found.

    Parameters
    ----------
    as_json : bool
        Print results as one JSON object.
    quiet : bool
        Show no progress.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self._json, self._quiet = as_json, quiet

    def say(self, text: str) -> None:
        """A line about what comes next."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def reporter(self, title: str) -> Reporter:
        """What estimators and passes over data report to."""
        if self._quiet:
            return Reporter()
        console = terminal()
        return Console(title) if console is None else Bar(title, console)

    @contextmanager
    def reading(self, path: Path) -> Iterator[None]:
        """Show how far a file is read through while the body opens it."""
        from ultraspec.rows._temporary import listener

        in_log = terminal() is None
        if in_log:
            self.say(f"Reading {path} ...")
        reporter = Reporter() if in_log else self.reporter("Reading")
        done = 0

        def hear(share: float) -> None:
            nonlocal done
            for _ in range(int(share * PARTS) - done):
                reporter.advance()
                done += 1

        token = listener.set(hear)
        try:
            with reporter.phase(path.name):
                reporter.begin_pass(PARTS)
                yield
        finally:
            listener.reset(token)

    @contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Let an estimator report here while the body runs."""
        reporter = self.reporter(type(model).__name__)
        vars(model)["_console"] = lambda: reporter  # in the place of what `verbose` chooses
        try:
            yield
        finally:
            del vars(model)["_console"]

    def result(self, facts: dict[str, Any], lines: Sequence[tuple[str, str]]) -> None:
        """Print the result: `facts` as JSON, or `lines` of a name and a value each."""
        if self._json:
            print(json.dumps(facts, allow_nan=False), flush=True)
            return
        width = max((len(name) for name, _ in lines), default=0)
        for name, value in lines:
            print(f"{name:<{width}}  {value}".rstrip())
        sys.stdout.flush()


def terminal() -> Any:
    """A rich console on standard error, or None where that is a log."""
    if not sys.stderr.isatty():
        return None
    console = _console()
    return console if console.is_terminal and not console.is_dumb_terminal else None


@functools.cache
def _console() -> Any:
    """The one that bars are drawn on: what else it prints goes above them."""
    from rich.console import Console as RichConsole

    return RichConsole(stderr=True)


def tell(text: str) -> None:
    """A line from the program itself."""
    console = terminal()
    if console is None:
        print(f"ultraspec: {text}", file=sys.stderr, flush=True)
    else:
        console.print(f"ultraspec: {text}", markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Format a duration.

    Examples
    --------
    >>> duration(0.256), duration(5), duration(75), duration(7500)
    ('0.26 s', '5 s', '1 min 15 s', '2 h 05 min')
    """
    if isinstance(seconds, int) and seconds < 60:
        return f"{seconds} s"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


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
