"""The options of ``ultraspec reproduce``, and the command, which imports what it needs when it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ultraspec.cli._options import INPUT, OUTPUT, RUN, Json, Quiet, argument, check_least, option, parse_names
from ultraspec.cli._screen import Screen


def parse_size(text: str) -> int:
    """Convert an amount of memory to bytes.

    Examples
    --------
    >>> parse_size("16GB"), parse_size("500 MB"), parse_size("1GiB")
    (16000000000, 500000000, 1073741824)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.ASCII | re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise typer.BadParameter(f"it must be an amount of memory such as 16GB or 500MB, got {text!r}.")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " "))


FILES = {"store": "runs.jsonl", "tables": "tables.md", "page": "page.html"}


@dataclass(frozen=True)
class Request:
    """The values of the options."""

    tables: Annotated[list[str], argument("TABLES", "Tables of the paper from 4 to 16, such as 4-6,10, or all.")]
    folder: Annotated[
        Path, option("-o --output FOLDER", OUTPUT, "Folder of the store, the tables and the page.", "reproduction")
    ] = Path("reproduction")
    cache: Annotated[
        Path | None,
        option(
            "--cache FOLDER",
            OUTPUT,
            "Folder of data sets and base clusterings, which runs share.",
            "cache, in the folder of -o",
        ),
    ] = None
    datasets: Annotated[
        Any,
        option(
            "--datasets NAMES",
            INPUT,
            "Data sets of the paper, such as PenDigits,TB-1M; none for only your own.",
            "all",
            parser=parse_names,
        ),
    ] = None
    methods: Annotated[
        Any,
        option(
            "--methods NAMES",
            INPUT,
            "Methods of the paper, such as U-SPEC,LSC-K; none for only your own.",
            "all",
            parser=parse_names,
        ),
    ] = None
    custom_methods: Annotated[
        list[str] | None, option("--method MODULE:NAME", INPUT, "An estimator of your own; may be repeated.")
    ] = None
    custom_datasets: Annotated[
        list[str] | None, option("--data FILE:LABEL", INPUT, "A data set of your own and its classes; may be repeated.")
    ] = None
    runs: Annotated[
        int,
        option("--runs N", RUN, "Number of seeds per method and data set.", "20, as in the paper"),
    ] = 20
    scale: Annotated[
        float, option("--scale S", RUN, "Share of the rows to use, but at least 1,000 rows: 0.01 is a quick look.", "1")
    ] = 1.0
    jobs: Annotated[int, option("--jobs -j J", RUN, "Number of runs at the same time.", "1")] = 1
    threads: Annotated[int | None, option("--threads T", RUN, "Number of threads per run.", "cores / jobs")] = None
    memory_limit: Annotated[
        Any,
        option(
            "--memory-limit SIZE",
            RUN,
            "Memory limit per run, such as 16GB.",
            "9/10 of the free memory",
            parser=parse_size,
        ),
    ] = None
    time_limit: Annotated[
        float,
        option("--time-limit SECONDS", RUN, "Time limit per run; 0 for no limit.", "3600"),
    ] = 3600.0
    stop_after: Annotated[
        float | None, option("--stop-after SECONDS", RUN, "Start no run after this time; see --resume.")
    ] = None
    resume: Annotated[
        bool,
        option(
            "--resume/--no-resume",
            RUN,
            "Continue with the existing store, or rename it and start a new one.",
            "--resume",
        ),
    ] = True
    draw_only: Annotated[
        bool, option("--draw-only", RUN, "Run nothing; write the tables and the page from the store.")
    ] = False

    @property
    def files(self) -> dict[str, Path]:
        """Files to write, by what they hold."""
        return {name: self.folder / file for name, file in FILES.items()}

    def check(self) -> None:
        """Raise if the value of an option is out of its range."""
        for name, value in (("--runs", self.runs), ("--jobs", self.jobs), ("--threads", self.threads)):
            check_least(name, value, 1)
        if not 0 < self.scale <= 1:
            raise ValueError(f"--scale must be above 0 and at most 1, got {self.scale:g}.")
        for name, seconds in (("--time-limit", self.time_limit), ("--stop-after", self.stop_after)):
            if seconds is not None and not 0 <= seconds < float("inf"):
                raise ValueError(f"{name} must be a number of seconds, got {seconds:g}.")


def reproduce(request: Request, json: Json = False, quiet: Quiet = False) -> int:
    """Run the paper's experiments and compare the results with the paper's.

    Each run has its own process and is one line of runs.jsonl. If the command
    is interrupted for any reason, the same command continues it. Tables and
    page are written at the end, and after Ctrl-C. With a --scale below 1,
    nothing is compared with the paper, whose results are on all rows.
    """
    request.check()
    from ultraspec.cli import reproduce as program

    return program.run(request, Screen(json, quiet))
