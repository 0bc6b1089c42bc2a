"""Planning with regions: MPPI, roll-outs with a region a step, traversable distance, closed-loop episodes."""
