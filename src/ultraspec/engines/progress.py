"""Progress of a fit: phases, passes over the data, blocks.

Engines call a *reporter*, which shows the progress (`Console`), informs the callbacks of scikit-learn
(`ultraspec.engines.callbacks`) or ignores it (`Reporter`). Calls may come from several threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import IO, Any

from ultraspec.engines.memory import resident_bytes

CLEAR_LINE = "\r\033[K"


class Reporter:
    """A reporter that shows nothing, and the base class of all others.

    Attributes
    ----------
    profile : dict
        For each phase, the seconds it has taken and the peak of the resident memory, in bytes (None if the system does
        not report it).
    current : str
        The phase that began last.
    """

    def __init__(self) -> None:
        self.profile: dict[str, dict[str, Any]] = {}
        self.current = ""

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Run the body as the phase `name`."""
        started = time.perf_counter()
        facts = self.profile.setdefault(name, {"seconds": 0.0, "resident_bytes": None})
        self.current = name
        self.begin_phase(name)
        done = False
        try:
            yield
            done = True
        finally:
            facts["seconds"] += time.perf_counter() - started
            self.measure()
            self.end_phase(name, done)

    def measure(self) -> None:
        """Record the memory in use; engines call this after every pass."""
        facts = self.profile.get(self.current)
        now = resident_bytes()
        if facts is not None and now is not None:
            facts["resident_bytes"] = max(now, facts["resident_bytes"] or 0)

    def begin_phase(self, name: str) -> None:
        """Handle the start of a phase."""

    def end_phase(self, name: str, done: bool) -> None:
        """Handle the end of a phase; `done` is False if an exception ended it."""

    def begin_pass(self, total: int) -> None:
        """Handle the start of a pass over `total` tasks, within a phase."""

    def note(self, text: str) -> None:
        """Describe the current task."""

    def expect(self, seconds: float) -> None:
        """Set the time left for the pass, in place of an estimate from the finished tasks."""

    def close(self) -> None:
        """Handle the end of a fit that succeeded."""

    def advance(self) -> None:
        """Count one more finished task."""


_reporter: ContextVar[Reporter | None] = ContextVar("reporter", default=None)


@contextlib.contextmanager
def report_to(reporter: Reporter) -> Iterator[None]:
    """Send the progress of all fits in this context to `reporter`, whatever their parameter `verbose` is.

    This is how programs show progress in their own way: derive a class from `Reporter` and override what is needed.

    Examples
    --------
    >>> from ultraspec import USPEC, datasets
    >>> class Phases(Reporter):
    ...     def begin_phase(self, name):
    ...         print(name)
    >>> X, _ = datasets.generate("tb", 1_000, random_state=0)
    >>> with report_to(Phases()):
    ...     model = USPEC(2, random_state=0).fit(X)
    survey
    pilot
    representatives
    neighbors
    graph
    eigenvectors
    labels
    """
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


def reporter_for(title: str, *, verbose: bool) -> Reporter:
    """Return the reporter given by `report_to`, else a `Console` if `verbose`, else one that shows nothing."""
    return _reporter.get() or (Console(title) if verbose else Reporter())


class MemberReporter(Reporter):
    """A reporter for a member of an ensemble, which passes the name of the phase to that of the ensemble."""

    def __init__(self, outer: Reporter) -> None:
        super().__init__()
        self._outer = outer

    def begin_phase(self, name: str) -> None:
        """Pass the name on."""
        self._outer.note(name)

    def measure(self) -> None:
        """Record the memory for the ensemble."""
        self._outer.measure()


