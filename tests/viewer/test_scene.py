"""Scenes as arrays, and what is sent to viser of them: every kind of body, only what has changed, and what people drag."""

from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("viser", reason="viser is not installed (extra view)")

from capture_cp.report.live import LiveScene
from capture_cp.report.scene import Body, Handle, Points, Scene, mujoco_bodies

TETRAHEDRON = "0 0 0 1 0 0 0 1 0 0 0 1"
MODEL = f"""<mujoco><asset><mesh name="wedge" vertex="{TETRAHEDRON}"/></asset><worldbody>
  <geom type="plane" size="0 0 1"/><geom name="hidden" type="box" size="1 1 1" group="3"/>
  <body pos="1 2 3" euler="0 0 90"><freejoint/>
    <geom name="a box" type="box" size=".1 .2 .3" rgba="1 0 .5 .25"/><geom name="ball" size=".1"/>
    <geom name="pill" type="capsule" size=".1 .2"/><geom name="can" type="cylinder" size=".1 .2"/>
    <geom name="wedge" type="mesh" mesh="wedge"/></body></worldbody></mujoco>"""


@pytest.fixture
def bodies():
    mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed (extra sim)")
    model = mujoco.MjModel.from_xml_string(MODEL)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return mujoco_bodies(model, data)


def drawn(server, name):
    """Arguments of the last call of one of viser's functions that add something."""
    return getattr(server.scene, f"add_{name}").call_args


def test_every_body_of_mujoco_becomes_one_of_viser(bodies):
    assert list(bodies) == ["geom-0", "a-box", "ball", "pill", "can", "wedge"]
    box = bodies["a-box"]
    assert (box.kind, box.colour, box.opacity) == ("box", "#ff0080", 0.25)
    np.testing.assert_allclose(box.place, [1, 2, 3])
    np.testing.assert_allclose(box.turn @ [1, 0, 0], [0, 1, 0], atol=1e-12)
    server = MagicMock()
    LiveScene(server, print).draw(Scene(bodies, scale=10.0))
    np.testing.assert_allclose(drawn(server, "box")[1]["dimensions"], [2, 4, 6])
    assert drawn(server, "icosphere")[1]["radius"] == pytest.approx(1)
    assert drawn(server, "cylinder")[1]["height"] == pytest.approx(4)
    pill, wedge = (call[0][1] for call in server.scene.add_mesh_simple.call_args_list)
    np.testing.assert_allclose(np.ptp(pill, axis=0), [2, 2, 6], atol=1e-6)
    assert np.ptp(wedge, axis=0).tolist() == pytest.approx([10] * 3, rel=0.5)
    assert drawn(server, "grid")[1]["width"] > 10  # without end


def test_only_what_has_changed_is_sent():
    body = Body("box", np.ones(3), np.zeros(3), "#112233")
    points = Points(np.zeros((2, 3)), "#ffffff", 0.1)
    server = MagicMock()
    live = LiveScene(server, print)
    live.draw(Scene({"a": body, "b": body}, {"cloud": points}, box=("x", "y", "z")))
    live.draw(
        Scene({"a": replace(body, place=np.ones(3))}, {"cloud": replace(points, at=np.zeros((0, 3)))}, box=("x", "y", "z"))
    )
    assert server.scene.add_box.call_count == 2
    assert server.scene.add_box.return_value.remove.call_count == 1
    np.testing.assert_array_equal(server.scene.add_box.return_value.position, np.ones(3))
    assert server.scene.add_label.call_count == 3
    server.scene.remove_by_name.assert_called_once_with("/task/points/cloud")
    live.draw(Scene({"a": replace(body, colour="#445566")}))
    assert server.scene.add_box.call_count == 3


def test_a_person_drags_the_handle_and_a_program_does_not():
    server, places = MagicMock(), []
    handle = server.scene.add_transform_controls.return_value
    handle.position, handle.wxyz = np.zeros(3), np.zeros(4)
    LiveScene(server, places.append).draw(Scene(handle=Handle(np.array([0.1, 0.2, 0.0])), scale=10.0))
    np.testing.assert_allclose(handle.position, [1, 2, 0])
    (moved,) = handle.on_update.call_args[0]
    for client in (None, object()):
        moved(MagicMock(client=client, target=MagicMock(position=(1.0, 2.0, 3.0))))
    np.testing.assert_allclose(places, [[0.1, 0.2, 0.3]])
