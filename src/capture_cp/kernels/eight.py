"""Eight numbers at once, inside compiled code: for loops over a few particles, too short for LLVM to vectorise by itself.

An `eight` lives in a register, or in several on a CPU with narrower ones. `+`, `-` and `*` work with eights and numbers.
Indices are flat, into C-contiguous arrays, and are not checked: eight entries must follow.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import cgutils, types
from numba.core.cgutils import ir  # type: ignore[attr-defined]
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic as typed_intrinsic
from numba.extending import lower_builtin, register_model
from numba.np.arrayobj import make_array

#: As mypy sees it: a compiled call passes neither the typing context nor types.
intrinsic: Any = typed_intrinsic

EIGHT = 8
#: Labels that `alike` compares.
SIXTEEN = 16
_NUMBERS, _FLAGS = ir.VectorType(ir.DoubleType(), EIGHT), ir.VectorType(ir.IntType(1), EIGHT)
_INT = ir.IntType(32)


class Vector(types.Type):
    """The type of eight numbers, or of eight truth values."""

    def __init__(self, name: str, kind: Any) -> None:
        self.kind = kind
        super().__init__(name)


eight, flags = Vector("eight", _NUMBERS), Vector("flags", _FLAGS)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.kind)


def _at(context: Any, builder: Any, signature: Any, values: Any, kind: Any) -> Any:
    """Pointer to a vector in an array, the first argument of an intrinsic, from an index on, the second."""
    data = make_array(signature.args[0])(context, builder, values[0]).data
    return builder.bitcast(builder.gep(data, [values[1]]), kind.as_pointer())


def _repeated(builder: Any, value: Any, kind: Any) -> Any:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count))


@intrinsic
def load(typing, array, index):
    """The eight entries of an array of floats from an index on."""

    def build(context, builder, signature, values):
        found = builder.load(_at(context, builder, signature, values, _NUMBERS))
        found.align = 8
        return found

    return eight(array, types.intp), build


@intrinsic
def store(typing, array, index, value):
    """Write eight numbers into an array of floats from an index on."""

    def build(context, builder, signature, values):
        written = builder.store(values[2], _at(context, builder, signature, values, _NUMBERS))
        written.align = 8
        return context.get_dummy_value()

    return types.none(array, types.intp, eight), build


@intrinsic
def spread(typing, number):
    """Eight times the same number."""

    def build(context, builder, signature, values):
        return _repeated(builder, values[0], _NUMBERS)

    return eight(types.float64), build


@intrinsic
def plus(typing, a, b):
    """Sums."""

    def build(context, builder, signature, values):
        return builder.fadd(*values)

    return eight(eight, eight), build


@intrinsic
def minus(typing, a, b):
    """Differences."""

    def build(context, builder, signature, values):
        return builder.fsub(*values)

    return eight(eight, eight), build


@intrinsic
def times(typing, a, b):
    """Products."""

    def build(context, builder, signature, values):
        return builder.fmul(*values)

    return eight(eight, eight), build


@intrinsic
def root(typing, a):
    """Square roots."""

    def build(context, builder, signature, values):
        kind = ir.FunctionType(_NUMBERS, [_NUMBERS])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.v8f64"), values)

    return eight(eight), build


@intrinsic
def whole_below(typing, a):
    """The largest whole numbers not above those of a."""

    def build(context, builder, signature, values):
        kind = ir.FunctionType(_NUMBERS, [_NUMBERS])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.floor.v8f64"), values)

    return eight(eight), build


@intrinsic
def at_most(typing, a, b):
    """Which numbers are at most those of b; NaN is not."""

    def build(context, builder, signature, values):
        return builder.fcmp_ordered("<=", *values)

    return flags(eight, eight), build


@intrinsic
def chosen(typing, given, a, b):
    """Numbers of a where a flag is set, of b elsewhere."""

    def build(context, builder, signature, values):
        return builder.select(*values)

    return eight(flags, eight, eight), build


@intrinsic
def count(typing, given):
    """How many flags are set."""

    def build(context, builder, signature, values):
        return builder.zext(builder.ctpop(builder.bitcast(values[0], ir.IntType(EIGHT))), ir.IntType(64))

    return types.int64(flags), build


@intrinsic
def alike(typing, labels, index, label):
    """How many of SIXTEEN integers of an array, from an index on, equal a label, up to the first that differs."""

    def build(context, builder, signature, values):
        kind = ir.VectorType(context.get_value_type(signature.args[0].dtype), SIXTEEN)
        found = builder.load(_at(context, builder, signature, values, kind))
        found.align = signature.args[0].dtype.bitwidth // 8
        other = builder.icmp_signed("!=", found, _repeated(builder, values[2], kind))
        bits = builder.zext(builder.bitcast(other, ir.IntType(SIXTEEN)), _INT)
        ended = builder.or_(bits, ir.Constant(_INT, 1 << SIXTEEN))
        return builder.zext(builder.cttz(ended, ir.Constant(ir.IntType(1), 1)), ir.IntType(64))

    return types.int64(labels, types.intp, labels.dtype), build


def _with_operator(operated: Any, build: str) -> None:
    """Let an operator take eights, and numbers with them; `build` is the instruction."""

    class Typed(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if eight in args and all(kind == eight or isinstance(kind, types.Float) for kind in args):
                return signature(eight, *args)
            return None

    def lowered(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = zip(signature.args, values)
        return getattr(builder, build)(
            *(value if kind == eight else _repeated(builder, value, _NUMBERS) for kind, value in kinds)
        )

    infer_global(operated)(Typed)
    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        lower_builtin(operated, *kinds)(lowered)


_with_operator(operator.add, "fadd")
_with_operator(operator.sub, "fsub")
_with_operator(operator.mul, "fmul")
