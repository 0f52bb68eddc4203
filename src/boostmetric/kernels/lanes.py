"""Vectors of eight float64: a type for compiled functions, and its operations.

Inside a kernel, ``a = load(x, i)`` takes the eight numbers ``x[i:i + 8]``, ``+ - * /`` work elementwise, and `store`
writes them back. Such a value is one register on the newest processors and several on older ones. The bits do not
depend on which, because nothing is reordered; only whether `multiply_add` rounds once or twice depends on the
processor.

numba only checks the file of a kernel itself to decide whether cached machine code is still valid. After changing this
file, or another one that kernels import from, touch the files of the kernels; the tests use their own cache.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model
from numpy.typing import NDArray

WIDTH = 8

_DOUBLE, _INT32, _INT64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, WIDTH)
_SINGLE = ir.VectorType(ir.FloatType(), WIDTH)
_BITS = ir.VectorType(_INT64, WIDTH)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel, and cache the machine code for the next process if there is a writable folder."""
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(nogil=True, error_model="numpy")(function)


part_of_kernel = njit(nogil=True, error_model="numpy", forceinline=True)


class _LanesType(types.Type):
    """Type of a vector of eight float64."""

    def __init__(self) -> None:
        super().__init__(name="float64x8")


LANES = _LanesType()


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: _LanesType) -> None:
        super().__init__(manager, type_, _VECTOR)


def _define_operator(operation: Callable[[Any, Any], Any], instruction: str) -> None:
    @infer_global(operation)
    class _Signature(ConcreteTemplate):
        cases = [signature(LANES, LANES, LANES)]  # noqa: RUF012

    @lower_builtin(operation, LANES, LANES)
    def _lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


_define_operator(operator.add, "fadd")
_define_operator(operator.sub, "fsub")
_define_operator(operator.mul, "fmul")
_define_operator(operator.truediv, "fdiv")


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [value] * WIDTH)


def _integers(value: int) -> ir.Constant:
    return ir.Constant(_BITS, [value] * WIDTH)


def _number(i: int) -> ir.Constant:
    return ir.Constant(_INT32, i)


def _repeated(builder: Any, scalar: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, scalar, _number(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, WIDTH), [0] * WIDTH))


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    type_ = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, type_, f"llvm.fmuladd.v{WIDTH}f64")
    return builder.call(function, [a, b, c])


