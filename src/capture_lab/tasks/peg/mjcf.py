"""MuJoCo models of the peg task, written as MJCF text: one scene, two ways to move the peg.

The world frame is that of the poses: x along the plane of the hole, z up, y away from a viewer who sees x to the right.
For that viewer a pose turns counter-clockwise, which is about -y.

The peg collides as a box and the hole is a slot, long in y: in the plane of the hole that is exactly the rectangle and the
channel of the paper's feasibility test, which a cylinder in a round hole also shows there. Box against box gives contacts on
both sides of the plane that do not twist the peg out of it, and MuJoCo computes them exactly. The round peg is only drawn.
"""

from __future__ import annotations

from math import radians
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_lab.tasks.peg.settings import PegSettings

CONTROL_STEP = 1 / 15
SUBSTEPS = 64
#: Natural frequencies of the controllers (rad/s), critically damped: after a control step almost nothing of a free move
#: remains. The arm's is higher because its inertia is known at one pose only.
PLANAR_FREQUENCY, ARM_FREQUENCY = 150.0, 200.0
#: Rotational over translational inertia of the planar peg (m²): similar to the arm's, at the peg.
INERTIA_RATIO = 0.039
PEG_MASS = 0.019
#: Half sizes of bodies that should be unbounded (m): beyond the reach of the peg.
HALF_BLOCK, HALF_TABLE, HALF_DEPTH = 0.15, 0.25, 0.05
#: Positions of the table and the arm (m).
FLOOR = -0.304

#: Contact as hard as the time step allows; with MuJoCo's default the peg sinks in by half a millimetre. It starts a margin
#: of 10 µm before the bodies touch and is fully hard when they do: at rest they keep 5 µm apart, and a peg flat against a
#: wall does not overlap it by the 0.01 mm² that would make its pose infeasible.
_CONTACT = f'condim="3" solref="{2 * CONTROL_STEP / SUBSTEPS} 1" solimp="0.9 0.9999 1e-5"'
_MARGIN = 1e-5  # m, on the peg alone: the same whether MuJoCo adds the margins of two bodies or uses the larger


def planar_model(settings: PegSettings) -> str:
    """The peg on two slides and a hinge, each held by a critically damped position actuator."""
    # Without gravity the mass cancels from all motion; only the ratio of the inertias matters.
    turn, frequency = INERTIA_RATIO, settings.frequency or PLANAR_FREQUENCY
    body = f"""
    <body name="peg">
      <inertial pos="0 0 0" mass="1" diaginertia="{turn} {turn} {turn}"/>
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <joint name="theta" axis="0 -1 0"/>
      {_peg(settings)}
    </body>"""
    actuators = "\n".join(
        f'    <position joint="{joint}" kp="{inertia * frequency**2}" kv="{2 * inertia * frequency}"/>'
        for joint, inertia in (("x", 1.0), ("z", 1.0), ("theta", turn))
    )
    return _scene(settings, body, f"<actuator>\n{actuators}\n  </actuator>")


def arm_model(settings: PegSettings, panda: dict[str, Any], base: float, grip: float, shape: Floats) -> str:
    """The Panda with the peg fixed in its hand, driven through seven tendons.

    Args:
        settings: sizes of the task.
        panda: parameters of the arm.
        base: x position of its base (m).
        grip: from the flange to the centre of the peg (m).
        shape: (7, 7); tendon i is the combination shape[:, i] of the joints, driven like a unit mass.
    """
    tendons, actuators, frequency = [], [], settings.frequency or ARM_FREQUENCY
    for i, column in enumerate(shape.T):
        parts = "".join(f'<joint joint="joint{j + 1}" coef="{c!r}"/>' for j, c in enumerate(map(float, column)) if c)
        tendons.append(f'    <fixed name="mode{i + 1}">{parts}</fixed>')
        actuators.append(f'    <position tendon="mode{i + 1}" kp="{frequency**2}" kv="{2 * frequency}"/>')
    control = "<tendon>\n{}\n  </tendon>\n  <actuator>\n{}\n  </actuator>".format("\n".join(tendons), "\n".join(actuators))
    return _scene(settings, _arm(settings, panda, base, grip), control)


# -- the scene --------------------------------------------------------------------------------------------------------


