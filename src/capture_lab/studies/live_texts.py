"""What the live page of a task says: the current activity, the regions' sizes, and counts of steps and episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capture_cp.base.checks import Ints
from capture_cp.conformal.coverage import Count
from capture_cp.planning.episode import TIMED_OUT
from capture_cp.spaces.strata import has_grid
from capture_cp.viewer.texts import coverage_table, table, target
from capture_lab.tasks.drawing import Drawing
from capture_lab.tasks.moment import Moment

RECORDED = "Regions and counts are those of the recording."
PRACTISED = (
    "Calibrated on {practice:,} runs of this planner. New runs are exchangeable with them: where a run visits a stratum, a "
    "random one of its steps there is inside its region with probability at least {target}. Steps of one run are not "
    "independent."
)
OTHERWISE = (
    "Calibrated on states and actions that this planner did not choose. Its steps are not exchangeable with them, so the "
    "percentage can differ from the target."
)


@dataclass
class Tally:
    """Running counts of one method: outcomes of episodes, and steps by the regime they ended in."""

    landed: Ints
    held: Ints
    outcomes: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Tally:
        """A copy that later counts do not change."""
        return Tally(self.landed.copy(), self.held.copy(), Counter(self.outcomes))

    def counts(self, regimes: tuple[str, ...]) -> list[Count]:
        """Steps over all, and by regime."""
        names, held, landed = ("all", *regimes), self.held.tolist(), self.landed.tolist()
        return [Count(*row) for row in zip(names, [sum(held), *held], [sum(landed), *landed])]


@dataclass(frozen=True)
class Shown:
    """Everything that is shown at one time.

    Attributes:
        mode: "by hand", "live" or "replay".
        now: with plans of the methods that are calibrated.
        waiting: methods that are still being calibrated.
        progress: of slow work, in words.
        episode: number of the live episode.
        practice: runs of this planner on which the first method's regions of executed steps are calibrated; 0 if they are
            calibrated on other transitions, or if the settings differ from those of the runs.
    """

    settings: Any
    scene: Drawing
    mode: str
    now: Moment
    waiting: tuple[str, ...]
    progress: str
    tallies: Mapping[str, Tally]
    episode: int
    practice: int


def status_line(shown: Shown) -> str:
    """The current activity, in a few words."""
    if shown.waiting:
        return f"calibrating {' and '.join(shown.waiting)}{shown.progress} …"
    if shown.mode == "by hand":
        return shown.progress or "by hand: press Play to plan live, or move the sliders"
    doing, now = "recording" if shown.mode == "replay" else f"episode {shown.episode + 1}", shown.now
    text = f"{doing}, step {len(now.trail) - 1}"
    if now.outcome is not None:
        return f"{text}: {now.outcome}"
    return text + (f", plan {now.plan_ms:.0f} ms" if now.plan_ms is not None else "")


def inside_line(shown: Shown) -> str:
    """How many executed steps of the first method ended inside their region; empty if there are none."""
    tally = shown.tallies.get(shown.settings.method)
    if tally is None or not tally.landed.sum():
        return ""
    held, landed = int(tally.held.sum()), int(tally.landed.sum())
    share = f"{100 * held / landed:.0f}%, target {target(shown.settings.alpha)}"
    return f"{held} of {landed} steps inside their region ({share})"


def regions_table(shown: Shown) -> str:
    """Cells of the first region by regime, or volumes without a grid, one column per method: Markdown."""
    cells = {name: steps[0].cells for name, steps in shown.now.plans.items() if steps}
    task, gridded = shown.scene.task, has_grid(shown.scene.task.strata)
    of, names = np.append(task.stratum_regimes, len(task.regimes)), (*task.regimes, "infeasible")
    counts = [np.bincount(of, weights=found, minlength=len(names)) for found in cells.values()]
    shown_as = "{:,.0f}" if gridded else "{:.3g}"
    rows = [[name, *map(shown_as.format, line)] for name, line in zip(names, zip(*counts))]
    title = f"**Size of the next step's region** ({'cells' if gridded else 'volume'}, α = {shown.settings.alpha:g})"
    return table(title, ["stratum", *cells], rows) if cells else ""


def counts_table(shown: Shown) -> str:
    """Executed steps that ended inside their region, and episodes by outcome, one column per method: Markdown."""
    tallies, alpha = shown.tallies, shown.settings.alpha
    if not tallies:
        return ""
    practised = PRACTISED.format(practice=shown.practice, target=target(alpha)) if shown.practice else OTHERWISE
    counts = {name: tally.counts(shown.scene.task.regimes) for name, tally in tallies.items()}
    named = dict.fromkeys(outcome for tally in tallies.values() for outcome in tally.outcomes)
    failed = [outcome for outcome in named if outcome not in ("success", TIMED_OUT)] or ["fell"]
    rows = [
        [outcome, *(f"{tally.outcomes[outcome]} / {tally.outcomes.total()}" for tally in tallies.values())]
        for outcome in ("success", *failed, TIMED_OUT)
    ]
    steps = coverage_table(counts, alpha, [RECORDED if shown.mode == "replay" else practised])
    return f"{steps}\n\n{table('**Episodes so far**', ['ended with', *tallies], rows)}"
