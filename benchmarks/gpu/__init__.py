"""Benchmarks of the GPU; each runs by itself with `python -m` and needs none of the command line's libraries."""
