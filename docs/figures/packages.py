"""The packages of the library, one above the other, from the contract in pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
IMAGE = Path(__file__).parents[1] / "images" / "packages.svg"
WIDTH, LEFT, BAND, GAP = 960, 20, 40, 8
COLOURS = {"people": "#CC79A7", "systems": "#009E73", "method": "#E69F00", "arrays": "#0072B2", "ground": "#999999"}

#: Contents of a layer, by its first package, and the colour of its band.
CONTENTS = {
    "cli": ("the command line", "people"),
    "commands": ("your log: calibrate, check, view", "people"),
    "viewer": ("the live page, for a task or a log alike", "people"),
    "certificates": ("certified failure rates of planners", "systems"),
    "report": ("figures, films, tables, pages", "arrays"),
    "planning": ("MPPI with a region per step, episodes", "systems"),
    "models": ("adapters for simulators and learnt models", "systems"),
    "capture": ("the method: fit, region, contains; files", "method"),
    "data": ("logged transitions and rollouts", "method"),
    "conformal": ("arrays in, thresholds out", "arrays"),
    "spaces": ("geometry: strata, metrics, grids", "arrays"),
    "cuda": ("arrays and kernels on a GPU", "arrays"),
    "kernels": ("compiled loops on numbers and array rows", "arrays"),
    "base": ("checks, files, parameters, random streams", "ground"),
}


def packages_picture() -> None:
    """Draw one band per layer, as SVG."""
    contract = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [[package.strip(" ()") for package in layer.split(":")] for layer in contract["layers"]]
    parts, y = [], 16
    for packages in layers:
        text, kind = CONTENTS[packages[0]]
        lines = [", ".join(packages[i : i + 6]) for i in range(0, len(packages), 6)]
        height = BAND + 20 * (len(lines) - 1)
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="850" height="{height}" rx="6" fill="{COLOURS[kind]}" fill-opacity="0.16" '
            'stroke="#222" stroke-width="1.2"/>'
        )
        for i, line in enumerate(lines):
            parts.append(f'<text x="{LEFT + 18}" y="{y + 25 + 20 * i}" font-weight="700">{line}</text>')
        parts.append(f'<text x="852" y="{y + height / 2 + 5}" text-anchor="end" font-size="14" fill="#444">{text}</text>')
        y += height + GAP
    parts.append(f'<path d="M910 24 V{y - 24}" stroke="#222" stroke-width="2" fill="none"/>')
    parts.append(f'<path d="M903 {y - 26} L910 {y - 10} L917 {y - 26} z" fill="#222"/>')
    turned = f'transform="translate(934 {y / 2}) rotate(90)" text-anchor="middle"'
    parts.append(f"<text {turned}>imports go down, never up</text>")
    size = f'viewBox="0 0 {WIDTH} {y + 8}"'
    font = 'font-family="system-ui, \'Segoe UI\', \'DejaVu Sans\', sans-serif" font-size="15" fill="#222"'
    title = "<title>The packages of capture_cp, one above the other: a package imports only from those below it.</title>"
    body = "\n  ".join([title, f'<rect width="{WIDTH}" height="{y + 8}" fill="#fff"/>', *parts])
    IMAGE.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>\n  {body}\n</svg>\n', encoding="utf-8")
