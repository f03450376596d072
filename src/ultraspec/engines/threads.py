"""The thread engine: runs functions of blocks on a pool of Python threads.

Kernels release the global lock, so threads can use all cores, and they share memory. BLAS is limited to one thread
while an engine is open: two levels of threads would compete for the cores, and the way in which BLAS divides a product
among threads would change its rounding.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from ultraspec._kernels.blas import single_blas_thread
from ultraspec.engines.progress import Reporter
from ultraspec.rows import Rows, Span
from ultraspec.rows.interface import MOST_GROUPS, even_runs

T = TypeVar("T")
R = TypeVar("R")


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of threads: `n_jobs` as in scikit-learn, but None uses every core the process may use."""
    import joblib  # slow to import

    cores = int(joblib.cpu_count())
    if n_jobs is None:
        return cores
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class ThreadEngine:
    """Runs functions of blocks on `n_jobs` threads.

    Use it as a context manager. On exit, also after an exception or Ctrl-C, tasks that have not started are cancelled,
    running tasks are waited for (a fraction of a second each), and all threads end.

    `n_jobs` is None for every core. The `reporter` is informed of phases and finished tasks.

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
        """Return this engine with another reporter; if `alone`, for use inside of one of its tasks, in that thread."""
        engine = copy.copy(self)
        engine.reporter = reporter
        if alone:
            engine.n_jobs = 1
            engine._pool = None
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
        """Return the results of `function` for each task, in the order of the tasks."""
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
        # Few tasks are submitted at a time: results must not pile up, and Ctrl-C must not wait for a long queue.
        futures: list[Future[R]] = []
        for task in tasks:
            futures.append(self._pool.submit(function, task))
            if len(futures) >= 4 * self.n_jobs:
                yield futures.pop(0).result()
        for future in futures:
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

        Tasks are divided into at most `most_groups` runs of consecutive tasks, see `fold_runs`.
        """
        return self.fold_runs(even_runs(tasks, most_groups), start, step, merge)

    def fold_runs(
        self,
        runs: Sequence[Sequence[T]],
        start: Callable[[], R],
        step: Callable[[R, T], None],
        merge: Callable[[R, R], R],
    ) -> R:
        """Reduce tasks that are divided into runs to one result, as `fold` does.

        Each run is reduced to a partial result, in order. Partial results are merged as a binary tree. So the result
        depends on the runs only, not on threads or timing, and only a few partial results exist at any time.
        """

        def reduce_run(run: Sequence[T]) -> R:
            result = start()
            for task in run:
                step(result, task)
                self.reporter.advance()
            return result

        self.reporter.begin_pass(sum(map(len, runs)))
        merged = merge_tree(self._run(reduce_run, runs), merge)
        self.reporter.measure()
        return merged

    def map_rows(self, rows: Rows, function: Callable[..., R], *, weighted: bool = False) -> list[R]:
        """Return the results of ``function(block, span)`` for each block of the rows, in order.

        If `weighted`, the function gets the weights of the rows, too, see `Rows.read_weights`.
        """
        return self.map(lambda span: function(*block_arguments(rows, span, weighted=weighted)), rows.blocks())

    def fold_rows(
        self,
        rows: Rows,
        start: Callable[[], R],
        step: Callable[..., None],
        merge: Callable[[R, R], R],
        *,
        most_groups: int = MOST_GROUPS,
        weighted: bool = False,
    ) -> R:
        """Reduce the blocks of rows to one result as `fold` does: ``step(result, block, span)`` adds a block.

        If `weighted`, `step` gets the weights of the rows, too. Functions passed to this method and to `map_rows` may
        run in other processes, so they must not refer to rows or to an engine.
        """

        def add(result: R, span: Span) -> None:
            step(result, *block_arguments(rows, span, weighted=weighted))

        return self.fold_runs(rows.runs(most_groups), start, add, merge)

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args)``, computed where the rows are; for small arguments."""
        return function(*args)

    def apply(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args, engine)``, computed where the rows are; for small arguments."""
        return function(*args, self)


def block_arguments(rows: Rows, span: Span, *, weighted: bool) -> tuple[Any, ...]:
    """Return what functions of blocks get: the rows of a span, the span, and if `weighted`, the weights."""
    block = rows.read(*span)
    return (block, span, rows.read_weights(*span)) if weighted else (block, span)


def merge_tree(results: Iterable[R], merge: Callable[[R, R], R]) -> R:
    """Merge neighbouring results pair by pair, as a binary tree that depends on the number of results only.

    Results are merged as soon as both are available, so the stack holds at most one result per level.
    """
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
