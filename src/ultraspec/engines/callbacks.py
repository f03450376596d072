"""Callbacks of scikit-learn (1.9 and later): this module is the only one that knows of them.

`CallbackSupport` and `with_callbacks` do nothing on older versions. `CallbackReporter` informs the callbacks of an
estimator, such as scikit-learn's `ProgressBar`, of the phases and blocks that a reporter is informed of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ultraspec.engines.progress import Reporter

__all__ = ["CallbackReporter", "CallbackSupport", "with_callbacks"]

F = TypeVar("F", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """Empty substitute of scikit-learn's mixin."""

    def with_callbacks(method: F) -> F:
        """Return `method` unchanged."""
        return method


class CallbackReporter(Reporter):
    """Reports phases as subtasks of the fit, and blocks as subtasks of their phase.

    `context` is the callback context of the fit. The `inner` reporter is informed of everything, too.
    """

    def __init__(self, estimator: Any, context: Any, inner: Reporter) -> None:
        super().__init__()
        self._estimator = estimator
        self._inner = inner
        self._lock = threading.Lock()
        self._root = context
        self._root.call_on_fit_task_begin(estimator=estimator)
        self._phase: Any = None

    def begin_phase(self, name: str) -> None:
        """Begin a subtask of the fit."""
        self._inner.begin_phase(name)
        self._phase = self._root.subcontext(task_name=name, max_subtasks=None)
        self._phase.call_on_fit_task_begin(estimator=self._estimator)

    def end_phase(self, name: str, done: bool) -> None:
        """End the subtask of the phase, unless an exception ended it."""
        self._inner.end_phase(name, done)
        if done:
            self._phase.call_on_fit_task_end(estimator=self._estimator)

    def begin_pass(self, total: int) -> None:
        """Inform the inner reporter."""
        self._inner.begin_pass(total)

    def advance(self) -> None:
        """Begin and end the subtask of a block."""
        self._inner.advance()
        with self._lock:  # blocks end in several threads, contexts are numbered in one
            task = self._phase.subcontext(task_name="block")
            task.call_on_fit_task_begin(estimator=self._estimator)
            task.call_on_fit_task_end(estimator=self._estimator)

    def note(self, text: str) -> None:
        """Inform the inner reporter."""
        self._inner.note(text)

    def close(self) -> None:
        """End the task of the fit."""
        self._root.call_on_fit_task_end(estimator=self._estimator)
        self._inner.close()
