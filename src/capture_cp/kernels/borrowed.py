"""Arrays whose references are not counted, for loops that pass tuples of them on."""

from __future__ import annotations

from typing import Any

import numba
from numba.extending import intrinsic, overload

types: Any = numba.types


def borrowed(arrays: Any) -> Any:
    """An array, or a tuple of arrays and numbers, whose references are not counted: they must outlive the function.

    Numba counts a reference whenever a tuple is passed on, for each array in it, atomically. In a loop with inlined calls
    this costs more than the work: the scalar model of the marble takes 20 ms of a plan rather than 108 ms. Use it once, in
    the first line of a function with such a loop. On a GPU and in Python nothing is counted, and nothing changes.
    """
    return arrays


@overload(borrowed)
def _unchanged(arrays):
    return lambda arrays: arrays


@overload(borrowed, target="cpu")
def _borrowed(arrays):
    return lambda arrays: _without_owners(arrays)  # type: ignore[call-arg]


@intrinsic
def _without_owners(typing, arrays):
    def build(context, builder, signature, values):
        return _without_owner(builder, arrays, values[0])

    return arrays(arrays), build


def _without_owner(builder: Any, kind: Any, value: Any) -> Any:
    """The value with null for the owner of the memory of each array, which is the first field of an array."""
    if isinstance(kind, types.Array):
        return builder.insert_value(value, value.type.elements[0](None), 0)
    for i, part in enumerate(kind.types if isinstance(kind, types.BaseTuple) else ()):
        if isinstance(part, types.Array | types.BaseTuple):
            value = builder.insert_value(value, _without_owner(builder, part, builder.extract_value(value, i)), i)
    return value