class Console(Reporter):
    """A reporter that writes to a stream: a moving bar on a terminal, a line every 10 s in a log.

    A line with the time of each phase stays in both.

    Parameters
    ----------
    title : str
        Stands before every line.
    stream : file, optional
        Where to write. By default standard error.

    Examples
    --------
    >>> import io
    >>> log = io.StringIO()
    >>> reporter = Console("USPEC", log)
    >>> with reporter.phase("neighbors"):
    ...     reporter.begin_pass(1)
    ...     reporter.advance()
    >>> log.getvalue().startswith("USPEC  neighbors")
    True
    """

    WIDTH = 30
    BAR_SECONDS = 0.1
    LOG_SECONDS = 10.0
    LEAST_SHARE, LEAST_SECONDS = 0.1, 20.0  # of a pass, before the time left is estimated: first tasks may take longest

    def __init__(self, title: str, stream: IO[str] | None = None) -> None:
        super().__init__()
        self._title = title
        self._stream = stream if stream is not None else sys.stderr
        self._live = is_terminal(self._stream)
        self._lock = threading.Lock()
        self._start_of_line = ""
        self._note = ""
        self._passes = 0
        self._total = 0
        self._done = 0
        self._started = 0.0
        self._pass_started = 0.0
        self._shown = 0.0
        self._end: float | None = None

    def begin_phase(self, name: str) -> None:
        """Start the clock of a phase."""
        self._start_of_line = f"{self._title}  {name:<16}"
        self._note = ""
        self._passes = self._total = self._done = 0
        self._started = self._shown = time.perf_counter()
        if self._live:
            self._draw(force=True)

    def note(self, text: str) -> None:
        """Show what the current task is about."""
        self._note = text
        self._draw()

    def end_phase(self, name: str, done: bool) -> None:
        """Write the line that stays."""
        if self._live:
            self._stream.write(CLEAR_LINE)
        spent = format_duration(time.perf_counter() - self._started)
        self._stream.write(f"{self._start_of_line} {spent:>10}{'' if done else '  stopped'}\n")
        self._stream.flush()

    def begin_pass(self, total: int) -> None:
        """Start the bar again from zero."""
        with self._lock:
            self._passes += 1
            self._total = total
            self._done = 0
            self._end = None
            self._pass_started = time.perf_counter()
        self._draw()

    def expect(self, seconds: float) -> None:
        """Show this as the time left, in place of an estimate from the finished tasks."""
        self._end = time.perf_counter() + seconds

    def advance(self) -> None:
        """Move the bar."""
        with self._lock:
            self._done += 1
        self._draw()

    def _draw(self, force: bool = False) -> None:
        now = time.perf_counter()
        if now - self._shown < (self.BAR_SECONDS if self._live else self.LOG_SECONDS) and not force:
            return
        with self._lock:
            self._shown = now
            start = f"{self._start_of_line} {format_duration(now - self._started):>10}  "
            state = self._describe(now)
            if not self._live:
                self._stream.write(f"{start}{state}\n")
            else:
                columns = terminal_width(self._stream) - 1
                width = max(0, min(self.WIDTH, columns - len(start) - len(state) - 1))
                full = width * self._done // self._total if self._total else 0
                bar = "█" * full + "░" * (width - full)
                self._stream.write(CLEAR_LINE + f"{start}{bar} {state}"[:columns])
            self._stream.flush()

    def _describe(self, now: float) -> str:
        """Return what is done and the time left."""
        share = self._done / self._total if self._total else 0.0
        parts = [f"{share:4.0%}"]
        if self._note:
            parts = [f"{self._done} of {self._total}, {self._note}"]
        elif self._passes > 1:
            parts.append(f"pass {self._passes}")
        if self._end is not None:
            parts.append(f"{format_duration(round(max(0.0, self._end - now)))} left")
        elif share >= self.LEAST_SHARE or (share and now - self._pass_started >= self.LEAST_SECONDS):
            parts.append(f"{format_duration(round((now - self._pass_started) * (1 - share) / share))} left")
        return ", ".join(parts)


def is_terminal(stream: IO[str]) -> bool:
    """Tell whether a line that was written to a stream can be replaced."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width(stream: IO[str]) -> int:
    """Return the number of columns of a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # not a terminal of this system
        return shutil.get_terminal_size().columns


def format_duration(seconds: float) -> str:
    """Format a time; integers have no decimals.

    Examples
    --------
    >>> format_duration(0.256), format_duration(5), format_duration(75), format_duration(7500)
    ('0.26 s', '5 s', '1 min 15 s', '2 h 05 min')
    """
    if isinstance(seconds, int) and seconds < 60:
        return f"{seconds} s"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