def _across(builder: Any, vector: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine the eight numbers in pairs, and the results in pairs again."""
    parts = [builder.extract_element(vector, _number(i)) for i in range(WIDTH)]
    while len(parts) > 1:
        parts = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _data(context: Any, builder: Any, type_: Any, array: Any, *, may_be_single: bool = False) -> Any:
    dtypes = (types.float64, types.uint32, *([types.float32] if may_be_single else []))
    if type_.layout != "C" or type_.dtype not in dtypes:
        raise TypeError(f"Kernels need contiguous arrays of {', '.join(map(str, dtypes))}. Got {type_}")
    return context.make_array(type_)(context, builder, array).data


def _address(builder: Any, data: Any, i: Any, vector: Any = _VECTOR) -> Any:
    return builder.bitcast(builder.gep(data, [i]), vector.as_pointer())


def _loaded(builder: Any, type_: Any, data: Any, i: Any) -> Any:
    """Eight numbers of an array; those in single precision are converted."""
    if type_.dtype == types.float32:
        return builder.fpext(builder.load(_address(builder, data, i, _SINGLE), align=4), _VECTOR)
    return builder.load(_address(builder, data, i), align=8)


@intrinsic
def load(typing_context, array, i):
    """Load array[i:i + 8], which may be in single precision."""

    def codegen(context, builder, signature, args):
        type_ = signature.args[0]
        return _loaded(builder, type_, _data(context, builder, type_, args[0], may_be_single=True), args[1])

    return LANES(array, types.int64), codegen


@intrinsic
def store(typing_context, array, i, lanes):
    """Store lanes to array[i:i + 8], rounded if it is in single precision."""

    def codegen(context, builder, signature, args):
        type_, (array, i, lanes) = signature.args[0], args
        data = _data(context, builder, type_, array, may_be_single=True)
        if type_.dtype == types.float32:
            builder.store(builder.fptrunc(lanes, _SINGLE), _address(builder, data, i, _SINGLE), align=4)
        else:
            builder.store(lanes, _address(builder, data, i), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, LANES), codegen


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Columns of eight rows of eight numbers, by exchanging blocks of four, two and one."""
    for size in (4, 2, 1):
        low = [lane if not lane & size else WIDTH + lane - size for lane in range(WIDTH)]
        high = [lane + size if not lane & size else WIDTH + lane for lane in range(WIDTH)]
        masks = [ir.Constant(ir.VectorType(_INT32, WIDTH), mask) for mask in (low, high)]
        for i in range(WIDTH):
            if not i & size:
                pair = rows[i], rows[i + size]
                rows[i], rows[i + size] = (builder.shuffle_vector(*pair, mask) for mask in masks)
    return rows


@intrinsic
def store_columns(typing_context, array, numbers, p, n, width, k, out):
    """Store to out[8 j:8 j + 8] the column k + j, for j < 8, of the rows numbers[p], ..., numbers[p + n - 1].

    Up to eight rows are taken; if n is less, the last one again. Rows have `width` numbers. The numbers of rows are
    uint32 or int64, contiguous.
    """

    def codegen(context, builder, signature, args):
        type_, (_, _, p, n, width, k, _) = signature.args[0], args
        array = _data(context, builder, type_, args[0], may_be_single=True)
        numbers = context.make_array(signature.args[1])(context, builder, args[1]).data
        out = _data(context, builder, signature.args[6], args[6])
        rows = []
        for lane in range(WIDTH):
            wanted = ir.Constant(_INT64, lane)
            last = builder.sub(n, ir.Constant(_INT64, 1))
            lane_or_last = builder.select(builder.icmp_signed("<", wanted, last), wanted, last)
            row = builder.load(builder.gep(numbers, [builder.add(p, lane_or_last)]))
            row = row if signature.args[1].dtype.bitwidth == 64 else builder.zext(row, _INT64)
            rows.append(_loaded(builder, type_, array, builder.add(builder.mul(row, width), k)))
        for j, column in enumerate(_transposed(builder, rows)):
            builder.store(column, _address(builder, out, ir.Constant(_INT64, j * WIDTH)), align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(array, numbers, i, i, i, i, out), codegen


@intrinsic
def products_of_eight(typing_context, array, i, width, vector, k):
    """Inner products of eight rows of an array, the first beginning at its element i, with vector[k:k + width].

    To the same bits as the `total` of a `multiply_add` for each eight numbers of a row.
    """

    def codegen(context, builder, signature, args):
        (type_, _, _, vector_type, _), (_, i, width, _, k) = signature.args, args
        array, vector = (_data(context, builder, signature.args[j], args[j], may_be_single=True) for j in (0, 3))
        sums = [cgutils.alloca_once_value(builder, _constant(0.0)) for _ in range(WIDTH)]
        with cgutils.for_range_slice(builder, ir.Constant(_INT64, 0), width, ir.Constant(_INT64, WIDTH)) as (p, _):
            factor = _loaded(builder, vector_type, vector, builder.add(k, p))
            for row, sum_ in enumerate(sums):
                place = builder.add(builder.add(i, builder.mul(width, ir.Constant(_INT64, row))), p)
                value = _loaded(builder, type_, array, place)
                builder.store(_multiply_add(builder, value, factor, builder.load(sum_)), sum_)
        parts = _transposed(builder, [builder.load(sum_) for sum_ in sums])
        while len(parts) > 1:  # in the order of `total`
            parts = [builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    i64 = types.int64
    return LANES(array, i64, i64, vector, i64), codegen


@intrinsic
def store_past_cache(typing_context, array, i, lanes):
    """Store past the cache, for data not read again soon; the address must be a multiple of 64 bytes."""

    def codegen(context, builder, signature, args):
        address = _address(builder, _data(context, builder, signature.args[0], args[0]), args[1])
        stored = builder.store(args[2], address, align=8 * WIDTH)
        stored.set_metadata("nontemporal", builder.module.add_metadata([_number(1)]))
        return context.get_dummy_value()

    return types.void(array, types.int64, LANES), codegen


@intrinsic
def splat(typing_context, x):
    """Copy a number to all eight lanes."""

    def codegen(context, builder, signature, args):
        return _repeated(builder, args[0])

    return LANES(types.float64), codegen


@intrinsic
def multiply_add(typing_context, a, b, c):
    """Compute a * b + c, rounded once if the processor can."""

    def codegen(context, builder, signature, args):
        return _multiply_add(builder, *args)

    return LANES(LANES, LANES, LANES), codegen


@intrinsic
def larger(typing_context, a, b):
    """Larger of two numbers, in each lane."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return LANES(LANES, LANES), codegen


@intrinsic
def smaller(typing_context, a, b):
    """Smaller of two numbers, in each lane."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return LANES(LANES, LANES), codegen


@intrinsic
def at_least(typing_context, a, b):
    """1 where a >= b, else 0."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">=", *args), _constant(1.0), _constant(0.0))

    return LANES(LANES, LANES), codegen


@intrinsic
def any_at_least(typing_context, a, b):
    """Whether a >= b in any lane."""

    def codegen(context, builder, signature, args):
        mask = builder.bitcast(builder.fcmp_ordered(">=", *args), ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", mask, ir.Constant(ir.IntType(WIDTH), 0))

    return types.boolean(LANES, LANES), codegen


@intrinsic
def total(typing_context, lanes):
    """Sum of the eight numbers."""

    def codegen(context, builder, signature, args):
        return _across(builder, args[0], builder.fadd)

    return types.float64(LANES), codegen


@intrinsic
def largest(typing_context, lanes):
    """Largest of the eight numbers."""

    def codegen(context, builder, signature, args):
        return _across(builder, args[0], lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))

    return types.float64(LANES), codegen


def aligned_zeros(*shape: int, dtype: Any = np.float64) -> NDArray[Any]:
    """Zeros at an address that is a multiple of 64 bytes, so that each register's worth is in one cache line."""
    n_bytes, line = np.dtype(dtype).itemsize * math.prod(shape), 8 * WIDTH
    room = np.zeros(n_bytes + line, dtype=np.uint8)
    offset = -room.ctypes.data % line
    return room[offset : offset + n_bytes].view(dtype).reshape(shape)


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself if it is aligned and contiguous, else an aligned copy."""
    if array.ctypes.data % (8 * WIDTH) == 0 and array.flags.c_contiguous:
        return array
    copy = aligned_zeros(*array.shape, dtype=array.dtype)
    copy[:] = array
    return copy


# Rows of a matrix that `add_products` works on at once.
ROWS = 8


@intrinsic
def add_products(typing_context, matrix, row, row_length, columns, begin, end, values, width, first, out, place, step):
    """Multiply ROWS rows of a matrix by sixteen columns of `values` (two registers), and add the result to `out`.

    For r < ROWS, adds to ``out[place + r * step:][:16]`` the sum of
    ``matrix[row + r, columns[p]] * values[p, first:][:16]`` over begin <= p < end. Rows of the two matrices have
    `row_length` and `width` numbers.
    """

    def codegen(context, builder, signature, args):
        row, row_length, begin, end, width, first, place, step = (args[i] for i in (1, 2, 4, 5, 7, 8, 10, 11))
        matrix, columns, values, out = (_data(context, builder, signature.args[i], args[i]) for i in (0, 3, 6, 9))
        halves = [ir.Constant(_INT64, 0), ir.Constant(_INT64, WIDTH)]
        starts = [builder.mul(builder.add(row, ir.Constant(_INT64, r)), row_length) for r in range(ROWS)]
        sums = [[cgutils.alloca_once_value(builder, _constant(0.0)) for _ in range(2)] for _ in range(ROWS)]
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(_INT64, 1)) as (p, _):
            k = builder.zext(builder.load(builder.gep(columns, [p])), _INT64)
            begin_p = builder.add(builder.mul(p, width), first)
            both = [builder.load(_address(builder, values, builder.add(begin_p, half)), align=8) for half in halves]
            for start, pair in zip(starts, sums, strict=True):
                factor = _repeated(builder, builder.load(builder.gep(matrix, [builder.add(start, k)])))
                for value, total in zip(both, pair, strict=True):
                    builder.store(_multiply_add(builder, factor, value, builder.load(total)), total)
        for r, pair in enumerate(sums):
            target = builder.add(place, builder.mul(step, ir.Constant(_INT64, r)))
            for half, total in zip(halves, pair, strict=True):
                address = _address(builder, out, builder.add(target, half))
                builder.store(builder.fadd(builder.load(address, align=8), builder.load(total)), address, align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(matrix, i, i, columns, i, i, values, i, i, out, i, i), codegen


# Adding this constant to a float64 of modest size leaves its nearest integer in the low mantissa bits.
_ROUND = 6755399441055744.0  # 1.5 * 2**52
_ROUND_BITS = 0x4338000000000000
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 32 leading bits of ln 2, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
# Terms below e^-300 times the largest in their sum are set to 0: products of two of them could be subnormal, which
# makes processors many times slower.
_SMALLEST, _LARGEST = -300.0, 700.0
_EXP = (
    2.5110049204818658e-08,
    2.763265472252779e-07,
    2.755724088722987e-06,
    2.4801485441561313e-05,
    0.00019841269890076403,
    0.0013888888952352863,
    0.008333333333319589,
    0.04166666666648795,
    0.1666666666666668,
    0.5000000000000019,
    1.0,
    1.0,
)


@intrinsic
def exp(typing_context, x):
    """Exponential with relative error below 4e-16; 0 for x below -300, and exp(700) for x above 700.

    x = n ln 2 + r with abs(r) <= ln 2 / 2; exp(r) by its Chebyshev polynomial of degree 11 (error 3e-18), 2**n from its
    bits.
    """

    def codegen(context, builder, signature, args):
        (x,) = args
        low, high, rounding = _constant(_SMALLEST), _constant(_LARGEST), _constant(_ROUND)
        kept = builder.fcmp_ordered(">=", x, low)
        clipped = builder.select(kept, x, low)
        clipped = builder.select(builder.fcmp_ordered("<", clipped, high), clipped, high)
        shifted = _multiply_add(builder, clipped, _constant(_LOG2_E), rounding)
        n = builder.fsub(shifted, rounding)
        r = _multiply_add(builder, n, _constant(-_LN2_HIGH), clipped)
        r = _multiply_add(builder, n, _constant(-_LN2_LOW), r)
        polynomial = _constant(_EXP[0])
        for coefficient in _EXP[1:]:
            polynomial = _multiply_add(builder, polynomial, r, _constant(coefficient))
        exponent = builder.add(builder.bitcast(shifted, _BITS), _integers(1023 - _ROUND_BITS))
        power = builder.bitcast(builder.shl(exponent, _integers(52)), _VECTOR)
        return builder.select(kept, builder.fmul(polynomial, power), _constant(0.0))

    return LANES(LANES), codegen


# log(m) = 2 artanh(s) with s = (m - 1) / (m + 1): 2 s times this polynomial of s**2.
_ARTANH = tuple(1 / (2 * k + 1) for k in range(10, -1, -1))
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD


@intrinsic
def log(typing_context, x):
    """Logarithm of positive normal numbers with relative error below 1e-15.

    x = m 2**n with m between sqrt(1/2) and sqrt(2), from the bits of x.
    """

    def codegen(context, builder, signature, args):
        (x,) = args
        bits = builder.bitcast(x, _BITS)
        n = builder.ashr(builder.sub(bits, _integers(_ROOT_HALF_BITS)), _integers(52))
        m = builder.bitcast(builder.sub(bits, builder.shl(n, _integers(52))), _VECTOR)
        s = builder.fdiv(builder.fsub(m, _constant(1.0)), builder.fadd(m, _constant(1.0)))
        square = builder.fmul(s, s)
        polynomial = _constant(_ARTANH[0])
        for coefficient in _ARTANH[1:]:
            polynomial = _multiply_add(builder, polynomial, square, _constant(coefficient))
        power = builder.sitofp(n, _VECTOR)
        low = _multiply_add(builder, power, _constant(_LN2_LOW), builder.fmul(builder.fadd(s, s), polynomial))
        return _multiply_add(builder, power, _constant(_LN2_HIGH), low)

    return LANES(LANES), codegen
