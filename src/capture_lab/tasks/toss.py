"""Tosses of a simulated cube, for `capture gap --example`: a log to measure and two simulators to doubt.

The robot is a cube on rounded corners, simulated with a friction that varies from toss to toss and seen through noisy
sensors. One of the simulators has sharp corners and too much friction, the other is nearly right.
"""

from __future__ import annotations

from copy import copy
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.spaces.mujoco_model import mujoco_module, read_model

_PERIOD, _SUBSTEPS = 1 / 150, 5  # of the log, in s; time steps of a simulator in it
_REAL = (0.0482, 0.0024, 0.18)  # where the centres of the corners are, their radius (m), friction
_SIMULATORS = {"sharp.xml": (0.0519, 0.0005, 0.4), "rounded.xml": (0.0484, 0.0022, 0.2)}
_NOISE = (0.0001, 0.001)  # of the measured position (m) and rotation (rad)
_BEFORE = 3  # rows that the velocity at the first one needs
_COLUMNS = ["px", "py", "pz", "qw", "qx", "qy", "qz", "vx", "vy", "vz", "wx", "wy", "wz"]


def write_example(folder: str | Path, n: int = 60, seed: int = 0) -> tuple[list[Path], Path]:
    """Write two simulators (MJCF) and the log of `n` tosses (Parquet) into a folder: their files, and that of the log."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, corners in _SIMULATORS.items():
        (folder / name).write_text(_cube(*corners), encoding="utf-8")
    tosses = _tosses(n, np.random.default_rng(seed))
    lengths = [len(toss) for toss in tosses]
    step = np.concatenate([np.arange(length) for length in lengths])
    table = {"toss": np.repeat(np.arange(n), lengths), "step": step, "time": step * _PERIOD}
    table |= dict(zip(_COLUMNS, np.concatenate(tosses).T))
    log = folder / "tosses.parquet"
    pq.write_table(pa.table(table, metadata={"source": "simulated tosses of a cube"}), log)
    return [folder / name for name in _SIMULATORS], log


def _tosses(n: int, rng: np.random.Generator) -> list[Floats]:
    """The log: for each toss, what was measured in each of its rows, (rows, 13)."""
    mujoco, full = mujoco_module(), mujoco_module().mjtState.mjSTATE_FULLPHYSICS
    friction = rng.uniform(0.8, 1.2, n) * _REAL[2]
    robots = [read_model(_cube(*_REAL[:2], sliding)) for sliding in friction]
    data = mujoco.MjData(robots[0])
    start = np.zeros((n, mujoco.mj_stateSize(robots[0], full)))
    start[:, 1:3], start[:, 3] = rng.uniform(-0.3, 0.3, (n, 2)), rng.uniform(0.15, 0.25, n)
    turn = rng.normal(size=(n, 4))
    start[:, 4:8] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    start[:, 8:11] = rng.uniform(-1, 1, (n, 3)) * (1.1, 1.1, 0.3)  # m/s
    start[:, 11:14] = rng.uniform(-5, 5, (n, 3))  # rad/s, in the frame of the cube
    lengths = rng.integers(75, 115, n) + _BEFORE
    with import_module("mujoco.rollout").Rollout(nthread=2) as runner:
        path, _ = runner.rollout(robots, [data, copy(data)], start, nstep=int(lengths.max()) * _SUBSTEPS)
    poses = path[:, _SUBSTEPS - 1 :: _SUBSTEPS, 1:8]
    return [_measured(pose[:length], rng) for pose, length in zip(poses, lengths)]


def _measured(pose: Floats, rng: np.random.Generator) -> Floats:
    """Poses (rows, 7) as noisy sensors deliver them, with velocities: the median of the last three backward differences."""
    from scipy.spatial.transform import Rotation

    position = pose[:, :3] + rng.normal(scale=_NOISE[0], size=(len(pose), 3))
    turned = Rotation.from_quat(np.roll(pose[:, 3:], -1, axis=1))  # scipy puts w last
    turned *= Rotation.from_rotvec(rng.normal(scale=_NOISE[1], size=(len(pose), 3)))
    rates = (turned[:-1].inv() * turned[1:]).as_rotvec()  # in the frame of the cube, as the rates of a free joint are
    moved = np.hstack([np.diff(position, axis=0), rates]) / _PERIOD
    velocity = np.median([moved[:-2], moved[1:-1], moved[2:]], axis=0)
    quaternion = np.roll(turned.as_quat(), 1, axis=1)
    flips = np.sum(quaternion[1:] * quaternion[:-1], axis=1) < 0
    quaternion[1:] *= np.where(np.cumsum(flips) % 2, -1, 1)[:, None]  # continuous in sign
    return np.hstack([position, quaternion])[_BEFORE:] @ np.eye(7, 13) + velocity @ np.eye(6, 13, 7)


def _cube(half: float, radius: float, friction: float) -> str:
    """MJCF of a cube that touches the ground with a sphere in each corner."""
    at = [" ".join(f"{sign * half:.6g}" for sign in corner) for corner in product((-1, 1), repeat=3)]
    corners = "".join(f'<geom name="corner{i}" class="corner" pos="{place}"/>\n      ' for i, place in enumerate(at))
    return f"""<mujoco>
  <option timestep="{_PERIOD / _SUBSTEPS:.8f}" cone="elliptic" impratio="10"/>
  <default>
    <geom friction="{friction:.6g} 0.0005 0.00001" solref="0.004 1"/>
    <default class="corner"><geom type="sphere" size="{radius}"/></default>
  </default>
  <worldbody>
    <geom name="ground" type="plane" size="1 1 0.1"/>
    <body name="cube" pos="0 0 0.2">
      <freejoint name="cube"/>
      <inertial pos="0 0 0" mass="0.37" diaginertia="0.00081 0.00081 0.00081"/>
      <geom name="side" type="box" size="0.0506 0.0506 0.0506" contype="0" conaffinity="0" rgba="0.7 0.7 0.75 0.4"/>
      {corners}</body>
  </worldbody>
</mujoco>
"""
