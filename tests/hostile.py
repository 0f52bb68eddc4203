"""Input that nobody would give on purpose, and what may come of it: a refusal, or a result that can be used.

`make test` tries a few dozen drawn inputs of each kind, always the same; `make fuzz` tries as many as BOOSTMETRIC_FUZZ
says, drawn with the seed that is given.
"""

import ast
import faulthandler
import functools
import os
import signal
import tempfile
import threading
import time
import traceback
import warnings
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import sklearn
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from scipy import sparse

import boostmetric

# docs/promises.md has this list for the users. ValueError has NotFittedError and TableError among its kinds.
REFUSALS = (ValueError, TypeError, FileNotFoundError, FileExistsError, ImportError)
SECONDS = 10.0  # of processor time, for one call

_N_CASES = os.environ.get("BOOSTMETRIC_FUZZ")
_OURS, _SKLEARN = (str(Path(package.__file__).parent) for package in (boostmetric, sklearn))


def cases(n):
    """Settings of a test with so many examples in `make test`."""
    return settings(
        max_examples=int(_N_CASES) if _N_CASES else n,
        derandomize=not _N_CASES,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class TooLong(BaseException):
    """Raised where it is: what takes long is then seen in the traceback."""


@contextmanager
def limited(seconds=SECONDS):
    """An error after so many seconds of work, and the end of the process after many that passed, as in a deadlock."""

    def stop(number, frame):
        raise TooLong(f"more than {seconds} s")

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of this process: on a busy machine more of the clock passes
    faulthandler.dump_traceback_later(30 * seconds, exit=True)
    begun = time.process_time()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if time.process_time() - begun > seconds:  # and the signal came where exceptions are lost
        raise TooLong(f"{time.process_time() - begun:.0f} s")


def attempt(call, *arguments, **options):
    """The answer, or None where it was refused; any other end, or a warning that is not meant for users, is an error.

    An exception of the right type may still be an accident, such as NumPy's "operands could not be broadcast": only
    those count that a `raise` of this package, or a check of scikit-learn, made.
    """
    with warnings.catch_warnings(), limited():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)  # ours, among them ConvergenceWarning
        # Those after scikit-learn 1.6 refuse them.
        warnings.filterwarnings("ignore", "Support for labels represented as bytes", FutureWarning)
        try:
            answer = call(*arguments, **options)
        except REFUSALS as error:
            check_refusal(error)
            event("refused")  # shown by --hypothesis-show-statistics
            return None
        event("answered")
        return answer


def check_refusal(error):
    """Whether an exception was meant, and says something."""
    text = str(error)
    assert len(text) >= 15, f"{type(error).__name__} says nothing: {text!r}"
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    if any(frame.filename.startswith(f"{_SKLEARN}{os.sep}utils") for frame in frames):
        return  # scikit-learn's checks of arrays let NumPy speak
    if "os.PathLike" in text:
        return  # pathlib's refusal of what is no path names both types
    meant = last.filename.startswith((_OURS, _SKLEARN)) and _raises(last.filename, last.lineno)
    assert meant, f"an accident, not a refusal: {type(error).__name__}: {text}, in {last.filename}:{last.lineno}"


@functools.cache
def _raise_lines(filename):
    tree = ast.parse(Path(filename).read_text(encoding="utf-8"))
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _raises(filename, line):
    return line in _raise_lines(filename)


def assert_metric(components, n_features=None):
    """A finite linear map, whose matrix is finite and positive semidefinite."""
    assert components.ndim == 2
    assert components.dtype == np.float64
    assert n_features is None or components.shape[1] == n_features
    assert np.isfinite(components).all()
    with np.errstate(over="ignore"):
        matrix = components.T @ components
    if np.isfinite(matrix).all():
        scaled = matrix / (np.abs(matrix).max() or 1.0)
        assert np.linalg.eigvalsh(scaled).min() >= -1e-9


# Numbers.

SPECIAL = [
    *(np.nan, np.inf, -np.inf, 5e-324, -5e-324, 2.3e-308, 1e-300, -1e-300, 1e300, -1e300, 1e-154, 1e154, 1.7e308),
    *(-1.7e308, 0.0, -0.0, 1e-12, 1e12, 2.0**53, 2.0**63),
]
seeds = st.integers(0, 2**32 - 1)


def seldom(draw, n):
    """True once in n times; not at an end of the range, which hypothesis likes best."""
    return draw(st.integers(0, n - 1)) == n // 2


