"""Small arrays on the stack of a compiled function: numba's own arrays cost an allocation each."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import carray
from numba.core import cgutils
from numba.extending import intrinsic, overload

types: Any = numba.types


def scratch(rows, columns):
    """An uninitialised float64 array (rows, columns) of constant size, valid until the calling function returns."""
    return np.empty((rows, columns))


@intrinsic(prefer_literal=True)
def _reserve(typing, count):
    def generate(context, builder, signature, arguments):
        number = context.get_value_type(types.float64)
        return cgutils.alloca_once(builder, number, size=context.get_constant(types.intp, count.literal_value))

    return types.CPointer(types.float64)(count), generate


@overload(scratch, prefer_literal=True, inline="always")
def _scratch(rows, columns):
    if isinstance(rows, types.IntegerLiteral) and isinstance(columns, types.IntegerLiteral):
        count = rows.literal_value * columns.literal_value

        def on_stack(rows, columns):
            return carray(_reserve(count), (rows, columns))  # type: ignore[call-arg]

        return on_stack
    return None
