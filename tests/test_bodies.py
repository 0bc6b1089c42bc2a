"""Bodies of a MuJoCo model in pictures: every kind of geom, solid, as an outline and as a wireframe, without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo is not installed (extra sim)")
pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra view)")

from capture_cp.report.canvas import rgb
from capture_cp.report.draw import draw
from capture_cp.report.panel import Panel
from capture_cp.report.scene import Points, mujoco_bodies
from capture_cp.report.solids import MOST_FACES, SIDE, TOP, View, body_shapes, outlines, rendered, sharp_edges, triangles

SCENE = """<mujoco>
  <asset><mesh name="roof" vertex="-.2 -.2 0  .2 -.2 0  .2 .2 0  -.2 .2 0  0 0 .3"/></asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" rgba="1 1 1 1"/>
    <geom name="box" type="box" size=".1 .2 .15" pos="-1 0 .15" euler="0 0 30" rgba="1 0 0 1"/>
    <geom name="sphere" type="sphere" size=".2" pos="-.5 0 .2" rgba="0 1 0 1"/>
    <geom name="capsule" type="capsule" size=".1 .2" pos="0 0 .3" rgba="0 0 1 1"/>
    <geom name="cylinder" type="cylinder" size=".15 .2" pos=".5 0 .2" rgba="1 1 0 1"/>
    <geom name="mesh" type="mesh" mesh="roof" pos="1 0 0" rgba="0 1 1 1"/>
    <geom name="hidden" type="box" size="1 1 1" group="3"/>
  </worldbody>
</mujoco>"""
LOW, HIGH, PIXELS = np.array([-1.5, -0.2]), np.array([1.5, 0.8]), 300
VOLUMES = {"box": 8 * 0.1 * 0.2 * 0.15, "sphere": 4 / 3 * np.pi * 0.2**3, "cylinder": np.pi * 0.15**2 * 0.4,
           "capsule": np.pi * 0.1**2 * 0.4 + 4 / 3 * np.pi * 0.1**3, "mesh": 0.4**2 * 0.3 / 3}  # fmt: skip


@pytest.fixture(scope="module")
def bodies():
    import mujoco

    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return mujoco_bodies(model, data)


def test_every_kind_of_geom_is_a_body(bodies):
    assert set(bodies) == {"floor", *VOLUMES}


@pytest.mark.parametrize("name", VOLUMES)
def test_triangles_close_and_face_outwards(bodies, name):
    """The volume within triangles that all face outwards is that of the body, less what round bodies lose to corners."""
    corners, faces = triangles(bodies[name])
    a, b, c = np.moveaxis(corners[faces], 1, 0)
    volume = float(np.einsum("fi,fi->f", a, np.cross(b, c)).sum() / 6)
    assert 0.96 * VOLUMES[name] < volume < VOLUMES[name] * (1 + 1e-6)


def test_wireframes_have_the_edges_that_one_sees(bodies):
    assert len(sharp_edges(*triangles(bodies["box"]))) == 12  # without diagonals
    assert len(sharp_edges(*triangles(bodies["mesh"]))) == 8


@pytest.mark.parametrize("view", [SIDE, TOP, View.from_above(-60, 30)])
def test_outlines_are_those_of_the_triangles(bodies, view):
    for name in VOLUMES:
        (shape,) = outlines([bodies[name]], view)
        points = view.flat(triangles(bodies[name])[0])
        np.testing.assert_allclose(
            [shape.points.min(axis=0), shape.points.max(axis=0)], [points.min(axis=0), points.max(axis=0)]
        )
        assert shape.fill == bodies[name].colour


def test_solid_bodies_are_seen_where_they_are_and_near_ones_hide_far_ones(bodies):
    shown = [bodies[name] for name in VOLUMES]
    pixels = rendered(shown, SIDE, LOW, HIGH, PIXELS).pixels.astype(int)
    assert pixels.shape == (100, PIXELS, 3)

    def colour_at(place):
        column, row = (SIDE.flat(place) - LOW) / 0.01
        return pixels[99 - int(row), int(column)]

    for body in shown:
        middle = triangles(body)[0].mean(axis=0)
        assert ((colour_at(middle) > 0) == (rgb(body.colour) > 0)).all()
    assert (colour_at(np.array([1.45, 0, 0.7])) == 255).all()
    ball = Points(np.array([[-0.5, -0.5, 0.2], [0.0, 0.5, 0.3]]), "#000000", 0.06)
    pixels = rendered(shown, SIDE, LOW, HIGH, PIXELS, [ball]).pixels.astype(int)
    assert (colour_at(np.array([-0.5, 0, 0.2])) == 0).all()  # in front of the sphere
    assert colour_at(np.array([0.0, 0, 0.3]))[2] > 0  # behind the capsule


def test_what_is_transparent_lets_see_what_is_behind(bodies):
    from dataclasses import replace

    glass = replace(bodies["box"], place=np.array([-0.5, -1.0, 0.2]), turn=np.eye(3), opacity=0.5)
    pixels = rendered([glass, bodies["sphere"]], SIDE, LOW, HIGH, PIXELS).pixels
    red, green, blue = pixels[99 - 40, 100]
    assert red > 0
    assert green > 0
    assert blue == 0


def test_outlines_are_drawn_into_axes(bodies):
    from matplotlib.figure import Figure

    axis = Figure().add_subplot()
    draw(axis, Panel(LOW, HIGH, shapes=outlines(bodies.values(), SIDE)))
    assert len(axis.patches) == len(bodies)


LINKS = """<mujoco><worldbody>
  <geom type="plane" size="1 1 1"/>
  <body name="block" pos="0 0 1"><freejoint/>
    <geom type="box" size=".1 .1 .1" pos=".1 0 0" quat="1 1 0 0"/>
    <geom type="sphere" size=".001" pos=".2 .1 .1"/>
    <geom type="box" size="9 9 9" group="3"/>
    <body><geom type="ellipsoid" size=".1 .2 .3"/>
      <body name="tip"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
    </body>
  </body>
