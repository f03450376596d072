"""The Dask engine: the same block functions, run where the chunks of a Dask array are.

A pass becomes one task per chunk and, where it reduces something, a binary tree of merges. What block functions hold
(representatives, eigenvectors) travels as one small object that workers pass on to each other, once to each. Tasks are
named after the phase, so that the dashboard shows where a fit is. Whatever Dask scheduler is active runs them: a
`distributed` cluster, or the local threads or processes.
"""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import dask

from ultraspec._kernels.blas import single_blas_thread
from ultraspec.engines.threads import ThreadEngine, merge_tree
from ultraspec.rows import Block, Rows, Span
from ultraspec.rows.dask import chunk_rows, source_of
from ultraspec.rows.dask_graph import active_client, pack, run_graph, task, unpack
from ultraspec.rows.interface import MOST_GROUPS

T = TypeVar("T")
R = TypeVar("R")


class DaskEngine(ThreadEngine):
    """Runs passes over rows on the active Dask scheduler, and all else on threads here.

    Parameters
    ----------
    n_jobs : int or None
        Threads of this process; None for every core, and at least as many as there are workers, as each runs one
        member of an ensemble.
    reporter : Reporter, optional
        Is told of phases and of finished tasks.
    """

    def __init__(self, n_jobs: int | None = None, reporter: Any = None) -> None:
        super().__init__(n_jobs, reporter)
        client = active_client()
        if client is not None and n_jobs is None:
            self.n_jobs = max(self.n_jobs, min(32, len(client.nthreads())))

    def map_rows(self, rows: Rows, function: Callable[[Block, Span], R]) -> list[R]:
        """Results of ``function(block, span)`` for each block of the rows, in order."""
        if not rows.remote:
            return super().map_rows(rows, function)
        found = self._compute(_map_chunk, (rows.with_source(None), function), _tasks(rows), None)
        return list(itertools.chain.from_iterable(found))

    def fold_rows(
        self,
        rows: Rows,
        start: Callable[[], R],
        step: Callable[[R, Block, Span], None],
        merge: Callable[[R, R], R],
        *,
        most_groups: int = MOST_GROUPS,
    ) -> R:
        """Reduce the blocks of rows to one result: one for each chunk, which a tree of tasks merges."""
        if not rows.remote:
            return super().fold_rows(rows, start, step, merge, most_groups=most_groups)
        tasks = _tasks(rows)
        if not tasks:
            return start()
        result: R = self._compute(_fold_chunk, (rows.with_source(None), start, step), tasks, merge)
        return result

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args)`` from a worker of a cluster, so that members of an ensemble do not wait here."""
        if active_client() is None:
            return super().call(function, *args)
        result: R = self._compute(_call, (function, args), [()], None)[0]
        return result

    def apply(self, function: Callable[..., R], *args: Any) -> R:
        """Return ``function(*args, engine)`` from a worker of a cluster, where the engine has one thread."""
        if active_client() is None:
            return super().apply(function, *args)
        return self.call(_with_engine, function, args)

    def _compute(
        self,
        run: Callable[..., Any],
        held: Any,
        tasks: Sequence[tuple[Any, ...]],
        merge: Callable[[Any, Any], Any] | None,
    ) -> Any:
        """Results of ``run(held, *task)`` in order, or what `merge` makes of them."""
        name, token = self.reporter.current or "ultraspec", uuid.uuid4().hex
        state = pack(held)
        leaves = [
            dask.delayed(run, pure=False)(token, state, *task, dask_key_name=(f"{name}-{token}", number))
            for number, task in enumerate(tasks)
        ]
        wanted = leaves
        if merge is not None:
            numbers = itertools.count()
            join = dask.delayed(_merge, pure=False)
            wanted = [
                merge_tree(
                    leaves, lambda a, b: join(merge, a, b, dask_key_name=(f"merge-{name}-{token}", next(numbers)))
                )
            ]
        self.reporter.begin_pass(len(leaves))
        results = run_graph(leaves, wanted, self.reporter.advance, self._closed, token)
        self.reporter.measure()
        return results if merge is None else results[0]


def _tasks(rows: Rows) -> list[tuple[Any, Sequence[Span]]]:
    """Chunks that have rows, and the blocks each is cut into."""
    source = source_of(rows)
    return [(source.chunks[number], spans) for number, spans in zip(source.filled, rows.runs(0), strict=True)]


# What runs on workers: plain functions, as tasks carry them.


def _map_chunk(token: str, payload: bytes, chunk: Any, spans: Sequence[Span]) -> list[Any]:
    view, function = unpack(token, payload)
    with task(token):
        rows = chunk_rows(view, chunk, spans)
        return [function(rows.read(*span), span) for span in spans]


def _fold_chunk(token: str, payload: bytes, chunk: Any, spans: Sequence[Span]) -> Any:
    view, start, step = unpack(token, payload)
    with task(token):
        rows, result = chunk_rows(view, chunk, spans), start()
        for span in spans:
            step(result, rows.read(*span), span)
    return result


def _merge(merge: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Merges may work in place, but Dask may run a task again with what it had: a copy is changed."""
    return merge(copy.deepcopy(a), b)


def _call(token: str, payload: bytes) -> Any:
    function, args = unpack(token, payload)
    with single_blas_thread:
        return function(*args)


def _with_engine(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    with ThreadEngine(1) as engine:
        return function(*args, engine)
