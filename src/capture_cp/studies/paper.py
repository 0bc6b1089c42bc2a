"""The paper's figures, to stand beside ours.

Coverage in per cent: all, free, edge, corner; then the volume ratio. Planning in per cent: success, fell, timed out; then
the mean steps to the goal and their deviation.
"""

from __future__ import annotations

#: Columns of the paper's coverage tables, in its order.
COVERAGE_METHODS = ("lucca", "pcp", "no-strata", "capture-k1", "capture")

_Figures = dict[str, tuple[float, ...]]

_TABLE_1: _Figures = {
    "lucca": (90.9, 83.4, 94.4, 96.5, 1.48),
    "pcp": (90.0, 76.4, 96.4, 99.0, 0.71),
    "no-strata": (90.1, 83.7, 93.1, 94.8, 0.86),
    "capture-k1": (90.2, 90.1, 89.9, 92.4, 1.05),
    "capture": (90.2, 90.0, 90.2, 90.6, 1.00),
}

_TABLE_5: dict[str, _Figures] = {
    "bottom-left": {
        "lucca": (90.7, 83.3, 94.6, 96.8, 1.52),
        "pcp": (90.0, 75.9, 97.7, 98.5, 0.71),
        "no-strata": (90.0, 82.8, 94.0, 93.8, 0.80),
        "capture-k1": (90.1, 90.2, 90.0, 90.3, 0.97),
        "capture": (90.0, 90.2, 89.5, 92.4, 1.00),
    },
    "bottom-right": {
        "lucca": (91.1, 83.7, 94.5, 96.1, 1.34),
        "pcp": (90.0, 76.0, 96.7, 98.7, 0.64),
        "no-strata": (90.2, 85.2, 92.6, 93.4, 0.82),
        "capture-k1": (90.3, 90.1, 89.8, 95.1, 1.07),
        "capture": (90.0, 89.9, 89.9, 91.5, 1.00),
    },
    "center": {
        "lucca": (90.9, 81.6, 94.8, 96.4, 1.30),
        "pcp": (90.1, 74.8, 96.6, 99.9, 0.52),
        "no-strata": (90.0, 81.9, 93.4, 95.4, 0.84),
        "capture-k1": (89.9, 89.8, 89.9, 90.3, 1.07),
        "capture": (90.2, 89.5, 90.5, 91.1, 1.00),
    },
    "top-center": {
        "lucca": (91.1, 85.4, 94.0, 94.9, 1.52),
        "pcp": (89.9, 80.5, 94.2, 99.6, 0.82),
        "no-strata": (90.4, 85.4, 92.7, 94.8, 0.86),
        "capture-k1": (90.2, 90.2, 90.2, 90.5, 1.07),
        "capture": (90.5, 90.4, 90.6, 90.0, 1.00),
    },
    "top-left": {
        "lucca": (90.7, 82.3, 94.0, 97.5, 1.63),
        "pcp": (90.0, 76.1, 95.6, 99.9, 0.97),
        "no-strata": (90.1, 84.3, 92.2, 96.1, 1.00),
        "capture-k1": (90.2, 90.3, 90.2, 90.7, 1.08),
        "capture": (90.2, 90.1, 90.2, 89.9, 1.00),
    },
    "center-right": {
        "lucca": (91.1, 83.3, 94.5, 97.7, 1.79),
        "pcp": (90.0, 74.6, 97.6, 97.6, 0.80),
        "no-strata": (90.1, 82.3, 93.6, 95.9, 0.93),
        "capture-k1": (90.1, 90.2, 89.2, 96.3, 1.04),
        "capture": (90.1, 90.2, 90.3, 88.6, 1.00),
    },
}

#: Marble coverage by map; "all maps" is the paper's Table 1, the others its Table 5.
MARBLE_COVERAGE: dict[str, _Figures] = {"all maps": _TABLE_1, **_TABLE_5}
STRATUM_COLUMN = {"all": 0, "free": 1, "edge": 2, "corner": 3}


def marble_coverage(map_name: str, method: str, stratum: str) -> float | None:
    """The paper's coverage (0 to 1), where it gives one."""
    figures = MARBLE_COVERAGE.get(map_name, {}).get(method)
    return None if figures is None or stratum not in STRATUM_COLUMN else figures[STRATUM_COLUMN[stratum]] / 100


def marble_volume_ratio(map_name: str, method: str) -> float | None:
    """The paper's mean volume as a ratio to CaPTURe's, where it gives one."""
    figures = MARBLE_COVERAGE.get(map_name, {}).get(method)
    return None if figures is None else figures[4]


