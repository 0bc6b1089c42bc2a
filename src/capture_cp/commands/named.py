"""The model and strata of a saved calibration: named by a command, or by the calibration itself where that is trusted.

To import a module runs it. So what a file names is imported only if the user says that the file is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.files import Pathlike
from capture_cp.capture.capture import Capture
from capture_cp.commands.bundle import brings, is_object_name, load_calibration
from capture_cp.commands.options import LINEAR
from capture_cp.commands.user_objects import user_model, user_strata
from capture_cp.conformal.scores import Model
from capture_cp.spaces.strata import Strata

OWN = ("model", "strata")


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
    own = {"model": None if model == LINEAR else model, "strata": strata}
    for option in own:
        if own[option] is None and not brings(facts, option):
            own[option] = _trusted(path, facts, option, trust)
    found_model = None if own["model"] is None else user_model(own["model"], folder)
    found_strata = None if own["strata"] is None else user_strata(own["strata"], folder, Y)
    return load_calibration(path, found_model, found_strata)


def _trusted(path: Path, facts: Mapping[str, Any], option: str, trust: bool) -> str:
    """The name that a calibration holds for its model or strata; an error if it holds none or is not trusted."""
    name = facts.get(option)
    if not is_object_name(name):
        raise CaptureError(
            f"calibration {path} was made with your own {option}, whose name it does not hold; give --{option} "
            "module:object."
        )
    if not trust:
        raise CaptureError(
            f"calibration {path} was made with --{option} {name}; give that (or --trust to import the names that the file "
            "holds)."
        )
    return str(name)


def imported(
    facts: Mapping[str, Any], folder: Pathlike, model: Model | None, strata: Strata | None
) -> tuple[Model | None, Strata | None]:
    """The model and strata given, and where they are None and the file names its own, what these names stand for."""
    where, names = Path(folder), {option: facts.get(option) for option in OWN}
    if model is None and is_object_name(names["model"]):
        model = user_model(str(names["model"]), where)
    if strata is None and is_object_name(names["strata"]):
        strata = user_strata(str(names["strata"]), where)
    return model, strata
