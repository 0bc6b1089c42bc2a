"""GPU benchmarks; each runs on its own with `python -m` and needs none of the command line's libraries."""
