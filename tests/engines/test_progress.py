"""What a fit tells: verbose output and scikit-learn's callbacks."""

from __future__ import annotations

import contextlib
import io
import pickle
import re
import threading

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from tests.helpers.common import blobs, python
from ultraspec import USENC, USPEC
from ultraspec.engines.progress import Console, Reporter, report_to

PHASES = ["survey", "pilot", "representatives", "neighbors", "graph", "eigenvectors", "labels"]

needs_callbacks = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="scikit-learn has callbacks from 1.9 on"
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def lines_of(log):
    """Phase and time of each line of a log, and what else stands there."""
    return [re.fullmatch(r"USPEC  (\w+) +(\d+\.\d+) s(.*)", line).groups() for line in log.splitlines()]


# Verbose


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_log_gets_one_line_per_phase(capsys, n_jobs):
    USPEC(4, random_state=0, n_jobs=n_jobs, verbose=1).fit(blobs()[0])
    out, err = capsys.readouterr()
    assert out == ""
    assert [(phase, rest) for phase, _, rest in lines_of(err)] == [(phase, "") for phase in PHASES]
    assert "\r" not in err
    assert "\033" not in err


def test_cut_shows_its_phase(capsys):
    model = USPEC(4, random_state=0).fit(blobs()[0])
    model.verbose = 1
    model.cut(3)
    assert [phase for phase, *_ in lines_of(capsys.readouterr().err)] == ["labels"]


def test_nothing_is_shown_without_verbose(capfd):
    model = USPEC(4, random_state=0).fit(blobs()[0])
    model.predict(blobs()[0])
    model.cut(3)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_terminal_gets_a_bar_that_moves_and_then_the_same_lines(monkeypatch, n_jobs):
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    monkeypatch.setenv("COLUMNS", "120")
    with contextlib.redirect_stderr(Terminal()) as terminal:
        USPEC(4, random_state=0, n_jobs=n_jobs, verbose=1).fit(X)
    shown = terminal.getvalue()
    frames = [frame for frame in shown.split("\r\033[K") if frame]
    bars = [re.search(r"([█░]+) +(\d+)%", frame) for frame in frames]
    assert {len(bar[1]) for bar in bars if bar} == {Console.WIDTH}
    assert all(0 <= int(bar[2]) <= 100 for bar in bars if bar)
    assert all(abs(bar[1].count("█") / Console.WIDTH - int(bar[2]) / 100) < 0.05 for bar in bars if bar)
    stay = [frame for frame in frames if frame.endswith("\n")]
    assert [phase for phase, *_ in lines_of("".join(stay))] == PHASES
    for phase in PHASES:
        assert any(phase in frame for frame, bar in zip(frames, bars, strict=True) if bar), f"{phase} was not announced"


def test_the_time_left_is_estimated_when_enough_is_done(monkeypatch):
    stream, now = Terminal(), [100.0]
    monkeypatch.setattr("ultraspec.engines.progress.time.perf_counter", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "100")
    console = Console("report", stream)
    with console.phase("cuts"):
        console.begin_pass(50)
        for _ in range(7):  # the first tasks take longest
            now[0] += 3.0
            console.advance()
    frames = [frame for frame in stream.getvalue().split("\r\033[K") if "%" in frame]
    assert ["left" in frame for frame in frames] == [False] * 5 + [True] * 3
    with console.phase("rows"):
        console.begin_pass(1000)
        now[0] += 25.0
        console.advance()
    assert re.search(r"0%, 6 h 56 min left$", [f for f in stream.getvalue().split("\r\033[K") if "left" in f][-1])


def test_a_bar_shows_share_pass_and_time_left(monkeypatch):
    stream, now = Terminal(), [100.0]
    monkeypatch.setattr("ultraspec.engines.progress.time.perf_counter", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "100")
    console = Console("USPEC", stream)
    with console.phase("neighbors"):
        for _ in range(2):
            console.begin_pass(4)
            for _ in range(3):
                now[0] += 2.0
                console.advance()
    *_, last, _ = [frame for frame in stream.getvalue().split("\r\033[K") if frame]
    assert last == f"USPEC  neighbors            12.0 s  {'█' * 22}{'░' * 8}  75%, pass 2, 2 s left"
    assert stream.getvalue().endswith("USPEC  neighbors            12.0 s\n")
    assert {name: facts["seconds"] for name, facts in console.profile.items()} == {"neighbors": 12.0}


def test_a_time_left_that_is_known_better_is_shown(monkeypatch):
    stream, now = Terminal(), [100.0]
    monkeypatch.setattr("ultraspec.engines.progress.time.perf_counter", lambda: now[0])
    console = Console("reproduce", stream)
    with console.phase("runs"):
        console.begin_pass(4)
        for seconds in (10_800.0, 600.0):
            console.expect(seconds)
            now[0] += 60.0
            console.advance()
    frames = [frame for frame in stream.getvalue().split("\r\033[K") if "left" in frame]
    assert frames[-2].endswith("2 h 59 min left")
    assert frames[-1].endswith("9 min 00 s left")


