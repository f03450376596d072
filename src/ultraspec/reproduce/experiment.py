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
from typing import Any, Protocol, TypeVar

from ultraspec._checks import PYTHON
from ultraspec.reproduce import declarations
from ultraspec.reproduce.data import Prepared, prepare, read_file, stem_of
from ultraspec.reproduce.declarations import DATASETS, METHODS, TABLES, Dataset, Method, Run, Table
from ultraspec.reproduce.store import Row
from ultraspec.reproduce.worker import Task, find
from ultraspec.rows import InvalidSelection
from ultraspec.rows.label_files import split_column


class _Titled(Protocol):
    @property
    def title(self) -> str: ...


T = TypeVar("T", bound=_Titled)


@dataclass(frozen=True)
class Experiment:
    """What is to be run, at which scale, and where its files are kept."""

    tables: Sequence[Table]
    datasets: Sequence[Dataset]
    methods: Sequence[Method]
    runs: int
    scale: float
    cache: Path
    threads: int
    _prepared: dict[str, Prepared] = field(default_factory=dict)

    def plan(self) -> list[Run]:
        """All of its runs; raises where data sets and methods were chosen that tables do not have."""
        runs = declarations.plan(self.tables, self.datasets, self.methods, runs=self.runs, scale=self.scale)
        if not runs:
            which = ", ".join(table.number for table in self.tables)
            sets = ", ".join(dict.fromkeys(name for table in self.tables for name in table.datasets))
            methods = ", ".join(dict.fromkeys(name for table in self.tables for name in table.methods))
            raise ValueError(
                f"There is nothing to run. Table {which} has the data sets {sets} and your own, and the methods "
                f"{methods}; methods of your own are compared in tables 4 to 9."
            )
        return runs

    def prepare(self, runs: Iterable[Run], say: Callable[[str], None]) -> None:
        """Make the files of all data sets that runs need, before the first of them starts."""
        wanted = {run.dataset for run in runs}
        for dataset in self.datasets:
            if dataset.title in wanted:
                say(f"Data {dataset.title} ...")
                self._prepared[dataset.title] = prepare(dataset, self.scale, self.cache / "data")

    def current(self, row: Row) -> bool:
        """Whether a row of the store is about data and code as they are now: a user's files may have changed."""
        methods = [method for method in self.methods if method.own and method.title == row["method"]]
        if methods and row.get("code") != methods[0].code:
            return False
        own = [dataset for dataset in self.datasets if dataset.own and dataset.title == row["dataset"]]
        return not own or row["data"] == stem_of(own[0], row["scale"])

    def task(self, run: Run) -> Task:
        """The task of a run."""
        method = next(method for method in self.methods if method.title == run.method)
        data = self._prepared[run.dataset]
        return Task(
            data=data,
            estimator=method.estimator,
            parameters=json.loads(run.parameters),
            seed=run.seed,
            threads=self.threads,
            combines=method.combines,
            own=method.own,
            members_folder=str(self.cache / "members" / f"{data.stem}-{run.seed}"),
            module_folder=os.getcwd() if method.own else "",
            code=method.code,
        )


def choose_tables(names: Sequence[str]) -> list[Table]:
    """Tables by name: ``table4`` or ``4`` or ``4-9`` or ``4,5``, or ``all``.

    Examples
    --------
    >>> [table.name for table in choose_tables(["4-6,10", "table12"])]
    ['table4', 'table5', 'table6', 'table10', 'table12']
    """
    found: dict[str, None] = {}
    for name in re.findall(r"[^,\s]+", " ".join(names)) or names:
        word = name.lower().replace("table", "")
        numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if word == "all":
            found.update(dict.fromkeys(TABLES))
        elif numbers:
            low, high = int(numbers[1]), int(numbers[2] or numbers[1])
            found.update((f"table{number}", None) for number in range(low, min(high, 99) + 1))
            if high < low:
                raise ValueError(f"There is no table {name!r}: {high} is before {low}. Write {high}-{low}.")
        else:
            found[name] = None
    unknown = [name for name in found if name not in TABLES]
    if unknown:
        raise ValueError(f"There is no table {unknown[0]!r}. There are table4 to table16, and all.")
    return [table for name, table in TABLES.items() if name in found]


def choose(known: Sequence[T], names: Sequence[str] | None, what: str, own: Sequence[T] = ()) -> list[T]:
    """Those of some names, in any spelling (``u-spec`` or ``USPEC``), all, or none; and a user's own in any case.

    Examples
    --------
    >>> [method.title for method in choose(METHODS, ["uspec", "lsc-k"], "method")]
    ['LSC-K', 'U-SPEC']
    """
    titles = [item.title for item in own]
    twice = [title for title in titles if titles.count(title) > 1]
    if twice:
        raise ValueError(f"Two {what}s are named {twice[0]!r}. Rename one.")
    there = {_plain(item.title): item.title for item in (*known, *own)}
    wanted = there if names is None else {_plain(name): name for name in names if _plain(name) != "none"}
    unknown = [name for plain, name in wanted.items() if plain not in there]
    if unknown:
        raise ValueError(f"There is no {what} {unknown[0]!r}. There are {', '.join(there.values())}.")
    return [*(item for item in known if _plain(item.title) in wanted), *own]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("ö", "o"))


def own_method(text: str) -> Method:
    """A user's method, ``module:Estimator``, after a look whether it is there."""
    kind = find(text, os.getcwd())
    title = getattr(kind, "__name__", text.partition(":")[2])
    if _plain(title) in {_plain(method.title) for method in METHODS}:
        title = text
    return Method(title, text, own=True, code=_checksum(kind))


def _checksum(kind: Any) -> str:
    """Of the file that a class is defined in; what that imports in turn is not looked at."""
    try:
        source = inspect.getsourcefile(kind)
    except TypeError:  # a compiled one
        source = None
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else ""


def own_dataset(text: str) -> Dataset:
    """A user's data set, ``path:label``, after a look whether it can be read."""
    try:
        read_file(text)
    except InvalidSelection as error:  # whose advice is about parameters of open_rows
        rule = "In --data FILE:LABEL, all columns but LABEL are features (of an .npz file: the only 2-d array)."
        raise ValueError(f"--data {text}: {error.problem(PYTHON)} {rule}") from error
    except ValueError as error:
        raise ValueError(f"--data {text}: {error}") from error
    path, _ = split_column(text)
    title = path.name.split(".")[0]
    if _plain(title) in {_plain(dataset.title) for dataset in DATASETS}:
        title = path.name
    return Dataset(title, file=str(path.resolve()) + text[len(str(text).rpartition(":")[0]) :])
