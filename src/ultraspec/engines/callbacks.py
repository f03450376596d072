"""scikit-learn's callbacks (1.9 and later), in this module alone.

Gives `CallbackSupport` and `with_callbacks`, which do nothing on older versions, and `report_to_callbacks`, which
tells an estimator's callbacks (its `ProgressBar`, for one) of the phases and blocks that a reporter hears of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ultraspec.engines.progress import Reporter

__all__ = ["CallbackSupport", "report_to_callbacks", "with_callbacks"]

F = TypeVar("F", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin."""

    def with_callbacks(method: F) -> F:
        """Return `method` as it is."""
        return method


def report_to_callbacks(estimator: Any, reporter: Reporter) -> Reporter:
    """`reporter`, or where the estimator has callbacks, one that tells both."""
    if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
        return _CallbackReporter(estimator, reporter)
    return reporter


class _CallbackReporter(Reporter):
    """Passes phases on as subtasks of the fit, and blocks as subtasks of their phase."""

    def __init__(self, estimator: Any, inner: Reporter) -> None:
        super().__init__()
        self._estimator, self._inner = estimator, inner
        self._lock = threading.Lock()
        self._root = estimator._init_callback_context(max_subtasks=None)
        self._root.call_on_fit_task_begin(estimator=estimator)
        self._phase: Any = None

    def begin_phase(self, name: str) -> None:
        self._inner.begin_phase(name)
        self._phase = self._root.subcontext(task_name=name, max_subtasks=None)
        self._phase.call_on_fit_task_begin(estimator=self._estimator)

    def end_phase(self, name: str, done: bool) -> None:
        self._inner.end_phase(name, done)
        if done:
            self._phase.call_on_fit_task_end(estimator=self._estimator)

    def begin_pass(self, total: int) -> None:
        self._inner.begin_pass(total)

    def advance(self) -> None:
        self._inner.advance()
        with self._lock:  # blocks end in several threads, contexts are numbered in one
            task = self._phase.subcontext(task_name="block")
            task.call_on_fit_task_begin(estimator=self._estimator)
            task.call_on_fit_task_end(estimator=self._estimator)

    def note(self, text: str) -> None:
        self._inner.note(text)

    def close(self) -> None:
        self._root.call_on_fit_task_end(estimator=self._estimator)
        self._inner.close()
