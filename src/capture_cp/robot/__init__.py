"""Commands for people with a robot and a log: sizes, calibration, checks of new data."""
