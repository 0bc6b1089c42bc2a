"""Pictures of regions for a report: of a few typical held-out transitions of each stratum."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, shortened
from capture_cp.base.streams import derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_members import extract_of
from capture_cp.data.transitions import Transitions
from capture_cp.report.panel import Extract
from capture_cp.report.regions import plot_pairs, regions_figure, wrapped
from capture_cp.report.style import pyplot
from capture_cp.spaces.strata import has_grid

if TYPE_CHECKING:
    from capture_cp.commands.calibrate import Calibrate

MOST_REGIONS = 6
#: Transitions that are tried for a picture: a region can be too small a part of its surroundings to be drawn.
SPARE = 3
#: Regions of configurations of three numbers, and of more.
MOST_ROWS, MOST_MATRICES = 3, 2
#: Numbers of a configuration that are drawn by pairs, and numbers of an action that a title lists.
MOST_AXES, MOST_ACTIONS = 7, 3
#: Configurations of a region without a grid.
SAMPLE = 1500
#: A region that keeps less than this fraction of its draws is drawn with a fifth of the configurations, to save time.
SCARCE, DRAWS = 0.01, 2048


class Shown(NamedTuple):
    """A region of the report, of a held-out transition."""

    extract: Extract
    title: str
    whole: bool  #: whether parts that cover a whole stratum are left out


def region_figures(cap: Capture, kept: Transitions, command: Calibrate) -> tuple[list[bytes], str]:
    """Regions of a few typical inputs of each stratum, as PNG files, with a caption; none where no region can be drawn."""
    most = {1: MOST_REGIONS, 2: MOST_REGIONS, 3: MOST_ROWS}.get(cap.n_outputs_, MOST_MATRICES)
    shown: list[Shown] = []
    for rows in _typical(cap, kept)[:most]:
        tried = (_shown(cap, kept, command, row) for row in rows)
        shown += [*islice((one for one in tried if one is not None), 1)]
    return (_drawn(shown, kept.next_names), _caption(cap, shown)) if shown else ([], "")


def _drawn(shown: Sequence[Shown], names: Sequence[str]) -> list[bytes]:
    dims, files = shown[0].extract.particles.shape[1], []
    if dims < 4:
        figures = [regions_figure([one.extract for one in shown], [one.title for one in shown], names)]
    else:
        figures = [plot_pairs(one.extract, names, range(min(dims, MOST_AXES))) for one in shown]
        for figure, one in zip(figures, shown):
            figure.suptitle(one.title, fontsize=10)
    for figure in figures:
        file = BytesIO()
        # legends outside panels are part of the picture; matrices have none there, and finding their edges takes long
        figure.savefig(file, format="png", dpi=130, bbox_inches="tight" if dims < 4 else None)
        files.append(file.getvalue())
        pyplot().close(figure)
    return files


def starts_of(log: Transitions) -> Floats | None:
    """The configuration before each transition, (n, dc); None where that is unknown."""
    columns = configuration_columns(log.state_names, log.next_names)
    return None if columns is None else log.state[:, columns]


def configuration_columns(state: Sequence[str], after: Sequence[str]) -> list[int] | None:
    """Columns of the state that are the configuration: those named like the next one, or all if they are as many."""
    plain = [name.removeprefix("next_").removesuffix("_next") for name in after]
    if all(name in state for name in plain):
        return [state.index(name) for name in plain]
    return list(range(len(state))) if len(state) == len(plain) else None


def _shown(cap: Capture, kept: Transitions, command: Calibrate, row: int) -> Shown | None:
    seed, starts = derived_seed(command.seed, row), starts_of(kept)
    region = cap.region(kept.X[row], command.alpha, command.confidence, rng=seed)
    whole = not has_grid(region.strata) and bool(np.isinf(region.thresholds).any())
    region = region if has_grid(region.strata) else finite_region(region)
    try:
        scarce = not has_grid(region.strata) and region.acceptance(draws=DRAWS, rng=seed) < SCARCE
        start = None if starts is None else starts[row]
        extract = extract_of(region, SAMPLE // 5 if scarce else SAMPLE, seed, start, kept.Y[row])
    except CaptureError:
        return None
    return Shown(extract, _title(cap, kept, row), whole)


def finite_region(region: Region) -> Region:
    """The region without the parts that cover a whole stratum, which have no boundary that could be drawn."""
    thresholds = np.where(np.isinf(region.thresholds), -1.0, region.thresholds)
    parts = region.score, region.prediction, thresholds, region.strata, region.dims, region.alpha, region.ambient
    return Region(*parts)


def _title(cap: Capture, kept: Transitions, row: int) -> str:
    """Where a transition ended, and its action."""
    names, lines = cap.strata.names, []
    if len(names) > 1:
        lines.append(f"outcome: {shortened(names[int(cap.index(kept.Y[row : row + 1])[0])])}")
    shown = list(zip(kept.action_names, kept.action[row]))
    if 0 < len(shown) <= MOST_ACTIONS:
        lines.append("action: " + ", ".join(f"{shortened(name, 16)} {value:.3g}" for name, value in shown))
    return "\n".join(map(wrapped, lines))


def _typical(cap: Capture, kept: Transitions) -> list[list[int]]:
    """For each stratum in turn, rows spread evenly over those that ended there, each with some spare rows."""
    labels = np.asarray(cap.strata.index(kept.Y))
    present = [np.flatnonzero(labels == m) for m in range(len(cap.strata.names)) if (labels == m).any()][:MOST_REGIONS]
    each = max(1, MOST_ROWS // len(present))
    return [
        [int(row) for row in np.roll(rows, -(len(rows) * (2 * i + 1) // (2 * each)))[:SPARE]]
        for rows in present
        for i in range(min(each, len(rows)))
    ]


def _caption(cap: Capture, shown: Sequence[Shown]) -> str:
    kind = "Coloured cells" if has_grid(cap.strata) else "Coloured dots or bars"
    start = " The arrow leads from the start to the mean of the particles." if shown[0].extract.start is not None else ""
    more = " Parts that cover a whole stratum are left out." if any(one.whole for one in shown) else ""
    axes = f" Only the first {MOST_AXES} numbers are drawn." if cap.n_outputs_ > MOST_AXES else ""
    return f"Regions of some held-out transitions. {kind} are the region, by stratum.{start}{more}{axes}"
