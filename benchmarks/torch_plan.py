"""The marble's plan in PyTorch, on whole arrays: the straightforward version to measure against."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.planning.mppi import MPPI
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.planner import Params
from capture_lab.tasks.marble.task import Marble

PASSES = 3  # leaving one wall may lead into another


class TorchRollout:
    """Stage costs of action sequences, as `FusedRollout` gives them for the marble; float32 on any device."""

    def __init__(self, cap: Capture, task: Marble, params: Params, alpha: float, device: str = "cpu") -> None:
        def put(part: Any) -> Any:
            array = np.asarray(part)
            return torch.as_tensor(array.astype(np.float32) if array.dtype.kind == "f" else array, device=device)

        grid, partition = task.strata.require_grid(), cap.partition_
        self.device, self.n_particles, self.k = device, cap.n_particles, int(cap.score_.k)  # type: ignore[attr-defined]
        self.gain = params.gain
        self.weights = params.final_weight, params.stage_weight, params.pit_weight
        self.walls, self.pits, self.goal, self.bounds = (
            put(part) for part in (params.walls, params.pits, params.goal, params.bounds)
        )
        self.radius, self.field = params.radius, put(params.field)
        self.origin, self.spacing, self.last = put(params.origin), put(params.spacing), put(np.array(params.field.shape) - 2)
        self.nodes = {name: put(partition.nodes[name].astype(np.int64)) for name in ("feature", "left", "right", "group")}
        self.splits = put(partition.nodes["threshold"])
        self.depth = _depth(partition.nodes)
        self.roots, self.stratum_features = put(partition.roots.astype(np.int64)), put(partition.stratum_features)
        self.thresholds = put(cap.threshold_table(alpha).thresholds)
        labels = task.strata.labels
        cells = [np.flatnonzero(task.strata.pit_cells & (labels == m)) for m in range(len(task.strata.names))]
        self.cells = [put(grid.centre(part)) for part in cells]

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Costs (N, H) of sequences (N, H, 2) from state (6,)."""
        start, actions = (torch.as_tensor(part, dtype=torch.float32, device=self.device) for part in (state, sequences))
        generator = torch.Generator(device=self.device).manual_seed(seed)
        return np.asarray(self.costs(start, actions, generator).cpu().numpy(), dtype=np.float64)

    def costs(self, start: Any, sequences: Any, generator: Any = None) -> Any:
        """The same for tensors on the device, without waiting for it: a CUDA graph can record it."""
        samples, horizon, _ = sequences.shape
        actions = sequences.transpose(0, 1).contiguous()
        states = start.expand(samples, self.n_particles, 6).clone()
        stages = []
        for h in range(horizon):
            noise = torch.randn((samples, self.n_particles, 2), generator=generator, device=self.device)
            states, away, hazard = self.stage(states, actions[h], noise)
            final = self.weights[0] if h == horizon - 1 else 0.0
            stages.append((self.weights[1] + final) * away + self.weights[2] * hazard)
        return torch.stack(stages, dim=1)

    def stage(self, states: Any, action: Any, noise: Any) -> tuple[Any, Any, Any]:
        """Next states (N, L, 6), remaining distances (N,) and pit cells in regions (N,) after actions (N, 2)."""
        x = torch.cat([states.mean(dim=1), action], dim=1)
        states = self._step(states, action[:, None] + dynamics.NOISE * noise)
        cloud = states[..., 0:3:2]
        return states, self._distance(cloud.mean(dim=1)), self._hazard(x, cloud)

    def compiled(self) -> TorchRollout:
        """The same rollout with `torch.compile` over a stage; over all of them it would compile for many minutes."""
        other = copy.copy(self)
        other.stage = torch.compile(self.stage, dynamic=False)  # type: ignore[method-assign]
        return other

    def _step(self, states: Any, push: Any) -> Any:
        x, v, tilt = states[..., 0:3:2], states[..., 1:4:2], states[..., 4:]
        u = push.clamp(-dynamics.MAX_ACTION, dynamics.MAX_ACTION)
        done = self._ended(x)
        for _ in range(dynamics.SUBSTEPS):
            accelerated = v - dynamics.DT * self.gain * dynamics.ROLLING * tilt
            nx, nv = x + dynamics.DT * v, accelerated.clamp(-dynamics.MAX_SPEED, dynamics.MAX_SPEED)
            nt = (tilt + dynamics.DT * u).clamp(-dynamics.MAX_TILT, dynamics.MAX_TILT)
            nx, nv = self._contact(nx, nv)
            still = done[..., None]
            x, v, tilt = torch.where(still, x, nx), nv.masked_fill(still, 0.0), torch.where(still, tilt, nt)
            done = done | self._ended(x)
        at_goal = (((x - self.goal[:2]) ** 2).sum(dim=-1) <= self.goal[2] ** 2)[..., None]
        x, v = torch.where(at_goal, self.goal[:2], x), v.masked_fill(done[..., None], 0.0)
        return torch.stack([x[..., 0], v[..., 0], x[..., 1], v[..., 1], tilt[..., 0], tilt[..., 1]], dim=-1)

    def _contact(self, x: Any, v: Any) -> tuple[Any, Any]:
        low, high = self.bounds[::2], self.bounds[1::2]
        for _ in range(PASSES):
            x = torch.minimum(torch.maximum(x, low), high)
            gaps, normals = self._gaps(x)
            deepest, wall = gaps.min(dim=0)
            normal = normals.gather(0, wall[None, ..., None].expand(1, *wall.shape, 2))[0]
            x = x - deepest.clamp(max=0.0)[..., None] * normal
        touch = 1e-6  # metres: float32 is no finer here
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
            if len(cells) == 0:
                continue
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
            at = torch.where(feature < 0, at, below)
        return self.thresholds[self.nodes["group"][at]]

    def _distance(self, mean: Any) -> Any:
        place = (mean - self.origin) / self.spacing
        low = torch.minimum(place.floor().clamp(min=0), self.last).long()
        a, b = (place - low).clamp(0.0, 1.0).unbind(dim=1)
        i, j = low.unbind(dim=1)
        f = self.field
        return (1 - a) * ((1 - b) * f[i, j] + b * f[i, j + 1]) + a * ((1 - b) * f[i + 1, j] + b * f[i + 1, j + 1])


