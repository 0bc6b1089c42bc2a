"""Pictures of regions in a report, some for each stratum."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.base.streams import derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_members import extract_of
from capture_cp.commands.options import configuration_columns
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
    typical = _typical(cap, kept)[:most]
    if has_grid(cap.strata):
        shown = _shown(cap, kept, command, [rows[0] for rows in typical])
    else:
        first = (next((one for row in rows for one in _shown(cap, kept, command, [row])), None) for rows in typical)
        shown = [one for one in first if one is not None]
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


def _shown(cap: Capture, kept: Transitions, command: Calibrate, numbers: list[int]) -> list[Shown]:
    """The regions of some rows; none where a region without a grid is too small a part of its surroundings."""
    rows, seed, question = kept.rows(numbers), derived_seed(command.seed, *numbers), (command.alpha, command.confidence)
    columns = configuration_columns(rows.state_names, rows.next_names)
    starts = None if columns is None else rows.state[:, columns]
    prediction = cap.predicted(rows.X, None, seed)
    regions = cap.regions(rows.X, *question, prediction)
    inside = cap.contains(rows.X, rows.next, *question, prediction)
    whole, n = False, SAMPLE
    try:
        if not has_grid(cap.strata):
            whole = bool(np.isinf(regions[0].thresholds).any())
            regions = [finite_region(regions[0])]
            n = SAMPLE // 5 if regions[0].acceptance(draws=DRAWS, rng=seed) < SCARCE else SAMPLE
        places = zip([None] * len(rows) if starts is None else starts, rows.next, inside.tolist())
        extracts = [extract_of(region, n, seed, *place) for region, place in zip(regions, places)]
    except CaptureError:
        return []
    return [Shown(one, title, whole) for one, title in zip(extracts, _titles(cap, rows))]


def finite_region(region: Region) -> Region:
    """The region without the parts that cover a whole stratum, which have no boundary that could be drawn."""
    thresholds = np.where(np.isinf(region.thresholds), -1.0, region.thresholds)
    parts = region.score, region.prediction, thresholds, region.strata, region.dims, region.alpha, region.ambient
    return Region(*parts)


def _titles(cap: Capture, rows: Transitions) -> list[str]:
    """Where transitions ended, and their actions."""
    names, lines = list(map(shortened, cap.strata.names)), [""] * len(rows.action)
    if len(names) > 1:
        lines = [f"outcome: {names[m]}\n" for m in cap.index(rows.next)]
    if 0 < len(rows.action_names) <= MOST_ACTIONS:
        known = [shortened(name, 16) for name in rows.action_names]
        actions = [", ".join(f"{name} {value:.3g}" for name, value in zip(known, action)) for action in rows.action]
        lines = [f"{line}action: {action}" for line, action in zip(lines, actions)]
    return wrapped([line.removesuffix("\n") for line in lines])


def _typical(cap: Capture, kept: Transitions) -> list[list[int]]:
    """For each stratum in turn, rows spread evenly over those that ended there, each followed by some spare ones."""
    labels = np.asarray(cap.strata.index(kept.next))
    present = [np.flatnonzero(labels == m) for m in range(len(cap.strata.names)) if (labels == m).any()][:MOST_REGIONS]
    each = max(1, MOST_ROWS // len(present))
    return [
        np.roll(rows, -(len(rows) * (2 * i + 1) // (2 * each)))[:SPARE].tolist()
        for rows in present
        for i in range(min(each, len(rows)))
    ]


def _caption(cap: Capture, shown: Sequence[Shown]) -> str:
    kind = "Coloured cells" if shown[0].extract.spacing is not None else "Coloured dots or bars"
    start = " The arrow leads from the start to the mean of the particles." if shown[0].extract.start is not None else ""
    more = " Parts that cover a whole stratum are left out." if any(one.whole for one in shown) else ""
    axes = f" Only the first {MOST_AXES} numbers are drawn." if cap.n_outputs_ > MOST_AXES else ""
    return f"Regions of some held-out transitions. {kind} are the region, by stratum.{start}{more}{axes}"
