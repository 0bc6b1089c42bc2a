"""Functions that compiled functions call are optimised once, as parts of those that Python calls.

Numba optimises each function and generates machine code for it, links the result into each function that calls it, and
optimises it there again, together with the caller. Code that lies five calls deep, two of them in a parallel loop, is
optimised five times and never runs on its own. Here a function that is compiled because another one calls it waits: it is
linked into its callers as it is, and is optimised on its own only if Python calls it after all. Optimising does not change
results, since numba does not allow LLVM to reorder arithmetic. Other programs' functions, and what they call, are compiled
as numba does.
"""

from __future__ import annotations

from typing import Any

import numba

#: Versions of numba whose internals are known to be as assumed here. With any other, nothing is changed, and compilation
#: takes longer.
KNOWN = {(0, 68)}

#: Compilers at work, the outermost of ours first. Numba's lock lets only one thread compile.
_at_work: list[Any] = []

try:
    from numba.core import codegen as codegens
    from numba.core.caching import NullCache
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen, RuntimeLinker
    from numba.core.compiler import CompilerBase
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.cpu import CPUContext
    from numba.core.dispatcher import Dispatcher
    from numba.core.environment import lookup_environment
    from numba.core.sigutils import normalize_signature
except ImportError:  # another version of numba: compilation takes longer

    def optimise_once(cache: type, ours: tuple[str, ...]) -> None:
        """Nothing can be changed here."""

else:
    _parse_bitcode: Any = vars(codegens)["ll"].parse_bitcode

    class Library(JITCodeLibrary):
        """Code of a function, which waits if the function is only a part of others so far."""

        waits = False
        unsaved = False  # whether the copy on disk is that of a library that waits

        def finalize(self) -> None:
            """Link the code, and optimise it unless it is a part of a function that is being compiled."""
            if not _at_work or _at_work[0].state.library is self:
                super().finalize()
                self._set_environments()
                return
            self._raise_if_finalized()
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalize_dynamic_globals()
            self._finalized = self.waits = True
            if any(entry.name.startswith(RuntimeLinker.PREFIX) for entry in self._final_module.global_variables):
                self.complete()  # functions that call each other are found by their addresses

        def complete(self) -> None:
            """Optimise the code and make it ready to run."""
            if self.waits:
                self._get_module_for_linking()  # a copy for further callers, who optimise it themselves
                self.waits, self.unsaved = False, True
                self._dynamic_globals.clear()
                self._optimize_final_module()
                self._final_module.verify()
                self._finalize_final_module()
                self._set_environments()

        def _set_environments(self) -> None:
            """Environments of the functions that this code has been made of; those that wait have no place for theirs."""
            for entry in self._final_module.global_variables:
                environment = lookup_environment(entry.name)
                if environment is not None:
                    codegen: Any = self._codegen
                    codegen.set_env(entry.name, environment)

        def get_pointer_to_function(self, name: str) -> int:
            self.complete()
            return int(super().get_pointer_to_function(name))

        def serialize_using_object_code(self) -> Any:
            return self.serialize_using_bitcode() if self.waits else super().serialize_using_object_code()

        @classmethod
        def _unserialize(cls, codegen: Any, state: Any) -> Any:
            if state[1] != "bitcode":
                return super()._unserialize(codegen, state)
            self = codegen.create_library(state[0])
            self.enable_object_caching()
            self._final_module = _parse_bitcode(state[2])
            self._finalize_dynamic_globals()
            self._finalized = self.waits = True
            return self

    class _Entry:
        """Stands for the machine code of a function that waits; keeps what refers to it alive."""

        def __init__(self, *kept: Any) -> None:
            self.kept = kept

    def optimise_once(cache: type, ours: tuple[str, ...]) -> None:
        """From now on, let functions wait that are parts of ours, kept on disk by such a cache or not at all.

        `ours` are prefixes of the names of modules.
        """
        version: Any = numba.version_info
        if version.short not in KNOWN or JITCPUCodegen._library_class is not JITCodeLibrary:
            return  # another numba, done before, or somebody else has changed it
        JITCPUCodegen._library_class = Library
        _note_compilers(ours)
        _let_entries_wait()
        _complete_when_called((cache, NullCache))

    def _note_compilers(ours: tuple[str, ...]) -> None:
        compiler: Any = CompilerBase
        run = compiler._compile_core

        def _compile_core(self: Any) -> Any:
            if not _at_work and not (self.state.func_id.func.__module__ or "").startswith(ours):
                return run(self)
            _at_work.append(self)
            try:
                return run(self)
            finally:
                _at_work.pop()

        compiler._compile_core = _compile_core

    def _let_entries_wait() -> None:
        context: Any = CPUContext
        codegen: Any = JITCPUCodegen
        get, put = context.get_executable, codegen.set_env

        def get_executable(self: Any, library: Any, fndesc: Any, env: Any) -> Any:
            library._ensure_finalized()
            if getattr(library, "waits", False) and _at_work:
                return _Entry(library, env)
            return get(self, library, fndesc, env)

        def set_env(self: Any, env_name: str, env: Any) -> None:
            if self._engine.is_symbol_defined(env_name):
                put(self, env_name, env)

        context.get_executable, codegen.set_env = get_executable, set_env

    def _complete_when_called(caches: tuple[type, ...]) -> None:
        dispatcher: Any = Dispatcher
        compile_it, add = dispatcher.compile, dispatcher.add_overload

        def add_overload(self: Any, cres: Any) -> None:
            if isinstance(cres.entry_point, _Entry):  # Python cannot call it
                self.overloads[tuple(cres.signature.args)] = cres
            else:
                add(self, cres)

        def compile(self: Any, sig: Any) -> Any:
            with global_compiler_lock:
                if not isinstance(self._cache, caches):
                    return _alone(compile_it, self, sig)
                if _at_work:
                    return compile_it(self, sig)
                _complete(self, sig)
                entry = compile_it(self, sig)
                _save(self, sig)
                return entry

        dispatcher.add_overload, dispatcher.compile = add_overload, compile

    def _alone(compile_it: Any, dispatcher: Any, sig: Any) -> Any:
        """Compile as if Python called it: programs without this package may read its code from disk."""
        others = _at_work[:]
        _at_work.clear()
        try:
            return compile_it(dispatcher, sig)
        finally:
            _at_work[:] = others

    def _complete(dispatcher: Any, sig: Any) -> None:
        """Make a function that waits callable from Python."""
        key = tuple(normalize_signature(sig)[0])
        found = dispatcher.overloads.get(key)
        if found is not None and isinstance(found.entry_point, _Entry):
            context = dispatcher.targetctx
            entry = context.get_executable(found.library, found.fndesc, found.environment)
            context.insert_user_function(entry, found.fndesc, [found.library])
            dispatcher.add_overload(found._replace(entry_point=entry))

    def _save(dispatcher: Any, sig: Any) -> None:
        """Save the machine code of a function that has waited."""
        found = dispatcher.overloads.get(tuple(normalize_signature(sig)[0]))
        if found is not None and getattr(found.library, "unsaved", False):
            found.library.unsaved = False
            dispatcher._cache.save_overload(sig, found)
