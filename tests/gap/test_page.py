"""The page of `capture gap`, from its document alone."""

from __future__ import annotations

import re
from copy import deepcopy

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed (extra view)")

from capture_cp.gap.page import plot, write_page
from capture_cp.gap.tables import amount, number, sentence, span
from capture_cp.report.svg import axes
from capture_cp.report.svg_bodies import placed, telling_view
from pages import assert_self_contained

CUBE = [[x, y, z] for x in (-0.05, 0.05) for y in (-0.05, 0.05) for z in (-0.05, 0.05)]
QUADS = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
FACES = [list(face) for a, b, c, d in QUADS for face in ((a, b, c), (a, c, d))]
EDGES = [[i, j] for i in range(8) for j in range(i) if bin(i ^ j).count("1") == 1]
EVIL = "<b>evil</b>"


def pose(x: float, z: float = 0.05) -> dict[str, list[float]]:
    return {"cube": [x, 0.0, z, 1.0, 0.0, 0.0, 0.0], "arm": [0.2, 0.0, 0.1, 1, 0, 0, 0], "hand": [0.2, x, 0.2, 1, 0, 0, 0]}


def a_row(simulator: str, mode: str, steps: int, bound: float | None, **more) -> dict:
    row = {"simulator": simulator, "mode": mode, "mode_at": "end", "steps": steps, "seconds": 0.01 * steps, "alpha": 0.1}
    row |= {"confidence": None, "quantity": "cube.position", "unit": "mm", "bound": bound, "rmse": 0.5, "episodes": 40}
    return row | {"rows": 900, "needed": 0, "diverged": 0} | more


def a_comparison(mode: str, steps: int, verdict: str) -> dict:
    row = {"simulator": "round.xml", "against": EVIL, "mode": mode, "steps": steps, "quantity": "cube.position"}
    row |= {"closer": 378, "tied": 11, "farther": 10, "share": 378 / 388, "ci95": [0.953, 0.988]}
    return row | {"ratio": 0.3301, "ratio_ci95": [0.31, 0.352], "verdict": verdict}


@pytest.fixture
def document() -> dict:
    names, modes = (EVIL, "round.xml", "keeps its velocity"), ("free", "1 point")
    rows = [a_row(name, mode, h, 2.0 * h + i) for i, name in enumerate(names) for mode in modes for h in (1, 5)]
    rows[1] = a_row(EVIL, "free", 5, None, needed=3, episodes=6)
    rows[2] = a_row(EVIL, "1 point", 1, None, diverged=70)
    rows += [row | {"mode_at": "start"} for row in rows]
    trust = [
        {
            "simulator": name,
            "mode": mode,
            "trusted_steps": steps,
            "of_steps": 5,
            "seconds": None if steps is None else 0.01 * steps,
        }
        | {"episodes": 6, "needed": 24}
        for name, steps in zip(names, (None, 5, 0))
        for mode in modes
    ]
    curve = {"quantity": "cube.position", "steps": [1, 2, 5], "bound": [1.0, None, 20.0], "median": [0.5, 0.8, 8.0]}
    alphas = {"quantity": "cube.position", "steps": 5, "alpha": [0.05, 0.1, 0.5], "bound": [None, 3.0, 1.0]}
    case = {
        "simulator": EVIL,
        "mode": "1 point",
        "quantity": "cube.position",
        "which": "bound",
        "error": 2.0,
        "episode": EVIL,
    }
    case |= {
        "row": 7,
        "steps": 5,
        "measured": pose(0),
        "predicted": pose(0.002),
        "start": pose(-0.01),
        "contacts": [[0, 0, 0]],
    }
    arm = {"vertices": [], "faces": [], "edges": []}
    page = {
        "headline": f"{EVIL} is 2.0 mm off.",
        "first_line": "The robot is simulated.",
        "log": {"name": f"{EVIL}.csv", "episodes": 40, "rows": 900, "period": 0.01},
        "tolerance": {"cube.position": 10.0},
        "simulators": [
            {"name": name, "kind": "rule" if name == names[2] else "model file", "note": f"note {EVIL}"} for name in names
        ],
        "modes": [{"name": mode, "episodes": 40, "rows": 450} for mode in modes],
        "quantities": [{"name": "cube.position", "unit": "mm"}],
        "curves": [{"simulator": name, "mode": mode} | curve for name in names for mode in modes],
        "alphas": [{"simulator": name, "mode": mode} | alphas for name in names for mode in modes],
        "bodies": [
            {"name": "cube", "parent": None, "vertices": CUBE, "faces": FACES, "edges": EDGES},
            {"name": "arm", "parent": None} | arm,
            {"name": "hand", "parent": "arm"} | arm,
        ],
        "ground": 0.0,
        "cases": [case, case | {"mode": "free", "which": "worst", "error": None, "predicted": {}, "measured": pose(0, 0.9)}],
        "strip": {
            "simulator": EVIL,
            "episode": EVIL,
            "steps": 2,
            "frames": [{"step": h, "measured": pose(0), "predicted": pose(0.05 * h)} for h in (0, 1, 2)],
        },
        "drift": [f"Late episodes of {EVIL} differ."],
        "notes": ["A note."],
        "assumed": [f"{EVIL} was not fitted; if so use --without."],
        "columns": [["cube position", "px, py, pz", "m", EVIL]],
        "commands": [f"capture gap '{EVIL}.xml' log.csv"],
    }
    comparisons = [a_comparison(mode, h, v) for mode in modes for h, v in ((1, "better"), (5, "cannot tell"))]
    config = {"alpha": 0.1, "jointly": False}
    return {"schema": 1, "config": config, "rows": rows, "trust": trust, "comparisons": comparisons, "page": page}


