"""How far simulators are from a robot, by contact mode and number of steps: errors in units, trust, comparison, page."""