class TorchPlanner:
    """`MPPI.plan` in PyTorch, float32: only the state and the action are copied, all else stays on the device."""

    def __init__(self, rollout: TorchRollout, planner: MPPI) -> None:
        def put(part: Any) -> Any:
            return torch.as_tensor(part, dtype=torch.float32, device=rollout.device)

        self.rollout, self.samples, self.temperature_at = rollout, planner.samples, planner.temperature_at
        self.spread, self.low, self.high = put(planner._spread), put(planner.low), put(planner.high)
        self.given = torch.empty(7, device=rollout.device)  # state, temperature
        self.nominal = put(np.zeros((planner.horizon, len(planner.low))))
        self.graph: Any = None

    def plan(self, state: Floats) -> Floats:
        """The next action (2,) from a state (6,)."""
        self.given.copy_(torch.as_tensor(np.append(state, self.temperature_at(state)), dtype=torch.float32))
        with torch.no_grad():
            self._update() if self.graph is None else self.graph.replay()
        return np.asarray(self.nominal[0].cpu().numpy(), dtype=np.float64)

    def record(self) -> TorchPlanner:
        """Make further plans replay a CUDA graph; a plan must have been made, so that everything is compiled."""
        graph = torch.cuda.CUDAGraph()
        # relaxed, because arrays of other libraries may be freed meanwhile
        with torch.no_grad(), torch.cuda.graph(graph, capture_error_mode="relaxed"):
            self._update()
        self.graph = graph
        return self

    def _update(self) -> None:
        """Sample around the last plan, roll out, and average by cost."""
        plan = torch.cat([self.nominal[1:], self.nominal[-1:]])
        normals = torch.randn((self.samples, *plan.shape), device=plan.device)
        sequences = torch.minimum(torch.maximum(plan + normals @ self.spread.T, self.low), self.high)
        costs = self.rollout.costs(self.given[:6], sequences).sum(dim=1)
        weights = torch.softmax(-costs / self.given[6], dim=0)
        self.nominal.copy_(torch.tensordot(weights, sequences, dims=1))


def _depth(nodes: Any) -> int:
    """Steps from a root to the farthest leaf; children come after their parents."""
    below = np.zeros(len(nodes), dtype=int)
    for i in reversed(range(len(nodes))):
        if nodes[i]["feature"] >= 0:
            below[i] = 1 + max(below[nodes[i]["left"]], below[nodes[i]["right"]])
    return int(below.max())
