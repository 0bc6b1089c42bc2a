"""Ctrl+C ends any command with one line and status 130; and what commands print while they work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from capture_cp.base.progress import advancing, progress_bar, stage

LONG = 300  # seconds after which a command that has not begun, or not ended, has failed


def stopped(arguments, said, folder, after=0.0, **environment):
    """Lines on stderr of a command that is interrupted, as a terminal does it, `after` seconds after it `said` a thing."""
    files = {name: folder / name for name in ("out", "err")}
    with files["out"].open("w") as out, files["err"].open("w") as err:
        run = subprocess.Popen(
            [sys.executable, "-m", "capture_cp.cli", *arguments],
            stdout=out, stderr=err, cwd=folder, start_new_session=True, env=os.environ | environment,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored by what a shell runs with &
        )  # fmt: skip
        try:
            began = time.monotonic()
            while not any(said in file.read_text() for file in files.values()):
                assert run.poll() is None, files["err"].read_text()
                assert time.monotonic() - began < LONG
                time.sleep(0.05)
            time.sleep(after)
            assert run.poll() is None, "the command ended before it was interrupted"
            os.killpg(run.pid, signal.SIGINT)
            assert run.wait(LONG) == 130
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
    return files["err"].read_text().splitlines()


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups")


@pytest.mark.parametrize("after", [0.3, 3.0])
def test_processes_are_stopped_without_their_tracebacks(tmp_path, after):
    """While they start, and while they work."""
    sizes = "--episodes", "4000", "--samples", "256", "--methods", "capture", "--calibration", "1000"
    lines = stopped(["plan", "box", *sizes, "--jobs", "2"], "box: capture", tmp_path, after)
    assert lines == ["episodes", "box: capture", "stopped."]


@pytest.mark.parametrize("after", [0.5, 4.0])
def test_compilation_is_announced_and_can_be_stopped(tmp_path, after):
    where = {"NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    lines = stopped(["demo", "--task", "box"], "compiling numerical code: first use only", tmp_path, after, **where)
    assert lines[0].startswith("compiling numerical code: first use only")
    assert lines[-1] == "stopped."
    assert not any("Traceback" in line or "ignored" in line for line in lines)


IN_FOREIGN_CODE = """
import os, signal, time
from capture_cp.cli import interrupts
interrupts.watch_interrupts()

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        print("finalised")

wrapper = {"__name__": "llvmlite.binding.linker", "os": os, "signal": signal}
exec("def link():\\n    os.kill(os.getpid(), signal.SIGINT)\\n    print('linked')", wrapper)
for way in (wrapper["link"], Finalised):
    try:
        way()
        time.sleep(20)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_an_interrupt_waits_for_the_interface_to_llvm_and_is_not_lost_in_a_finaliser():
    """Raised between two lines of that interface, it would free a module of LLVM twice."""
    done = subprocess.run([sys.executable, "-c", IN_FOREIGN_CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["linked", "interrupted", "interrupted"]
    assert done.stderr == ""


def test_the_live_page_is_stopped(tmp_path):
    pytest.importorskip("viser")
    lines = stopped(["view", "--task", "box", "--port", "8471"], "(Ctrl+C stops)", tmp_path)
    assert lines == ["preparing the page", "stopped."]
    assert (tmp_path / "out").read_text().count("\n") == 1


# -- what is printed ------------------------------------------------------------------------------------------------------


def test_without_a_terminal_each_stage_is_one_line_on_stderr(capsys):
    with progress_bar() as progress:
        bar = progress.add_task("one [bold]", total=3)
        advance = advancing(progress, "not begun", 2)
        for name in ("one [bold]", "two", "two"):
            progress.update(bar, description=name)
            progress.advance(bar)
        for _ in progress.track(range(2), description="three"):
            pass
    with stage("four"):
        pass
    with stage("only on a terminal", everywhere=False):
        advance(1)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == ["one [bold]", "two", "three", "four", "not begun"]
