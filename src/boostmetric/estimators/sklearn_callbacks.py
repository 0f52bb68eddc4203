"""scikit-learn's own callback protocol (since version 1.9), beside ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from boostmetric.solver.result import Iteration, Progress

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Method) -> Method:
        """The method as it is."""
        return method


class SklearnCallbacks:
    """Passes iterations on to the callbacks set with ``estimator.set_callbacks``.

    Parameters
    ----------
    estimator : estimator
        Its `fit` must be decorated with `with_callbacks`.
    X, y : object
        The data given to `fit`.
    max_iter : int
        Most iterations.
    attributes : callable
        From the `Progress` so far, the fitted attributes that the estimator would have if the fit ended there.
    """

    def __init__(
        self,
        estimator: Any,
        X: object,
        y: object,
        max_iter: int,
        attributes: Callable[[Progress], dict[str, Any]],
    ) -> None:
        self._known: dict[str, Any] = {"estimator": estimator, "X": X, "y": y}
        self._attributes = attributes
        self._fit = estimator._init_callback_context(max_subtasks=max_iter)

    def __enter__(self) -> SklearnCallbacks:
        self._fit.call_on_fit_task_begin(**self._known)
        return self

    def on_iteration(self, record: Iteration) -> bool:
        """Report one iteration as a subtask."""
        task = self._fit.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(**self._known)

        def attributes() -> dict[str, Any]:
            assert record.so_far is not None
            return self._attributes(record.so_far())

        return bool(task.call_on_fit_task_end(**self._known, reconstruction_attributes=attributes))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._fit.call_on_fit_task_end(**self._known)
