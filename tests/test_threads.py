"""Work on several threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from capture_cp import (
    Capture,
    LoggedTransitions,
    Transitions,
    Tree,
    coverage_of_log,
    fit_log,
    one_stratum,
    write_transitions,
)
from capture_cp.base.threads import in_order
from capture_cp.data import log_part
from capture_cp.logs.bundle import LinearModel


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_in_order_and_few_items_are_taken_ahead(threads):
    taken, begun = [], []
    both = threading.Barrier(threads)  # passes only if as many are worked on at once

    def items():
        for i in range(6 * threads):
            taken.append(i)
            yield i

    def work(i):
        both.wait(20)
        return 10 * i

    for number, result in enumerate(in_order(work, items(), threads, lambda: begun.append(threading.get_ident()))):
        assert result == 10 * number
        assert len(taken) <= number + 1 + threads
    assert len(taken) == 6 * threads
    assert len(set(begun)) == (threads if threads > 1 else 0)


def test_an_error_is_that_of_the_first_item():
    def work(i):
        raise ValueError(i)

    with pytest.raises(ValueError, match=r"^0$"):
        list(in_order(work, range(5), 2))


def test_a_calibration_does_not_depend_on_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(log_part, "CHUNK", 200)
    rng = np.random.default_rng(0)
    X = rng.random((3000, 3))
    Y = X[:, :2] + 0.1 * rng.standard_normal((3000, 2))
    write_transitions(tmp_path / "log.csv", Transitions.from_arrays(X[:, :2], X[:, 2:], Y, ["a", "b"], ["u"], ["c", "d"]))
    log = LoggedTransitions(tmp_path / "log.csv", ["a", "b"], ["u"], ["c", "d"])
    model = LinearModel.trained(X[:500], Y[:500])
    found = []
    for threads in (1, 3):
        cap = Capture(model, one_stratum(), groups=Tree(min_leaf=100), n_particles=8)
        fit_log(cap, log, threads=threads)
        found.append((cap.calibration_.scores, coverage_of_log(cap, log, threads=threads), cap.data_))
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]
