"""The Dask engine: runs functions of blocks where the chunks of a Dask array are.

A pass becomes one task per chunk and, if it is a reduction, a binary tree of merges. The data that functions refer to
(representatives, eigenvectors) is sent as one small object, once to each worker. Tasks are named after the phase, so
that the dashboard shows the progress of a fit. They run on the active Dask scheduler: a `distributed` cluster, or local
threads or processes.
"""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import dask

from ultraspec._kernels.blas import single_blas_thread
from ultraspec.engines.threads import ThreadEngine, block_arguments, merge_tree
from ultraspec.rows import Rows, Span
from ultraspec.rows.dask import chunk_rows, source_of
from ultraspec.rows.dask_graph import active_client, pack, run_graph, task, unpack
from ultraspec.rows.interface import MOST_GROUPS

T = TypeVar("T")
R = TypeVar("R")


class DaskEngine(ThreadEngine):
    """Runs passes over rows on the active Dask scheduler, and other tasks on threads of this process.

    If `n_jobs` is None, there are at least as many threads as workers: each waits for one member of an ensemble.
    """

    def __init__(self, n_jobs: int | None = None, reporter: Any = None) -> None:
        super().__init__(n_jobs, reporter)
        client = active_client()
        if client is not None and n_jobs is None:
            self.n_jobs = max(self.n_jobs, min(32, len(client.nthreads())))

    def map_rows(self, rows: Rows, function: Callable[..., R], *, weighted: bool = False) -> list[R]:
        """Return the results of ``function(block, span)`` for each block of the rows, in order."""
        if not rows.remote:
            return super().map_rows(rows, function, weighted=weighted)
        state = rows.with_source(None), function, weighted
        results = self._compute(_map_chunk, state, _tasks(rows, weighted=weighted), None)
        return list(itertools.chain.from_iterable(results))

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
        """Reduce the blocks of rows to one result: a partial result per chunk, merged by a tree of tasks."""
        if not rows.remote:
            return super().fold_rows(rows, start, step, merge, most_groups=most_groups, weighted=weighted)
        tasks = _tasks(rows, weighted=weighted)
        if not tasks:
            return start()
        result: R = self._compute(_fold_chunk, (rows.with_source(None), start, step, weighted), tasks, merge)
        return result

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args)``, computed by a worker, so that members of an ensemble run in parallel."""
        if active_client() is None:
            return super().call(function, *args)
        result: R = self._compute(_call, (function, args), [()], None)[0]
        return result

    def apply(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args, engine)``, computed by a worker, where the engine has one thread."""
        if active_client() is None:
            return super().apply(function, *args)
        return self.call(_with_engine, function, args)

    def _compute(
        self,
        run: Callable[..., Any],
        state: Any,
        tasks: Sequence[tuple[Any, ...]],
        merge: Callable[[Any, Any], Any] | None,
    ) -> Any:
        """Run ``run(token, state, *task)`` for all tasks, with `state` packed; return the results, or their merger."""
        name = self.reporter.current or "ultraspec"
        token = uuid.uuid4().hex
        packed = pack(state)
        leaves = [
            dask.delayed(run, pure=False)(token, packed, *task, dask_key_name=(f"{name}-{token}", number))
            for number, task in enumerate(tasks)
        ]
        outputs = leaves
        if merge is not None:
            numbers = itertools.count()
            merge_task = dask.delayed(_merge, pure=False)

            def join(a: Any, b: Any) -> Any:
                return merge_task(merge, a, b, dask_key_name=(f"merge-{name}-{token}", next(numbers)))

            outputs = [merge_tree(leaves, join)]
        self.reporter.begin_pass(len(leaves))
        results = run_graph(leaves, outputs, self.reporter.advance, self._closed, token)
        self.reporter.measure()
        return results if merge is None else results[0]


def _tasks(rows: Rows, *, weighted: bool) -> list[tuple[Any, Sequence[Span], Any]]:
    """Return the chunks that have rows, each with the ranges of its blocks and, if `weighted`, the weights."""
    source = source_of(rows)
    weights = source.weight_chunks if weighted else None
    numbers = zip(source.filled, rows.runs(0), strict=True)
    return [(source.chunks[number], spans, weights and weights[number]) for number, spans in numbers]


# Functions of tasks, which run on workers. They are module-level functions, so that they can be pickled.


def _map_chunk(token: str, payload: bytes, chunk: Any, spans: Sequence[Span], weights: Any) -> list[Any]:
    view, function, weighted = unpack(token, payload)
    with task(token):
        rows = chunk_rows(view, chunk, spans, weights)
        return [function(*block_arguments(rows, span, weighted=weighted)) for span in spans]


def _fold_chunk(token: str, payload: bytes, chunk: Any, spans: Sequence[Span], weights: Any) -> Any:
    view, start, step, weighted = unpack(token, payload)
    with task(token):
        rows = chunk_rows(view, chunk, spans, weights)
        result = start()
        for span in spans:
            step(result, *block_arguments(rows, span, weighted=weighted))
    return result


def _merge(merge: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Merge a copy of `a` with `b`: merges work in place, and Dask may run a task again with the same arguments."""
    return merge(copy.deepcopy(a), b)


def _call(token: str, payload: bytes) -> Any:
    function, args = unpack(token, payload)
    with single_blas_thread:
        return function(*args)


def _with_engine(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    with ThreadEngine(1) as engine:
        return function(*args, engine)
