"""Sixteen float32 at a time inside compiled loops, held in registers over an inner loop.

The compiler cannot know that rows of an array do not overlap, so it stores a running sum to memory and reads it back in
every turn; a value of this type stays in a register. It becomes what the processor has: one AVX-512 register, two of
AVX2, four of SSE or NEON. Numba's cache of the loops does not notice a change of this file: touch them too.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INDEX = ir.IntType(32)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


@register_model(_Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


lanes = _Lanes()


@intrinsic
def load(_, array, at):  # type: ignore[no-untyped-def]
    """array[at : at + LANES]; there is no check of bounds."""
    return lanes(array, types.intp), lambda *given: given[1].load(_place(*given), align=4)


@intrinsic
def store(_, array, at, value):  # type: ignore[no-untyped-def]
    def make(*given):  # type: ignore[no-untyped-def]
        context, builder, _, args = given
        builder.store(args[2], _place(*given), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), make


@intrinsic
def spread(_, x):  # type: ignore[no-untyped-def]
    """One number in all lanes."""

    def make(_, builder, __, args):  # type: ignore[no-untyped-def]
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(first, nothing, _order([0] * LANES))

    return lanes(types.float32), make


@intrinsic
def add(_, a, b):  # type: ignore[no-untyped-def]
    return lanes(lanes, lanes), lambda _, builder, __, args: builder.fadd(*args)


@intrinsic
def multiply(_, a, b):  # type: ignore[no-untyped-def]
    return lanes(lanes, lanes), lambda _, builder, __, args: builder.fmul(*args)


@intrinsic
def multiply_add(_, a, b, c):  # type: ignore[no-untyped-def]
    """a * b + c"""

    def make(_, builder, __, args):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        name = f"llvm.fmuladd.v{LANES}f32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

    return lanes(lanes, lanes, lanes), make


@intrinsic
def where_positive(_, v, yes, no):  # type: ignore[no-untyped-def]
    def make(_, builder, __, args):  # type: ignore[no-untyped-def]
        above = builder.fcmp_ordered(">", args[0], ir.Constant(_VECTOR, [0.0] * LANES))
        return builder.select(above, args[1], args[2])

    return lanes(lanes, lanes, lanes), make


@intrinsic
def total(_, v):  # type: ignore[no-untyped-def]
    def make(_, builder, __, args):  # type: ignore[no-untyped-def]
        value, half = args[0], LANES // 2
        while half:
            turned = builder.shuffle_vector(value, value, _order([(lane + half) % LANES for lane in range(LANES)]))
            value, half = builder.fadd(value, turned), half // 2
        return builder.extract_element(value, ir.Constant(_INDEX, 0))

    return types.float32(lanes), make


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.bitcast(builder.gep(array.data, [args[1]]), _VECTOR.as_pointer())


def _order(places: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(_INDEX, LANES), places)
