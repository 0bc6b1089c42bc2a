"""A sweep gives the same results to the last bit on processes, on a local Dask cluster and on a local Ray."""

from __future__ import annotations

import io
import json
import os
import signal
from functools import partial

import pytest
from rich.console import Console

from capture_cp import CaptureError
from capture_cp.cli import main
from capture_cp.data import parts
from capture_cp.data.parts import run_parts, workers
from capture_lab.studies.planning import PlanningStudy
from capture_lab.tasks.marble.options import MarbleOptions
from marble.boards import write_map
from reproduce.small import shrink


def killed_at(last, part):
    if part == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def test_a_killed_worker_is_one_sentence():
    with pytest.raises(CaptureError, match=r"a worker process was killed .* with fewer --jobs"):
        list(run_parts(partial(killed_at, 3), range(6), 2))
    assert list(run_parts(abs, [-1, -2], 2)) == [(-1, 1), (-2, 2)]  # the next work gets new processes


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_missing_backend_is_named_with_its_extra(backend, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(parts, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "--backend", backend, "--out", str(tmp_path / "results")])
    assert stop.value.code == 2
    assert f'pip install "capture-cp[{backend}]"' in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_results_are_the_same_on_a_cluster(backend, package, tmp_path, monkeypatch):
    pytest.importorskip(package)
    map = write_map(tmp_path)
    shrink(monkeypatch, map)
    tables = {}
    for name in ("loky", backend):
        out = tmp_path / name
        main(["reproduce", "--only", "marble-coverage", "--backend", name, "--jobs", "2", "--out", str(out)])
        tables[name] = (out / "table-5.json").read_text()
    assert tables[backend] == tables["loky"]
    assert json.loads(tables[backend])["rows"]

    options = MarbleOptions(maps=(str(map),))
    study = PlanningStudy.of(options, methods=("capture",), episodes=2, samples=32, horizon=2, jobs=2)
    local = _episodes(study)
    with workers(backend, 2):
        assert list(run_parts(abs, list(range(-20, 0)), 2)) == [(part, -part) for part in range(-20, 0)]
        assert list(run_parts(abs, [-1], 1)) == [(-1, 1)]
        assert _episodes(study) == local


def _episodes(study):
    results = study.results(study.tasks(), Console(file=io.StringIO()))
    return [{key: value for key, value in run.items() if key != "plan_ms"} for runs in results.values() for run in runs]


def test_cluster_that_does_not_answer_is_one_sentence(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:9")
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(CaptureError, match="no Dask cluster answers"),
        workers("dask", 2),
    ):
        pass
