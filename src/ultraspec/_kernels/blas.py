"""The thread count of BLAS, which belongs to the whole process."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any

from threadpoolctl import ThreadpoolController


class BlasGuard:
    """Holds BLAS to one thread while at least one engine in the process is open.

    BLAS thread counts belong to the whole process. Were each engine to save and restore them, two overlapping fits
    in two threads would restore in the wrong order and leave the process on one thread; so engines are counted. And
    threadpoolctl lets only the thread that set a limit lift it again, so a thread of the guard's own does both, unless
    the calling thread holds a limit already and is the only one that can.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._holder: threading.Thread | None = None
        self._over = threading.Event()
        self._own_limits: Any = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Count one more user; the first limits BLAS to one thread."""
        with self._lock:
            self._users += 1
            try:
                if self._users == 1:
                    self._limit()
            except BaseException:  # Ctrl-C may come at any time
                self._leave()
                raise

    def release(self) -> None:
        """Count one user less; the last restores the thread counts of BLAS."""
        with self._lock:
            self._leave()

    def _limit(self) -> None:
        held, self._over = threading.Event(), threading.Event()
        self._holder = threading.Thread(target=_hold_blas, args=(held, self._over), name="ultraspec-blas", daemon=True)
        self._holder.start()
        held.wait()
        blas = _blas_libraries()
        if any(library.num_threads > 1 for library in blas.lib_controllers):
            self._own_limits = blas.limit(limits=1)

    def _leave(self) -> None:
        self._users -= 1
        if self._users:
            return
        if self._own_limits is not None:
            self._own_limits.restore_original_limits()
            self._own_limits = None
        self._over.set()
        if self._holder is not None and self._holder.ident is not None:
            self._holder.join()
        self._holder = None


@functools.cache
def _blas_libraries() -> ThreadpoolController:
    """The BLAS libraries of NumPy and SciPy, looked for once: it takes milliseconds, and no others are used here."""
    import scipy.linalg  # noqa: F401  loads SciPy's own

    return ThreadpoolController().select(user_api="blas")


def _hold_blas(held: threading.Event, over: threading.Event) -> None:
    try:
        with _blas_libraries().limit(limits=1):
            held.set()
            over.wait()
    finally:
        held.set()


single_blas_thread = BlasGuard()
if hasattr(os, "register_at_fork"):  # a child has none of the threads, but would inherit the counts and a held lock
    os.register_at_fork(after_in_child=single_blas_thread.__init__)  # type: ignore[misc]
