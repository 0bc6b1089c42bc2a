"""Commands on logs: most tests look at calibrations and at what is printed, not at the pictures of a report."""

from __future__ import annotations

import pytest

from capture_cp.commands import report


@pytest.fixture
def pictures() -> None:
    """For tests that look at the report's pictures of regions, or that draw them as everybody does."""


@pytest.fixture(autouse=True)
def _drawn_on_request(request, monkeypatch):
    """Drawing regions takes longer than calibrating on a small log: only tests that ask for `pictures` do."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(report, "region_figures", lambda *given: ([], ""))
