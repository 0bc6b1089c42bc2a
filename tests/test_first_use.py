"""The first use: what is imported, what is compiled by whom, and that nothing is left behind."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import subprocess
import sys
import types

import numba
import pytest

from capture_cp.base import notices
from capture_cp.kernels import cached_code, compiler
from capture_cp.kernels.compile_once import Turn
from capture_cp.kernels.nearest import kth_nearest
from capture_cp.tasks.marble.maps import load_map

LONG = 300  # seconds after which a process that has not ended has failed
SYSTEM = "numpy", "numba", "scipy.special", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib"


def imported(program, *arguments):
    """Packages of `SYSTEM` that a program has imported when it ends."""
    found = f"[name for name in {SYSTEM} if name in sys.modules]"
    report = f"import atexit, sys; atexit.register(lambda: print(*{found}, file=sys.stderr))"
    command = [sys.executable, "-c", f"{report}\n{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("given", ["--help", "--version", "nonsense"])
def test_pages_that_need_no_numbers_import_no_numerical_package(given):
    assert imported("from capture_cp.cli import main; main()", given) == set()


@pytest.mark.parametrize("given", [("demo", "--help"), ("plan", "marble", "--help"), ("calibrate", "--help")])
def test_help_of_a_command_imports_no_statistics(given):
    assert imported("from capture_cp.cli import main; main()", *given) <= {"numpy", "numba"}


@pytest.mark.parametrize("names", ["Capture, GridStrata, Tree", "HorizonCapture, SE3", "Monitor", "fit_log", "certify"])
def test_the_method_imports_neither_statistics_nor_the_compiler(names):
    assert imported(f"from capture_cp import {names}") == {"numpy"}


# -- the compiler ---------------------------------------------------------------------------------------------------------

ASSEMBLY = """
import pickle, sys
import numba
from capture_cp.kernels import compile_time
if "as numba does" in sys.argv:
    compile_time._make_copies_cheap = lambda: None
from capture_cp.tasks.marble.contact import push_out
push_out.compile((numba.float64,) * 4 + (numba.typeof(pickle.load(open(sys.argv[1], "rb"))),))
(text,) = push_out.inspect_asm().values()
print(text)
"""


def test_code_compiled_with_cheap_copies_is_the_same(tmp_path):
    """For a function with inlined ones in inlined ones."""
    found, geometry = [], tmp_path / "geometry"
    geometry.write_bytes(pickle.dumps(load_map("top-center").geometry))
    for how in ("as numba does", "with cheap copies"):
        where = {"NUMBA_CACHE_DIR": str(tmp_path / how)}
        command = [sys.executable, "-c", ASSEMBLY, str(geometry), how]
        found.append(subprocess.run(command, env=os.environ | where, capture_output=True, text=True, check=True).stdout)
    assert len(found[0]) > 1000
    assert found[0] == found[1]


def test_garbage_is_collected_again_after_a_compilation():
    assert numba.njit(lambda x: x + 2)(1) == 3
    assert gc.isenabled()
    with pytest.raises(numba.core.errors.TypingError):
        numba.njit(lambda x: x.missing)(1)
    assert gc.isenabled()


ONE_KERNEL = """
from numba.core import event
from capture_cp.kernels.nearest import kth_nearest
import numpy as np
with event.install_recorder("numba:compile") as seen:
    kth_nearest(0, 1.0, 1, np.zeros((4, 2)), np.zeros((4, 3, 2)))
