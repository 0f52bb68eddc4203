"""Rules of the layout that import-linter does not know: few loose modules, and one meaning for every name."""

import ast
from collections import Counter
from pathlib import Path

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
    assert len([path for path in SOURCE.iterdir() if (path / "__init__.py").exists()]) <= 23


def test_modules_on_the_path_of_a_fit_have_names_of_their_own():
    names = [path.stem for path in MODULES if path.relative_to(SOURCE).parts[0] in PATH_OF_A_FIT]
    assert repeated(name for name in names if name != "__init__") == {}


def test_classes_have_names_of_their_own():
    assert repeated(node.name for path in MODULES for node in defined(path, ast.ClassDef)) == {}


def test_types_of_arrays_are_named_once():
    targets = [
        target.id
        for path in MODULES
        for node in defined(path, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and ast.unparse(node.value).startswith("NDArray[")
    ]
    assert repeated(targets) == {}