@pytest.fixture
def drawn(tmp_path):
    def draw(document: dict) -> str:
        write_page(tmp_path / "gap.html", document)
        assert_self_contained(tmp_path / "gap.html")
        return (tmp_path / "gap.html").read_text()

    return draw


def test_what_a_reader_needs_comes_first(document, drawn):
    text = drawn(document)
    marks = ("The robot is simulated.", "<h1>", "Late episodes", "Error by the contact mode where", "For how many steps")
    marks += ("Which simulator is closer", "What is promised", "Error against steps", "What such an error looks like")
    marks += ("The worst episode", "What was assumed", "Columns of the log", "Make it again")
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_names_are_text_everywhere(document, drawn):
    text = drawn(document)
    assert EVIL not in text
    assert text.count("&lt;b&gt;evil&lt;/b&gt;") > 20
    assert "use <code>--without</code>." in text


def test_cells_without_a_bound_say_why(document, drawn):
    text = drawn(document)
    assert "3 more episodes" in text
    assert "no bound: 70 diverged" in text
    assert re.search(r"unknown<small[^>]*>24 more episodes", text)
    assert "not even one" in text
    assert "<b>5+</b> steps" in text


def test_a_bound_above_that_of_a_rule_is_marked(document, drawn):
    assert drawn(document).count('class="under" title') == 0
    for row in document["rows"]:
        row["bound"] = 0.1 if row["simulator"] == "keeps its velocity" else row["bound"]
    assert drawn(document).count('class="under" title') == 2 * 6


def test_the_promise_is_that_of_the_document(document, drawn):
    text = drawn(document)
    for part in (
        "do not add up to a statement about a whole episode",
        "mm and degrees hold separately",
        "Holm",
        "95 % each",
    ):
        assert part in text
    assert "random step" not in text
    assert "Each by itself." in text
    assert "over the log and the episode" in text
    joint = deepcopy(document)
    joint["config"]["jointly"] = True
    for row in joint["rows"]:
        row["confidence"] = 0.95
    text = drawn(joint)
    assert "Jointly." in text
    assert "With confidence 95 % over the draw of the log" in text
    assert "over the log and the episode" not in text


def test_a_comparison_in_words(document, drawn):
    says = sentence(a_comparison("1 point", 1, "better") | {"against": "cube.xml"})
    assert says == (
        "round.xml is closer than cube.xml in 97 [95, 99] % of the episodes that are not tied (378 closer, 11 tied, "
        "10 farther); its errors are 0.330 [0.310, 0.352] times as large."
    )
    tied = {"share": None, "ci95": None, "ratio": 1.0, "closer": 0, "farther": 0}
    assert "tied in all 11 episodes" in sentence(a_comparison("free", 1, "cannot tell") | tied)
    text = drawn(document)
    assert "399 episodes cannot tell." in text
    assert "free (step 1); 1 point (step 1)" in text


