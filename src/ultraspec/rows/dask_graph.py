"""Run Dask graphs: send state to workers once, wait for tasks, report progress and stop early."""

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

STATES_KEPT = 16  # by a worker: one per pass that runs at the moment
LOOK_SECONDS = 0.01  # between looks for finished tasks
STUCK_SECONDS = 30.0  # without a finished task, all workers being out of memory


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


_watched: dict[str, tuple[Callable[[], None], threading.Event | None]] = {}  # passes that wait in this process


@contextlib.contextmanager
def task(token: str) -> Iterator[None]:
    """One task of a pass: tells whoever waits for it in this process, and ends at once if nobody does any more."""
    advance, closed = _watched.get(token, (None, None))
    if closed is not None and closed.is_set():
        raise CancelledError("the engine was closed while a pass of it was running")
    with single_blas_thread:
        yield
    if advance is not None:
        advance()


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
