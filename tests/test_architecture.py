"""Rules of the layout that import-linter does not know: few loose modules, and one meaning for every name."""

import ast
import inspect
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from boostmetric import BoostMetric, ComparisonBoostMetric, Points

SOURCE = Path(__file__).parents[1] / "src" / "boostmetric"
MODULES = sorted(SOURCE.rglob("*.py"))
# What takes part in a fit of the estimators.
PATH_OF_A_FIT = (
    *("estimators", "solver", "engines", "gpu", "oracles", "tables", "evaluation"),
    *("comparisons", "neighbors", "metric", "arrays", "storage", "kernels", "parallel"),
)


def repeated(names):
    return {name: count for name, count in Counter(names).items() if count > 1}


def defined(path, kind):
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kind)]


def test_few_modules_are_loose():
    loose = [path.name for path in SOURCE.glob("*.py")]
    assert len(loose) <= 4, loose
    assert len([path for path in SOURCE.iterdir() if (path / "__init__.py").exists()]) <= 26


def test_modules_on_the_path_of_a_fit_have_names_of_their_own():
    names = [path.stem for path in MODULES if path.relative_to(SOURCE).parts[0] in PATH_OF_A_FIT]
    assert repeated(name for name in names if name != "__init__") == {}


def test_classes_have_names_of_their_own():
    ours = [path for path in MODULES if "metric_learn" not in path.parts]  # which has the names of another package
    assert repeated(node.name for path in ours for node in defined(path, ast.ClassDef)) == {}


def test_types_of_arrays_are_named_once():
    targets = [
        target.id
        for path in MODULES
        for node in defined(path, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and ast.unparse(node.value).startswith("NDArray[")
    ]
    assert repeated(targets) == {}


class Stack:
    """Remembers the functions of ours between `fit` and the loop."""

    def on_iteration(self, record):
        ours = [frame for frame in inspect.stack() if Path(frame.filename).is_relative_to(SOURCE)]
        names = [frame.function for frame in ours]
        self.between = names[names.index("boost") + 1 : names.index("fit")]
        return True


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("kind", ["labels", "passes", "comparisons"])
def test_few_frames_lie_between_fit_and_the_loop(kind, loss):
    y = np.arange(30) % 3
    X = np.random.default_rng(0).standard_normal((30, 3)) + y[:, None]
    stack = Stack()
    if kind == "comparisons":
        ComparisonBoostMetric(loss=loss, callbacks=[stack]).fit([[0, 1, 2], [3, 4, 5]], points=Points(X))
    else:
        BoostMetric.paper(loss=loss, n_passes=1 + (kind == "passes"), callbacks=[stack]).fit(X, y)
    assert len(stack.between) <= 4, stack.between


@pytest.mark.parametrize("kind", ["labels", "auto"])
def test_a_fit_changes_no_parameter(kind):
    y = np.arange(90) % 3
    X = np.random.default_rng(0).standard_normal((90, 3)) * [1, 5, 20] + 3 * y[:, None] * [1, 0, 0]
    metric = BoostMetric.recommended(random_state=0, n_passes=2) if kind == "auto" else BoostMetric.paper(max_iter=5)
    asked = metric.get_params()
    seen = []

    class Watch:
        def on_iteration(self, record):
            seen.append(metric.get_params())

    metric.set_params(callbacks=[Watch()]).fit(X, y, eval_set=(X, y))
    assert seen
    assert all({**params, "callbacks": None} == asked for params in (*seen, metric.get_params()))
