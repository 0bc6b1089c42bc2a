"""The command that logs a Gymnasium environment and calibrates on the log."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError
from capture_cp.commands.calibrate import Calibrate
from capture_cp.commands.distances import Distances
from capture_cp.commands.environments import RANDOM
from capture_cp.commands.options import LINEAR
from capture_cp.commands.record_env import Entries, Environment, LogEnv, PolicyName, Steps
from capture_cp.commands.recorder import Recorder
from capture_cp.spaces.metrics import Euclidean
from capture_cp.spaces.poses import SE2
from capture_lab.gym.ids import NAMESPACE, env_id, places

OWN = "own"
MODELS = "capture_lab.gym.models"


@dataclass(frozen=True)
class CalibrateEnv(Calibrate):
    """Log transitions of a Gymnasium environment, then calibrate regions on them by whole episodes.

    The log is saved as OUT with the ending .parquet, so that you can run `capture calibrate` on it again with other options.
    --configuration names the entries of the observation that are the configuration. Our environments, such as
    capture/MarbleCenter-v0, use the task's own configuration, model, strata and distance by default.
    """

    data: tyro.conf.Suppress[Path] = Path()
    state: tyro.conf.Suppress[tuple[str, ...]] = ()
    action: tyro.conf.Suppress[tuple[str, ...]] = ()
    next: tyro.conf.Suppress[tuple[str, ...]] = ()
    following: tyro.conf.Suppress[tuple[str, ...]] = ()
    clock: tyro.conf.Suppress[Literal["received", "header"]] = "received"
    episode: tyro.conf.Suppress[str | None] = "episode"
    time: tyro.conf.Suppress[str | None] = None
    model: Annotated[
        str, tyro.conf.arg(help="module:object, or linear; own is the task's model for our environments, otherwise linear.")
    ] = OWN
    env: Environment = ""
    policy: PolicyName = RANDOM
    steps: Steps = 20_000
    configuration: Entries = ()

    def run(self, console: Console) -> None:
        """Log, calibrate, print what was found, save."""
        if not self.configuration and not self.env.rpartition(":")[2].startswith(f"{NAMESPACE}/"):
            raise CaptureError(
                f"--env {self.env} needs --configuration, the entries of its observation that are the configuration, such "
                "as --configuration 0 1."
            )
        file = self.out.with_suffix(".parquet")
        log = LogEnv(self.env, self.policy, self.steps, self.configuration, file, self.folder, self.seed)
        with log.opened() as recorder:
            given: dict[str, Any] = {entry.name: getattr(self, entry.name) for entry in fields(Calibrate)}
            given |= {"data": file, "state": recorder.state_names, "action": recorder.action_names}
            given["next"] = tuple(recorder.next_names[entry] for entry in log.entries(recorder))
            job = Calibrate(**(given | self._own(recorder, console)))
            job._check_settings()  # before the work and not after it
            log.record(recorder, console)
        job.run(console)

    def _own(self, recorder: Recorder, console: Console) -> dict[str, Any]:
        """Model, strata and distance of the task, where the environment is ours and no others are given."""
        chosen: dict[str, Any] = {"model": LINEAR if self.model == OWN else self.model, "strata": self.strata}
        task, name = recorder.task, self._name()
        if task is None or name is None:
            return chosen
        if self.configuration and self.configuration != tuple(task.axes):
            return chosen  # model and strata are of the task's own configuration
        if self.model == OWN:
            chosen["model"] = f"{MODELS}:{name}"
        if self.strata is None:
            chosen["strata"] = f"{MODELS}:{name}.strata"
        if self.distances == Distances():
            if isinstance(task.metric, SE2):
                chosen["distances"] = Distances(metric="se2", length=task.metric.length)
            elif type(task.metric) is not Euclidean or task.metric.weights is not None:
                console.print(f"note: distances are Euclidean, not the task's own {task.metric}.", highlight=False)
        parts = f"--model {chosen['model']} --strata {chosen['strata']}"
        console.print(f"Of this task: {parts}", markup=False, highlight=False, soft_wrap=True)
        return chosen

    def _name(self) -> str | None:
        """The name of one of our environments, such as MarbleCenter."""
        return next((name for name in places() if env_id(name) == self.env.rpartition(":")[2]), None)