def _spoil(draw, X):
    """The matrix with something odd about it, most often not so odd that it must be refused."""
    edit = draw(st.sampled_from(["none"] * 8 + ["values", "scale", "columns", "copies", "grid", "constant", "offset"]))
    if edit == "values" and X.size:
        for _ in range(draw(st.integers(1, 3))):
            X.flat[draw(st.integers(0, X.size - 1))] = draw(st.sampled_from(SPECIAL))
    elif edit == "scale":
        X = X * 10.0 ** draw(st.integers(-307, 305))
    elif edit == "columns" and X.size:
        X = X * 10.0 ** np.array([draw(st.integers(-300, 300)) for _ in range(X.shape[1])])
    elif edit == "copies" and len(X):
        X = X[np.arange(len(X)) % draw(st.integers(1, 3))]
    elif edit == "grid":
        X = np.round(X)
    elif edit == "constant" and X.size:
        X[:, draw(st.integers(0, X.shape[1] - 1))] = draw(st.sampled_from([0.0, 1.0, 1e300]))
    elif edit == "offset":
        X = X + 10.0 ** draw(st.integers(0, 20))
    return X


class Duck:
    """A data frame of some library that we do not know: columns, a shape, and a way to an array."""

    def __init__(self, X, names=None):
        self._X = X
        self.columns = names or [f"f{i}" for i in range(X.shape[1])]
        self.shape = X.shape

    def __len__(self):
        return len(self._X)

    def __array__(self, dtype=None, copy=None):
        return np.array(self._X, dtype=dtype)


class Faulty:
    """Says that it is an array, and is none."""

    shape = (4, 2)
    ndim = 2
    dtype = np.dtype(float)

    def __len__(self):
        return 4

    def __array__(self, dtype=None, copy=None):
        raise ValueError("this object only looks like an array")


def _memmap(X):
    if not X.size:
        return X
    with tempfile.NamedTemporaryFile() as file:
        mapped = np.memmap(file.name, dtype=X.dtype, mode="w+", shape=X.shape)
        mapped[:] = X
        return mapped


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _strided(X):
    wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _masked(X):
    return np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) % 3 == 0)


def _objects(X):
    mixed = X.astype(object)
    for place, value in zip(range(0, mixed.size, 2), [1, True, Fraction(1, 3), np.float32(2)], strict=False):
        mixed.flat[place] = value
    return mixed


def _objects_with_none(X):
    mixed = X.astype(object)
    if mixed.size:
        mixed.flat[-1] = None
    return mixed


def _frame(X, **more):
    import pandas as pd

    return pd.DataFrame(X, **more)


