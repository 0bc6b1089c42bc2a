"""Runs the documentation: the ```python blocks of docs and README.md, and the >>> examples of the source.

A page is one test: its blocks run in order, share their variables, and have a temporary folder to themselves. A ```text
block titled "output" must match what the block before it printed: the words exactly, the numbers nearly, so that another
processor or another version of a library does not fail a page that is still true.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.example import SybilFailure
from sybil.parsers.markdown import CodeBlockParser
from sybil.parsers.rest import DocTestParser

from capture_cp.base import streams

os.environ["MPLBACKEND"] = "Agg"

NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
PYTHON = PythonEvaluator()


class Blocks(CodeBlockParser):
    """Fenced blocks whose opening line begins with `language`, whatever else (a title) stands on it."""

    def __call__(self, document: Document) -> Iterable[Region]:
        for region in self.lexers(document):
            if f"{region.lexemes['arguments']} ".startswith(f"{self.language} "):
                region.parsed = region.lexemes["source"]
                region.evaluator = self.evaluate
                yield region


class Code(Blocks):
    """```python: run it and keep what it prints."""

    language = "python"

    def evaluate(self, example: Example) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            PYTHON(example)
        example.namespace["_printed"] = printed.getvalue()


class Output(Blocks):
    """```text title="output": compare it with what was printed."""

    language = 'text title="output"'

    def evaluate(self, example: Example) -> str | None:
        shown, printed = str(example.parsed), example.namespace["_printed"]
        return None if alike(shown, printed) else f"the page shows:\n{shown}\nits code prints:\n{printed}"


def alike(shown: str, printed: str) -> bool:
    """Whether two texts have the same words and nearly the same numbers."""
    words = [NUMBER.sub("#", text).split() for text in (shown, printed)]
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (shown, printed)]
    return words[0] == words[1] and all(math.isclose(a, b, rel_tol=0.05, abs_tol=0.02) for a, b in zip(*numbers))


PAGES = Sybil(parsers=[Code(), Output()], patterns=["docs/*.md", "docs/*/*.md", "README.md"])
DOCSTRINGS = Sybil(parsers=[DocTestParser()], path="src", pattern="*.py")


class Page(pytest.Item):
    """One page. A single test, so that no way of spreading tests over processes can tear its blocks apart."""

    def runtest(self) -> None:
        document = PAGES.parse(self.path)
        document.namespace |= {"__name__": "__main__", "__file__": str(self.path)}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for example in document.examples():
                example.evaluate()
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> object:
        if isinstance(excinfo.value, SybilFailure):
            return str(excinfo.value)
        # leave out our own frames and sybil's: what counts is the line of the page
        ours = [entry for entry in excinfo.traceback if str(entry.path) == str(self.path)]
        where = f"{self.path}:{ours[-1].lineno + 1}: " if ours else ""
        return f"{where}{excinfo.exconly()}"

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.path.name


class PageFile(pytest.File):
    """Collects a page."""

    def collect(self) -> Iterable[Page]:
        yield Page.from_parent(self, name="blocks")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Questions without `rng` draw from the system's entropy; every test draws from a stream of its own instead."""
    numbers = itertools.count()
    streams.fresh = lambda: streams.stream(0, item.nodeid, next(numbers))


collect_docstrings = DOCSTRINGS.pytest()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Pages here, docstrings by sybil."""
    if PAGES.should_parse(file_path):
        return PageFile.from_parent(parent, path=file_path)
    return collect_docstrings(file_path, parent)
