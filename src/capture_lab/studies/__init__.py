"""Jobs that people run: the demo, the benchmarks, the paper's tables."""
