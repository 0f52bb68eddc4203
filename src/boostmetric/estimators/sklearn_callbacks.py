"""scikit-learn's own callback protocol (since version 1.9), beside ours.

What implements it, with all of scikit-learn's callbacks, its scores and rich, is imported when a callback is set.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from boostmetric.solver.result import Iteration, Progress

Method = TypeVar("Method", bound=Callable[..., Any])

_EXISTS = find_spec("sklearn.callback") is not None


class CallbackSupportMixin:
    """scikit-learn's mixin of this name; before its version 1.9, nothing to support."""

    if _EXISTS:

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Set callbacks of scikit-learn's protocol.

            Parameters
            ----------
            *callbacks : callback instances

            Returns
            -------
            self
            """
            from sklearn.callback import CallbackSupportMixin as Supported

            return Supported.set_callbacks(self, *callbacks)

        def _init_callback_context(self, *arguments: Any, **options: Any) -> Any:
            from sklearn.callback import CallbackSupportMixin as Supported

            return Supported._init_callback_context(self, *arguments, **options)


def is_watched(estimator: Any) -> bool:
    """Whether callbacks of scikit-learn's protocol are set, for the estimator or for one that fits it."""
    return hasattr(estimator, "_skl_callbacks") or hasattr(estimator, "_parent_callback_ctx")


def with_callbacks(method: Method) -> Method:
    """scikit-learn's decorator of this name, for estimators with callbacks; without any, the method as it is."""

    @functools.wraps(method)
    def managed(estimator: Any, *arguments: Any, **options: Any) -> Any:
        if not is_watched(estimator):
            return method(estimator, *arguments, **options)
        from sklearn.callback import with_callbacks as decorated

        return decorated(method)(estimator, *arguments, **options)

    return cast(Method, managed)


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
