"""Fits to comparisons in files, read by this process or by the workers of a cluster."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from boostmetric.arrays.frame import Given
from boostmetric.engines.backend import SharingBackend
from boostmetric.estimators.boosting import Boosting
from boostmetric.metric.starts import starting_components
from boostmetric.solver.file_problem import FileProblem
from boostmetric.solver.passes import Found
from boostmetric.solver.problem import Learnable, Problem, satisfied
from boostmetric.tables.comparison_files import ComparisonFiles, OpenedFiles


class FromFiles(Boosting):
    """A metric learned from comparisons, which may be in files."""

    _pairs: Any = None
    _points: Any = None

    def _fit_files(
        self, files: ComparisonFiles, y: Any, points: Any, sample_weight: Any, eval_set: Any, resume_from: Any
    ) -> Self:
        for name, value in (("y", y), ("points", points), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(f"{name} is given beside files, which bring their own. Leave it out.")
        if eval_set is not None and not isinstance(eval_set, ComparisonFiles):
            raise TypeError(f"eval_set must be ComparisonFiles too. Got {type(eval_set).__name__}.")
        problem, like = self._problem_in(files, reset=not self._goes_on(resume_from))
        held_out = None if eval_set is None else self._problem_in(eval_set, reset=False)[0]
        self._pairs = self._points = None
        self.__dict__.pop("threshold_", None)
        self._learn_from(Found(problem, held_out), like, (files, None), resume_from)
        return self

    def _problem_in(self, files: ComparisonFiles, *, reset: bool) -> tuple[Learnable, Given]:
        """What is in files; and its points, or none where workers have them, of the same features."""
        if isinstance(self.engine, (str, SharingBackend)):
            opened = files.opened()
            return FileProblem(opened), self._like_files(opened, reset=reset)
        given, comparisons = files.read()
        points = self._check_points(given, reset=reset)
        return Problem(points, comparisons), points

    def _like_files(self, files: OpenedFiles, *, reset: bool) -> Given:
        """No points, of the features that are in files: checked as points are."""
        if isinstance(self.init, str) and self.init == "standardized":
            raise ValueError(
                'init="standardized" needs the spread of all points, which lie with the workers. Standardize the '
                'points before they are written, or set init="identity".'
            )
        n_features, names = files.n_features, files.feature_names
        if reset:
            self.n_features_in_ = n_features
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
        elif names is not None and hasattr(self, "feature_names_in_") and names != self.feature_names_in_.tolist():
            raise ValueError(
                f"The points have the features {names}, but the metric was learned with "
                f"{self.feature_names_in_.tolist()}. Name the columns in the same order (columns)."
            )
        elif n_features != self.n_features_in_:
            raise ValueError(
                f"The points have {n_features} features, but the metric was learned with {self.n_features_in_}. Give "
                "the points in the same features."
            )
        self._check_n_components(n_features)
        return np.empty((0, n_features))

    def _score_files(self, files: ComparisonFiles) -> float:
        problem, like = self._problem_in(files, reset=False)
        return satisfied(problem, self.components_, self._backend(like))

    def _learn_from(self, found: Found, points: Given, fit_data: tuple[object, object], resume_from: Any) -> None:
        self._learn(
            lambda _: found,
            starting_components(self.init, points),
            [self.max_iter],
            resume_from,
            fit_data,
            backend=self._backend(points),
            solver=self.solver,
            hold_out=self.early_stopping,
            converges=True,
        )

    @abstractmethod
    def _check_points(self, points: Any, *, reset: bool) -> Given:
        """Points as they are needed, or an error."""