</worldbody></mujoco>"""


def test_shapes_of_bodies_are_plain_lists_of_what_is_seen():
    import mujoco

    block, middle, tip = body_shapes(mujoco.MjModel.from_xml_string(LINKS))
    assert [block["name"], middle["name"], tip["name"]] == ["block", "body 2", "tip"]
    assert [block["parent"], middle["parent"], tip["parent"]] == [None, "block", "body 2"]
    corners = np.array(block["vertices"])  # neither the tiny sphere nor the hidden box
    assert corners.min(axis=0).tolist() == [0.0, -0.1, -0.1]
    assert corners.max(axis=0).tolist() == [0.2, 0.1, 0.1]
    assert (len(block["faces"]), len(block["edges"])) == (12, 12)
    np.testing.assert_allclose(np.ptp(middle["vertices"], axis=0), [0.2, 0.4, 0.6], atol=1e-4)
    assert tip["vertices"] == tip["faces"] == tip["edges"] == []


def test_shapes_of_large_meshes_are_simplified():
    import mujoco

    rng = np.random.default_rng(0)
    ball = rng.normal(size=(2000, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    numbers = " ".join(f"{value:.4f}" for value in ball.ravel())
    mesh = f'<asset><mesh name="ball" vertex="{numbers}"/></asset>'
    text = f'<mujoco>{mesh}<worldbody><body name="b"><geom type="mesh" mesh="ball"/></body></worldbody></mujoco>'
    (shape,) = body_shapes(mujoco.MjModel.from_xml_string(text))
    assert 50 < len(shape["faces"]) <= MOST_FACES
    assert np.abs(np.linalg.norm(shape["vertices"], axis=1) - 1).max() < 0.15
    assert np.max(shape["faces"]) < len(shape["vertices"])
