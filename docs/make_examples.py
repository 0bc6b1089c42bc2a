"""Writes the logs of the worked examples into docs/assets: a wheeled robot, a block among walls, the Panda with its peg.

In each, the page's model differs from the true system. `python docs/make_examples.py`; the last two need MuJoCo.
"""

from pathlib import Path

import mujoco
import numpy as np

from capture_cp import Transitions, write_transitions
from capture_cp.models import mujoco_rollout
from capture_lab.tasks.peg.task import Peg

ASSETS = Path(__file__).parent / "assets"


def wheels(n: int, rng: np.random.Generator) -> Transitions:
    """A robot on two wheels: half a second with wheel speeds held (m/s)."""
    state = rng.uniform([0.0, 0.0, -np.pi], [3.0, 3.0, np.pi], size=(n, 3))
    command = rng.uniform(-0.2, 1.0, size=(n, 2))
    names = ("x", "y", "theta"), ("left", "right"), ("next_x", "next_y", "next_theta")
    parts = state, command, driven(state, command, rng)
    return Transitions.from_arrays(*(part.round(4) for part in parts), *names)


def driven(state: np.ndarray, command: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poses (n, 3) after the wheels' motion: the tyres slip in turns, and the track is wider than in the data sheet."""
    speed = command + 0.04 * rng.standard_normal(command.shape)
    forward, turn = speed.mean(axis=1), (speed[:, 1] - speed[:, 0]) / 0.34
    turn = turn / (1 + 0.12 * np.abs(turn))
    after, dt = np.array(state), 0.5 / 50
    for _ in range(50):
        cos, sin, aside = np.cos(after[:, 2]), np.sin(after[:, 2]), 0.06 * forward * turn
        after += dt * np.stack([forward * cos - aside * sin, forward * sin + aside * cos, turn], axis=1)
    return wrapped(after)


def sliding_block(n: int, rng: np.random.Generator) -> Transitions:
    """A block pushed over a table, from rest, for a quarter of a second (N)."""
    state = rng.uniform([-0.105, -0.065, -np.pi], [0.105, 0.065, np.pi], size=(n, 3))
    push = rng.uniform(-8.0, 8.0, size=(n, 2))
    names = ("x", "y", "theta"), ("push_x", "push_y"), ("next_x", "next_y", "next_theta")
    parts = state.round(5), push.round(3), pushed(state, push, rng).round(5)
    return Transitions.from_arrays(*parts, *names)


def pushed(state: np.ndarray, push: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poses (n, 3) after pushes (n, 2), with more friction and less force than in the MJCF."""
    model = mujoco.MjModel.from_xml_path(str(ASSETS / "sliding-block.xml"))
    model.dof_frictionloss[:] *= 1.3
    model.geom_friction[:] *= 1.5
    model.actuator_gear[:] *= 0.9
    truth = mujoco_rollout(model, nstep=50, control_noise=0.3)
    return wrapped(truth(np.hstack([state, push]), 1, rng)[:, 0])


def wrapped(pose: np.ndarray) -> np.ndarray:
    """Poses (n, 3) with headings between -pi and pi."""
    pose[:, 2] = (pose[:, 2] + np.pi) % (2 * np.pi) - np.pi
    return pose


def panda(n: int, rng: np.random.Generator) -> Transitions:
    """The peg in the hand of a Panda, one control step from rest: x, z in metres, theta in radians."""
    log = Peg(system="arm").transitions(n, rng)
    return Transitions.from_arrays(
        log.state.round(6), log.action.round(3), log.next.round(6), log.state_names, log.action_names, log.next_names
    )


if __name__ == "__main__":
    for name, log in (
        ("wheels.csv", wheels(1500, np.random.default_rng(0))),
        ("sliding-block.npz", sliding_block(1800, np.random.default_rng(1))),
        ("panda-peg.npz", panda(1600, np.random.default_rng(2))),
    ):
        if name.endswith(".npz"):
            np.savez_compressed(ASSETS / name, **log.columns())
        else:
            write_transitions(ASSETS / name, log)
        print(f"{name}  {len(log)} transitions, {(ASSETS / name).stat().st_size / 1000:.0f} kB")
