"""The shelf's plan in PyTorch, on whole arrays: `numpy_shelf`, and the points around particles, on any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.capture.capture import Capture
from capture_cp.conformal.scores import NearestParticles
from capture_cp.planning.probes import check_finite, checked_moves, low_discrepancy, unit_ball
from capture_cp.spaces.metrics import Euclidean
from capture_lab.tasks.shelf.mjcf import PARTS
from capture_lab.tasks.shelf.model import PARTS_OF_STEP, RATE, ROUNDS, ShelfParams
from capture_lab.tasks.shelf.planner import POINTS

_JAR, _FOREARM = PARTS.index("jar"), PARTS.index("forearm")


class TorchShelf:
    """Geometry and model of the shelf; all tensors are float64 on one device."""

    def __init__(self, params: ShelfParams, device: str = "cpu") -> None:
        def put(part: Any) -> Any:
            return torch.as_tensor(np.asarray(part, dtype=np.float64), device=device)

        self.params, boxes, glasses, capsules = params, put(params.boxes), put(params.glasses), put(params.capsules)
        self.shifts, self.bases = put(params.fixed[:, :3]), put(params.fixed[:, 3:].reshape(-1, 3, 3))
        self.low, self.high = put(params.limits)
        self.tool, self.goal = put(params.tool), put(params.goal)
        self.links, self.from_, self.way = capsules[:, 0].long(), capsules[:, 1:4], capsules[:, 4:7]
        self.thick = capsules[:, 7:8]
        self.middles, self.half, self.wall = boxes[:, :3], boxes[:, 3:6], boxes[:, 6] == 1
        self.feet, self.tall, self.round = glasses[:, :3], glasses[:, 5], glasses[:, 6]
        self.joints, self.sides = torch.arange(7, device=device), torch.eye(3, dtype=torch.float64, device=device)
        self.hand = torch.tensor([c for c in range(len(PARTS)) if c not in (_JAR, _FOREARM)], device=device)

    def step(self, states: Any, commanded: Any) -> Any:
        """Next states (n, 14) of states (n, 14) under noisy actions (n, 7), by the uncorrected model."""
        q = after = states[:, :7]
        stopped = torch.zeros(len(states), dtype=torch.bool, device=states.device)
        for _ in range(PARTS_OF_STEP):
            wanted = torch.clamp(after + commanded / PARTS_OF_STEP, self.low, self.high)
            after, pushed = self._pushed_out(wanted)
            stopped = stopped | pushed
        return torch.cat([after, RATE * torch.where(stopped[:, None], after - q, commanded)], dim=1)

    def strata(self, Y: Any) -> Any:
        """Strata of configurations Y (n, 7), -1 where infeasible: (n,)."""
        distances = self._box_distances(*self._segments(*self._frames(Y)))[0]
        touching = distances <= self.params.tolerance
        jar, hand = touching[:, _JAR], touching[:, self.hand].any(dim=1)
        on = [(part & kind).any(dim=1) for part in (jar, hand) for kind in (~self.wall, self.wall)]
        bits = torch.stack([*on, touching[:, _FOREARM].any(dim=1)], dim=1).long()
        count = bits.sum(dim=1)
        found = torch.where(count > 1, 5, 1 + bits.argmax(dim=1)).masked_fill(count == 0, 0)
        return found.masked_fill((distances < -self.params.depth).flatten(1).any(dim=1), -1)

    def clearances(self, Y: Any) -> Any:
        """Signed distances of configurations Y (n, 7) from touching a glass: (n,)."""
        starts, ways = self._segments(*self._frames(Y))
        start, way = starts[:, :, None] - self.feet, ways[:, :, None]

        def away(t: Any) -> Any:
            points = start + t[..., None] * way
            high = points[..., 2]
            points[..., 2] = high - torch.minimum(high.clamp(min=0.0), self.tall)  # glasses stand upright
            return points

        ends = torch.stack([-start[..., 2] / way[..., 2], (self.tall - start[..., 2]) / way[..., 2]])
        apart = away(_nearest(away, way, ends)).norm(dim=-1)
        return (apart - self.thick - self.round).flatten(1).amin(dim=1) - self.params.margin

    def jars(self, Y: Any) -> tuple[Any, Any]:
        """The centre of the jar at configurations Y (n, 7), (n, 3), and how upright it is, (n,)."""
        origins, turns = self._frames(Y)
        last = turns[:, 6]
        return origins[:, 6] + last @ self.tool, (last[:, 2, 0] - last[:, 2, 1]).abs() * 0.5**0.5

    # -- parts --------------------------------------------------------------------------------------------------------

    def _frames(self, Y: Any) -> tuple[Any, Any]:
        """Origins (n, 7, 3) and rotations (n, 7, 3, 3) of the links."""
        cosines, sines = Y.cos()[..., None], Y.sin()[..., None]
        place, turn = Y.new_zeros((len(Y), 3)), self.sides.expand(len(Y), 3, 3)
        origins, turns = [], []
        for k in range(7):
            place = place + turn @ self.shifts[k]
            x, y, z = (turn @ self.bases[k]).unbind(dim=2)
            c, s = cosines[:, k], sines[:, k]
            turn = torch.stack([c * x + s * y, c * y - s * x, z], dim=2)  # a joint turns about its z
            origins.append(place)
            turns.append(turn)
        return torch.stack(origins, dim=1), torch.stack(turns, dim=1)

    def _segments(self, origins: Any, turns: Any) -> tuple[Any, Any]:
        """Starts and vectors (n, c, 3) of the capsules' axes."""
        turns = turns[:, self.links]
        starts, ways = ((turns @ part[..., None])[..., 0] for part in (self.from_, self.way))
        return origins[:, self.links] + starts, ways

    def _box_distances(self, starts: Any, ways: Any) -> tuple[Any, Any, Any]:
        """Signed distances (n, c, b) of capsules to boxes, nearest points (n, c, b, 3) on their axes, directions away."""
        start, way = starts[:, :, None] - self.middles, ways[:, :, None]

        def away(t: Any) -> Any:
            points = start + t[..., None] * way
            return points - torch.clamp(points, -self.half, self.half)

        sides = torch.cat([(-self.half - start) / way, (self.half - start) / way], dim=-1).movedim(-1, 0)
        t = _nearest(away, way, sides)
        off, points = away(t), start + t[..., None] * way
        apart = off.norm(dim=-1)
        inside = apart <= 1e-7  # the axis itself is in the box
        if inside.any():
            rows, capsules, boxes = inside.nonzero(as_tuple=True)
            apart[inside] = -self._depths(start[inside], ways[rows, capsules], self.half[boxes])
            room = self.half[boxes] - points[inside].abs()
            off[inside] = self.sides[room.argmin(dim=1)] * points[inside].sign()
        off = off / off.norm(dim=-1, keepdim=True).clamp(min=1e-300)
        return apart - self.thick, points + self.middles, off

    def _depths(self, start: Any, way: Any, half: Any) -> Any:
        """How far segments (m) that intersect boxes must move to leave them: the minimum over all separating directions."""
        middle = start + 0.5 * way
        least = (half + 0.5 * way.abs() - middle.abs()).amin(dim=1)
        for side in self.sides:
            across = torch.linalg.cross(way, side.expand_as(way))
            length = across.norm(dim=1)
            across = across / length.clamp(min=1e-300)[:, None]
            reach = (half * across.abs()).sum(dim=1) - (middle * across).sum(dim=1).abs()
            least = torch.where(length > 1e-9, torch.minimum(least, reach), least)
        return least

    def _pushed_out(self, q: Any) -> tuple[Any, Any]:
        """Angles (n, 7) moved off boxes, the deepest contact first, and whether they had to be (n,)."""
        q, rows = q.clone(), torch.arange(len(q), device=q.device)
        pushed = torch.zeros(len(q), dtype=torch.bool, device=q.device)
        for _ in range(ROUNDS):
            origins, turns = self._frames(q[rows])
            distances, points, off = self._box_distances(*self._segments(origins, turns))
            least, deepest = distances.flatten(1).min(dim=1)
            each = (least < 0.0).nonzero()[:, 0]
            if len(each) == 0:
                break
            rows, least, deepest = rows[each], least[each], deepest[each]
            point, away = (part.flatten(1, 2)[each, deepest] for part in (points, off))
            links = self.links[deepest // len(self.half)]
            levers = torch.linalg.cross(turns[each, :, :, 2], point[:, None] - origins[each])
            slopes = (levers * away[:, None]).sum(dim=2) * (self.joints <= links[:, None])
            share = (1e-4 - least) / (slopes**2).sum(dim=1).clamp(min=1e-3)
            q[rows] += share[:, None] * slopes
            pushed[rows] = True
        return q, pushed


class TorchShelfRollout:
    """Stage costs of action sequences, as the task's `FusedRollout` gives them; regions are those of `capture`.

    Args:
        cap: calibrated on the shelf, with Euclidean distances from particles.
        params: parameters of the task, with the weights of the objective.
        alpha: failure rate of the regions.
        device: device of all tensors, "cpu" or "cuda".
    """

    def __init__(self, cap: Capture, params: ShelfParams, alpha: float = 0.1, device: str = "cpu") -> None:
        score = cap.score_
        if not isinstance(score, NearestParticles) or not isinstance(score.metric_, Euclidean):
            raise CaptureError(
                f"no plan of the shelf in PyTorch for {score!r}; expected NearestParticles with Euclidean distances. "
                "Calibrate the method capture."
            )
        thresholds, partition = cap.plan_thresholds(alpha), cap.partition_
        check_finite(thresholds)

        def put(part: Any) -> Any:
            return torch.as_tensor(np.array(part), device=device)

        moves = checked_moves(score.metric_, 7)
        self.shelf, self.params, self.device = TorchShelf(params, device), params, device
        self.n_particles, self.k, self.ball = cap.n_particles, int(score.k), unit_ball(moves)
        self.offsets = put(low_discrepancy(moves, POINTS, cap.n_particles)).reshape(cap.n_particles, 2, -1, 7)
        self.nodes = {name: put(partition.nodes[name].astype(np.int64)) for name in ("feature", "left", "right", "group")}
        self.splits, self.roots = put(partition.nodes["threshold"]), put(partition.roots.astype(np.int64))
        self.features, self.thresholds = put(partition.stratum_features.astype(np.float64)), put(thresholds)

    def __call__(self, state: Floats, sequences: Floats, seed: int, normals: Floats | None = None) -> Floats:
        """Costs (N, H) of sequences (N, H, 7) from state (14,); with standard normals (N, H, L, 7), or drawn by the seed."""
        with torch.inference_mode():
            start, actions = (torch.as_tensor(part, dtype=torch.float64, device=self.device) for part in (state, sequences))
            if normals is None:
                generator = torch.Generator(device=self.device).manual_seed(seed)
                shape, drawn = (*actions.shape[:2], self.n_particles, 7), {"dtype": torch.float64, "device": self.device}
                noise = torch.randn(shape, generator=generator, **drawn)
            else:
                noise = torch.as_tensor(normals, device=self.device)
            return np.asarray(self.costs(start, actions, noise).cpu().numpy())

    def costs(self, start: Any, sequences: Any, noise: Any) -> Any:
        """The same for tensors on the device."""
        samples, horizon, _ = sequences.shape
        states, stages = start.expand(samples, self.n_particles, 14), []
        for h in range(horizon):
            action = sequences[:, h]
            q = self._thresholds(torch.cat([states.mean(dim=1), action], dim=1))
            commanded = action[:, None] + self.params.noise * noise[:, h]
            states = self.shelf.step(states.flatten(0, 1), commanded.flatten(0, 1)).reshape(states.shape)
            cloud = states[..., :7]
            stages.append(self._cost(cloud.mean(dim=1), action, self._hazard(cloud, q), h + 1 == horizon))
        return torch.stack(stages, dim=1)

    def _cost(self, mean: Any, action: Any, hazard: Any, last: bool) -> Any:
        """Costs (N,) of mean angles (N, 7), actions (N, 7) and the fractions of regions that touch a glass (N,)."""
        p, (places, upright) = self.params, self.shelf.jars(mean)
        away = places - self.shelf.goal
        flat = torch.hypot(away[:, 0], away[:, 1])
        far = p.away * torch.hypot(flat, away[:, 2] - p.lift * flat)
        total = (p.last if last else 1.0) * far + p.upright * (1.0 - upright)
        return total + p.effort * (action**2).sum(dim=1) + p.glass * hazard

    def _thresholds(self, x: Any) -> Any:
        """Thresholds of inputs x (N, 21) in every stratum: (N, M)."""
        shape = len(x), len(self.roots)
        inputs = torch.cat([x[:, None].expand(*shape, -1), self.features.expand(*shape, -1)], dim=2).float()
        at = self.roots.expand(shape)
        while ((feature := self.nodes["feature"][at]) >= 0).any():
            value = inputs.gather(2, feature.clamp(min=0)[..., None])[..., 0]
            below = torch.where(value.double() <= self.splits[at], self.nodes["left"][at], self.nodes["right"][at])
            at = torch.where(feature < 0, at, below)
        return self.thresholds[torch.arange(shape[1], device=x.device), self.nodes["group"][at]]

    def _hazard(self, cloud: Any, q: Any) -> Any:
        """Fractions (N,) of regions, of particles (N, L, 7) with thresholds q (N, M), in which a glass is touched."""
        widest = q.amax(dim=1, keepdim=True).clamp(min=0.0)
        own = _at(q, self._each(self.shelf.strata, cloud))
        radii = torch.cat([torch.where(own >= 0, own, widest), widest], dim=1)
        reach = torch.stack([radii[:, :-1], widest.expand_as(own)], dim=2)  # half of a particle's points reach farther
        points = (cloud[:, :, None, None] + reach[..., None, None] * self.offsets).flatten(1, 3)
        on_points, on_particles = (self._each(self.shelf.clearances, Y) < 0.0 for Y in (points, cloud))
        shares = on_particles.double().mean(dim=1)
        met = ((on_points.any(dim=1) | on_particles.any(dim=1)) & (q.amax(dim=1) >= 0)).nonzero()[:, 0]
        if len(met) > 0:
            weights = self._weights(points[met], cloud[met], q[met], radii[met], reach[met])
            total, found = weights.sum(dim=1), (weights * on_points[met]).sum(dim=1)
            # a region without any point is represented by its particles
            shares[met] = torch.where(total > 0, found / total.clamp(min=1e-300), shares[met])
        return shares

    def _weights(self, points: Any, cloud: Any, q: Any, radii: Any, reach: Any) -> Any:
        """One over the density of points (n, J, 7) at each, 0 outside the region: (n, J).

        For particles (n, L, 7) with thresholds q (n, M) and radii (n, L + 1); reach (n, L, 2) is of a particle's halves.
        """
        limits = _at(q, self._each(self.shelf.strata, points))
        distances = torch.cdist(points, cloud, compute_mode="donot_use_mm_for_euclid_dist")
        near = (distances <= limits[..., None]).sum(dim=2) >= self.k
        shares = 1.0 / (self.ball * radii**7).clamp(min=1e-300)[:, None]
        radii = radii[:, None]
        density = torch.where(distances <= radii[..., :-1], shares[..., :-1], 0.0).sum(dim=2)
        density += torch.where(distances <= radii[..., -1:], shares[..., -1:], 0.0).sum(dim=2)
        each = points.shape[1] // self.n_particles
        mine = distances.reshape(len(cloud), self.n_particles, each, -1).diagonal(dim1=1, dim2=3)  # (n, each, L)
        counts = mine.transpose(1, 2) <= reach.repeat_interleave(each // 2, dim=2)
        return torch.where(near & counts.flatten(1), 2.0 * self.n_particles / density, 0.0)

    def _each(self, function: Callable[[Any], Any], Y: Any) -> Any:
        """A function of configurations (n, 7), applied to each of Y (n, J, 7): (n, J)."""
        return function(Y.flatten(0, 1)).reshape(Y.shape[:2])


def _nearest(away: Callable[[Any], Any], way: Any, cuts: Any) -> Any:
    """Positions (0 to 1) on segments where the distance to an obstacle, given by `away`, is smallest.

    The slope of its square is linear between `cuts` (k, ...), where a side of a box or an end of a glass is passed.
    """

    def slope(t: Any) -> Any:
        return (away(t) * way).sum(dim=-1)

    t = torch.nan_to_num(cuts, nan=0.0).clamp(0.0, 1.0)
    before = slope(t) < 0.0
    low, high = torch.where(before, t, 0.0).amax(dim=0), torch.where(before, 1.0, t).amin(dim=0)
    rise, fall = slope(low), slope(high)
    inner = low + (high - low) * (-rise / (fall - rise).clamp(min=1e-300)).clamp(0.0, 1.0)
    return torch.where(rise >= 0.0, low, torch.where(fall <= 0.0, high, inner))


def _at(q: Any, labels: Any) -> Any:
    """Threshold of every label (n, J), from thresholds q (n, M); -1 where infeasible."""
    return q.gather(1, labels.clamp(min=0)).masked_fill(labels < 0, -1.0)
