"""An experiment as a user asks for it: tables, data sets and methods by name, and those that the user adds."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ultraspec.reproduce import declarations
from ultraspec.reproduce.dataset_cache import CachedDataset, is_current, prepare, read_file
from ultraspec.reproduce.declarations import DATASETS, METHODS, TABLES, Dataset, Method, Run, Table
from ultraspec.reproduce.store import Record
from ultraspec.reproduce.worker import Task, find_estimator
from ultraspec.rows import InvalidSelection
from ultraspec.rows.label_files import split_column

T = TypeVar("T", bound=Dataset | Method)


@dataclass(frozen=True)
class Experiment:
    """What is to be run, at which scale, and the folder of files that runs share."""

    tables: Sequence[Table]
    datasets: Sequence[Dataset]
    methods: Sequence[Method]
    runs: int
    scale: float
    cache: Path
    threads: int
    _prepared: dict[str, CachedDataset] = field(default_factory=dict)

    def plan(self) -> list[Run]:
        """List all runs; raise if the chosen tables have none of the chosen data sets and methods."""
        runs = declarations.plan(self.tables, self.datasets, self.methods, runs=self.runs, scale=self.scale)
        if not runs:
            numbers = ", ".join(table.number for table in self.tables)
            datasets = ", ".join(dict.fromkeys(name for table in self.tables for name in table.datasets))
            methods = ", ".join(dict.fromkeys(name for table in self.tables for name in table.methods))
            raise ValueError(
                f"There is nothing to run. Table {numbers} has the data sets {datasets} and your own, and the methods "
                f"{methods}; methods of your own are compared in tables 4 to 9."
            )
        return runs

    def prepare(self, runs: Iterable[Run], say: Callable[[str], None]) -> None:
        """Write the files of all data sets that runs need, before the first of them starts."""
        needed = {run.dataset for run in runs}
        for dataset in self.datasets:
            if dataset.title in needed:
                say(f"Data {dataset.title} ...")
                self._prepared[dataset.title] = prepare(dataset, self.scale, self.cache / "data")

    def is_current(self, record: Record) -> bool:
        """Return whether a record was made from the present data and code, so that its run need not be repeated.

        A user's files, or the generator of a synthetic set, may have changed since.
        """
        known = {dataset.title: dataset for dataset in DATASETS}
        dataset = known.get(record["dataset"])
        return self.is_shown(record) and (dataset is None or is_current(dataset, record.get("data"), record["scale"]))

    def is_shown(self, record: Record) -> bool:
        """Return whether tables show a record: not if a user's files have changed since.

        Runs on rows of an earlier generator are shown, and named, until they are repeated (`Summary`).
        """
        methods = [method for method in self.methods if method.custom and method.title == record["method"]]
        if methods and record.get("code") != methods[0].code:
            return False
        custom = [dataset for dataset in self.datasets if dataset.custom and dataset.title == record["dataset"]]
        return not custom or is_current(custom[0], record["data"], record["scale"])

    def task(self, run: Run) -> Task:
        """Return the task of a run."""
        method = next(method for method in self.methods if method.title == run.method)
        data = self._prepared[run.dataset]
        return Task(
            data,
            method,
            parameters={**method.fixed, **json.loads(run.parameters)},
            seed=run.seed,
            threads=self.threads,
            members_folder=str(self.cache / "members" / f"{data.stem}-{run.seed}"),
            module_folder=os.getcwd() if method.custom else "",
        )


def choose_tables(names: Sequence[str]) -> list[Table]:
    """Select tables by name: ``table4``, ``4``, ``4-9``, ``4,5`` or ``all``.

    Examples
    --------
    >>> [table.name for table in choose_tables(["4-6,10", "table12"])]
    ['table4', 'table5', 'table6', 'table10', 'table12']
    """
    chosen: dict[str, None] = {}  # an ordered set
    for name in re.findall(r"[^,\s]+", " ".join(names)) or names:
        short = name.lower().replace("table", "")
        numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", short)
        if short == "all":
            chosen.update(dict.fromkeys(TABLES))
        elif numbers:
            low, high = int(numbers[1]), int(numbers[2] or numbers[1])
            if high < low:
                raise ValueError(f"There is no table {name!r}: {high} is before {low}. Write {high}-{low}.")
            chosen.update((f"table{number}", None) for number in range(low, min(high, 99) + 1))
        else:
            chosen[name] = None
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        raise ValueError(f"There is no table {unknown[0]!r}. Choose from table4 to table16, or all.")
    return [table for name, table in TABLES.items() if name in chosen]


def choose(known: Sequence[T], names: Sequence[str] | None, what: str, custom: Sequence[T] = ()) -> list[T]:
    """Select items by title in any spelling (``u-spec`` or ``USPEC``); a user's items, `custom`, are always included.

    The name "none" stands for no item, None for all names. Messages call an item `what`: "method".

    Examples
    --------
    >>> [method.title for method in choose(METHODS, ["uspec", "lsc-k"], "method")]
    ['LSC-K', 'U-SPEC']
    """
    titles = [item.title for item in custom]
    duplicates = [title for title in titles if titles.count(title) > 1]
    if duplicates:
        raise ValueError(f"Two {what}s are named {duplicates[0]!r}. Rename one.")
    available = {_normalize(item.title): item.title for item in (*known, *custom)}
    chosen = available if names is None else {_normalize(name): name for name in names if _normalize(name) != "none"}
    unknown = [name for key, name in chosen.items() if key not in available]
    if unknown:
        raise ValueError(f"There is no {what} {unknown[0]!r}. Choose from {', '.join(available.values())}.")
    return [*(item for item in known if _normalize(item.title) in chosen), *custom]


def _normalize(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("ö", "o"))


def custom_method(text: str) -> Method:
    """Return a user's method, ``module:Estimator``; raise if it cannot be imported."""
    kind = find_estimator(text, os.getcwd())
    title = getattr(kind, "__name__", text.partition(":")[2])
    if _normalize(title) in {_normalize(method.title) for method in METHODS}:
        title = text
    return Method(title, text, custom=True, code=_checksum(kind))


def _checksum(kind: Any) -> str:
    """Return a checksum of the file that defines a class; modules which that file imports are not included."""
    try:
        source = inspect.getsourcefile(kind)
    except TypeError:  # compiled code
        source = None
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else ""


def custom_dataset(text: str) -> Dataset:
    """Return a user's data set, ``path:label``; raise if it cannot be read."""
    try:
        read_file(text)
    except InvalidSelection as error:  # whose advice is about parameters of open_rows
        rule = "In --data FILE:LABEL, all columns but LABEL are features (of an .npz file: the only 2-d array)."
        raise ValueError(f"--data {text}: {error.problem()} {rule}") from error
    except ValueError as error:
        raise ValueError(f"--data {text}: {error}") from error
    path, label = split_column(text)
    title = path.name.split(".")[0]
    if _normalize(title) in {_normalize(dataset.title) for dataset in DATASETS}:
        title = path.name
    return Dataset(title, file=f"{path.resolve()}:{label}")
