"""The Dask engine: the same block functions, run where the chunks of a Dask array are.

A pass becomes one task per chunk and, where it reduces something, a binary tree of merges. What block functions hold
(representatives, eigenvectors) travels as one small object that workers pass on to each other, once to each. Tasks are
named after the phase, so that the dashboard shows where a fit is. Whatever Dask scheduler is active runs them: a
`distributed` cluster, or the local threads or processes.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import dask

from ultraspec.engines.threads import ThreadEngine, _blas, merge_tree
from ultraspec.rows._base import MOST_GROUPS, Block, Rows, Span
from ultraspec.rows.dask import chunk_rows, source_of

T = TypeVar("T")
R = TypeVar("R")

STATES_KEPT = 16  # by a worker: one per pass that runs at the moment
LOOK_SECONDS = 0.01  # between looks for finished tasks
STUCK_SECONDS = 30.0  # without a finished task, all workers being out of memory


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
        found = self._compute(_map_chunk, (rows.over(None), function), _tasks(rows), None)
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
        result: R = self._compute(_fold_chunk, (rows.over(None), start, step), tasks, merge)
        return result

    def apply(self, function: Callable[..., R], *args: Any) -> R:
        """Work on something small: on a worker of a cluster, so that members of an ensemble do not wait here."""
        if active_client() is None:
            return super().apply(function, *args)
        result: R = self._compute(_apply, (function, args), [()], None)[0]
        return result

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


def pack(held: Any) -> Any:
    """Something small that many tasks need: one node of the graph, from which it can be made again if a worker dies."""
    import cloudpickle

    payload = cloudpickle.dumps(held)
    return dask.delayed(payload, name=f"state-{uuid.uuid4().hex}", traverse=False)


_states: collections.OrderedDict[str, Any] = collections.OrderedDict()
_states_lock = threading.Lock()


def unpack(token: str, payload: bytes) -> Any:
    """What was packed; a worker keeps the latest, which its tasks share."""
    import cloudpickle

    with _states_lock:
        if token not in _states:
            _states[token] = cloudpickle.loads(payload)
            while len(_states) > STATES_KEPT:
                _states.popitem(last=False)
        _states.move_to_end(token)
        return _states[token]


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Tasks of a worker are its parallelism; and how BLAS splits a product would change its rounding."""
    _blas.acquire()
    try:
        yield
    finally:
        _blas.release()


_watched: dict[str, tuple[Callable[[], None], threading.Event | None]] = {}  # passes that wait in this process


@contextlib.contextmanager
def _task(token: str) -> Iterator[None]:
    """One task of a pass: tells whoever waits for it in this process, and ends at once if nobody does any more."""
    advance, closed = _watched.get(token, (None, None))
    if closed is not None and closed.is_set():
        raise CancelledError("the engine was closed while a pass of it was running")
    with one_blas_thread():
        yield
    if advance is not None:
        advance()


def _map_chunk(token: str, payload: bytes, chunk: Any, spans: Sequence[Span]) -> list[Any]:
    view, function = unpack(token, payload)
    with _task(token):
        rows = chunk_rows(view, chunk, spans)
        return [function(rows.read(*span), span) for span in spans]


def _fold_chunk(token: str, payload: bytes, chunk: Any, spans: Sequence[Span]) -> Any:
    view, start, step = unpack(token, payload)
    with _task(token):
        rows, result = chunk_rows(view, chunk, spans), start()
        for span in spans:
            step(result, rows.read(*span), span)
    return result


def _merge(merge: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Merges may work in place, but Dask may run a task again with what it had: a copy is changed."""
    return merge(copy.deepcopy(a), b)


def _apply(token: str, payload: bytes) -> Any:
    function, args = unpack(token, payload)
    with ThreadEngine(1) as engine:
        return function(*args, engine)


# Running a graph.


def active_client() -> Any:
    """The client of the cluster that computations go to, or None where a local scheduler runs them."""
    import sys

    if "distributed" not in sys.modules or dask.config.get("scheduler", None) not in (None, "dask.distributed"):
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:  # there is none
        return None


def run_graph(
    leaves: Sequence[Any],
    wanted: Sequence[Any],
    advance: Callable[[], None],
    closed: threading.Event | None = None,
    token: str = "",
) -> list[Any]:
    """Compute delayed values; `advance` is called as each of the `leaves` is done, `closed` stops it.

    Leaves that know the `token` tell of themselves where they run in this process. Dask's own callbacks are not used:
    they are the process's, and fits in several threads would mix theirs up.
    """
    client = active_client()
    if client is not None:
        return _run_on_cluster(client, leaves, wanted, advance, closed)
    _watched[token] = advance, closed
    try:
        return list(dask.compute(*wanted))
    finally:
        _watched.pop(token, None)


def _run_on_cluster(
    client: Any,
    leaves: Sequence[Any],
    wanted: Sequence[Any],
    advance: Callable[[], None],
    closed: threading.Event | None,
) -> list[Any]:
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    # in one call, or a leaf might be done and forgotten before it is asked for, and be made again
    futures = client.compute(list(wanted) if wanted is leaves else [*wanted, *leaves])
    results, pending = futures[: len(wanted)], set(futures[-len(leaves) :])
    kept, waiting, ready = set(results), set(futures), as_completed(futures)
    last = time.monotonic()
    try:
        while waiting:
            if closed is not None and closed.is_set():
                raise CancelledError("the engine was closed while a pass of it was running")
            done = ready.next_batch(block=False)
            if not done:
                time.sleep(LOOK_SECONDS)
                if time.monotonic() - last > STUCK_SECONDS:
                    _raise_if_out_of_memory(client)
                    last = time.monotonic()
                continue
            last = time.monotonic()
            for future in done:
                if future.status != "finished":
                    future.result()  # raises what went wrong
                if future in pending:
                    advance()
                if future not in kept:
                    future.release()  # a partial result that the tree has merged need not be kept
            waiting.difference_update(done)
        return list(client.gather(results))
    except KilledWorker as error:
        raise MemoryError(
            "Workers died again and again in the same task, most likely since they ran out of memory. Cut the data "
            "into smaller chunks (X = X.rechunk({0: ...}), about 64 MB each), or give workers more memory or fewer "
            f"threads. Dask said: {error}"
        ) from error
    finally:
        if waiting:
            client.cancel(list(waiting), force=True)
        for future in futures:
            future.release()


def _raise_if_out_of_memory(client: Any) -> None:
    statuses = client.run_on_scheduler(_worker_statuses)
    if statuses and all(status == "paused" for status in statuses):
        raise MemoryError(
            "All workers have stopped taking tasks, as they are short of memory. Cut the data into smaller chunks "
            "(X = X.rechunk({0: ...}), about 64 MB each), do not persist more than fits, or give workers more memory."
        )


def _worker_statuses(dask_scheduler: Any) -> list[str]:
    return [worker.status.name for worker in dask_scheduler.workers.values()]


def compute_all(tasks: Iterable[Any]) -> list[Any]:
    """Compute delayed values, all at once."""
    values = list(tasks)
    return run_graph(values, values, lambda: None)
