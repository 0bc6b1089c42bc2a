"""Commands for people with a robot and a log: sizes, calibration, checks of new data."""

from capture_cp.logs.parts import load_calibration

__all__ = ["load_calibration"]
