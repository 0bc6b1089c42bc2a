"""What a calibration contains so that it can be loaded alone: columns, alpha, and the built-in model and strata.

A model and strata of the user's own are named by a command, or by the calibration itself. To import a module runs it, so
what a file names is imported only if the user says that the file is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from capture_cp.base.arrays import digest
from capture_cp.base.checks import CaptureError, Floats, confidence_level, finite_array, whole_number
from capture_cp.base.files import Pathlike
from capture_cp.capture.artifact import read
from capture_cp.capture.capture import Capture
from capture_cp.commands.options import LINEAR
from capture_cp.commands.user_objects import user_model, user_strata
from capture_cp.conformal.scores import Model
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import Strata, one_stratum

#: Cells per axis of the grid around the data, by the number of axes.
CELLS = {1: 400, 2: 120, 3: 48}
MOST_CELLS = 10_000_000

#: What a calibration may hold as the name of a model or of strata.
OBJECT_NAME, LONGEST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*:\w+(\.\w+)*"), 200

MOST_RESIDUALS = 512  # of the training transitions, that the built-in model keeps


def load_calibration(
    path: Pathlike,
    model: Model | Pathlike | None = None,
    strata: Strata | Pathlike | None = None,
    trust: bool = False,
    folder: Pathlike = ".",
) -> Capture:
    """A calibration that `capture calibrate` saved, ready to use; give `model` and `strata` only if they were your own.

    For one that `capture gap` saved, they are model files: of the simulator, and of contact modes where that is another.
    By default they are those beside the calibration.

    With `trust` those of your own that are not given are imported by the names that the file holds, from modules that are
    installed or lie in `folder`. To import a module runs it: only for files that you trust.
    """
    facts, found = robot_facts(path), dict[str, Any](model=model, strata=strata)
    if "gap" in facts:
        from capture_cp.gap.saved import loaded

        return loaded(path, facts, model, strata)
    for what in missing(facts, found):
        name, a = facts.get(what), "a model" if what == "model" else "strata"
        named = is_object_name(name)
        if named and trust:
            found[what] = OWN[what](str(name), Path(folder))
        else:
            called = f" ({name})" if named else ""
            way_out = ", or with trust=True, which imports it by that name" if named else ""
            raise CaptureError(
                f"calibration {path} was made with {a} of your own{called}; call load_calibration(path, {what}=...)"
                f"{way_out}."
            )
    if found["model"] is None:
        found["model"] = LinearModel.from_facts(facts["linear"])
    if found["strata"] is None:
        found["strata"] = one_stratum(_grid(facts["grid"]))
    return Capture.load(path, **found)


def named_calibration(
    path: Path, facts: Mapping[str, Any], model: str | None, strata: str | None, folder: Path, trust: bool
) -> Capture:
    """A calibration with its model and strata: those it contains, those a command names, or with `trust` those it names.

    Args:
        path: the file, `facts` what `robot_facts` reads from it.
        model, strata: `module:object`, or None.
        folder: where their modules lie that are not installed.
        trust: whether names out of the file may be imported.
    """
    if "gap" in facts:
        return load_calibration(path, model, strata)
    named = {"model": None if model == LINEAR else model, "strata": strata}
    for option in missing(facts, named):
        name = facts.get(option)
        if not is_object_name(name):
            raise CaptureError(
                f"calibration {path} was made with your own {option}, whose name it does not hold; give --{option} "
                "module:object."
            )
        if not trust:
            raise CaptureError(
                f"calibration {path} was made with --{option} {name}; give that (or --trust to import the names that "
                "the file holds)."
            )
    found = {option: OWN[option](name, folder) for option, name in named.items() if name is not None}
    return load_calibration(path, **found, trust=trust, folder=folder)


#: How a model and strata are found by their names, and under what name a calibration contains the built-in ones.
OWN: dict[str, Callable[[str, Path], Any]] = {"model": user_model, "strata": user_strata}
_CONTAINED = {"model": "linear", "strata": "grid"}


def missing(facts: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Which of "model" and "strata" are neither given nor contained in a calibration with these facts."""
    return [what for what, value in given.items() if value is None and _CONTAINED[what] not in facts]


def robot_facts(path: Pathlike) -> Mapping[str, Any]:
    """What `capture calibrate` saved with the calibration; empty for one from `Capture.save`."""
    data = read(path)[0].get("data")
    facts = data.get("robot", {}) if isinstance(data, dict) else {}
    columns = facts.get("columns", {}) if isinstance(facts, dict) else None
    sound = (
        isinstance(columns, dict)
        and all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in columns.values())
        and all(isinstance(facts.get(name), str | None) for name in ("episode", "time", "clock", "model", "strata"))
        and all(isinstance(facts.get(name, 0.5), float | None) for name in ("alpha", "confidence"))
        and isinstance(facts.get("steps", 1), int)
    )
    if not sound:
        raise CaptureError(f"calibration {path} is damaged; calibrate again.")
    confidence_level(facts.get("confidence"))
    return dict(facts)


