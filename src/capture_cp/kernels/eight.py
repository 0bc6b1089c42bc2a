"""Eight or sixteen numbers at once, inside compiled code: for loops over a few particles, too short for LLVM to vectorise.

An `eight` lives in a register, or in several on a CPU with narrower ones; `+`, `-` and `*` work with eights and numbers. A
`sixteen` is two of them: long calculations on two hide each other's latency. Indices are flat, into C-contiguous arrays,
and are not checked: as many entries must follow.
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

#: As mypy sees it: a compiled call passes neither the typing context nor types.
intrinsic: Any = typed_intrinsic

#: Whether the functions below can be called: numba leaves out the branches where it is False. Where Python runs a function
#: that is written for numba, see `planning.trial`, it is False.
HAS_VECTORS = True
EIGHT = 8
#: Labels that `alike` compares.
SIXTEEN = 16
_INT = ir.IntType(32)


class Vector(types.Type):
    """The type of several numbers, or of as many truth values."""

    def __init__(self, name: str, kind: Any, width: int) -> None:
        self.kind, self.width = ir.VectorType(kind, width), width
        super().__init__(name)


eight, sixteen = Vector("eight", ir.DoubleType(), EIGHT), Vector("sixteen", ir.DoubleType(), SIXTEEN)
_FLAGS = {numbers: Vector(f"flags of {numbers.name}", ir.IntType(1), numbers.width) for numbers in (eight, sixteen)}


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.kind)


def _at(context: Any, builder: Any, signature: Any, values: Any, kind: Any) -> Any:
    """Pointer to a vector in an array, the first argument of an intrinsic, from an index on, the second."""
    from numba.np.arrayobj import make_array  # of no use to code from disk, and slow to import

    data = make_array(signature.args[0])(context, builder, values[0]).data
    return builder.bitcast(builder.gep(data, [values[1]]), kind.as_pointer())


def _repeated(builder: Any, value: Any, kind: Any) -> Any:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count))


def _loaded(numbers: Vector) -> Any:
    def build(context, builder, signature, values):
        found = builder.load(_at(context, builder, signature, values, numbers.kind))
        found.align = 8
        return found

    return build


@intrinsic
def load(typing, array, index):
    """The eight entries of an array of floats from an index on."""
    return eight(array, types.intp), _loaded(eight)


@intrinsic
def load_sixteen(typing, array, index):
    """The sixteen entries of an array of floats from an index on."""
    return sixteen(array, types.intp), _loaded(sixteen)


@intrinsic
def store(typing, array, index, value):
    """Write a vector into an array of floats from an index on."""

    def build(context, builder, signature, values):
        written = builder.store(values[2], _at(context, builder, signature, values, value.kind))
        written.align = 8
        return context.get_dummy_value()

    return types.none(array, types.intp, value), build


@intrinsic
def spread(typing, number):
    """Eight times the same number."""

    def build(context, builder, signature, values):
        return _repeated(builder, values[0], eight.kind)

    return eight(types.float64), build


@intrinsic
def spread_sixteen(typing, number):
    """Sixteen times the same number."""

    def build(context, builder, signature, values):
        return _repeated(builder, values[0], sixteen.kind)

    return sixteen(types.float64), build


@intrinsic
def plus(typing, a, b):
    """Sums."""

    def build(context, builder, signature, values):
        return builder.fadd(*values)

    return a(a, a), build


@intrinsic
def minus(typing, a, b):
    """Differences."""

    def build(context, builder, signature, values):
        return builder.fsub(*values)

    return a(a, a), build


@intrinsic
def times(typing, a, b):
    """Products."""

    def build(context, builder, signature, values):
        return builder.fmul(*values)

    return a(a, a), build


@intrinsic
def over(typing, a, b):
    """Quotients."""

    def build(context, builder, signature, values):
        return builder.fdiv(*values)

    return a(a, a), build


@intrinsic
def root(typing, a):
    """Square roots."""

    def build(context, builder, signature, values):
        kind, name = ir.FunctionType(a.kind, [a.kind]), f"llvm.sqrt.v{a.width}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)

    return a(a), build


@intrinsic
def whole_below(typing, a):
    """The largest whole numbers not above those of a."""

    def build(context, builder, signature, values):
        kind, name = ir.FunctionType(a.kind, [a.kind]), f"llvm.floor.v{a.width}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)

    return a(a), build


@intrinsic
def at_most(typing, a, b):
    """Which numbers are at most those of b; NaN is not."""

    def build(context, builder, signature, values):
        return builder.fcmp_ordered("<=", *values)

    return _FLAGS[a](a, a), build


@intrinsic
def below(typing, a, b):
    """Which numbers are less than those of b; NaN is not."""

    def build(context, builder, signature, values):
        return builder.fcmp_ordered("<", *values)

    return _FLAGS[a](a, a), build


@intrinsic
def both(typing, given, other):
    """Flags that are set in both."""

    def build(context, builder, signature, values):
        return builder.and_(*values)

    return given(given, given), build


@intrinsic
def either(typing, given, other):
    """Flags that are set in one of two or in both."""

    def build(context, builder, signature, values):
        return builder.or_(*values)

    return given(given, given), build


@intrinsic
def bits(typing, given):
    """The flags as bits of an integer, the first one lowest."""

    def build(context, builder, signature, values):
        return builder.zext(builder.bitcast(values[0], ir.IntType(given.width)), ir.IntType(64))

    return types.uint64(given), build


@intrinsic
def sixteen_flags(typing, number):
    """The sixteen flags whose bits are set in an integer, the inverse of `bits`."""

    def build(context, builder, signature, values):
        return builder.bitcast(builder.trunc(values[0], ir.IntType(SIXTEEN)), _FLAGS[sixteen].kind)

    return _FLAGS[sixteen](types.uint64), build


@intrinsic
def chosen(typing, given, a, b):
    """Numbers of a where a flag is set, of b elsewhere."""

    def build(context, builder, signature, values):
        return builder.select(*values)

    return a(given, a, a), build


@intrinsic
def count(typing, given):
    """How many flags are set."""

    def build(context, builder, signature, values):
        return builder.zext(builder.ctpop(builder.bitcast(values[0], ir.IntType(given.width))), ir.IntType(64))

    return types.int64(given), build


def _lower(builder: Any, a: Any, b: Any, first: Any, second: Any) -> Any:
    """The lower of two choices of lanes from a and b together."""
    lanes = (ir.Constant(ir.VectorType(_INT, EIGHT), [*chosen]) for chosen in (first, second))
    parts = [builder.shuffle_vector(a, b, lane) for lane in lanes]
    return builder.select(builder.fcmp_ordered("<", *parts), *parts)


@intrinsic
def lowest(typing, a, b, c, d):
    """The lowest number of each of four vectors of sixteen that are free of NaN."""

    def build(context, builder, signature, values):
        halves, neighbours = (range(EIGHT), range(EIGHT, SIXTEEN)), (range(0, SIXTEEN, 2), range(1, SIXTEEN, 2))
        eights = [_lower(builder, value, value, *halves) for value in values]
        pairs = [_lower(builder, eights[i], eights[i + 1], *neighbours) for i in (0, 2)]
        fours = _lower(builder, pairs[0], pairs[1], *neighbours)
        lone = _lower(builder, fours, fours, *neighbours)
        found = [builder.extract_element(lone, ir.Constant(_INT, i)) for i in range(4)]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.float64, 4)(sixteen, sixteen, sixteen, sixteen), build


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
            *(value if kind == eight else _repeated(builder, value, eight.kind) for kind, value in kinds)
        )

    infer_global(operated)(Typed)
    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        lower_builtin(operated, *kinds)(lowered)


_with_operator(operator.add, "fadd")
_with_operator(operator.sub, "fsub")
_with_operator(operator.mul, "fmul")
