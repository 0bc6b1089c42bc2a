"""The command that records transitions from a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, known_name, whole_number
from capture_cp.base.files import check_writable
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.commands.environments import RANDOM, found_policy, made_env
from capture_cp.commands.recorder import Recorder
from capture_cp.data.tables import FORMATS, write_table

Environment = Annotated[str, tyro.conf.arg(help="Gymnasium ID, or module:ID to import a module first.", metavar="ENV")]
PolicyName = Annotated[
    str, tyro.conf.arg(help="module:object, called as policy(observation) or policy.predict(observation); or random.")
]
Steps = Annotated[int, tyro.conf.arg(help="Number of transitions to log; the last episode may be cut short.")]
Entries = Annotated[
    tuple[int, ...],
    tyro.conf.arg(help="Entries of the observation that are the configuration, counted from 0.", metavar="ENTRY ..."),
]


@dataclass(frozen=True)
class LogEnv:
    """Record transitions from a Gymnasium environment: one row per step, for `capture calibrate`.

    The columns state_0, ..., action_0, ..., next_0, ... hold the observation before the step, the action, and the
    observation after it. Our environments use the task's names and units. Further columns are episode, step, reward,
    terminated and truncated. Observations of Dict or Discrete spaces are flattened. If you stop the command, or if the
    environment fails, the transitions recorded so far are saved.
    """

    env: tyro.conf.Positional[Environment]
    policy: PolicyName = RANDOM
    steps: Steps = 10_000
    configuration: Entries = ()
    out: Annotated[Path, tyro.conf.arg(help="File for the log: .parquet, .npz or .csv.")] = Path("log.parquet")
    folder: Annotated[
        Path, tyro.conf.arg(help="Folder with the modules of ENV and --policy, if they are not installed.")
    ] = Path()
    seed: Annotated[int, tyro.conf.arg(help="Random seed for the environment and for random actions.")] = 0

    def run(self, console: Console) -> None:
        """Record, and print the command to calibrate with."""
        with self.opened() as recorder:
            self.record(recorder, console)
        columns = f"--state {' '.join(recorder.state_names)} --action {' '.join(recorder.action_names)}"
        after = [recorder.next_names[entry] for entry in self.entries(recorder)] or ["..."]
        go_on = f"capture calibrate {self.out} {columns} --next {' '.join(after)} --episode episode"
        console.print(f"Calibrate on it with: {go_on}", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def opened(self) -> Iterator[Recorder]:
        """A recorder of the environment, which is closed afterwards; anything unusable raises an error now."""
        whole_number("steps", self.steps, 1)
        whole_number("seed", self.seed, 0)
        known_name(f"ending of {self.out},", self.out.suffix.lower(), FORMATS)
        check_writable(self.out)
        env = made_env(self.env, self.folder)
        try:
            recorder = Recorder(env, found_policy(self.policy, self.folder, env.action_space, self.seed), self.seed)
            self.entries(recorder)
            yield recorder
        finally:
            env.close()

    def record(self, recorder: Recorder, console: Console) -> None:
        """Record, and print how much; if it is stopped, the transitions so far are written."""
        try:
            with progress_bar() as progress:
                recorder.run(self.steps, advancing(progress, "Logging", self.steps))
        finally:
            if len(recorder):
                write_table(self.out, recorder.table())
                of = f"{len(recorder):,} transitions of {recorder.episodes:,} episodes"
                console.print(f"Logged {of}: {self.out}", markup=False, highlight=False)

    def entries(self, recorder: Recorder) -> tuple[int, ...]:
        """Entries of the observation that are the configuration: those given, the task's own for ours, else none."""
        size = len(recorder.state_names)
        for entry in self.configuration:
            if not 0 <= entry < size:
                raise CaptureError(f"configuration has the entry {entry}; the observation has {size}, 0 to {size - 1}.")
        if len(set(self.configuration)) < len(self.configuration):
            raise CaptureError(f"configuration is {self.configuration}, where an entry repeats; name each once.")
        own = () if recorder.task is None else tuple(recorder.task.axes)
        return self.configuration or own
