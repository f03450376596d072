"""``ultraspec reproduce``: runs the paper's experiments and sets their figures beside the paper's."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ultraspec._files import write_whole
from ultraspec.cli._errors import blaming
from ultraspec.cli._screen import Screen, duration
from ultraspec.reproduce import experiment as ex
from ultraspec.reproduce import markdown, page, store
from ultraspec.reproduce.declarations import DATASETS, METHODS, Run
from ultraspec.reproduce.expectation import Expectation
from ultraspec.reproduce.memory import usual_limit
from ultraspec.reproduce.runner import Limits, Runner, settled
from ultraspec.reproduce.store import Row, Store
from ultraspec.reproduce.summary import Summary

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


def run(request: Request, screen: Screen) -> None:
    """Run what is asked for and not done yet, then write tables and page."""
    experiment, limits = understand(request)
    path = request.folder / FILES["store"]
    if request.draw_only and not path.exists():
        raise ValueError(f"{path} is not there: there are no runs to draw. Run without --draw-only first, or pass -o.")
    request.folder.mkdir(parents=True, exist_ok=True)
    if not request.resume and path.exists() and not request.draw_only:
        path.rename(path.with_name(f"runs-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"))
    started = time.monotonic()
    with store.opened(path) as opened:
        opened.rows = [row for row in opened.rows if experiment.current(row)]
        done, beyond = settled(opened.rows, limits)
        todo = [r for r in experiment.plan() if r not in done and r[:-1] not in beyond]
        left = len(todo) if request.draw_only else carry_out(experiment, todo, opened, limits, request, screen)
        rows = opened.rows
    scales = sorted({row["scale"] for row in rows})
    if request.draw_only and scales and request.scale not in scales:
        raise ValueError(f"The runs in {path} are at --scale {', '.join(map(str, scales))}. Pass that, too.")
    files = draw(rows, experiment, request)
    failed = [row for row in rows if row["na"] == "error"]
    facts: dict[str, Any] = {
        "command": "reproduce",
        "tables": [table.name for table in experiment.tables],
        "runs_done": len(todo) - left,
        "runs_left": left,
        "runs_stored": len(rows),
        "runs_failed": len(failed),
        "seconds": round(time.monotonic() - started, 1),
        "outputs": {name: str(file) for name, file in files.items()},
    }
    counts = f"{len(todo) - left:,} done now, {left:,} left, {len(rows):,} in the store"
    lines = [
        ("Runs", f"{len(rows):,} in the store" if request.draw_only else counts),
        ("Time", duration(time.monotonic() - started)),
        ("Store", str(files["store"])),
        ("Tables", str(files["tables"])),
        ("Page", str(files["page"])),
    ]
    if failed:
        last = failed[-1]
        what = f"{last['method']} on {last['dataset']}: {last['reason']}"
        lines.insert(1, ("Failed", f"{len(failed):,} run{'s' * (len(failed) > 1)}, the last {what}"))
    screen.result(facts, lines)


def understand(request: Request) -> tuple[ex.Experiment, Limits]:
    """The experiment that options stand for; raises, before anything is written, where they make none."""
    own_methods = [ex.own_method(text) for text in request.own_methods]
    own_datasets = [ex.own_dataset(text) for text in request.own_datasets]
    datasets = ex.choose(DATASETS, request.datasets, "data set")
    methods = ex.choose(METHODS, request.methods, "method")
    threads = request.threads or max(1, (os.cpu_count() or 1) // request.jobs)
    cache = request.cache if request.cache is not None else request.folder / "cache"
    experiment = ex.Experiment(
        tables=ex.choose_tables(request.tables),
        datasets=ex.add(datasets, own_datasets, "data set"),
        methods=ex.add(methods, own_methods, "method"),
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
) -> int:
    """Run, with progress; gives the number of runs that are left."""
    if not todo:
        return 0
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
        return runner.run(todo, deadline)


def draw(rows: list[Row], experiment: ex.Experiment, request: Request) -> dict[str, Path]:
    """Write the tables and the page."""
    summary = Summary(rows, experiment.scale)
    files = {name: request.folder / file for name, file in FILES.items()}
    for name, module in (("tables", markdown), ("page", page)):
        text = module.render(summary, experiment.tables).encode()
        with blaming(files[name]):
            write_whole(files[name], lambda file, text=text: file.write(text))  # type: ignore[misc]
    return files