def _scene(settings: PegSettings, body: str, control: str) -> str:
    width = min(settings.block_width, 2 * HALF_BLOCK)
    half_wall, half_height = (width - settings.hole_width) / 4, settings.hole_depth / 2
    middle = settings.hole_width / 2 + half_wall
    walls = "\n".join(
        f'    <geom name="{side}" class="fixture" pos="{sign * middle} 0 {-half_height}" '
        f'size="{half_wall} {HALF_DEPTH} {half_height}" rgba=".62 .65 .7 1"/>'
        for side, sign in (("left", -1), ("right", 1))
    )
    return f"""<mujoco model="peg">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{CONTROL_STEP / SUBSTEPS}" gravity="0 0 0" integrator="implicitfast" cone="elliptic" impratio="10"/>
  <default>
    <geom friction="{settings.friction} 0 0" {_CONTACT}/>
    <default class="fixture"><geom type="box" contype="1" conaffinity="2"/></default>
    <default class="drawn"><geom contype="0" conaffinity="0" rgba=".93 .93 .94 1"/></default>
  </default>
  <asset><texture type="skybox" builtin="gradient" rgb1=".98 .98 1" rgb2=".8 .84 .9" width="64" height="64"/></asset>
  <visual>
    <global offwidth="1920" offheight="1080"/>
    <headlight ambient=".35 .35 .35" diffuse=".35 .35 .35" specular="0 0 0"/>
    <quality shadowsize="4096"/>
  </visual>
  <statistic center="0 0 0.02" extent="0.3"/>
  <worldbody>
    <light pos="-0.5 -1.2 2" dir="0.25 0.6 -1" diffuse=".5 .5 .5"/>
    <camera name="plane" pos="0 -0.24 0.03" xyaxes="1 0 0 0 0.1 1"/>
    <camera name="room" pos="0.15 -1.4 0.55" xyaxes="0.97 0.24 0 -0.07 0.29 0.95"/>
    <geom class="drawn" type="plane" pos="0 0 {FLOOR}" size="2 2 0.1" rgba=".9 .9 .9 1"/>
{walls}
    <geom name="table" class="fixture" pos="0 0 {(FLOOR - settings.hole_depth) / 2}" rgba=".8 .76 .7 1"
      size="{HALF_TABLE} {HALF_TABLE} {(-settings.hole_depth - FLOOR) / 2}"/>
{body}
  </worldbody>
  {control}
</mujoco>"""


def _peg(settings: PegSettings) -> str:
    half_width, half_length = settings.peg_width / 2, settings.peg_length / 2
    return f"""<geom name="peg" type="box" size="{half_width} {half_width} {half_length}" contype="2" conaffinity="1"
        mass="0" margin="{_MARGIN}" group="3"/>
      <geom class="drawn" type="cylinder" size="{half_width} {half_length}" mass="{PEG_MASS}" rgba=".95 .75 .2 1"/>
      <site name="peg" size="0.001" group="3"/>"""


# -- the arm ----------------------------------------------------------------------------------------------------------


def _arm(settings: PegSettings, panda: dict[str, Any], base: float, grip: float) -> str:
    """Nested bodies from the base to the peg; every link is drawn as a capsule to the next joint."""
    joints = panda["joints"]
    offsets = [_offset(joint) for joint in joints] + [np.array([0.0, 0.0, panda["flange"]["d"]])]
    opened = [f'<body name="base" pos="{base} 0 {FLOOR}">{_inertial(panda["base"])}{_capsule(offsets[0], 0.06)}']
    for i, joint in enumerate(joints):
        half = radians(joint["alpha"]) / 2
        opened.append(
            f'<body name="link{i + 1}" pos="{_row(offsets[i])}" quat="{np.cos(half)} {np.sin(half)} 0 0">'
            f'{_inertial(joint)}<joint name="joint{i + 1}" axis="0 0 1" range="{_row(joint["limits"])}" '
            f'armature="{panda["armature"]}" damping="{panda["damping"]}"/>{_capsule(offsets[i + 1], 0.055 - 0.003 * i)}'
        )
    half = radians(panda["flange"]["turn"]) / 2
    opened.append(
        f'<body name="hand" pos="{_row(offsets[-1])}" quat="{np.cos(half)} 0 0 {np.sin(half)}">'
        f"{_inertial(panda['hand'])}{_fingers(settings, grip)}"
    )
    opened.append(f'<body name="peg" pos="0 0 {grip}" quat="0 1 0 0">{_peg(settings)}')
    return "\n".join("    " + part for part in opened) + "\n    " + "</body>" * len(opened)


def _offset(joint: dict[str, Any]) -> Floats:
    """Origin of a joint's frame in its parent's (3,), by the modified Denavit-Hartenberg steps."""
    alpha = radians(joint["alpha"])
    return np.array([joint["a"], -np.sin(alpha) * joint["d"], np.cos(alpha) * joint["d"]])


def _inertial(link: dict[str, Any]) -> str:
    return f'<inertial mass="{link["mass"]}" pos="{_row(link["com"])}" fullinertia="{_row(link["inertia"])}"/>'


def _capsule(end: Floats, radius: float) -> str:
    if not end.any():
        return ""
    return f'<geom class="drawn" type="capsule" fromto="0 0 0 {_row(end)}" size="{radius}" mass="0"/>'


def _fingers(settings: PegSettings, grip: float) -> str:
    """The hand and two fingers that hold the upper end of the peg, one on either side of the plane."""
    half = (grip - settings.peg_length / 3 - 0.04) / 2
    palm = '<geom class="drawn" type="box" pos="0 0 0.02" size="0.03 0.09 0.025" mass="0"/>'
    return palm + "".join(
        f'<geom class="drawn" type="box" pos="0 {side * (settings.peg_width / 2 + 0.006)} {0.04 + half}" '
        f'size="0.009 0.006 {half}" mass="0" rgba=".35 .36 .4 1"/>'
        for side in (-1, 1)
    )


def _row(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)
