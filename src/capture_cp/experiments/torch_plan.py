"""The marble's roll-out in PyTorch, whole arrays at a time: what one would write first there, to measure against."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from capture_cp.checks import Floats
from capture_cp.predictor import Capture
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.planner import Params
from capture_cp.tasks.marble.task import Marble

PASSES = 3  # leaving one wall may lead into another


class TorchRollout:
    """Stage costs of action sequences, as `FusedRollout` gives them for the marble; float32 on any device."""

    def __init__(self, cap: Capture, task: Marble, params: Params, alpha: float, device: str = "cpu") -> None:
        def put(part: Any) -> Any:
            array = np.asarray(part)
            return torch.as_tensor(array.astype(np.float32) if array.dtype.kind == "f" else array, device=device)

        grid, partition = task.strata.require_grid(), cap.partition_
        self.device, self.n_particles, self.k = device, cap.n_particles, int(cap._score.k)  # type: ignore[attr-defined]
        self.gain = params.gain
        self.weights = params.final_weight, params.stage_weight, params.pit_weight
        self.walls, self.pits, self.goal, self.bounds = (
            put(part) for part in (params.walls, params.pits, params.goal, params.bounds)
        )
        self.radius, self.field = params.radius, put(params.field)
        self.origin, self.spacing = put(params.origin), put(params.spacing)
        self.nodes = {name: put(partition.nodes[name].astype(np.int64)) for name in ("feature", "left", "right", "group")}
        self.splits = put(partition.nodes["threshold"])
        self.depth = len(partition.nodes)
        self.roots, self.stratum_features = put(partition.roots.astype(np.int64)), put(partition.stratum_features)
        self.thresholds = put(cap.threshold_table(alpha).thresholds)
        labels = task.strata.labels
        cells = [np.flatnonzero(task.strata.pit_cells & (labels == m)) for m in range(len(task.strata.names))]
        self.cells = [put(grid.centre(part)) for part in cells]

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Costs (N, H) of sequences (N, H, 2) from state (6,)."""
        device, (samples, horizon, _) = self.device, sequences.shape
        actions = torch.as_tensor(sequences, dtype=torch.float32, device=device)
        generator = torch.Generator(device=device).manual_seed(seed)
        states = torch.as_tensor(state, dtype=torch.float32, device=device).expand(samples, self.n_particles, 6).clone()
        costs = torch.empty((samples, horizon), device=device)
        for h in range(horizon):
            x = torch.cat([states.mean(dim=1), actions[:, h]], dim=1)
            noise = torch.randn((samples, self.n_particles, 2), generator=generator, device=device)
            states = self._step(states, actions[:, None, h] + dynamics.NOISE * noise)
            hazard = self._hazard(x, states[..., [0, 2]])
            away = self._distance(states[..., [0, 2]].mean(dim=1))
            final = self.weights[0] if h == horizon - 1 else 0.0
            costs[:, h] = (self.weights[1] + final) * away + self.weights[2] * hazard
        return np.asarray(costs.cpu().numpy(), dtype=np.float64)

    def _step(self, states: Any, push: Any) -> Any:
        x, v, tilt = states[..., [0, 2]], states[..., [1, 3]], states[..., 4:]
        u = push.clamp(-dynamics.MAX_ACTION, dynamics.MAX_ACTION)
        done = self._ended(x)
        for _ in range(dynamics.SUBSTEPS):
            accelerated = v - dynamics.DT * self.gain * dynamics.ROLLING * tilt
            nx, nv = x + dynamics.DT * v, accelerated.clamp(-dynamics.MAX_SPEED, dynamics.MAX_SPEED)
            nt = (tilt + dynamics.DT * u).clamp(-dynamics.MAX_TILT, dynamics.MAX_TILT)
            nx, nv = self._contact(nx, nv)
            still = done[..., None]
            x, v, tilt = torch.where(still, x, nx), torch.where(still, 0.0, nv), torch.where(still, tilt, nt)
            done = done | self._ended(x)
        at_goal = (((x - self.goal[:2]) ** 2).sum(dim=-1) <= self.goal[2] ** 2)[..., None]
        x, v = torch.where(at_goal, self.goal[:2], x), torch.where(done[..., None], 0.0, v)
        return torch.stack([x[..., 0], v[..., 0], x[..., 1], v[..., 1], tilt[..., 0], tilt[..., 1]], dim=-1)

    def _contact(self, x: Any, v: Any) -> tuple[Any, Any]:
        low, high = self.bounds[[0, 2]], self.bounds[[1, 3]]
        for _ in range(PASSES):
            x = torch.minimum(torch.maximum(x, low), high)
            gaps, normals = self._gaps(x)
            deepest, wall = gaps.min(dim=0)
            normal = normals.gather(0, wall[None, ..., None].expand(1, *wall.shape, 2))[0]
            x = x - deepest.clamp(max=0.0)[..., None] * normal
        touch = 1e-6  # of a metre: float32 is no finer here
        v = torch.where(x < low + touch, v.clamp(min=0.0), v)
        v = torch.where(x > high - touch, v.clamp(max=0.0), v)
        gaps, normals = self._gaps(x)
        for gap, normal in zip(gaps, normals):
            inward = (v * normal).sum(dim=-1).clamp(max=0.0)[..., None]
            v = torch.where((gap < touch)[..., None], v - inward * normal, v)
        return x, v

    def _gaps(self, x: Any) -> tuple[Any, Any]:
        """Gaps (w, N, L) to inflated walls, and normals (w, N, L, 2)."""
        walls = self.walls[:, None, None]
        away = x - torch.minimum(torch.maximum(x, walls[..., :2]), walls[..., 2:])
        distance = away.norm(dim=-1)
        return distance - self.radius, away / distance.clamp(min=1e-9)[..., None]

    def _ended(self, x: Any) -> Any:
        circles = torch.cat([self.pits, self.goal[None]])
        return (((x[..., None, :] - circles[:, :2]) ** 2).sum(dim=-1) <= circles[:, 2] ** 2).any(dim=-1)

    def _hazard(self, x: Any, cloud: Any) -> Any:
        """Pit cells inside each region: (N,)."""
        count = torch.zeros(len(x), device=self.device)
        for m, cells in enumerate(self.cells):
            near = torch.cdist(cells.expand(len(x), *cells.shape), cloud) <= self._threshold(x, m)[:, None, None]
            count += (near.sum(dim=2) >= self.k).sum(dim=1)
        return count

    def _threshold(self, x: Any, m: int) -> Any:
        inputs = torch.cat([x, self.stratum_features[m].expand(len(x), -1)], dim=1)
        at = self.roots[m].expand(len(x))
        for _ in range(self.depth):
            feature = self.nodes["feature"][at]
            value = inputs.gather(1, feature.clamp(min=0)[:, None])[:, 0]
            below = torch.where(value <= self.splits[at], self.nodes["left"][at], self.nodes["right"][at])
            if bool((feature < 0).all()):
                break
            at = torch.where(feature < 0, at, below)
        return self.thresholds[self.nodes["group"][at]]

    def _distance(self, mean: Any) -> Any:
        place = (mean - self.origin) / self.spacing
        top = torch.tensor(self.field.shape, device=self.device) - 2
        low = torch.minimum(place.floor().clamp(min=0), top).long()
        a, b = (place - low).clamp(0.0, 1.0).unbind(dim=1)
        i, j = low.unbind(dim=1)
        f = self.field
        return (1 - a) * ((1 - b) * f[i, j] + b * f[i, j + 1]) + a * ((1 - b) * f[i + 1, j] + b * f[i + 1, j + 1])
