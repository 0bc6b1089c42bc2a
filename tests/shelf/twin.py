"""The arm's geometry and the model's step in plain NumPy, one configuration at a time: slow, and short enough to be checked.

`p` is a `ShelfParams`, or `Solids` where no motion is asked for.
"""

from __future__ import annotations

import numpy as np

from capture_lab.tasks.shelf.geometry import STRATA
from capture_lab.tasks.shelf.mjcf import FIXTURES, PARTS
from capture_lab.tasks.shelf.model import PARTS_OF_STEP, RATE, ROUNDS

SEARCH = 48  # thirds and halves by which a nearest place is found


def frames(p, q):
    """Origins (7, 3) and rotations (7, 3, 3) of the links at angles q (7,)."""
    origins, turns, place, turn = [], [], np.zeros(3), np.eye(3)
    for fixed, angle in zip(p.fixed, q):
        c, s = np.cos(angle), np.sin(angle)
        place = place + turn @ fixed[:3]
        turn = turn @ fixed[3:].reshape(3, 3) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        origins.append(place)
        turns.append(turn)
    return np.array(origins), np.array(turns)


def segments(p, q):
    """Starts (c, 3) and ways (c, 3) of the capsules' axes in the world."""
    origins, turns = frames(p, q)
    links = p.capsules[:, 0].astype(int)
    starts = [origins[k] + turns[k] @ capsule[1:4] for k, capsule in zip(links, p.capsules)]
    return np.array(starts), np.array([turns[k] @ capsule[4:7] for k, capsule in zip(links, p.capsules)])


def jar(p, q):
    """The middle of the jar (3,), and how upright its axis is."""
    origins, turns = frames(p, q)
    way = segments(p, q)[1][PARTS.index("jar")]
    return origins[6] + turns[6] @ p.tool, abs(way[2]) / np.linalg.norm(way)


def jacobian(p, q, point, link):
    """How a point (3,) of a link moves with each angle: (3, 7)."""
    origins, turns = frames(p, q)
    columns = [np.cross(turns[k][:, 2], point - origins[k]) if k <= link else np.zeros(3) for k in range(7)]
    return np.array(columns).T


# -- distances ------------------------------------------------------------------------------------------------------------


def box_distances(p, q):
    """Signed distances (c, b) of all capsules to all boxes: apart, or how far to move one to part them."""
    placed = segments(p, q)
    return np.array([[box_distance(p, placed, c, b) for b in range(len(p.boxes))] for c in range(len(p.capsules))])


def box_distance(p, placed, c, b):
    """The same of capsule c and box b, for segments that are `placed`."""
    start, way, half = placed[0][c] - p.boxes[b, :3], placed[1][c], p.boxes[b, 3:6]
    apart = outside(start, way, half)
    return (apart if apart > 1e-9 else -depth(start, way, half)) - p.capsules[c, 7]


def outside(start, way, half):
    """Distance of a segment to a box about the origin, 0 where they meet: a third of the segment is left out at a time."""
    low, high = 0.0, 1.0
    for _ in range(SEARCH):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if to_box(start + one * way, half) <= to_box(start + other * way, half):
            high = other
        else:
            low = one
    return min(to_box(start + t * way, half) for t in (0.0, low, 1.0))


def to_box(point, half):
    return np.sqrt((np.maximum(np.abs(point) - half, 0) ** 2).sum())


def depth(start, way, half):
    """How far a segment that meets a box must move to leave it: the least over directions that can part them."""
    sides = np.eye(3)
    directions = [*sides, *(np.cross(way, side) for side in sides)]
    directions = [d / np.linalg.norm(d) for d in directions if np.linalg.norm(d) > 1e-9]
    middle = start + way / 2
    return min(half @ np.abs(d) + abs(way @ d) / 2 - abs(middle @ d) for d in directions)


def glass_distance(p, q):
    """Signed distance of the arm to the nearest glass."""
    starts, ways = segments(p, q)
    return min(
        between(start - glass[:3], way, glass[3:6]) - capsule[7] - glass[6]
        for start, way, capsule in zip(starts, ways, p.capsules)
        for glass in p.glasses
    )


def between(start, way, other):
    """Distance of a segment to one from the origin along `other`."""

    def apart(t):
        point = start + t * way
        return np.linalg.norm(point - np.clip(point @ other / (other @ other), 0, 1) * other)

    low, high = 0.0, 1.0
    for _ in range(SEARCH):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, two) if apart(one) <= apart(two) else (one, high)
    return min(map(apart, (0.0, low, 1.0)))


def stratum(p, q):
    """Name of what touches, None where anything is too deep."""
    distances = box_distances(p, q)
    if (distances < -p.depth).any():
        return None
    contacts = {
        f"{PARTS[c] if PARTS[c] in ('jar', 'forearm') else 'hand'} on {FIXTURES[int(p.boxes[b, 6])]}"
        for c, b in zip(*np.nonzero(distances <= p.tolerance))
    }
    if not contacts:
        return "free"
    (name, *others) = contacts
    return name if not others and name in STRATA else "other contact"


# -- the model ------------------------------------------------------------------------------------------------------------


def nearest(p, c, b, q):
    """The first place (3,) on the axis of capsule c that is nearest to box b, and the direction (3,) away from the box."""
    starts, ways = segments(p, q)
    start, way, half = starts[c] - p.boxes[b, :3], ways[c], p.boxes[b, 3:6]
    low, high = 0.0, 1.0
    for _ in range(SEARCH):
        middle = (low + high) / 2
        point = start + middle * way
        low, high = (middle, high) if (point - np.clip(point, -half, half)) @ way < 0 else (low, middle)
    point = start + low * way
    away = point - np.clip(point, -half, half)
    if np.linalg.norm(away) <= 1e-12:
        side = np.argmin(half - np.abs(point))
        away = np.sign(point[side]) * np.eye(3)[side]
    return point + p.boxes[b, :3], away / np.linalg.norm(away)


def pushed_out(p, q, rounds=ROUNDS):
    """Angles (7,) moved off boxes, the deepest contact first, and whether they had to be."""
    pushed = False
    for _ in range(rounds):
        distances = box_distances(p, q)
        c, b = np.unravel_index(distances.argmin(), distances.shape)
        if distances[c, b] >= 0:
            break
        point, away = nearest(p, c, b, q)
        slope = away @ jacobian(p, q, point, int(p.capsules[c, 0]))
        q, pushed = q + (1e-4 - distances[c, b]) * slope / max(slope @ slope, 1e-3), True
    return q, pushed


def step(p, state, action, noise):
    """The state (14,) after an action (7,) that standard normals (7,) disturb."""
    q, v, printed = state[:7], state[7:], action + p.noise * noise
    weight = jacobian(p, q, jar(p, q)[0], 6)[2]
    causes = np.stack([printed, v, weight], axis=1)
    move, speed = (p.motion[:, :3] * causes).sum(axis=1), (p.motion[:, 3:] * causes).sum(axis=1)
    after, stopped = q, False
    for _ in range(PARTS_OF_STEP):
        after, pushed = pushed_out(p, np.clip(after + move / PARTS_OF_STEP, *p.limits))
        stopped = stopped or pushed
    return np.concatenate([after, speed + RATE * (after - q - move) * stopped])
