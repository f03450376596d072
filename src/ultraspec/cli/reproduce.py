"""``ultraspec reproduce``: runs the paper's experiments and sets their figures beside the paper's."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ultraspec.cli._errors import naming_output
from ultraspec.cli._screen import Screen, print_message
from ultraspec.engines.progress import format_duration
from ultraspec.reproduce import experiment as ex
from ultraspec.reproduce import markdown, page, store, text
from ultraspec.reproduce.declarations import DATASETS, METHODS, Run
from ultraspec.reproduce.expectation import Expectation
from ultraspec.reproduce.memory import usual_limit
from ultraspec.reproduce.runner import Limits, Runner, settled
from ultraspec.reproduce.store import Row, Store, run_of
from ultraspec.reproduce.summary import Summary
from ultraspec.storage.atomic import write_whole

FILES = {"store": "runs.jsonl", "tables": "tables.md", "page": "page.html"}


@dataclass(frozen=True)
class Request:
    """What the options say."""

    tables: list[str]
    folder: Path
    cache: Path | None
    runs: int
    scale: float
    datasets: list[str] | None
    methods: list[str] | None
    own_methods: list[str]
    own_datasets: list[str]
    jobs: int
    threads: int | None
    memory_limit: int | None
    time_limit: float | None
    stop_after: float | None
    resume: bool
    draw_only: bool

    @property
    def files(self) -> dict[str, Path]:
        """What is written."""
        return {name: self.folder / file for name, file in FILES.items()}


@dataclass(frozen=True)
class Progress:
    """How many runs were done, are left out as beyond a limit, are left, and are in the store."""

    done: int
    left_out: int
    left: int
    stored: int

    @classmethod
    def between(cls, todo: list[Run], before: list[Row], rows: list[Row], limits: Limits) -> Progress:
        """By what the store held before and holds now, as an interrupt may come at any moment."""
        known = {run_of(row): row for row in before}
        done = {run_of(row) for row in rows if known.get(run_of(row)) != row}
        beyond = settled(rows, limits)[1]
        rest = [run for run in todo if run not in done]
        left_out = sum(run[:-1] in beyond for run in rest)
        return cls(len(done), left_out, len(rest) - left_out, len(rows))


def run(request: Request, screen: Screen) -> int:
    """Run what is asked for and not done yet, then write tables and page; gives the exit code."""
    experiment, limits = understand(request)
    plan = experiment.plan()
    path = request.files["store"]
    if request.draw_only and not path.exists():
        raise ValueError(f"{path} is not there: there are no runs to draw. Run without --draw-only first, or pass -o.")
    request.folder.mkdir(parents=True, exist_ok=True)
    if not request.resume and path.exists() and not request.draw_only:
        path.rename(path.with_name(f"runs-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"))
    started, interrupted = time.monotonic(), False
    with store.opened(path) as opened:
        opened.rows = [row for row in opened.rows if experiment.current(row)]
        done, beyond = settled(opened.rows, limits)
        todo = [r for r in plan if r not in done and r[:-1] not in beyond]
        try:
            if todo and not request.draw_only:
                carry_out(experiment, todo, opened, limits, request, screen)
        except KeyboardInterrupt:
            interrupted = True
        rows = [row for row in store.read(path) if experiment.current(row)]
        progress = Progress.between(todo, opened.rows, rows, limits)
    scales = sorted({row["scale"] for row in rows})
    if request.draw_only and scales and request.scale not in scales:
        raise ValueError(f"The runs in {path} are at --scale {', '.join(map(str, scales))}. Pass that, too.")
    summary = Summary(rows, experiment.scale)
    draw(summary, experiment, request)
    show(summary, progress, time.monotonic() - started, experiment, request, screen)
    if interrupted:
        raise KeyboardInterrupt
    vain = [] if request.draw_only else in_vain(summary, experiment)
    for words in vain:
        print_message(f"error: {words}")
    return 2 if vain else 0


def show(
    summary: Summary,
    progress: Progress,
    seconds: float,
    experiment: ex.Experiment,
    request: Request,
    screen: Screen,
) -> None:
    """Print what was done."""
    failed = [row for row in summary.rows if row["na"] == "error"]
    facts: dict[str, Any] = {
        "command": "reproduce",
        "tables": [table.name for table in experiment.tables],
        "scale": experiment.scale,
        "runs_done": progress.done,
        "runs_left_out": progress.left_out,
        "runs_left": progress.left,
        "runs_stored": progress.stored,
        "runs_failed": len(failed),
        "seconds": round(seconds, 1),
        "outputs": {name: str(file) for name, file in request.files.items()},
    }
    out = f"{progress.left_out:,} left out beyond a limit, " if progress.left_out else ""
    counts = "" if request.draw_only else f"{progress.done:,} done now, {out}{progress.left:,} left, "
    lines = [("Runs", f"{counts}{progress.stored:,} in the store")]
    if failed:
        last = failed[-1]
        what = f"{last['method']} on {last['dataset']}: {last['reason']}"
        lines.append(("Failed", f"{len(failed):,} run{'s' * (len(failed) > 1)}, the last {what}"))
    if summary.quick:
        lines.append(("Quick look", text.quick_look(summary)))
    lines.append(("Time", format_duration(seconds)))
    lines += [(name.capitalize(), str(file)) for name, file in request.files.items()]
    if progress.left and not request.draw_only:
        lines.append(("Go on", "run the same command again"))
    screen.result(facts, lines)


def in_vain(summary: Summary, experiment: ex.Experiment) -> list[str]:
    """A user's own methods and data none of whose runs gave figures, and why."""
    found = []
    for field, items in (("method", experiment.methods), ("dataset", experiment.datasets)):
        for item in items:
            rows = [row for row in summary.rows if item.own and row[field] == item.title]
            if rows and all(row["na"] is not None for row in rows):
                runs = f"all of its {len(rows)} runs failed, the last" if len(rows) > 1 else "its only run failed"
                found.append(f"{item.title} has no figures: {runs} with {rows[-1]['reason']}")
    return found


