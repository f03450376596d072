"""Execution of Dask graphs: sends state to workers once, waits for tasks, reports progress and stops early."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import dask

from ultraspec._kernels.blas import single_blas_thread

CACHED_STATES = 16  # of a worker, which needs one per running pass
POLL_SECONDS = 0.01  # between checks for finished tasks
STUCK_SECONDS = 30.0  # without a finished task, after which the workers' memory is checked


def pack(state: Any) -> Any:
    """Return a node of the graph that holds a small object for many tasks; Dask restores it if a worker dies."""
    import cloudpickle

    payload = cloudpickle.dumps(state)
    return dask.delayed(payload, name=f"state-{uuid.uuid4().hex}", traverse=False)


_states: collections.OrderedDict[str, Any] = collections.OrderedDict()
_states_lock = threading.Lock()


def unpack(token: str, payload: bytes) -> Any:
    """Return the object that was packed; the tasks of a worker share it, as the latest are cached."""
    import cloudpickle

    with _states_lock:
        if token not in _states:
            _states[token] = cloudpickle.loads(payload)
            while len(_states) > CACHED_STATES:
                _states.popitem(last=False)
        _states.move_to_end(token)
        return _states[token]


_watched: dict[str, tuple[Callable[[], None], threading.Event | None]] = {}  # by token: passes that run in this process


@contextlib.contextmanager
def task(token: str) -> Iterator[None]:
    """Run the body as a task of a pass: report it if the pass runs in this process, or raise if it was cancelled."""
    advance, closed = _watched.get(token, (None, None))
    if closed is not None and closed.is_set():
        raise CancelledError("the engine was closed while a pass of it was running")
    with single_blas_thread:
        yield
    if advance is not None:
        advance()


def active_client() -> Any:
    """Return the client of the cluster that runs computations, or None if a local scheduler does."""
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
    """Compute the delayed values `wanted`, and call `advance` for each of the `leaves` among their tasks.

    Setting `closed` cancels the computation. The `token` identifies the leaves that run in this process; they enter
    `task` with it. Dask's callbacks are not used for progress: they are global, and would mix up fits in several
    threads.
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

    # in one call: otherwise a leaf could be computed, released and computed again before it is requested
    futures = client.compute(list(wanted) if wanted is leaves else [*wanted, *leaves])
    results = futures[: len(wanted)]
    leaf_futures = set(futures[-len(leaves) :])
    kept = set(results)
    waiting = set(futures)
    completed = as_completed(futures)
    last = time.monotonic()
    try:
        while waiting:
            if closed is not None and closed.is_set():
                raise CancelledError("the engine was closed while a pass of it was running")
            done = completed.next_batch(block=False)
            if not done:
                time.sleep(POLL_SECONDS)
                if time.monotonic() - last > STUCK_SECONDS:
                    _raise_if_out_of_memory(client)
                    last = time.monotonic()
                continue
            last = time.monotonic()
            for future in done:
                if future.status != "finished":
                    future.result()  # raises the error of the task
                if future in leaf_futures:
                    advance()
                if future not in kept:
                    future.release()  # frees partial results that were merged
            waiting.difference_update(done)
        return list(client.gather(results))
    except KilledWorker as error:
        raise MemoryError(
            "Workers died repeatedly in the same task, most likely because they ran out of memory. Cut the data "
            "into smaller chunks (X = X.rechunk({0: ...}), about 64 MB each), or give workers more memory or fewer "
            f"threads. Dask reported: {error}"
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
            "All workers have paused, as they are short of memory. Cut the data into smaller chunks "
            "(X = X.rechunk({0: ...}), about 64 MB each), do not persist more than fits, or give workers more memory."
        )


def _worker_statuses(dask_scheduler: Any) -> list[str]:
    return [worker.status.name for worker in dask_scheduler.workers.values()]


def compute_all(tasks: Iterable[Any]) -> list[Any]:
    """Compute delayed values in one graph."""
    values = list(tasks)
    return run_graph(values, values, lambda: None)
