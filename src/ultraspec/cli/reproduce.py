"""``ultraspec reproduce``: runs the paper's experiments and compares the results with the paper's."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from ultraspec.cli._errors import naming_output
from ultraspec.cli._reproduce import Request
from ultraspec.cli._screen import Screen, print_message
from ultraspec.engines.progress import format_duration
from ultraspec.reproduce import markdown, page, store
from ultraspec.reproduce.declarations import DATASETS, METHODS, Run
from ultraspec.reproduce.experiment import Experiment, choose, choose_tables, custom_dataset, custom_method
from ultraspec.reproduce.formatting import quick_look_note
from ultraspec.reproduce.runner import Limits, Runner, default_memory_limit, settled
from ultraspec.reproduce.store import Record, Store, run_of
from ultraspec.reproduce.summary import Summary
from ultraspec.reproduce.time_estimate import TimeEstimate
from ultraspec.storage.atomic import write_atomically


@dataclass(frozen=True)
class Progress:
    """Number of runs that were done now, are skipped because they exceed a limit, are left, and are stored."""

    done: int
    skipped: int
    left: int
    stored: int

    @classmethod
    def between(cls, todo: list[Run], before: list[Record], after: list[Record], limits: Limits) -> Progress:
        """Compare the store before and after: an interrupt may come at any moment, so nothing else is reliable."""
        known = {run_of(record): record for record in before}
        done = {run_of(record) for record in after if known.get(run_of(record)) != record}
        beyond = settled(after, limits)[1]
        rest = [run for run in todo if run not in done]
        skipped = sum(run[:-1] in beyond for run in rest)
        return cls(len(done), skipped, len(rest) - skipped, len(after))


def run(request: Request, screen: Screen) -> int:
    """Run what is asked for and not done yet, then write tables and page; return the exit code."""
    experiment = read_request(request)
    memory = request.memory_limit if request.memory_limit is not None else default_memory_limit(request.jobs)
    limits = Limits(memory, request.time_limit or None)
    plan = experiment.plan()
    path = request.files["store"]
    if request.draw_only and not path.exists():
        raise ValueError(f"There is no file {path}, so there are no runs to draw. Run without --draw-only, or pass -o.")
    request.folder.mkdir(parents=True, exist_ok=True)
    if not request.resume and path.exists() and not request.draw_only:
        path.rename(path.with_name(f"runs-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"))
    started = time.monotonic()
    interrupted = False
    with Store(path) as opened:
        opened.records = [record for record in opened.records if experiment.is_current(record)]
        done, beyond = settled(opened.records, limits)
        todo = [run for run in plan if run not in done and run[:-1] not in beyond]
        try:
            if todo and not request.draw_only:
                carry_out(experiment, todo, opened, limits, request, screen)
        except KeyboardInterrupt:
            interrupted = True
        records = [record for record in store.read(path) if experiment.is_shown(record)]
        current = [record for record in records if experiment.is_current(record)]
        progress = Progress.between(todo, opened.records, current, limits)
    scales = sorted({record["scale"] for record in records})
    if request.draw_only and scales and request.scale not in scales:
        raise ValueError(f"The runs in {path} are at --scale {', '.join(map(str, scales))}. Pass that option too.")
    summary = Summary(records, experiment.scale)
    draw(summary, experiment, request)
    show(summary, progress, time.monotonic() - started, experiment, request, screen)
    if interrupted:
        raise KeyboardInterrupt
    failures = [] if request.draw_only else total_failures(summary, experiment)
    for text in failures:
        print_message(f"error: {text}")
    return 2 if failures else 0


def show(
    summary: Summary,
    progress: Progress,
    seconds: float,
    experiment: Experiment,
    request: Request,
    screen: Screen,
) -> None:
    """Print what was done."""
    failed = [record for record in summary.records if record["na"] == "error"]
    facts: dict[str, Any] = {
        "command": "reproduce",
        "tables": [table.name for table in experiment.tables],
        "scale": experiment.scale,
        "runs_done": progress.done,
        "runs_left_out": progress.skipped,
        "runs_left": progress.left,
        "runs_stored": progress.stored,
        "runs_failed": len(failed),
        "seconds": round(seconds, 1),
        "outputs": {name: str(file) for name, file in request.files.items()},
    }
    skipped = f"{progress.skipped:,} skipped (they exceed a limit), " if progress.skipped else ""
    counts = "" if request.draw_only else f"{progress.done:,} done now, {skipped}{progress.left:,} left, "
    lines = [("Runs", f"{counts}{progress.stored:,} in the store")]
    if failed:
        last = failed[-1]
        what = f"{last['method']} on {last['dataset']}: {last['reason']}"
        lines.append(("Failed", f"{len(failed):,} run{'s' * (len(failed) > 1)}, the last {what}"))
    if summary.quick:
        lines.append(("Quick look", quick_look_note(summary)))
    lines.append(("Time", format_duration(seconds)))
    lines += [(name.capitalize(), str(file)) for name, file in request.files.items()]
    if progress.left and not request.draw_only:
        lines.append(("To continue", "run the same command again"))
    screen.result(facts, lines)


def total_failures(summary: Summary, experiment: Experiment) -> list[str]:
    """Describe a user's methods and data sets for which no run gave a result."""
    texts = []
    for field, items in (("method", experiment.methods), ("dataset", experiment.datasets)):
        for item in items:
            records = [record for record in summary.records if item.custom and record[field] == item.title]
            if records and all(record["na"] is not None for record in records):
                runs = f"all of its {len(records)} runs failed, the last" if len(records) > 1 else "its only run failed"
                texts.append(f"{item.title} has no results: {runs} with {records[-1]['reason']}")
    return texts


