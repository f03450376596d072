"""Progress of a fit: phases, passes over the data, blocks.

The engine tells a *reporter* what happens; a reporter shows it (`Console`), passes it on to scikit-learn's callbacks
(`ultraspec.engines.callbacks`) or drops it (`Reporter`). Calls may come from several threads.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any


class Reporter:
    """A reporter that shows nothing, and the base of the others.

    Attributes
    ----------
    profile : dict
        For each phase, the seconds spent there so far and the most resident memory seen, in bytes (None where the
        system does not tell).
    """

    def __init__(self) -> None:
        self.profile: dict[str, dict[str, Any]] = {}
        self._phase_name = ""

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Run the body as the phase `name`."""
        started = time.perf_counter()
        facts = self.profile.setdefault(name, {"seconds": 0.0, "resident_bytes": None})
        self._phase_name = name
        self.begin_phase(name)
        done = False
        try:
            yield
            done = True
        finally:
            facts["seconds"] += time.perf_counter() - started
            self.measure()
            self.end_phase(name, done)

    @property
    def current(self) -> str:
        """The phase that began last."""
        return self._phase_name

    def measure(self) -> None:
        """Look at the memory in use; engines ask for it after every pass."""
        facts, now = self.profile.get(self._phase_name), resident_bytes()
        if facts is not None and now is not None:
            facts["resident_bytes"] = max(now, facts["resident_bytes"] or 0)

    def begin_phase(self, name: str) -> None:
        """A phase starts."""

    def end_phase(self, name: str, done: bool) -> None:
        """A phase ends; `done` is False where an exception ended it."""

    def begin_pass(self, total: int) -> None:
        """A pass over `total` tasks starts within the phase."""

    def note(self, text: str) -> None:
        """What the current task is about."""

    def expect(self, seconds: float) -> None:
        """How long the rest of the pass will take, where that is known better than from the tasks done."""

    def close(self) -> None:
        """The fit has ended well."""

    def advance(self) -> None:
        """One more task of the pass is done."""


class MemberReporter(Reporter):
    """Tells another reporter which phase a member of an ensemble is in, and nothing else.

    Parameters
    ----------
    outer : Reporter
        Counts the members.
    """

    def __init__(self, outer: Reporter) -> None:
        super().__init__()
        self._outer = outer

    def begin_phase(self, name: str) -> None:
        """Pass the name on."""
        self._outer.note(name)

    def measure(self) -> None:
        """Count it for the phase of all members."""
        self._outer.measure()


class Console(Reporter):
    """Shows phases on a stream: a moving bar on a terminal, one line per finished phase and every 10 s in a log.

    Parameters
    ----------
    title : str
        Stands before every line.
    stream : file, optional
        Where to write; standard error by default.

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
    LOG_SECONDS = 10.0

    def __init__(self, title: str, stream: IO[str] | None = None) -> None:
        super().__init__()
        self._title = title
        self._stream = stream if stream is not None else sys.stderr
        self._live = self._stream.isatty()
        self._lock = threading.Lock()
        self._name = self._note = ""
        self._passes = self._total = self._done = 0
        self._started = self._pass_started = self._shown = 0.0
        self._end: float | None = None

    def begin_phase(self, name: str) -> None:
        """Start the clock of a phase."""
        self._name, self._note = name, ""
        self._passes = self._total = self._done = 0
        self._started = self._shown = time.perf_counter()
        if self._live:
            self._draw(force=True)

    def note(self, text: str) -> None:
        """Show what is being done."""
        self._note = text
        self._draw()

    def end_phase(self, name: str, done: bool) -> None:
        """Write the line that stays."""
        if self._live:
            self._stream.write("\r\033[K")
        what = "" if done else "  stopped"
        self._stream.write(f"{self._title}  {name:<16} {time.perf_counter() - self._started:8.2f} s{what}\n")
        self._stream.flush()

    def begin_pass(self, total: int) -> None:
        """Start the bar anew."""
        with self._lock:
            self._passes += 1
            self._total, self._done, self._end = total, 0, None
            self._pass_started = time.perf_counter()
        self._draw()

    def expect(self, seconds: float) -> None:
        """Show another time left than the tasks done tell."""
        self._end = time.perf_counter() + seconds

    def advance(self) -> None:
        """Move the bar."""
        with self._lock:
            self._done += 1
        self._draw()

    def _draw(self, force: bool = False) -> None:
        now = time.perf_counter()
        if now - self._shown < (0.1 if self._live else self.LOG_SECONDS) and not force:
            return
        with self._lock:
            self._shown = now
            share = self._done / self._total if self._total else 0.0
            full = int(share * self.WIDTH)
            left = f"{(now - self._pass_started) * (1 - share) / share:6.1f} s left" if share else ""
            if self._end is not None:
                minutes = max(0.0, self._end - now) / 60
                left = f"{minutes:.0f} min left" if minutes < 100 else f"{minutes / 60:.1f} h left"
            passes = f"pass {self._passes}  " if self._passes > 1 else ""
            if self._note:
                passes = f"{self._done} of {self._total}, {self._note}  "
            bar = ("█" * full + "░" * (self.WIDTH - full) + " ") if self._live else ""
            line = f"{self._title}  {self._name:<16} {now - self._started:8.2f} s  {bar}{share:4.0%}  {passes}{left}"
            self._stream.write(f"\r\033[K{line}" if self._live else f"{line}\n")
            self._stream.flush()


def resident_bytes() -> int | None:
    """Resident memory of this process now, or None where the system does not tell."""
    if sys.platform.startswith("linux"):
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
