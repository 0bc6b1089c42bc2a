"""Learn: adapt regions online, so that 90% of steps stay inside them when the robot changes.

Run: python examples/14_online.py [steps]
Explained in: docs/learn/closed-loop.md
"""

import sys
from dataclasses import replace

import numpy as np

from capture_cp import AdaptiveAlpha, AdaptiveScale, Capture
from capture_lab.tasks.box import Box

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
box, rng = Box(), np.random.default_rng(0)
log = box.transitions(10_000, rng)
cap = Capture(box.model, box.strata).fit(log.X, log.Y)

# halfway, the true gain grows by half; model and calibration stay the same
before, after = box.transitions(steps // 2, rng), replace(box, true_gain=1.5 * box.true_gain).transitions(steps // 2, rng)
X, Y = np.concatenate([before.X, after.X]), np.concatenate([before.Y, after.Y])
particles = cap.predict(X)
m, changed = box.strata.index(Y), np.arange(len(X)) >= steps // 2

held = {"fixed": cap.contains(X, Y, alpha=0.1, prediction=particles)}
adaptives = {
    "alpha": AdaptiveAlpha(cap, alpha=0.1, gamma=0.05),  # adapts the failure rate; a region may become the whole stratum
    "scale": AdaptiveScale(cap, alpha=0.1, eta=0.2, floor=0.01),  # adapts a factor on the thresholds
}
for name, adaptive in adaptives.items():
    # after every executed step, a control loop passes state, action and next configuration
    held[name] = np.array([adaptive.observe(x, y, seen) for x, y, seen in zip(X, Y, particles)])

for name, inside in held.items():
    shares = [f"{stratum} {inside[changed & (m == i)].mean():.1%}" for i, stratum in enumerate(box.strata.names)]
    print(f"{name}: held after the change: {', '.join(shares)}")
print(f"thresholds are now multiplied by {adaptives['scale'].factors.round(2)}")
alpha = adaptives["alpha"]
print(f"after {alpha.steps} steps, the failure rate is within {alpha.bound(alpha.steps).round(3)} of alpha for any data")