def input_names(cap: Capture) -> list[str] | None:
    """Names of the inputs of a calibration that `capture calibrate` made, (dx,); None where they are not known."""
    columns = cap.data_.get("robot", {}).get("columns", {})
    names = [*columns.get("state", ()), *columns.get("action", ())]
    return names if len(names) == cap.n_inputs_ else None


def is_object_name(name: Any) -> bool:
    """Whether a value from a file is `module:object` and nothing else: dotted names, which are safe to print."""
    return isinstance(name, str) and len(name) <= LONGEST_NAME and OBJECT_NAME.fullmatch(name) is not None


def grid_around(low: Floats, high: Floats) -> Grid | None:
    """A grid from `low` to `high` (dc,) and half their range beyond, for volumes and pictures; None beyond 3 axes."""
    cells = CELLS.get(len(low))
    if cells is None or not (high > low).all():
        return None
    margin = (high - low) / 2
    spacing = (high - low + 2 * margin) / (cells - 1)
    return Grid((low - margin).tolist(), spacing.tolist(), [cells] * len(low))


def grid_facts(grid: Grid | None) -> dict[str, Any] | None:
    """A grid as JSON can hold it."""
    if grid is None:
        return None
    return {"origin": grid.origin.tolist(), "spacing": grid.spacing.tolist(), "shape": list(grid.shape)}


def _grid(facts: Any) -> Grid | None:
    if facts is None:
        return None
    try:
        shape = [whole_number("grid shape", cells, 1) for cells in facts["shape"]]
        if np.prod(np.array(shape, dtype=float)) > MOST_CELLS:
            raise CaptureError("it has too many cells")
        return Grid(facts["origin"], facts["spacing"], shape)
    except (KeyError, TypeError, ValueError) as error:
        raise CaptureError(f"the grid in the calibration is damaged ({error}); calibrate again.") from None


@dataclass(frozen=True)
class LinearModel:
    """Next configurations as an affine function of the input, plus residuals drawn from its training transitions.

    It knows no walls and no friction. Regions around it are valid, and larger than those of a better model.

    Attributes:
        coefficients: of a one and the input, (1 + dx, dc).
        residuals: what training transitions had beyond it, (r, dc).
    """

    coefficients: Floats
    residuals: Floats

    @classmethod
    def trained(cls, X: Floats, Y: Floats) -> Self:
        """Least squares on transitions X (n, dx), Y (n, dc) that are used for nothing else."""
        centre, spread, middle = X.mean(axis=0), X.std(axis=0), Y.mean(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        scaled = X - centre
        scaled /= scale
        slopes = np.linalg.lstsq(scaled, Y - middle, rcond=None)[0] / scale[:, None]
        coefficients = np.vstack([middle - centre @ slopes, slopes])
        kept = slice(None, None, -(-len(X) // MOST_RESIDUALS))
        return cls(coefficients, Y[kept] - coefficients[0] - (X @ slopes)[kept])

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) of inputs X (n, dx)."""
        drawn = rng.integers(len(self.residuals), size=(len(X), n_particles))
        particles = self.residuals.take(drawn, axis=0)
        particles += (self.coefficients[0] + X @ self.coefficients[1:])[:, None]
        return particles

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """Mean (n, dc) and covariance (n, dc, dc), for LUCCa."""
        covariance = np.cov(self.residuals, rowvar=False).reshape(2 * self.residuals.shape[1:])
        tiny = 1e-12 * max(float(np.trace(covariance)), 1e-300) * np.eye(len(covariance))
        return self.coefficients[0] + X @ self.coefficients[1:], np.tile(covariance + tiny, (len(X), 1, 1))

    def identity(self) -> str:
        """Digest of its numbers."""
        return digest(self.coefficients, self.residuals)

    def facts(self) -> dict[str, Any]:
        """Its numbers as JSON can hold them, to the last bit."""
        return {"coefficients": self.coefficients.tolist(), "residuals": self.residuals.tolist()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """The model that `facts` came from."""
        try:
            coefficients = finite_array("coefficients", facts["coefficients"], (None, None), "(1 + dx, dc)")
            residuals = finite_array("residuals", facts["residuals"], (None, coefficients.shape[1]), "(r, dc)")
        except (KeyError, TypeError, CaptureError) as error:
            raise CaptureError(f"the linear model in the calibration is damaged ({error}); calibrate again.") from None
        return cls(coefficients, residuals)
