"""Measures the examples of `capture gap` on their real data and writes rows, curves and poses into docs/assets.

`CAPTURE_DATA=folder python docs/make_gaps.py [cube elbow so101]`: the data are other people's, see examples/*/README.md. The
pictures are drawn from what is stored: `python docs/make_figures.py gap-cube gap-elbow gap-so101`.
"""

import json
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp import measure_gap
from capture_cp.conformal.hierarchical import episode_quantiles
from capture_cp.gap.result import Gap

ASSETS, EXAMPLES = Path(__file__).parent / "assets", Path(__file__).parents[1] / "examples"
DATA = Path(os.environ.get("CAPTURE_DATA", "."))
COUNTED = {"1 point": "corner", "2 points": "edge", "3+ points": "face"}
SPLITS = 20
STEPS = (1, 2, 5, 10, 25, 50)
EVERY = 5  # rows of the arm: all 158,944 take five times as long; most bounds differ by less than 2%, none by more than 8%
LIMITS = (2, 5, 10, 20, 40, 60)  # mm at the gripper


def cube() -> tuple[Gap, dict[str, Any]]:
    """The published cube, the fitted one and Bullet, on the tosses that nothing was fitted on."""
    folder = EXAMPLES / "cube"
    simulators: list[Any] = [folder / "cube.xml", folder / "rounded.xml"]
    if find_spec("pybullet"):
        sys.path.insert(0, str(folder))
        import bullet

        simulators.append(("bullet:cube", bullet.cube))
    left_out = (folder / "fitted_on.txt").read_text().split()
    named = " ".join(f'"{name}={other}"' for name, other in COUNTED.items())
    command = f"capture gap cube.xml rounded.xml bullet:cube tosses.parquet --modes-from rounded.xml --mode-names {named}"
    gap = measure_gap(
        simulators,
        DATA / "cube" / "tosses.parquet",
        tolerance=("10mm", "5deg"),
        modes_from=folder / "rounded.xml",
        mode_names=COUNTED,
        without=tuple(left_out),
        config={
            "command": f"{command} --without fitted_on.txt --tolerance 10mm 5deg",
            "modes_from": "rounded.xml",
            "without": len(left_out),
        },
    )
    return gap, {"one_threshold": {str(step): one_threshold(gap, step) for step in (1, 10)}}


def one_threshold(gap: Gap, step: int) -> dict[str, float]:
    """Share of rows within one bound for all modes, by mode: half of the tosses set it, the others judge; mean of splits."""
    part = gap.parts[0]
    errors, episode = part.main("cube.xml")[:, part.steps.index(step)], part.log.episode[part.starts]
    there, rng = part.log.after[part.starts] >= step, np.random.default_rng(0)
    mode, names = part.mode[np.minimum(part.starts + step, len(part.log) - 1)], np.unique(episode)
    found = []
    for _ in range(SPLITS):
        half = there & np.isin(episode, rng.permutation(names)[: len(names) // 2])
        bound = episode_quantiles(errors[half], episode[half], [gap.stated.alpha])[0]
        found.append([])
        for m in range(len(part.modes)):
            rows = there & ~half & (mode == m)
            visited, number, count = np.unique(episode[rows], return_inverse=True, return_counts=True)
            found[-1].append(np.sum((errors[rows] <= bound) / count[number]) / len(visited))  # a toss counts once
    return dict(zip(part.modes, np.mean(found, axis=0).tolist()))


def elbow() -> tuple[Gap, dict[str, Any]]:
    """The elbow with and without friction in its hinge."""
    simulators = [EXAMPLES / "elbow" / name for name in ("elbow.xml", "elbow_free_hinge.xml")]
    log, tolerance = DATA / "elbow" / "tosses.parquet", ("first.position=10mm", "first.rotation=5deg")
    command = f"capture gap elbow.xml elbow_free_hinge.xml tosses.parquet --tolerance {' '.join(tolerance)}"
    return measure_gap(simulators, log, tolerance=tolerance, config={"command": command}), {}


def so101() -> tuple[Gap, dict[str, Any]]:
    """Three kinds of servos; and for how many steps of 25 each is trusted at the gripper, by tolerance."""
    simulators = [EXAMPLES / "so101" / f"{name}.xml" for name in ("menagerie", "simple", "soft")]
    command = "capture gap menagerie.xml simple.xml soft.xml motions.parquet --site grip --steps"
    gap = measure_gap(
        simulators,
        DATA / "so101" / "motions.parquet",
        steps=(*range(1, 26), 50),
        sites=("grip",),
        every=EVERY,
        config={"command": f"{command} {' '.join(map(str, STEPS))} --every {EVERY}"},
    )
    (part,) = gap.parts
    near = replace(part, steps=part.steps[:25], errors={name: errors[:, :25] for name, errors in part.errors.items()})
    trust = {}
    for limit in LIMITS:
        stated = replace(gap.stated, steps=(1,), alpha=0.2, tolerance={"grip": float(limit)})
        rows = replace(gap, parts=(near,), stated=stated).trust
        trust[str(limit)] = {row["simulator"]: row["trusted_steps"] for row in rows if row["mode_at"] == "end"}
    return replace(gap, stated=replace(gap.stated, steps=STEPS)), {"trust_at_grip": trust}


def rounded(value: Any) -> Any:
    """Numbers with five digits: more than is known, and a third of the file."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    for name in sys.argv[1:] or ["cube", "elbow", "so101"]:
        gap, extra = globals()[name]()
        document = gap.document()
        document["rows"] = [row for row in document["rows"] if row["mode_at"] == "end"]
        document["config"]["log"] = document["page"]["log"]["name"] = Path(document["config"]["log"]).name
        file = ASSETS / f"gap-{name}.json"
        file.write_text(json.dumps(rounded({**document, "extra": extra}), separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{file.name}: {len(document['rows'])} rows, {file.stat().st_size / 1000:.0f} kB")
