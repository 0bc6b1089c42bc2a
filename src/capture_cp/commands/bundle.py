"""What a calibration contains so that it can be loaded alone: columns, alpha, and the built-in model and strata.

A model and strata of the user's own are named by a command, or by the calibration itself. To import a module runs it, so
what a file names is imported only if the user says that the file is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from capture_cp.base.arrays import digest
from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
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
    facts = robot_facts(path)
    if "gap" in facts:
        from capture_cp.gap.saved import loaded

        return loaded(path, facts, model, strata)
    if trust and model is None and is_object_name(facts.get("model")):
        model = user_model(str(facts["model"]), Path(folder))
    if trust and strata is None and is_object_name(facts.get("strata")):
        strata = user_strata(str(facts["strata"]), Path(folder))
    for name, what, given in (("model", "a model", model), ("strata", "strata", strata)):
        if given is None and not brings(facts, name):
            named = is_object_name(facts.get(name))
            called = f" ({facts[name]})" if named else ""
            way_out = ", or with trust=True, which imports it by that name" if named else ""
            raise CaptureError(
                f"calibration {path} was made with {what} of your own{called}; call load_calibration(path, {name}=...)"
                f"{way_out}."
            )
    model = model if model is not None else LinearModel.from_facts(facts[_BROUGHT["model"]])
    strata = strata if strata is not None else one_stratum(_grid(facts[_BROUGHT["strata"]]))
    return Capture.load(path, model, strata)  # type: ignore[arg-type]  # no files are left


def named_calibration(
    path: Path,
    facts: Mapping[str, Any],
    model: str | None,
    strata: str | None,
    folder: Path,
    trust: bool,
    Y: Floats | None = None,
) -> Capture:
    """A calibration with its model and strata: those it brings, those a command names, or with `trust` those it names.

    Args:
        path: the file, `facts` what `robot_facts` reads from it.
        model, strata: `module:object`, or None.
        folder: where their modules lie that are not installed.
        trust: whether names out of the file may be imported.
        Y: configurations (n, dc) that the strata must answer for.
    """
    if "gap" in facts:
        return load_calibration(path, model, strata)
    own = {"model": None if model == LINEAR else model, "strata": strata}
    for option in own:
        if own[option] is None and not brings(facts, option):
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
            own[option] = str(name)
    found_model = None if own["model"] is None else user_model(own["model"], folder)
    found_strata = None if own["strata"] is None else user_strata(own["strata"], folder, Y)
    return load_calibration(path, found_model, found_strata)


#: Under what name the built-in model and strata are in a calibration.
_BROUGHT = {"model": "linear", "strata": "grid"}


def brings(facts: Mapping[str, Any], what: str) -> bool:
    """Whether a calibration with these facts contains its "model" or its "strata"."""
    return _BROUGHT[what] in facts


def robot_facts(path: Pathlike) -> Mapping[str, Any]:
    """What `capture calibrate` saved with the calibration; empty for one from `Capture.save`."""
    data = read(path)[0].get("data")
    facts = data.get("robot", {}) if isinstance(data, dict) else {}
    columns = facts.get("columns", {}) if isinstance(facts, dict) else None
    sound = (
        isinstance(columns, dict)
        and all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in columns.values())
        and all(isinstance(facts.get(name), str | None) for name in ("episode", "time", "clock", "model", "strata"))
    )
    if not sound:
        raise CaptureError(f"calibration {path} is damaged; calibrate again.")
    return dict(facts)


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