def _frame_with_text(X):
    frame = _frame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    return frame.assign(kind=["ä", "日本"] * (len(X) // 2) + ["x"] * (len(X) % 2))


def _frame_nullable(X):
    import pandas as pd

    return _frame(X).astype("Float64").where(_frame(np.arange(X.size).reshape(X.shape) % 4 != 1), pd.NA)


def _arrow(X):
    import pyarrow

    return pyarrow.table({f"f{i}": X[:, i] for i in range(X.shape[1])})


def _cast(dtype):
    def cast(X):
        with np.errstate(all="ignore"):
            return X.astype(dtype)

    return cast


def _whole(dtype):
    def cast(X):
        limits = np.iinfo(dtype)
        with np.errstate(all="ignore"):
            rounded = np.round(4 * np.nan_to_num(X, nan=0.0, posinf=3.0, neginf=-3.0))
            return np.clip(rounded, max(limits.min, -100), min(limits.max, 100)).astype(dtype)

    return cast


def _extreme_whole(X):
    return np.where(X > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)


GOOD_FORMS = {
    "float64": lambda X: X,
    "float32": _cast(np.float32),
    "fortran": np.asfortranarray,
    "strided": _strided,
    "reversed": lambda X: X[::-1, ::-1],
    "read-only": _read_only,
    "lists": lambda X: X.tolist(),
    "csr": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "frame": _frame,
    "memmap": _memmap,
}
ODD_FORMS = {
    "float16": _cast(np.float16),
    "longdouble": _cast(np.longdouble),
    **{np.dtype(d).name: _whole(d) for d in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64)},
    "uint64": _whole(np.uint64),
    "extreme int64": _extreme_whole,
    "bool": lambda X: X > 0,
    "complex": _cast(complex),
    "objects": _objects,
    "objects with None": _objects_with_none,
    "text": lambda X: X.astype(str),
    "words": lambda X: np.full(X.shape, "é"),
    "bytes": lambda X: np.full(X.shape, b"1.5"),
    "dates": lambda X: np.full(X.shape, np.datetime64("2020-01-01")),
    "records": lambda X: np.zeros(len(X), dtype=[("a", float), ("b", "U3")]),
    "big-endian": lambda X: X.astype(">f8"),
    "masked": _masked,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_array,
    "dok": sparse.dok_array,
    "sparse int": lambda X: sparse.csr_array(_whole(np.int8)(X)),
    "sparse complex": lambda X: sparse.csr_array(X.astype(complex)),
    "frame with text": _frame_with_text,
    "nullable frame": _frame_nullable,
    "frame of one name": lambda X: _frame(X, columns=["f"] * X.shape[1]),
    "arrow": _arrow,
    "duck": Duck,
    "faulty": lambda X: Faulty(),
    "0-d": lambda X: np.float64(1.5),
    "1-d": lambda X: X.ravel(),
    "3-d": lambda X: X[:, :, None],
    "4-d": lambda X: X[None, None],
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "one row": lambda X: X[:1],
    "ragged": lambda X: [list(row[: 1 + i % 2]) for i, row in enumerate(X.tolist())],
    "nested too deep": lambda X: [[[[X.tolist()]]]],
    "iterator": lambda X: iter(X.tolist()),
    "set": lambda X: {1.0, 2.0},
    "dictionary": lambda X: {"X": X},
    "None": lambda X: None,
    "word": lambda X: "points",
    "number": lambda X: 7,
    "class": lambda X: np.ndarray,
}


@st.composite
def matrices(draw, rows=None, columns=None, odd=True):
    """Something in the place of points: shape, numbers and form are drawn."""
    n = draw(st.one_of(*[st.integers(8, 16)] * 7, st.integers(0, 7)) if rows is None else rows)
    d = draw(st.sampled_from([2, 2, 2, 1, 3, 4, 20]) if columns is None else columns)
    X = np.random.default_rng(draw(seeds)).standard_normal((n, d))
    if odd:
        with np.errstate(all="ignore"):
            X = _spoil(draw, X)
    forms = GOOD_FORMS
    if odd and seldom(draw, 7):
        forms = ODD_FORMS
    name = draw(st.sampled_from(sorted(forms)))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return forms[name](X)


def size_of(X, default=6):
    """How many points there seem to be."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    return len(X) if isinstance(X, list) and X else default


WORDS = ["a", "b", "日本", "é", "e\u0301", "\U0001f600", "", " ", "\x00", "nan", "1", "\ud800", "a" * 300]


def _series(y):
    import pandas as pd

    return pd.Series(y)


def _category(y):
    import pandas as pd

    return pd.Categorical(y.astype(str))


LABEL_FORMS = {
    "int64": lambda y: y,
    "int8": lambda y: y.astype(np.int8),
    "uint64": lambda y: y.astype(np.uint64) + np.uint64(2**63),
    "text": lambda y: np.array(["a", "b", "é"])[y % 3],
    "list": lambda y: y.tolist(),
    "bool": lambda y: y > 0,
    "whole floats": lambda y: y.astype(float),
    "unicode": lambda y: [WORDS[i % len(WORDS)] for i in y],
    "objects": lambda y: np.array(["a", "b", "日本"], dtype=object)[y % 3],
    "series": _series,
    "category": _category,
    "column": lambda y: y[:, None],
}
ODD_LABEL_FORMS = {
    "floats": lambda y: y + 0.5,
    "huge": lambda y: y * 1e300,
    "nan": lambda y: np.where(y > 0, np.nan, 1.0),
    "inf": lambda y: np.where(y > 0, np.inf, 1.0),
    "None inside": lambda y: np.where(y > 0, None, "a"),
    "mixed": lambda y: [0 if i else "a" for i in y],
    "tuples": lambda y: [(int(i), "a") for i in y],
    "lists": lambda y: [[int(i)] * (1 + int(i)) for i in y],
    "complex": lambda y: y + 1j,
    "dates": lambda y: np.datetime64("2020-01-01") + y.astype("timedelta64[D]"),
    "bytes": lambda y: y.astype("S3"),
    "longer": lambda y: np.append(y, 0),
    "shorter": lambda y: y[:-1],
    "two columns": lambda y: np.stack([y, y], axis=1),
    "all one": np.zeros_like,
    "all different": lambda y: np.arange(len(y)),
    "empty": lambda y: y[:0],
    "None": lambda y: None,
    "word": lambda y: "labels",
    "number": lambda y: 3,
    "0-d": lambda y: np.array(1),
    "dictionary": lambda y: dict(enumerate(y)),
    "iterator": lambda y: iter(y),
    "sparse": lambda y: sparse.csr_array(y[None]),
    "masked": lambda y: np.ma.masked_array(y, mask=y > 0),
}


@st.composite
def labels(draw, n):
    """Something in the place of n labels."""
    y = np.random.default_rng(draw(seeds)).integers(draw(st.sampled_from([2, 2, 3, 4, 1])), size=n)
    forms = ODD_LABEL_FORMS if seldom(draw, 8) else LABEL_FORMS
    return forms[draw(st.sampled_from(sorted(forms)))](y)


WEIGHT_FORMS = {
    "none": lambda w: None,
    "ones": np.ones_like,
    "weights": lambda w: w,
    "whole": lambda w: np.round(3 * w).astype(np.int8),
    "zeros": np.zeros_like,
    "some": lambda w: np.where(w > 0.5, w, 0.0),
    "list": lambda w: w.tolist(),
    "tiny": lambda w: w * 1e-300,
    "denormal": lambda w: w * 1e-310,
    "huge": lambda w: w * 1e300,
    "large": lambda w: w * 1e99,
    "negative": lambda w: -w,
    "nan": lambda w: w * np.nan,
    "inf": lambda w: w / 0.0,
    "text": lambda w: w.astype(str),
    "complex": lambda w: w * 1j,
    "column": lambda w: w[:, None],
    "longer": lambda w: np.append(w, 1.0),
    "number": lambda w: 2.0,
    "word": lambda w: "balanced",
    "objects": lambda w: w.astype(object),
    "None inside": lambda w: [None] * len(w),
    "dictionary": lambda w: {0: 1.0},
}


@st.composite
def weights(draw, n):
    """Something in the place of n weights; most often none."""
    name = draw(st.sampled_from(["none"] * 60 + sorted(WEIGHT_FORMS)))
    with np.errstate(all="ignore"):
        return WEIGHT_FORMS[name](np.random.default_rng(draw(seeds)).random(n))


def _contradicting(t):
    return np.concatenate([t, t[:, [0, 2, 1] if t.shape[1] == 3 else list(range(t.shape[1]))[::-1]]])


ROW_FORMS = {
    "int64": lambda t: t,
    "int8": lambda t: t.astype(np.int8),
    "uint64": lambda t: t.astype(np.uint64),
    "lists": lambda t: t.tolist(),
    "contradicting": _contradicting,
    "repeated": lambda t: np.concatenate([t] * 3),
    "fortran": np.asfortranarray,
    "read-only": _read_only,
    "frame": _frame,
}
ODD_ROW_FORMS = {
    "objects": lambda t: t.astype(object),
    "floats": lambda t: t.astype(float),
    "nan": lambda t: np.where(t == 0, np.nan, t),
    "text": lambda t: t.astype(str),
    "bool": lambda t: t > 0,
    "complex": lambda t: t + 0j,
    "beyond": lambda t: t + 3,
    "negative": lambda t: t - 1,
    "huge": lambda t: t + 2**40,
    "largest": lambda t: t.astype(np.uint64) + np.uint64(2**64 - 100),
    "with itself": lambda t: np.zeros_like(t),
    "one column more": lambda t: np.concatenate([t, t[:, :1]], axis=1),
    "one column less": lambda t: t[:, 1:],
    "many columns": lambda t: np.concatenate([t] * 3, axis=1),
    "flat": np.ravel,
    "3-d": lambda t: t[:, :, None],
    "points": lambda t: np.stack([t * 0.7, t**2 * 0.1], axis=2),
    "empty": lambda t: t[:0],
    "empty list": lambda t: [],
    "empty lists": lambda t: [[], []],
    "ragged": lambda t: [row[: 2 + i % 2] for i, row in enumerate(t.tolist())],
    "None": lambda t: None,
    "word": lambda t: "triplets",
    "number": lambda t: 5,
    "iterator": lambda t: iter(t.tolist()),
    "sparse": sparse.csr_array,
    "masked": _masked,
    "records": lambda t: np.zeros(len(t), dtype=[("a", int), ("b", int), ("c", int)]),
    "faulty": lambda t: Faulty(),
}


@st.composite
def rows(draw, width, n_points):
    """Something in the place of rows of point numbers, such as triplets."""
    rng = np.random.default_rng(draw(seeds))
    n_points = max(n_points, width)
    drawn = [rng.permutation(n_points)[:width] for _ in range(draw(st.integers(1, 12)))]
    forms = ODD_ROW_FORMS if seldom(draw, 6) else ROW_FORMS
    return forms[draw(st.sampled_from(sorted(forms)))](np.array(drawn))


ODD_VALUES = [
    0,
    -1,
    10**30,
    1.5,
    2.0,
    np.nan,
    np.inf,
    -np.inf,
    "3",
    "auto",
    b"x",
    None,
    True,
    [1],
    (),
    {},
    np.array([1, 2]),
]


def values(*good):
    """A parameter: mostly one of these, sometimes what it cannot be."""
    return st.integers(0, 14).flatmap(lambda n: st.sampled_from(ODD_VALUES if n == 7 else list(good)))
