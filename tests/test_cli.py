"""The command line: bad input is one sentence on stderr and exit status 2."""

import io
import json
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest

from capture_cp import CaptureError, Transitions, __version__, write_transitions
from capture_cp.cli import main
from capture_cp.commands.size import Size
from commands import refused


def test_version_is_told(capsys):
    main(["--version"])
    assert capsys.readouterr().out.strip() == f"capture-cp {__version__}"


def test_it_runs_as_a_module_where_no_script_is_installed():
    run = subprocess.run([sys.executable, "-m", "capture_cp.cli", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"capture-cp {__version__}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("demo", "--alpha", "2"), "error: alpha is 2.0; expected a number strictly between 0 and 1"),
        (("demo", "--transitions", "0"), "error: transitions is 0; expected a whole number of at least 1"),
        (("demo", "--json", "/no/such/folder/rows.json"), "error: cannot write /no/such/folder/rows.json"),
        (("coverage", "marble", "--maps", "centre"), "Did you mean 'center'?"),
        (("plan", "marble", "--methods", "captur"), "Did you mean 'capture'?"),
    ],
)
def test_bad_input_is_one_sentence(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(capsys, *arguments)


def test_brackets_in_a_sentence_are_printed_as_they_are(capsys, tmp_path):
    """They are lists and extras, not the markup of the terminal library."""
    file = tmp_path / "maze.json"
    file.write_text(json.dumps({"size": [50, 50], "walls": [[1, 2, 3]], "start": [10, 10], "goal": [40, 40]}))
    assert "found [1, 2, 3]" in refused(capsys, "coverage", "marble", "--maps", file)


# -- whatever fails -------------------------------------------------------------------------------------------------------

FAILURES = [
    (OSError(28, "No space left on device", "rows.json"), "the operating system reports: No space left on device (rows"),
    (OSError("odd"), "this should not have happened: OSError: odd."),
    (MemoryError(), "not enough memory;"),
    (RecursionError("maximum recursion depth exceeded"), "this should not have happened: RecursionError: maximum"),
    (UnicodeEncodeError("latin-1", "ω", 0, 1, "no"), "this should not have happened: UnicodeEncodeError"),
    (KeyError("x"), "this should not have happened: KeyError: 'x'."),
]


@pytest.mark.parametrize(("error", "sentence"), FAILURES, ids=lambda value: type(value).__name__)
def test_any_failure_is_one_sentence_and_not_the_status_of_an_alarm(capsys, monkeypatch, error, sentence):
    monkeypatch.setattr(Size, "run", Mock(side_effect=error))
    monkeypatch.delenv("CAPTURE_TRACEBACK", raising=False)
    printed = refused(capsys, "size")
    assert sentence in printed
    assert "CAPTURE_TRACEBACK=1 in the environment shows where." in printed


def test_the_traceback_can_be_had(capsys, monkeypatch):
    monkeypatch.setattr(Size, "run", Mock(side_effect=KeyError("x")))
    monkeypatch.setenv("CAPTURE_TRACEBACK", "1")
    with pytest.raises(SystemExit) as stop:
        main(["size"])
    assert stop.value.code == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupted_command_ends_with_status_130(capsys, monkeypatch):
    monkeypatch.setattr(Size, "run", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(SystemExit) as stop:
        main(["size"])
    assert stop.value.code == 130


def test_a_reader_that_has_gone_is_no_traceback():
    """As in `capture size | head -1`, with more output than a pipe holds."""
    code = (
        "import sys; sys.argv[1:] = ['size'];"
        "from capture_cp.commands.size import Size;"
        "Size.run = lambda self, console: [print('x' * 100) for _ in range(10_000)];"
        "from capture_cp.cli import main; main()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.readline()
        run.stdout.close()
        printed = run.stderr.read()
    assert run.wait(60) == 2
    assert printed == b""


# -- odd names ------------------------------------------------------------------------------------------------------------

ODD = ["[/x]", "[bold]x", ":x:", "$\\frac$", "$x$", "\x1b[31mred", "ω", "a\rb", "_x"]


@pytest.fixture
def odd_log(tmp_path, monkeypatch):
    """A log whose columns and strata have these names, in a folder where commands run."""
    rng = np.random.default_rng(0)
    state, push = rng.random((300, 2)), rng.uniform(-0.1, 0.1, (300, 1))
    log = Transitions.from_arrays(state, push, state + 0.05 * rng.normal(size=(300, 2)), ODD[:2], ODD[2:3], ODD[3:5])
    write_transitions(tmp_path / "log.npz", log)
    (tmp_path / "odd_names.py").write_text(
        "from capture_cp import FunctionStrata, Grid\n"
        f"strata = FunctionStrata(lambda Y: (4 * Y[:, 0]).clip(0, 3).astype(int), {ODD[5:]!r},\n"
        "    grid=Grid.between((-0.5, -0.5), (1.5, 1.5), 0.1))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_names", raising=False)
    return ["--state", *ODD[:2], "--action", ODD[2], "--next", *ODD[3:5], "--strata", "odd_names:strata", "--min-leaf", "10"]


def test_odd_names_are_printed_as_they_are(odd_log, capsys):
    main(["calibrate", "log.npz", *odd_log, "--out", "[x] :x: $a.capture"])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    for shown in (":x: <=", "\\x1b[31mred", "ω", "a\\rb", "_x", "Saved calibration: [x] :x: $a.capture"):
        assert shown in printed
    assert "unknown column" in refused(capsys, "calibrate", "log.npz", "--state", "[/y]", *odd_log[3:])


def test_a_terminal_that_lacks_characters_gets_others(odd_log, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stream)
    main(["calibrate", "log.npz", *odd_log])
    stream.flush()
    assert b"Saved calibration: robot.capture" in stream.buffer.getvalue()


def test_names_that_no_file_can_have_are_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = "--state", "x", "--action", "y", "--next", "z"
    long = "a" * 300
    assert "File name too long" in refused(capsys, "calibrate", f"{long}.csv", *columns)
    assert "File name too long" in refused(capsys, "check", long, f"{long}.csv")
    assert "File name too long" in refused(capsys, "size", "--json", f"{long}.json")
    assert "null" in refused(capsys, "calibrate", "a\0b.csv", *columns)
    main(["size", "--json", f"{'b' * 250}.json"])  # as long as may be
    assert [len(file.name) for file in tmp_path.iterdir()] == [255]


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_calibration_needs_a_name(name, tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaptureError, match=r"cannot write .*it is not a file name; choose one"):
        fitted["capture"].save(name)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "9" * 5000, "a = {" * 3000])
def test_settings_that_go_too_deep_are_refused(capsys, tmp_path, text):
    (tmp_path / "robot.toml").write_text(text)
    printed = refused(capsys, "calibrate", tmp_path / "robot.toml")
    assert "settings file" in printed
    assert "should not have happened" not in printed
