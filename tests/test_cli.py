"""The command line: bad input is one sentence on stderr and exit status 2."""

import json

import pytest

from capture_cp import __version__
from capture_cp.cli import main
from commands import refused


def test_version_is_told(capsys):
    main(["--version"])
    assert capsys.readouterr().out.strip() == f"capture-cp {__version__}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("demo", "--alpha", "2"), "error: alpha is 2.0; expected a number strictly between 0 and 1"),
        (("demo", "--transitions", "0"), "error: transitions is 0; expected a whole number of at least 1"),
        (("demo", "--json", "/no/such/folder/rows.json"), "error: cannot write /no/such/folder/rows.json"),
        (("coverage", "marble", "--maps", "centre"), "Did you mean 'center'?"),
        (("plan", "marble", "--methods", "captur"), "Did you mean 'capture'?"),
        (("bench", "--rounds", "0"), "error: rounds is 0"),
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
