"""The options of ``ultraspec reproduce``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ultraspec.cli._options import INPUT, OUTPUT, RUN, Json, Quiet, option, parse_names
from ultraspec.cli._screen import Screen

ResultsFolder = Annotated[
    Path, option("-o", "--output", panel=OUTPUT, metavar="FOLDER", help="Store, tables and page. Default reproduction.")
]
CacheFolder = Annotated[
    Path | None,
    option("--cache", panel=OUTPUT, metavar="FOLDER", help="Data sets and members. Default cache in the folder of -o."),
]
DatasetNames = Annotated[
    Any,
    option(
        "--datasets",
        panel=INPUT,
        metavar="NAMES",
        parser=parse_names,
        help="Such as PenDigits,TB-1M, or none beside your own. Default all.",
    ),
]
MethodNames = Annotated[
    Any,
    option(
        "--methods",
        panel=INPUT,
        metavar="NAMES",
        parser=parse_names,
        help="Such as U-SPEC,LSC-K, or none beside your own. Default all.",
    ),
]
OwnMethods = Annotated[
    list[str] | None,
    option("--method", panel=INPUT, metavar="MODULE:NAME", help="An estimator of your own; may be repeated."),
]
OwnData = Annotated[
    list[str] | None,
    option("--data", panel=INPUT, metavar="FILE:LABEL", help="Data of your own, and its classes; may be repeated."),
]
Runs = Annotated[int, option("--runs", panel=RUN, metavar="N", help="Seeds of each. Default 20, as in the paper.")]
DataShare = Annotated[
    float,
    option(
        "--scale",
        panel=RUN,
        metavar="S",
        help="Share of the rows, 1,000 at least: 0.01 is a quick look. Default 1.",
    ),
]
RunsAtOnce = Annotated[int, option("--jobs", "-j", panel=RUN, metavar="J", help="Runs at a time. Default 1.")]
RunThreads = Annotated[
    int | None, option("--threads", panel=RUN, metavar="T", help="Threads of a run. Default cores / jobs.")
]
MemoryLimit = Annotated[
    str | None,
    option("--memory-limit", panel=RUN, metavar="SIZE", help="Of a run, such as 16GB. Default 9/10 of what is free."),
]
TimeLimit = Annotated[
    float, option("--time-limit", panel=RUN, metavar="SECONDS", help="Of a run; 0 for none. Default 3600.")
]
StopAfter = Annotated[
    float | None, option("--stop-after", panel=RUN, metavar="SECONDS", help="Start no run after so long; see --resume.")
]
Resume = Annotated[
    bool,
    option("--resume/--no-resume", panel=RUN, help="Go on with the store that is there (default), or put it aside."),
]
DrawOnly = Annotated[bool, option("--draw-only", panel=RUN, help="Run nothing; write tables and page from the store.")]


def reproduce(
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLES", help="table4 to table16, such as 4-6,10, or all.", show_default=False),
    ],
    output: ResultsFolder = Path("reproduction"),
    cache: CacheFolder = None,
    datasets: DatasetNames = None,
    methods: MethodNames = None,
    own_method: OwnMethods = None,
    own_data: OwnData = None,
    runs: Runs = 20,
    scale: DataShare = 1.0,
    jobs: RunsAtOnce = 1,
    threads: RunThreads = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = 3600.0,
    stop_after: StopAfter = None,
    resume: Resume = True,
    draw_only: DrawOnly = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Callable[[], int]:
    """Run the paper's experiments and set their figures beside the paper's.

    Each run is a process of its own and one line of runs.jsonl. Whatever ends
    the command, running it again goes on. Tables and page are written at the
    end, and when Ctrl-C ends it. At a --scale below 1 nothing is compared with
    the paper, whose figures are of all rows.
    """

    def job() -> int:
        check(runs, scale, jobs, threads, time_limit, stop_after)
        from ultraspec.cli import reproduce as command

        request = command.Request(
            tables=tables,
            folder=output,
            cache=cache,
            runs=runs,
            scale=scale,
            datasets=datasets,
            methods=methods,
            own_methods=own_method or [],
            own_datasets=own_data or [],
            jobs=jobs,
            threads=threads,
            memory_limit=None if memory_limit is None else size(memory_limit, "--memory-limit"),
            time_limit=time_limit or None,
            stop_after=stop_after,
            resume=resume,
            draw_only=draw_only,
        )
        return command.run(request, Screen(json, quiet))

    return job


def size(text: str, name: str) -> int:
    """An amount of memory as people write it.

    Examples
    --------
    >>> size("16GB", "--memory-limit"), size("500 MB", "--memory-limit")
    (16000000000, 500000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.ASCII | re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{name} must be an amount of memory such as 16GB or 500MB, got {text!r}.")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** " KMGT".index(found[2].upper() or " "))


def check(runs: int, scale: float, jobs: int, threads: int | None, time_limit: float, stop_after: float | None) -> None:
    """Raise for options of `reproduce` that have no meaning."""
    for name, value in (("--runs", runs), ("--jobs", jobs), ("--threads", threads)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    if not 0 < scale <= 1:
        raise ValueError(f"--scale must be above 0 and at most 1, got {scale:g}.")
    for name, seconds in (("--time-limit", time_limit), ("--stop-after", stop_after)):
        if seconds is not None and not 0 <= seconds < float("inf"):
            raise ValueError(f"{name} must be a number of seconds, got {seconds:g}.")