def read_request(request: Request) -> Experiment:
    """Return the experiment that options describe; raise, before anything is written, if they are invalid."""
    custom_methods = [custom_method(text) for text in request.custom_methods or ()]
    custom_datasets = [custom_dataset(text) for text in request.custom_datasets or ()]
    cache = request.cache if request.cache is not None else request.folder / "cache"
    return Experiment(
        tables=choose_tables(request.tables),
        datasets=choose(DATASETS, request.datasets, "data set", custom_datasets),
        methods=choose(METHODS, request.methods, "method", custom_methods),
        runs=request.runs,
        scale=request.scale,
        cache=cache.resolve(),
        threads=request.threads or max(1, (os.cpu_count() or 1) // request.jobs),
    )


def carry_out(
    experiment: Experiment, todo: list[Run], opened: Store, limits: Limits, request: Request, screen: Screen
) -> None:
    """Run everything that is to do, and show progress."""
    deadline = float("inf") if request.stop_after is None else time.monotonic() + request.stop_after
    experiment.prepare(todo, screen.say)
    estimate = TimeEstimate(opened.records)
    waiting = dict.fromkeys(todo)
    reporter = screen.reporter("reproduce")

    def on_start(run: Run) -> None:
        reporter.expect(estimate.of_all(waiting) / request.jobs)
        reporter.note(f"{run.method} on {run.dataset}, seed {run.seed}")

    def on_end(run: Run, record: Record | None) -> None:
        waiting.pop(run)
        if record is not None:
            estimate.learn(run, record)
        reporter.expect(estimate.of_all(waiting) / request.jobs)
        reporter.advance()

    runner = Runner(
        opened,
        experiment.task,
        limits=limits,
        jobs=request.jobs,
        threads=experiment.threads,
        on_start=on_start,
        on_end=on_end,
    )
    with reporter.phase("runs"):
        reporter.begin_pass(len(todo))
        reporter.expect(estimate.of_all(todo) / request.jobs)
        runner.run(todo, deadline)


def draw(summary: Summary, experiment: Experiment, request: Request) -> None:
    """Write the tables and the page."""
    for name, render in (("tables", markdown.render), ("page", page.render)):
        content = render(summary, experiment.tables).encode()
        with naming_output(request.files[name]):
            write_atomically(request.files[name], lambda file, content=content: file.write(content))  # type: ignore[misc]
