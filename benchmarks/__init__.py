"""Speed as ratios to named alternatives: `capture bench`. Not part of the installed package."""
