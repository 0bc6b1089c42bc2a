"""The paper's figures, to stand beside ours. Coverage in per cent: all, free, edge, corner; then the volume ratio."""

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
