"""A monitor from one run to the next, and checks night after night: false alarms are limited for ever."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capture_cp import Capture, CaptureError, FunctionStrata, Monitor, NearestParticles, PerStratum
from capture_cp.capture.artifact import MONITOR_FORMAT, read, write
from capture_cp.commands.batch import History, check_batch
from capture_cp.conformal.martingale import JumperMartingale

ERROR = 1e-4
SIGN = FunctionStrata(lambda Y: (Y[:, 0] > 0).astype(int), ["left", "right"])


def noisy(X, n_particles, rng):
    return 0.1 * rng.standard_normal((len(X), n_particles, 1))


def batch(rng, n, scale=1.0):
    X = rng.random((n, 2))
    return X, scale * (1 + X[:, :1]) * rng.standard_normal((n, 1))


def fitted(rng, n=200):
    cap = Capture(noisy, SIGN, score=NearestParticles(1), groups=PerStratum(), n_particles=2)
    return cap.fit(*batch(rng, n))


@pytest.fixture
def cap():
    return fitted(np.random.default_rng(0))


# -- one monitor ----------------------------------------------------------------------------------------------------------


def test_a_loaded_monitor_goes_on_as_if_it_had_never_stopped(tmp_path, cap):
    X, Y = batch(np.random.default_rng(1), 60)
    whole, parted = Monitor(cap, seed=3), Monitor(cap, seed=3)
    whole.update(X, Y)  # particles of all rows come from one call, so only scores can be compared with single rows
    for night in np.split(np.arange(60), 6):
        parted.save(tmp_path / "watch.state")
        parted = Monitor.load(tmp_path / "watch.state", cap)
        parted.update(X[night], Y[night])
    again = Monitor(cap, seed=3)
    for night in np.split(np.arange(60), 6):
        again.update(X[night], Y[night])
    assert parted.p_values.tolist() == again.p_values.tolist()
    assert parted.groups.tolist() == again.groups.tolist() == whole.groups.tolist()
    assert parted.capital == again.capital
    assert parted.martingale.steps == 60
    assert parted.rng.random() == again.rng.random()


def test_particles_are_not_drawn_again_in_the_next_run(tmp_path, cap):
    """The same transition twice, in two runs: with other particles its score is another."""
    monitor = Monitor(cap)
    X, Y = batch(np.random.default_rng(1), 1)
    monitor.update(X, Y)
    monitor.save(tmp_path / "watch.state")
    Monitor.load(tmp_path / "watch.state", cap).update(X, Y)
    loaded = Monitor.load(tmp_path / "watch.state", cap)
    loaded.update(X, Y)
    assert loaded.scores[0] != loaded.scores[1]


def test_a_monitor_of_another_calibration_is_refused(tmp_path, cap):
    Monitor(cap).save(tmp_path / "watch.state")
    with pytest.raises(CaptureError, match=r"monitor state .*watch.state: it monitors another calibration"):
        Monitor.load(tmp_path / "watch.state", fitted(np.random.default_rng(9)))


def test_a_file_that_is_damaged_or_of_another_kind_is_refused(tmp_path, cap):
    file = tmp_path / "watch.state"
    monitor = Monitor(cap)
    monitor.update(*batch(np.random.default_rng(1), 20))
    monitor.save(file)
    whole = file.read_bytes()
    for damage in (whole[:-8], whole[:-20] + b"x" + whole[-19:], b"", b"else"):
        file.write_bytes(damage)
        with pytest.raises(CaptureError, match="monitor state"):
            Monitor.load(file, cap)
    cap.save(file)
    with pytest.raises(CaptureError, match="is not a capture-cp monitor state"):
        Monitor.load(file, cap)
    with pytest.raises(CaptureError, match=r"monitor state .* does not exist"):
        Monitor.load(tmp_path / "none", cap)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rng", {"bit_generator": "MT19937"}),
        ("martingale", {"rates": [0.1], "bets": [[1.0, 0.0, -0.5]], "log_capital": 0, "log_largest": 0, "steps": 20}),
        ("martingale", {"rates": [0.1], "bets": [[1.0, 0.0, 0.0]], "log_capital": 3, "log_largest": 0, "steps": 20}),
        ("martingale", {"rates": [0.1], "bets": [[1.0, 0.0, 0.0]], "log_capital": 0, "log_largest": 0, "steps": 2}),
        ("martingale", {}),
        ("notes", 3),
        ("scores", np.full(20, np.nan)),
        ("groups", np.full(20, 7)),
        ("p_values", np.full(20, 2.0)),
    ],
)
def test_contents_that_cannot_be_are_refused(tmp_path, cap, name, value):
    """With a valid checksum: a file may claim anything."""
    file = tmp_path / "watch.state"
    monitor = Monitor(cap)
    monitor.update(*batch(np.random.default_rng(1), 20))
    monitor.save(file)
    header, arrays = read(file, MONITOR_FORMAT)
    (arrays if name in arrays else header)[name] = value
    write(file, header, arrays, MONITOR_FORMAT)
    with pytest.raises(CaptureError, match="monitor state"):
        Monitor.load(file, cap)


def test_bets_of_ones_own_cannot_be_saved(tmp_path, cap):
    class Own(JumperMartingale):
        pass

    with pytest.raises(CaptureError, match="with martingale Own cannot be saved"):
        Monitor(cap, martingale=Own()).save(tmp_path / "watch.state")


# -- night after night ----------------------------------------------------------------------------------------------------


def nights(cap, rng, file, level, count, rows, change=None):
    """The first night with an alarm, or None; every tenth night is in a process of its own, as it were."""
    history = History.begun_or_continued(file, cap, level, 0)
    for night in range(1, count + 1):
        scale = 1.0 if change is None or night < change else 2.0
        found = check_batch(cap, *batch(rng, rows, scale), history=history)
        if found.alarms:
            return night
        if night % 10 == 0:
            history.save(file)
            history = History.begun_or_continued(file, cap, level, 0)
    return None


def test_false_alarms_are_limited_over_all_nights(tmp_path):
    """Sound batches: checked one by one, most calibrations would raise an alarm in some night."""
    rng, draws, level, count = np.random.default_rng(2), 25, 0.2, 20
    caps = [fitted(rng, 60) for _ in range(draws)]
    ever = sum(nights(cap, rng, tmp_path / f"{i}.state", level, count, 20) is not None for i, cap in enumerate(caps))
    assert stats.binomtest(ever, draws, level, "greater").pvalue > ERROR
    one_by_one = [
        any(check_batch(cap, *batch(rng, 20), level=level, seed=night).alarms for night in range(count)) for cap in caps[:10]
    ]
    assert stats.binomtest(sum(one_by_one), 10, level, "greater").pvalue < 0.01


def test_a_change_after_many_nights_is_found_soon(tmp_path):
    rng = np.random.default_rng(5)
    for i in range(3):
        night = nights(fitted(rng, 400), rng, tmp_path / f"{i}.state", 0.01, 30, 50, change=21)
        assert night is not None
        assert 21 <= night <= 23


def test_a_batch_that_was_checked_is_refused(tmp_path, cap):
    rng = np.random.default_rng(4)
    history = History(Monitor(cap), 0.01)
    X, Y = batch(rng, 30)
    check_batch(cap, X, Y, history=history)
    with pytest.raises(CaptureError, match="these transitions are batch 1 of the history"):
        check_batch(cap, X, Y, history=history)
    more = batch(rng, 5)
    grown = np.vstack([X, more[0]]), np.vstack([Y, more[1]])
    with pytest.raises(CaptureError, match="these transitions begin with the 30 of batch 1"):
        check_batch(cap, *grown, history=history)
    assert history.monitor.martingale.steps == 30
    check_batch(cap, *more, history=history)
    assert len(history.batches) == 2


@pytest.mark.parametrize(
    "notes",
    [
        {"level": "x"},
        {"batches": [{"rows": 0, "sha256": ""}]},
        {"alarm": "yes"},
        {"alarm": {"batch": 1}},
    ],
)
def test_a_history_that_cannot_be_is_refused(tmp_path, cap, notes):
    file = tmp_path / "nights.state"
    monitor = Monitor(cap)
    monitor.notes = {"level": 0.01, "batches": [], "alarm": None} | notes
    monitor.save(file)
    with pytest.raises(CaptureError, match=r"history .* is damaged .* To begin anew, give --history the name of a new file"):
        History.begun_or_continued(file, cap, 0.01, 0)


def test_a_history_is_not_taken_for_another(tmp_path, cap):
    file = tmp_path / "nights.state"
    Monitor(cap).save(file)
    with pytest.raises(CaptureError, match=r"was written by Monitor.save"):
        History.begun_or_continued(file, cap, 0.01, 0)
    History(Monitor(cap), 0.05).save(file)
    with pytest.raises(CaptureError, match=r"was begun with --alarm 0.05, not 0.01"):
        History.begun_or_continued(file, cap, 0.01, 0)
    with pytest.raises(CaptureError, match="it monitors another calibration"):
        History.begun_or_continued(file, fitted(np.random.default_rng(9)), 0.05, 0)
