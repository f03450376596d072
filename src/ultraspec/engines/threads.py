"""The thread engine: block functions on a pool of Python threads.

Kernels release the GIL, so threads suffice and share memory. BLAS is held to one thread while an engine is open:
two levels of threads would fight for the cores, and how BLAS splits a product would change its rounding.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from ultraspec._kernels.blas import single_blas_thread
from ultraspec.engines.progress import Reporter
from ultraspec.rows import Block, Rows, Span
from ultraspec.rows.interface import MOST_GROUPS, even_runs

T = TypeVar("T")
R = TypeVar("R")


def count_jobs(n_jobs: int | None) -> int:
    """Threads to use: `n_jobs` as scikit-learn reads it, except that None means every core the process may use."""
    import joblib

    cores = int(joblib.cpu_count())
    if n_jobs is None:
        return cores
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class ThreadEngine:
    """Runs functions of blocks on `n_jobs` threads.

    Use it as a context manager: on leaving, also by an exception or Ctrl-C, waiting work is dropped, running blocks
    are awaited (a fraction of a second each) and no thread remains.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads; None for every core.
    reporter : Reporter, optional
        Is told of phases and of finished tasks.

    Examples
    --------
    >>> with ThreadEngine(2) as engine:
    ...     engine.map(lambda task: task[1] - task[0], [(0, 10), (10, 15)])
    [10, 5]
    """

    def __init__(self, n_jobs: int | None = None, reporter: Any = None) -> None:
        self.n_jobs = count_jobs(n_jobs)
        self.reporter = reporter if reporter is not None else Reporter()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = threading.Event()

    def __enter__(self) -> ThreadEngine:
        self._closed.clear()
        single_blas_thread.acquire()
        if self.n_jobs > 1:
            self._pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="ultraspec")
        return self

    def within(self, reporter: Any, *, alone: bool) -> ThreadEngine:
        """The same engine with another reporter; `alone` for use within one of its tasks, in that task's thread."""
        engine = copy.copy(self)
        engine.reporter = reporter
        if alone:
            engine.n_jobs, engine._pool = 1, None
        return engine

    def __exit__(self, *exc_info: object) -> None:
        self._closed.set()
        try:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)
                self._pool = None
        finally:
            single_blas_thread.release()

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """Results of `function` for each task, in the order of the tasks."""
        self.reporter.begin_pass(len(tasks))
        results: list[R] = []
        for result in self._run(function, tasks):
            results.append(result)
            self.reporter.advance()
        self.reporter.measure()
        return results

    def _run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterable[R]:
        if self._pool is None or len(tasks) == 1:
            for task in tasks:
                if self._closed.is_set():
                    raise CancelledError("the engine was closed while a task of it was running")
                yield function(task)
            return
        # A bounded window: an endless source must not pile up results, nor Ctrl-C wait for a long queue.
        waiting: list[Future[R]] = []
        for task in tasks:
            waiting.append(self._pool.submit(function, task))
            if len(waiting) >= 4 * self.n_jobs:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()

    def fold(
        self,
        tasks: Sequence[T],
        start: Callable[[], R],
        step: Callable[[R, T], None],
        merge: Callable[[R, R], R],
        *,
        most_groups: int = MOST_GROUPS,
    ) -> R:
        """Reduce tasks to one result: ``step(result, task)`` adds a task in place, ``merge(a, b)`` joins two results.

        Tasks are cut into at most `most_groups` runs of neighbours, see `fold_runs`.
        """
        return self.fold_runs(even_runs(tasks, most_groups), start, step, merge)

    def fold_runs(
        self,
        runs: Sequence[Sequence[T]],
        start: Callable[[], R],
        step: Callable[[R, T], None],
        merge: Callable[[R, R], R],
    ) -> R:
        """`fold` for tasks that are cut into runs already.

        Each run has one result of its own, and results are merged as a fixed binary tree: the outcome depends on the
        runs alone, not on threads or timing, and only a few results are alive at once.
        """

        def add_up(run: Sequence[T]) -> R:
            result = start()
            for task in run:
                step(result, task)
                self.reporter.advance()
            return result

        self.reporter.begin_pass(sum(map(len, runs)))
        merged = merge_tree(self._run(add_up, runs), merge)
        self.reporter.measure()
        return merged

    def map_rows(self, rows: Rows, function: Callable[[Block, Span], R]) -> list[R]:
        """Results of ``function(block, span)`` for each block of the rows, in order."""
        return self.map(lambda span: function(rows.read(*span), span), rows.blocks())

    def fold_rows(
        self,
        rows: Rows,
        start: Callable[[], R],
        step: Callable[[R, Block, Span], None],
        merge: Callable[[R, R], R],
        *,
        most_groups: int = MOST_GROUPS,
    ) -> R:
        """Reduce the blocks of rows to one result as `fold` does: ``step(result, block, span)`` adds a block.

        Functions given here and to `map_rows` may run in other processes: they must hold neither rows nor an engine.
        """
        return self.fold_runs(
            rows.runs(most_groups), start, lambda result, span: step(result, rows.read(*span), span), merge
        )

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args)``, where the rows are: work on small arguments."""
        return function(*args)

    def apply(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args, engine)``, where the rows are: work on small arguments that needs an engine."""
        return function(*args, self)


def merge_tree(results: Iterable[R], merge: Callable[[R, R], R]) -> R:
    """Merge neighbours level by level, as a tree that depends on the number of results alone."""
    stack: list[tuple[int, R]] = []
    for result in results:
        level = 0
        while stack and stack[-1][0] == level:
            result = merge(stack.pop()[1], result)
            level += 1
        stack.append((level, result))
    merged = stack.pop()[1]
    while stack:
        merged = merge(stack.pop()[1], merged)
    return merged


def engine_for(rows: Rows | None, n_jobs: int | None, reporter: Any = None) -> ThreadEngine:
    """Return the engine that runs where the rows are: the Dask engine for rows on a cluster, else threads."""
    if rows is None or not rows.remote:
        return ThreadEngine(n_jobs, reporter)
    from ultraspec.engines.dask import DaskEngine  # needs Dask, which is optional

    return DaskEngine(n_jobs, reporter)
