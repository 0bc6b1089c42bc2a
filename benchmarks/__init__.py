"""Speed as ratios to named alternatives: `python -m benchmarks`. Not part of the installed package."""