@pytest.mark.parametrize("columns", [20, 60, 79, 200])
def test_a_bar_fits_the_width_of_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(Console, "BAR_SECONDS", 0.0)
    stream = Terminal()
    console = Console("USENC", stream)
    with console.phase("members"):
        console.begin_pass(20)
        console._pass_started -= 30.0  # as if it ran for long
        console.note("neighbors")
        for _ in range(5):
            console.advance()
    *frames, last = [frame for frame in stream.getvalue().split("\r\033[K") if frame]
    assert max(map(len, frames)) < columns
    assert last.startswith("USENC  members")
    if columns >= 79:
        assert re.search(r"█+░+ 5 of 20, neighbors, 1 min 30 s left$", frames[-1])


def test_a_terminal_that_cannot_replace_lines_gets_a_log(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Console("USPEC", stream).phase("graph"):
        pass
    assert re.fullmatch(r"USPEC  graph +0\.\d\d s\n", stream.getvalue())


def test_a_phase_that_fails_is_marked(capsys):
    with pytest.raises(ValueError, match="NaN"):
        USPEC(4, verbose=1).fit(np.full((50, 3), np.nan))
    ((phase, _, rest),) = lines_of(capsys.readouterr().err)
    assert (phase, rest) == ("survey", "  stopped")


def test_seconds_are_recorded_per_phase(monkeypatch):
    reporter = Reporter()
    monkeypatch.setattr(USPEC, "_reporter", lambda self: reporter)
    USPEC(4, random_state=0).fit(blobs()[0])
    assert list(reporter.profile) == PHASES
    assert all(facts["seconds"] >= 0 for facts in reporter.profile.values())
    assert all(facts["resident_bytes"] > 2**20 for facts in reporter.profile.values())


def test_seconds_of_a_phase_add_up(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ultraspec.engines.progress.time.perf_counter", lambda: now[0])
    reporter = Reporter()
    for seconds in (1.0, 2.5):
        with reporter.phase("labels"):
            now[0] += seconds
    with contextlib.suppress(KeyError), reporter.phase("graph"):
        now[0] += 4.0
        raise KeyError
    assert {name: facts["seconds"] for name, facts in reporter.profile.items()} == {"labels": 3.5, "graph": 4.0}


def test_labels_do_not_depend_on_what_is_shown():
    X, _ = blobs()
    with contextlib.redirect_stderr(Terminal()):
        shown = USPEC(4, random_state=0, verbose=1).fit_predict(X)
    np.testing.assert_array_equal(shown, USPEC(4, random_state=0).fit_predict(X))


# Callbacks


class Recorder:
    """A callback that notes what happens, and may raise at one place."""

    def __init__(self, raise_at=None):
        self.raise_at, self.events = raise_at, []

    def _note(self, event, name=""):
        self.events.append((event, name))
        if (event, name) == self.raise_at:
            raise OSError("the callback failed")

    def setup(self, estimator, context):
        self._note("setup")

    def teardown(self, estimator, context):
        self._note("teardown")

    def on_fit_task_begin(self, estimator, context):
        self._note("begin", context.task_name)

    def on_fit_task_end(self, estimator, context):
        self._note("end", context.task_name)


@needs_callbacks
def test_callbacks_hear_of_phases_and_blocks():
    recorder = Recorder()
    model = USPEC(4, random_state=0, n_jobs=2).set_callbacks(recorder)
    plain = USPEC(4, random_state=0).fit(blobs()[0])
    np.testing.assert_array_equal(model.fit(blobs()[0]).labels_, plain.labels_)
    tasks = [event for event in recorder.events if event[1] != "block"]
    inner = [(what, phase) for phase in PHASES for what in ("begin", "end")]
    assert tasks == [("setup", ""), ("begin", "fit"), *inner, ("end", "fit"), ("teardown", "")]
    assert recorder.events.count(("begin", "block")) == recorder.events.count(("end", "block")) > 20
    assert not [name for name in vars(model) if "callback" in name and name != "_skl_callbacks"]


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "place",
    [("setup", ""), ("begin", "fit"), ("begin", "neighbors"), ("end", "labels"), ("end", "block"), ("end", "fit")],
    ids=" ".join,
)
def test_what_a_callback_raises_comes_out_of_fit(place, n_jobs):
    recorder = Recorder(place)
    model = USPEC(4, random_state=0, n_jobs=n_jobs).set_callbacks(recorder)
    with pytest.raises(OSError, match="the callback failed"):
        model.fit(blobs()[0])
    assert recorder.events[-1] == ("teardown", "")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ultraspec")]
    recorder.raise_at = None
    model.fit(blobs()[0])


@needs_callbacks
def test_callbacks_end_when_a_fit_fails():
    recorder = Recorder()
    with pytest.raises(ValueError, match="NaN"):
        USPEC(4).set_callbacks(recorder).fit(np.full((50, 3), np.nan))
    assert recorder.events[-1] == ("teardown", "")


@needs_callbacks
def test_cut_and_predict_leave_callbacks_as_they_are():
    """They are callbacks of fits: nothing may be set up that is not torn down."""
    recorder = Recorder()
    model = USPEC(4, random_state=0).set_callbacks(recorder).fit(blobs()[0])
    events = len(recorder.events)
    model.predict(blobs()[0])
    other = model.cut(3)
    seen = [event for event, _ in recorder.events[events:]]
    assert seen.count("setup") == seen.count("teardown")
    assert not [name for name in (*vars(model), *vars(other)) if "callback" in name and name != "_skl_callbacks"]


@needs_callbacks
def test_callbacks_with_verbose(capsys):
    recorder = Recorder()
    USPEC(4, random_state=0, verbose=1).set_callbacks(recorder).fit(blobs()[0])
    assert [phase for phase, *_ in lines_of(capsys.readouterr().err)] == PHASES
    assert ("end", "labels") in recorder.events


@needs_callbacks
def test_models_with_callbacks_can_be_copied():
    model = USPEC(4, random_state=0).set_callbacks(Recorder()).fit(blobs()[0])
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(blobs()[0]), model.labels_)
    clone(model).fit(blobs()[0])