names = [entry.data["dispatcher"].py_func.__name__ for _, entry in seen.buffer if entry.is_start]
print(names.count("kth_nearest"))
"""


def test_two_processes_compile_a_kernel_once(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", ONE_KERNEL]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(int(process.communicate(timeout=LONG)[0]) for process in both) == [0, 1]
    assert not list(tmp_path.rglob("*.lock"))


FROM_DISK = """
import sys
import numpy as np
from capture_cp.kernels.nearest import kth_nearest
found = kth_nearest(0, 1.0, 1, np.zeros((4, 2)), np.ones((4, 3, 2)))
print(found.tolist(), "numba.np.linalg" in sys.modules)
"""


def test_code_from_disk_is_loaded_without_what_compiling_needs(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FROM_DISK]
    compiled, loaded = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.rpartition(" ")
        for _ in range(2)
    )
    assert compiled[0] == loaded[0] == str([2**0.5] * 4)
    assert compiled[2] == "True\n"
    assert loaded[2] == f"{numba.version_info.short not in cached_code.KNOWN}\n"


def test_code_with_a_users_function_is_loaded_as_numba_does():
    own = types.ModuleType("capture_rollout_test")
    exec("def kernel(x):\n    return step(x)\n", vars(own))
    vars(own)["step"] = kth_nearest
    assert cached_code._calls_only_ours(kth_nearest.py_func)
    assert cached_code._calls_only_ours(own.kernel)
    vars(own)["step"] = numba.njit(lambda x: x)  # of this module
    assert not cached_code._calls_only_ours(own.kernel)


def test_a_turn_ends_when_a_compilation_fails(tmp_path, monkeypatch):
    mark, taken = tmp_path / "kernel.lock", []

    def take(turn, file):
        taken.append(file)
        turn._held = os.open(mark, os.O_RDWR | os.O_CREAT), mark

    monkeypatch.setattr(Turn, "take", take)

    def wrong(x):
        return x.missing

    wrong.__module__ = "capture_cp.test"
    with pytest.raises(numba.core.errors.TypingError):
        numba.njit(cache=True)(wrong)(1)
    assert len(taken) == 1
    assert compiler._TURN._held is None
    assert not mark.exists()
    assert not notices.is_compiling()


def test_a_turn_needs_no_folder(tmp_path):
    turn = Turn()
    turn.take(tmp_path / "missing" / "kernel.lock")
    turn.give_back()


# -- parts of kernels -----------------------------------------------------------------------------------------------------


#: With a numba that is not known, parts are compiled as numba does.
known = pytest.mark.skipif(compiler.Dispatcher.compile.__module__ == "numba.core.dispatcher", reason="another numba")


def ours(function):
    """A function that is compiled as those of the package are."""
    function.__module__ = compiler.__name__
    return numba.njit(function)


def inner_and_outer(compiled=ours):
    @compiled
    def inner(x):
        if x > 100:
            raise ValueError("too much", x)
        return 2.0 * x

    @compiled
    def outer(x):
        return inner(x) + 1.0

    return inner, outer


def library_of(function):
    (found,) = function.overloads.values()
    return found.library


@known
def test_a_part_of_a_function_waits_until_python_calls_it():
    inner, outer = inner_and_outer()
    assert outer(3) == 7.0
    assert library_of(inner).waits
    assert not library_of(outer).waits
    assert inner(3) == 6.0
    assert not library_of(inner).waits
    assert outer(4) == 9.0


def test_functions_of_other_programs_are_compiled_as_numba_does():
    inner, outer = inner_and_outer(numba.njit)
    assert outer(3) == 7.0
    assert not getattr(library_of(inner), "waits", False)

    @ours
    def around(x):
        return outer(x)

    assert around(4) == 9.0
    assert inner(3) == 6.0


@known
def test_functions_of_other_programs_wait_as_parts_of_ours():
    inner, outer = inner_and_outer(numba.njit)

    @ours
    def around(x):
        return outer(x)

    assert around(4) == 9.0
    assert library_of(inner).waits
    assert library_of(outer).waits
    assert outer(3) == 7.0
    assert inner(3) == 6.0


def test_errors_of_a_part_keep_their_message():
    inner, outer = inner_and_outer()
    for function in (outer, inner, outer):
        with pytest.raises(ValueError, match=r"too much.*200"):
            function(200)


def test_parts_that_call_each_other_need_not_wait():
    @ours
    def even(n):
        return True if n == 0 else odd(n - 1)

    @ours
    def odd(n):
        return False if n == 0 else even(n - 1)

    @ours
    def both(n):
        return even(n), odd(n)

    assert both(5) == (False, True)
    assert even(4)
    assert not odd(4)


def test_a_part_is_passed_as_a_function():
    inner, outer = inner_and_outer()

    @ours
    def apply(function, x):
        return function(x)

    assert outer(3) == 7.0
    assert apply(inner, 3) == 6.0


PART = """
import sys
import numba
from capture_cp.kernels.compile_inner import Library
from capture_cp.kernels.random import mix
optimise, optimised = Library._optimize_final_module, []
Library._optimize_final_module = lambda library: optimised.append(library.name) or optimise(library)
x = numba.uint64(3)
if "as a part" in sys.argv:
    whole = lambda x: mix(x)
    whole.__module__ = mix.py_func.__module__
    numba.njit(whole)(x)
else:
    mix(x)
print(optimised.count("mix"), *("waits" if part.library.waits else "ready" for part in mix.overloads.values()))
"""


@known
def test_a_part_on_disk_is_optimised_when_it_is_first_called(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    said = []
    for how in ("as a part", "alone", "alone", "as a part"):
        command = [sys.executable, "-c", PART, how]
        said.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip())
    assert said == ["0 waits", "1 ready", "0 ready", "0 ready"]


OF_A_USER = """
import numba

@numba.njit(cache=True)
def twice(x):
    return 2 * x
"""


@known
def test_a_function_that_others_read_from_disk_does_not_wait(tmp_path, monkeypatch):
    (tmp_path / "of_a_user.py").write_text(OF_A_USER)
    monkeypatch.syspath_prepend(tmp_path)
    twice = importlib.import_module("of_a_user").twice

    @ours
    def outer(x):
        return twice(x) + 1

    assert outer(3) == 7
    assert not library_of(twice).waits


NUMBERS = """
import hashlib, sys
import numpy as np
from capture_cp.kernels import compile_inner
if "as numba does" in sys.argv:
    compile_inner.optimise_once = lambda *given: None
from capture_cp.kernels.gaussian import squared_mahalanobis_pairs
from capture_cp.kernels.nearest import kth_nearest
rng = np.random.default_rng(0)
points, clouds, whiten = rng.normal(size=(99, 3)), rng.normal(size=(99, 16, 3)), np.tril(rng.normal(size=(99, 3, 3)))
near = kth_nearest(0, 1.0, 5, points, clouds)
away = squared_mahalanobis_pairs(points, clouds[:, 0].copy(), whiten, np.zeros(3, dtype=bool))
print(hashlib.sha256(near.tobytes() + away.tobytes()).hexdigest())
"""


def test_results_are_those_of_parts_that_do_not_wait(tmp_path):
    found = []
    for how in ("as numba does", "with parts that wait"):
        where = {"NUMBA_CACHE_DIR": str(tmp_path / how)}
        command = [sys.executable, "-c", NUMBERS, how]
        found.append(subprocess.run(command, env=os.environ | where, capture_output=True, text=True, check=True).stdout)
    assert len(found[0]) > 60
    assert found[0] == found[1]