#: Peg coverage: all, free, point, edge; then the volume ratio (the paper's Table 3).
PEG_COVERAGE: _Figures = {
    "lucca": (90.3, 83.8, 96.6, 93.5, 1.03),
    "pcp": (89.9, 83.1, 96.7, 93.1, 0.70),
    "no-strata": (91.1, 84.9, 97.3, 94.5, 1.09),
    "capture-k1": (90.9, 91.4, 91.0, 90.3, 0.81),
    "capture": (90.4, 91.0, 90.1, 90.3, 1.00),
}
PEG_REGIMES = ("all", "free", "point", "edge")


def peg_coverage(method: str, regime: str) -> float | None:
    """The paper's coverage of the peg (0 to 1), where it gives one."""
    figures = PEG_COVERAGE.get(method)
    return None if figures is None or regime not in PEG_REGIMES else figures[PEG_REGIMES.index(regime)] / 100


def peg_volume_ratio(method: str) -> float | None:
    """The paper's mean volume of the peg's regions as a ratio to CaPTURe's, where it gives one."""
    figures = PEG_COVERAGE.get(method)
    return None if figures is None else figures[4]


#: Columns of the paper's planning table, in its order.
PLANNING_METHODS = ("particles", "pcp", "lucca", "no-strata", "capture-k1", "capture")

#: Marble planning by map (the paper's Table 2, 30 runs each); no steps where none succeeded.
MARBLE_PLANNING: dict[str, _Figures] = {
    "center": {
        "particles": (53, 47, 0, 9.9, 1.3),
        "pcp": (3, 13, 84, 8.0, 0.0),
        "lucca": (0, 0, 100),
        "no-strata": (57, 43, 0, 18.5, 11.1),
        "capture-k1": (7, 0, 93, 86.0, 12.7),
        "capture": (90, 10, 0, 11.9, 4.3),
    },
    "center-right": {
        "particles": (83, 17, 0, 13.8, 2.1),
        "pcp": (87, 13, 0, 13.7, 1.6),
        "lucca": (57, 40, 3, 33.2, 14.9),
        "no-strata": (83, 17, 0, 15.7, 2.1),
        "capture-k1": (90, 10, 0, 19.0, 6.3),
        "capture": (90, 10, 0, 16.4, 4.3),
    },
    "bottom-left": {
        "particles": (40, 60, 0, 16.2, 3.0),
        "pcp": (57, 43, 0, 16.4, 3.3),
        "lucca": (17, 83, 0, 25.4, 5.0),
        "no-strata": (47, 53, 0, 18.5, 7.2),
        "capture-k1": (67, 33, 0, 16.9, 3.6),
        "capture": (73, 27, 0, 23.1, 13.6),
    },
    "bottom-right": {
        "particles": (93, 7, 0, 14.5, 1.1),
        "pcp": (100, 0, 0, 14.9, 1.1),
        "lucca": (67, 0, 33, 60.0, 24.6),
        "no-strata": (97, 3, 0, 14.7, 1.1),
        "capture-k1": (100, 0, 0, 15.2, 1.2),
        "capture": (100, 0, 0, 15.2, 2.0),
    },
    "top-left": {
        "particles": (100, 0, 0, 12.6, 1.3),
        "pcp": (93, 7, 0, 12.8, 1.4),
        "lucca": (100, 0, 0, 13.5, 1.2),
        "no-strata": (100, 0, 0, 12.5, 1.1),
        "capture-k1": (100, 0, 0, 12.7, 0.9),
        "capture": (100, 0, 0, 12.5, 1.4),
    },
    "top-center": {
        "particles": (67, 33, 0, 12.3, 2.1),
        "pcp": (83, 17, 0, 12.6, 2.1),
        "lucca": (70, 30, 0, 17.0, 6.6),
        "no-strata": (73, 27, 0, 11.6, 1.7),
        "capture-k1": (100, 0, 0, 13.7, 2.3),
        "capture": (93, 7, 0, 16.2, 4.4),
    },
}

#: Peg planning (the paper's Table 4, 50 starts): success in per cent; then the mean steps to insertion and their deviation.
PEG_PLANNING: _Figures = {
    "particles": (14, 39.9, 13.3),
    "pcp": (48, 38.4, 13.9),
    "lucca": (48, 41.5, 16.6),
    "no-strata": (48, 43.1, 15.9),
    "capture-k1": (20, 36.2, 16.4),
    "capture": (78, 28.7, 8.9),
}
