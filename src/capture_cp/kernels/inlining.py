"""A numba compiler for functions into which others are inlined.

An inlined call begins with a copy of each argument, and the copy of a tuple counts a reference to each of its arrays. Where
the inlined body has a loop, LLVM does not see that the counting comes to nothing, and it may cost as much as the work. Numba
takes such copies out of functions with `parallel=True` and leaves them in all others. A loop that threads share cannot
always hold inlined calls itself (on Python 3.12 numba's search for reductions in it may never end): it calls a function that
holds them, and this compiler takes the copies out of that one.
"""

from __future__ import annotations

from typing import Any

from numba.core.compiler import Compiler

try:
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.ir_utils import simplify
    from numba.core.typed_passes import InlineOverloads
except ImportError:  # another numba, built otherwise: without these, functions are slower and no less right
    WithoutCopies = Compiler
else:

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _DropCopies(FunctionPass):
        _name = "capture_cp_drop_copies"

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            simplify(state.func_ir, state.typemap, state.calltypes, {})
            return True

    class WithoutCopies(Compiler):  # type: ignore[no-redef]
        """Numba's own pipeline with one pass more, for `njit(pipeline_class=WithoutCopies)`."""

        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                pipeline.add_pass_after(_DropCopies, InlineOverloads)
                pipeline.finalize()
            return pipelines
