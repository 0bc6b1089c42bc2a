"""Running the command line in tests."""

from __future__ import annotations

import pytest

from capture_cp.cli import main


def refused(capsys, *arguments):
    """What a command says as it refuses its arguments: exit status 2, no traceback."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert "Traceback" not in said
    return " ".join(said.split())
