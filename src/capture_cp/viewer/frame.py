"""What is drawn at one time, and what has been counted until then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from capture_cp.base.checks import Ints
from capture_cp.viewer.run import Moment
from capture_cp.viewer.settings import View
from capture_cp.viewer.world import Ahead, World


@dataclass
class Tally:
    """Running counts of one method: outcomes of episodes, and steps by the kind of stratum they ended in."""

    landed: Ints
    held: Ints
    outcomes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Frame:
    """All that is drawn at one time.

    Attributes:
        mode: "by hand", "live" or "replay".
        ahead: steps of the plan with their regions, by method; only of methods that are calibrated.
        waiting: methods that are still being calibrated.
        time, steps: of the replay, or of the live episode.
    """

    settings: View
    world: World
    mode: str
    moment: Moment
    ahead: Mapping[str, list[Ahead]]
    waiting: tuple[str, ...]
    tallies: Mapping[str, Tally]
    time: int
    steps: int
    episode: int
