"""How far simulators are from a robot: errors in units, trust, comparison, the page."""
