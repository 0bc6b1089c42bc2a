"""What the tests of HTML pages share: pages need nothing from elsewhere, and a real browser shows them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def assert_self_contained(page: Path, links: bool = False) -> None:
    """No address of another host, and every picture inside the file; links to files beside it only if `links`."""
    text = page.read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert all(source.startswith("data:image/") for source in re.findall(r'src="([^"]*)"', text))
    for target in re.findall(r'href="([^"]*)"', text):
        assert target.startswith("#") or (links and (page.parent / target).is_file()), target


def shown_by_browser(page: Path, width: int = 1200) -> str:
    """The page's elements after its scripts have run."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    command += ["--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
