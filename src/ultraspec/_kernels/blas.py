"""Number of BLAS threads, a setting of the whole process."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any

from threadpoolctl import ThreadpoolController


class BlasGuard:
    """Context manager that limits BLAS to one thread while at least one engine of the process is open.

    The number of BLAS threads is a setting of the whole process. If each engine saved and restored it, two overlapping
    fits in two threads would restore it in the wrong order and leave the process with one thread. So engines are
    counted: the first one sets the limit, the last one lifts it.

    threadpoolctl lets a limit be lifted only by the thread that set it. So a separate thread does both, unless the
    calling thread already has a limit, which only this thread can change.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._holder: threading.Thread | None = None
        self._finished = threading.Event()
        self._caller_limits: Any = None

    def __reduce__(self) -> str:
        """Pickle as a reference to the guard of the process."""
        return "single_blas_thread"

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
        """Count one user less; the last restores the number of BLAS threads."""
        with self._lock:
            self._leave()

    def _limit(self) -> None:
        limited = threading.Event()
        self._finished = threading.Event()
        self._holder = threading.Thread(
            target=_hold_limit, args=(limited, self._finished), name="ultraspec-blas", daemon=True
        )
        self._holder.start()
        limited.wait()
        blas = _blas_libraries()
        if any(library.num_threads > 1 for library in blas.lib_controllers):
            self._caller_limits = blas.limit(limits=1)

    def _leave(self) -> None:
        self._users -= 1
        if self._users:
            return
        if self._caller_limits is not None:
            self._caller_limits.restore_original_limits()
            self._caller_limits = None
        self._finished.set()
        if self._holder is not None and self._holder.ident is not None:
            self._holder.join()
        self._holder = None


@functools.cache
def _blas_libraries() -> ThreadpoolController:
    """Find the BLAS libraries of NumPy and SciPy, once: this takes milliseconds, and no others are used."""
    import scipy.linalg  # noqa: F401  loads the library of SciPy

    return ThreadpoolController().select(user_api="blas")


def _hold_limit(limited: threading.Event, finished: threading.Event) -> None:
    """Limit BLAS to one thread, set `limited`, and lift the limit when `finished` is set."""
    try:
        with _blas_libraries().limit(limits=1):
            limited.set()
            finished.wait()
    finally:
        limited.set()  # also after an error, or the caller would wait forever


single_blas_thread = BlasGuard()
if hasattr(os, "register_at_fork"):  # a forked process has none of the threads, but would inherit count and lock
    os.register_at_fork(after_in_child=single_blas_thread.__init__)  # type: ignore[misc]
