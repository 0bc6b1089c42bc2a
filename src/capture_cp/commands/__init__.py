"""Commands for people with a robot and a log: how much to log, calibration, checks of new data."""
