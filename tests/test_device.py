"""A device that cannot be had: one sentence, and nothing done."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np
import pytest

from capture_cp import Capture, CaptureError
from capture_cp.cli import main
from capture_cp.cuda import device as device_module
from capture_lab.tasks.box import Box

BOX = Box()
REAL_TROUBLE = device_module._trouble


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(device_module, "_trouble", lambda: 'no NVIDIA GPU was found; use device "cpu".')


@pytest.fixture(scope="module")
def log():
    return BOX.transitions(600, np.random.default_rng(0))


def test_capture_refuses_a_gpu_that_is_not_there(log):
    with pytest.raises(CaptureError, match='device "cuda" cannot be used: no NVIDIA GPU'):
        Capture(BOX, BOX.strata, device="cuda").fit(log.X, log.Y)


def test_capture_refuses_an_unknown_device(log):
    with pytest.raises(CaptureError, match="unknown device 'gpu'"):
        Capture(BOX, BOX.strata, device="gpu").fit(log.X, log.Y)


def test_a_compiled_calibration_needs_the_gpu_it_is_for(log):
    cap = Capture(BOX, BOX.strata).fit(log.X, log.Y)
    with pytest.raises(CaptureError, match='device "cuda" cannot be used'):
        cap.compile(0.2, device="cuda")


def test_coverage_command_ends_with_the_sentence(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["coverage", "marble", "--device", "cuda"])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert 'device "cuda" cannot be used: no NVIDIA GPU' in " ".join(printed.split())
    assert "Traceback" not in printed


@pytest.mark.parametrize("name", ["coverage", "plan", "planning"])
def test_benchmarks_end_with_the_sentence(name, capsys):
    assert import_module(f"benchmarks.gpu.{name}").main([]) == 2
    assert capsys.readouterr().err.startswith('device "cuda" cannot be used')


def test_a_forked_process_is_told_to_be_spawned(monkeypatch):
    """Where its parent has used the GPU."""
    parents = cache(lambda: None)
    monkeypatch.setattr(device_module, "_trouble", parents)
    monkeypatch.setattr(device_module, "_lost", False)
    device_module._after_fork()
    assert not device_module._lost  # nobody had asked for a GPU
    assert device_module.chosen_device("cuda") == "cuda"
    device_module._after_fork()
    monkeypatch.setattr(device_module, "_trouble", REAL_TROUBLE.__wrapped__)
    with pytest.raises(CaptureError, match=r'forked.*get_context\("spawn"\)'):
        device_module.chosen_device("cuda")
    assert device_module.chosen_device("auto") == "cpu"