@pytest.fixture
def progress_bar():
    pytest.importorskip("rich", reason="the ProgressBar needs rich")
    from sklearn.callback import ProgressBar

    return ProgressBar()


@needs_callbacks
def test_progress_bar(progress_bar, capsys):
    model = USPEC(4, random_state=0).set_callbacks(progress_bar)
    for _ in range(2):  # a bar can be used again
        model.fit(blobs()[0])
        shown = capsys.readouterr().out
        bars = re.findall(r"USPEC - (\w+).* (\d+)%", shown)
        assert bars == [(name, "100") for name in ["fit", *PHASES]]


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_bar_of_a_pipeline(progress_bar, capsys, n_jobs):
    X, _ = blobs()
    pipeline = make_pipeline(StandardScaler(), USPEC(4, random_state=0, n_jobs=n_jobs)).set_callbacks(progress_bar)
    pipeline.fit(X)
    shown = capsys.readouterr().out
    assert "StandardScaler - fit" in shown
    assert [phase for phase in PHASES if f"USPEC - {phase}" in shown] == PHASES
    np.testing.assert_array_equal(pipeline.predict(X), pipeline[-1].labels_)


@needs_callbacks
def test_a_progress_bar_ends_with_a_fit_that_fails(progress_bar):
    with pytest.raises(ValueError, match="NaN"):
        USPEC(4).set_callbacks(progress_bar).fit(np.full((50, 3), np.nan))
    assert not [thread for thread in threading.enumerate() if "Rich" in type(thread).__name__]


@needs_callbacks
def test_no_progress_bar_is_left_open(progress_bar):
    """In a process of its own, which would not end for an open bar's thread."""
    left = python("""
        import json, os, sys, threading
        sys.path.insert(0, "tests")
        from tests.helpers.common import blobs
        from sklearn.callback import ProgressBar
        from ultraspec import USPEC

        X, _ = blobs()
        model = USPEC(4, random_state=0).set_callbacks(ProgressBar()).fit(X)
        left = []
        for method in (lambda: model.cut(3), lambda: model.predict(X)):
            method()
            left.append([thread.name for thread in threading.enumerate() if not thread.daemon])
        print("\\n" + json.dumps(left), flush=True)
        os._exit(0)
    """)
    assert left == [["MainThread"]] * 2


def test_progress_goes_where_the_context_says(capsys):
    class Phases(Reporter):
        def __init__(self):
            super().__init__()
            self.names = []

        def begin_phase(self, name):
            self.names.append(name)

    X, _ = blobs(600)
    heard = Phases()
    with report_to(heard):
        first = USPEC(4, random_state=0, verbose=1).fit(X)
        second = USENC(4, n_estimators=2, random_state=0).fit(X)
    assert heard.names == [*first.fit_profile_, *second.fit_profile_]  # each fit has a profile of its own
    assert capsys.readouterr().err == ""
    USPEC(4, random_state=0, verbose=1).fit(X)
    assert "neighbors" in capsys.readouterr().err
    assert len(heard.names) == len(first.fit_profile_) + len(second.fit_profile_)
