"""Commands on logs: most tests look at calibrations and at what is printed, not at the pictures of a report."""

from __future__ import annotations

import shutil
import sys
import warnings

import pytest

from capture_cp import CaptureWarning
from capture_cp.commands import report
from logs.common import HERE, PUSHES
from robots import made

#: Modules of the user's, which a test may write or copy.
MODULES = ("pusher", "robot_words", "robot_rare", "walls")


@pytest.fixture
def pictures() -> None:
    """For tests that look at the report's pictures of regions, or that draw them as everybody does."""


@pytest.fixture(autouse=True)
def _drawn_on_request(request, monkeypatch):
    """Drawing regions takes longer than calibrating on a small log: only tests that ask for `pictures` do."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(report, "region_figures", lambda *given: ([], ""))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in which commands are run; modules of the user's are imported anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def pushed(folder):
    """The same with a log of pushes and the module `pusher`."""
    shutil.copy(PUSHES, folder)
    shutil.copy(HERE / "pusher.py", folder)
    return folder


@pytest.fixture(scope="session")
def robots(tmp_path_factory):
    """A folder with calibrations of one, two, three and five axes, and their logs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        return made(tmp_path_factory.mktemp("robots"))
