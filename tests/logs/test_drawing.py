"""Figures of a report that another process draws: the same ones whatever happens to that process, which is never left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from logs.test_report import pictures, write_log
from test_stopping import LONG, stopped

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forked processes")

#: A command line that prints how many processes have drawn, and whether matplotlib was imported here.
COMMAND = """
import os, sys
from capture_cp.cli import main
from capture_cp.report import drawing_process
processes = []

class Noted(drawing_process.DrawingProcess):
    def __init__(self, prepare):
        if {starts}:
            super().__init__(prepare)
            processes.append(self._process)
            {afterwards}
        else:
            raise BlockingIOError

drawing_process.DrawingProcess = Noted
main(sys.argv[1:])
assert all(process.exitcode is not None for process in processes)
print(len(processes), "matplotlib" in sys.modules)
"""


def columns_of(folder, dims=2):
    return ["calibrate", *write_log(folder, dims), "--particles", "8", "--min-leaf", "100"]


def drawn(folder, starts=True, afterwards="pass"):
    """What the program prints at last, and the report."""
    folder.mkdir()
    program = COMMAND.format(starts=starts, afterwards=afterwards)
    command = [sys.executable, "-c", program, *columns_of(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["writing the report"]
    return done.stdout.splitlines()[-1], (folder / "robot.html").read_text()


def test_the_report_is_the_same_if_the_process_cannot_start_or_is_killed(tmp_path):
    ended, page = drawn(tmp_path / "there")
    assert ended == "1 False"
    assert len(pictures(page)) == 1
    assert drawn(tmp_path / "none", starts=False) == ("0 True", page)
    assert drawn(tmp_path / "killed", afterwards="self._process.kill()") == ("1 True", page)


def running_in(folder):
    """Processes whose current folder this is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name] if os.readlink(process / "cwd") == str(folder) else []
        except OSError:  # it has ended, or is another user's
            continue
    return found


def test_an_interrupt_leaves_no_process_and_no_file(tmp_path):
    lines = stopped(columns_of(tmp_path, 3), "writing the report", tmp_path)
    assert lines == ["writing the report", "stopped."]
    assert running_in(tmp_path) == []
    assert not list(tmp_path.glob("*.html"))


def test_a_killed_command_leaves_no_process(tmp_path):
    command = [sys.executable, "-m", "capture_cp.cli", *columns_of(tmp_path, 3)]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert run.stderr.readline() == "writing the report\n"
    run.kill()
    run.wait()
    late = time.monotonic() + LONG
    while running_in(tmp_path):
        assert time.monotonic() < late
        time.sleep(0.05)


WARNING = """
import warnings
from capture_cp.report.drawing_process import drawing_process

def prepare(idle):
    global prepared
    prepared = True

def work(x):
    assert prepared
    warnings.warn("heard", UserWarning)
    return x + 1

def wrong(x):
    raise ValueError(x)

with drawing_process(prepare) as process, warnings.catch_warnings(record=True) as caught:
    process.begin(work, 1)
    print(process.result(), *(one.message for one in caught))
for begun in ((), (wrong, 1), (lambda: 1,)):
    with drawing_process(prepare) as process:
        if begun:
            process.begin(*begun)
        print(process.result())
with drawing_process(None) as process:
    print(process)
"""


def test_warnings_are_repeated_and_failures_are_left_to_the_caller():
    done = subprocess.run([sys.executable, "-c", WARNING], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2 heard", "None", "None", "None", "None"]
    assert done.stderr == ""