def understand(request: Request) -> tuple[ex.Experiment, Limits]:
    """The experiment that options stand for; raises, before anything is written, where they make none."""
    own_methods = [ex.own_method(text) for text in request.own_methods]
    own_datasets = [ex.own_dataset(text) for text in request.own_datasets]
    threads = request.threads or max(1, (os.cpu_count() or 1) // request.jobs)
    cache = request.cache if request.cache is not None else request.folder / "cache"
    experiment = ex.Experiment(
        tables=ex.choose_tables(request.tables),
        datasets=ex.choose(DATASETS, request.datasets, "data set", own_datasets),
        methods=ex.choose(METHODS, request.methods, "method", own_methods),
        runs=request.runs,
        scale=request.scale,
        cache=cache.resolve(),
        threads=threads,
    )
    if request.memory_limit is not None:
        memory: int | None = request.memory_limit
    else:
        usual = usual_limit()
        memory = None if usual is None else usual // request.jobs
    return experiment, Limits(memory, request.time_limit)


def carry_out(
    experiment: ex.Experiment, todo: list[Run], opened: Store, limits: Limits, request: Request, screen: Screen
) -> None:
    """Run, with progress."""
    deadline = float("inf") if request.stop_after is None else time.monotonic() + request.stop_after
    experiment.prepare(todo, screen.say)
    expectation, waiting = Expectation(opened.rows), dict.fromkeys(todo)
    reporter = screen.reporter("reproduce")

    def starts(run: Run) -> None:
        reporter.expect(expectation.of_all(waiting) / request.jobs)
        reporter.note(f"{run.method} on {run.dataset}, seed {run.seed}")

    def ends(run: Run, row: Row | None) -> None:
        waiting.pop(run)
        if row is not None:
            expectation.learn(run, row)
        reporter.expect(expectation.of_all(waiting) / request.jobs)
        reporter.advance()

    runner = Runner(
        opened,
        experiment.task,
        limits=limits,
        jobs=request.jobs,
        threads=experiment.threads,
        on_start=starts,
        on_end=ends,
    )
    with reporter.phase("runs"):
        reporter.begin_pass(len(todo))
        reporter.expect(expectation.of_all(todo) / request.jobs)
        runner.run(todo, deadline)


def draw(summary: Summary, experiment: ex.Experiment, request: Request) -> None:
    """Write the tables and the page."""
    for name, module in (("tables", markdown), ("page", page)):
        content = module.render(summary, experiment.tables).encode()
        with naming_output(request.files[name]):
            write_whole(request.files[name], lambda file, content=content: file.write(content))  # type: ignore[misc]
