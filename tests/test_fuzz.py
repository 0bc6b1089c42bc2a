"""Mutated files, a few thousand of them; `make fuzz` opens a hundred thousand. See fuzz.py for what counts as a failure."""

from __future__ import annotations

import subprocess
import sys

import fuzz

FILES = 3_000


def test_no_mutated_file_does_harm():
    found = fuzz.run(FILES, seed=0)
    assert found["failures"] == {}
    ended = {kind: {outcome: n for (k, outcome), n in found["counts"].items() if k == kind} for kind in fuzz.kinds()}
    assert sum(sum(counts.values()) for counts in ended.values()) == FILES
    for counts in ended.values():  # neither is every file so broken that nothing is put to the test, nor every one harmless
        assert counts["loaded"] > FILES / 200
        assert counts["refused"] > FILES / 20


def test_the_watch_sees_what_it_should(tmp_path):
    """In a process of its own: an audit hook stays for good."""
    code = f"""
import sys; sys.path.insert(0, {str(fuzz.__file__.rpartition("/")[0])!r})
import fuzz, os, pickle, subprocess, numpy as np
sys.addaudithook(fuzz._audit)
class Bomb:
    def __reduce__(self): return (os.getcwd, ())
text = pickle.dumps(Bomb())
place = {str(tmp_path / "x")!r}
for harm in (lambda: pickle.loads(text), lambda: os.system("true"), lambda: exec("1"), lambda: open(place, "w")):
    with fuzz.watched() as seen:
        harm()
    assert seen, harm
with fuzz.watched() as seen:
    open(fuzz.__file__).close()
assert not seen
try:
    with fuzz.watched():
        np.ones(fuzz.ROOM // 4)
except MemoryError:
    print("all seen")
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert printed.stdout == "all seen\n", printed.stderr