def test_pictures_have_words_and_the_colours_of_the_page(document, drawn):
    text = drawn(document)
    pictures = re.findall(r"<svg class=\"(?:chart|scene)\".*?aria-label=\"(.*?)\"", text)
    assert len(pictures) == 4 + 2 + 3
    assert all('role="img"' in opening for opening in re.findall(r"<svg class[^>]*>", text))
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    body = text[text.index("<body>") :]
    assert not re.search(r"(fill|stroke)=|#[0-9a-f]{6}", body)
    dark = text[text.index("prefers-color-scheme: dark") :]
    for name in set(re.findall(r"var\(--([a-z0-9]+)", text)) - {"zoom", "thin", "fine", "bold", "n", "solid"}:
        assert f"--{name}:" in text
    assert "--s0:" in dark
    assert "--tile:" in dark


def test_tables_have_headings(document, drawn):
    text = drawn(document)
    assert all("scope=" in heading for heading in re.findall(r"<th[ >][^>]*", text))
    assert "<script" not in text


def test_one_mode_groups_quantities(document, drawn):
    one = deepcopy(document)
    for key in ("rows", "trust", "comparisons"):
        one[key] = [row for row in one[key] if row["mode"] == "free"]
    for key in ("curves", "alphas", "cases"):
        one["page"][key] = [row for row in one["page"][key] if row["mode"] == "free"]
    one["page"]["modes"] = one["page"]["modes"][:1]
    text = drawn(one)
    assert "One contact mode: free" in text
    assert "all quantities" in text


def test_little_is_enough(document, drawn):
    document |= {"trust": [], "comparisons": []}
    document["page"] |= {"tolerance": None, "bodies": [], "cases": [], "strip": None, "curves": [], "alphas": []}
    document["page"] |= {"drift": [], "columns": [], "first_line": None, "ground": None}
    text = drawn(document)
    assert "For how many steps" not in text
    assert "<svg" not in text


def test_recordings_stand_apart(document, drawn):
    document["rows"].append(a_row("other.csv", "free", 1, 7.77) | {"from": "episode start"})
    text = drawn(document)
    assert text.index("replayed from the start of each episode") < text.index("7.77")


def test_numbers_have_three_digits():
    assert [number(value) for value in (0, 0.000779, 0.0853, 0.2751, 2.3, 9.999, 13.34, 105.2, 1234.5)] == [
        *("0", "<0.001", "0.0853", "0.275", "2.30", "10.0", "13.3", "105", "1,234")
    ]
    assert (amount(5, "deg"), amount(10, "mm"), span(0.00676), span(2)) == ("5.00°", "10.0 mm", "6.76 ms", "2 s")


def test_axes_show_all_values_with_round_ticks():
    up, across = axes([0.2, None, 90.0], [1, 20])
    assert up.ticks() == pytest.approx([0.3, 1, 3, 10, 30, 100])
    assert across.ticks() == [1, 5, 10, 15, 20]
    assert up.place(0.2) > up.place(90.0)
    assert up.place(1e9) == pytest.approx(up.end)


def test_bodies_are_seen_from_where_they_differ(document):
    shapes = document["page"]["bodies"]
    one, two = placed(shapes, pose(0.0)), placed(shapes, pose(0.01))
    assert one.corners[:, 2].min() == pytest.approx(0)
    assert one.links.tolist() == [[[0.2, 0, 0.1]] * 2, [[0.2, 0, 0.1], [0.2, 0, 0.2]]]
    view = telling_view([(one, two)])
    assert np.abs(view.flat(two.points - one.points)).max() > 0.009


def test_a_figure_has_an_axis_per_mode(document):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra view)")
    figure = plot(document)
    assert [axis.get_title() for axis in figure.axes] == ["free", "1 point"]
    assert [len(axis.lines) for axis in figure.axes] == [5, 5]
