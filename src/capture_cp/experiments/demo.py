"""The demo: all six methods on the built-in box, coverage by stratum, a picture and a saved calibration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track

from capture_cp.checks import CaptureError, failure_rate, whole_number
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.groups import Tree
from capture_cp.experiments.output import check_writable, coverage_table, output_folder, write_rows
from capture_cp.methods import METHODS, method
from capture_cp.plotting import plot_strata, pyplot
from capture_cp.predictor import Capture
from capture_cp.tasks.box import Box

#: A push at the pillar's corner: the point may slide along either face or pass it by.
PUSH = (0.42, 0.8, 0.18, -0.24)


@dataclass(frozen=True)
class Demo:
    """Calibrate the six methods on a point in a box, and show who covers free space, edges and corners.

    The true point moves 1.5 times as far as the model believes. Every method gets the same model and the same logged
    transitions; fresh transitions then show how often the next position is inside the region.
    """

    transitions: Annotated[int, tyro.conf.arg(help="Logged transitions to calibrate on, and as many to test on.")] = 40_000
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate: regions cover at least 1 - alpha.")] = 0.1
    particles: Annotated[int, tyro.conf.arg(help="Particles L from the model; CaPTURe scores the L/2-th nearest.")] = 16
    per_stratum: Annotated[
        bool, tyro.conf.arg(help="One tree a stratum: coverage by stratum is then a theorem. Off: the paper's single tree.")
    ] = True
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same figures.")] = 0
    out: Annotated[Path, tyro.conf.arg(help="Folder for the picture and the saved calibration.")] = Path("capture-demo")
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the table's rows to this file.")] = None

    def run(self, console: Console) -> None:
        """Run the demo and print what it found."""
        failure_rate(self.alpha)
        whole_number("transitions", self.transitions, 1)
        check_writable(self.json)
        folder = output_folder(self.out)
        box = Box()
        fitted, results = self._calibrate(box, console)
        console.print(coverage_table("A point in a box: coverage by where the point ends up", results, "capture"))
        rows = [row for name, result in results.items() for row in result.rows(task="box", map="box", method=name)]
        if self.json is not None:
            write_rows(self.json, rows, self)
        fitted["capture"].save(folder / "box.capture")
        region = fitted["capture"].region(PUSH, self.alpha)
        console.print(f"\nOne region, for a push at the pillar's corner: {region}", markup=False)
        console.print(f"Saved calibration: {folder / 'box.capture'}")
        try:
            self._draw(box, fitted, folder / "regions.png")
            console.print(f"Regions of all six methods: {folder / 'regions.png'}")
        except CaptureError as error:
            console.print(f"No picture: {error}", markup=False)

    def _calibrate(self, box: Box, console: Console) -> tuple[dict[str, Capture], dict[str, Coverage]]:
        rng = np.random.default_rng(self.seed)
        calibration, test = (box.transitions(self.transitions, rng) for _ in range(2))
        fitted, results = {}, {}
        for name in track(METHODS, description="Calibrating six methods", console=console, transient=True):
            tree = Tree(per_stratum=self.per_stratum)
            cap = method(name, box, box.strata, n_particles=self.particles, tree=tree, seed=self.seed)
            fitted[name] = cap.fit(calibration.X, calibration.Y)
            results[name] = cap.coverage(test.X, test.Y, self.alpha)
        return fitted, results

    def _draw(self, box: Box, fitted: dict[str, Capture], file: Path) -> None:
        figure, panels = pyplot().subplots(2, 3, figsize=(10, 7), sharex=True, sharey=True, layout="constrained")
        x = np.array(PUSH)
        for panel, (name, cap) in zip(panels.flat, fitted.items()):
            plot_strata(box.strata, panel)
            cap.region(x, self.alpha).plot(panel)
            panel.annotate("", x[:2] + x[2:], x[:2], arrowprops={"arrowstyle": "->", "lw": 1.5})
            panel.plot(*x[:2], "o", color="black", markerfacecolor="white", markersize=7, label="state")
            panel.set_title(name)
            panel.legend(fontsize=7, loc="lower left")
        figure.suptitle(f"Where will the point be after this push? Regions at {1 - self.alpha:.0%}; grey is solid.")
        figure.savefig(file, dpi=110)
        pyplot().close(figure)
