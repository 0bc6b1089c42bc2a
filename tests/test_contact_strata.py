"""Strata from MuJoCo models: which pairs touch, against distances worked out by hand and by shapely."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, CaptureWarning, ContactStrata, Grid, PerStratum, Strata, Tree
from capture_lab.tasks.peg.task import Peg

mujoco = pytest.importorskip("mujoco")

#: A rod and a ball in one body that slides and turns in a room; boxes long in z, so that distances are those of the plane.
ROOM = """<mujoco><worldbody>
  <geom name="west" type="box" pos="-1.1 0 0" size="0.1 1 1"/>
  <geom name="north" type="box" pos="0 1.1 0" size="1 0.1 1"/>
  <body name="posts"><geom type="box" pos="0.5 0 0" size="0.1 0.2 1"/><geom type="box" pos="0.5 -0.7 0" size="0.1 0.2 1"/>
    <geom name="sign" type="sphere" size="0.3" contype="0" conaffinity="0"/></body>
  <body name="robot">
    <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/><joint name="turn" axis="0 0 1"/>
    <geom name="rod" type="box" size="0.3 0.05 0.5"/>
    <geom name="ball" type="sphere" size="0.1"/>
  </body>
  <body name="lamp"><geom name="shade" type="sphere" size="0.1" contype="0" conaffinity="0"/></body>
  <geom name="floor" type="plane" size="1 1 1"/><geom name="ground" type="plane" size="1 1 1"/>
</worldbody>
<keyframe><key name="home" qpos="0.2 0.3 0"/></keyframe></mujoco>"""

PAIRS = [("rod", ["west", "north", "posts"])]


def poses(n, seed=0):
    return np.random.default_rng(seed).uniform([-1.2, -1.0, -4.0], [1.0, 1.2, 4.0], size=(n, 3))


def box_distances(Y):
    """Distances (n, 3) of the rod to the walls and the nearer post, by shapely; 0 where they overlap."""
    shapely = pytest.importorskip("shapely")
    rod = np.array([(0.3, 0.05), (-0.3, 0.05), (-0.3, -0.05), (0.3, -0.05)])
    c, s = np.cos(Y[:, 2]), np.sin(Y[:, 2])
    turned = np.einsum("vi,nij->nvj", rod, np.stack([np.stack([c, s], -1), np.stack([-s, c], -1)], 1))
    rods = shapely.polygons(Y[:, None, :2] + turned)
    posts = shapely.MultiPolygon([shapely.box(0.4, -0.2, 0.6, 0.2), shapely.box(0.4, -0.9, 0.6, -0.5)])
    fixtures = [shapely.box(-1.2, -1, -1, 1), shapely.box(-1, 1, 1, 1.2), posts]
    return np.stack([shapely.distance(rods, fixture) for fixture in fixtures], axis=1)


def test_distances_are_those_of_the_plane():
    strata = ContactStrata(ROOM, PAIRS)
    Y = poses(2000)
    measured, expected = strata.distances(Y), box_distances(Y)
    assert measured.shape == (2000, 3)
    apart = expected > 0
    assert measured[apart] == pytest.approx(expected[apart], abs=1e-6)
    assert (measured[~apart] <= 1e-6).all()


def test_distances_do_not_depend_on_how_the_model_collides():
    without = ROOM.replace("<worldbody>", '<option><flag nativeccd="disable"/></option><worldbody>', 1)
    Y = poses(200)
    assert (ContactStrata(without, PAIRS).distances(Y) == ContactStrata(ROOM, PAIRS).distances(Y)).all()


def test_an_old_mujoco_is_refused(monkeypatch):
    monkeypatch.setattr(mujoco, "__version__", "3.11.0")
    with pytest.raises(CaptureError, match=r"MuJoCo is version 3\.11\.0, .* install 3\.12 or later"):
        ContactStrata(ROOM, PAIRS)
    with pytest.raises(CaptureError, match=r"MuJoCo is version 3\.11\.0"):
        Peg().true_system(threads=1)


def test_index_says_which_pairs_touch():
    strata = ContactStrata(ROOM, PAIRS, tolerance=0.03, depth=0.05, at_most=3)
    Y = poses(3000, seed=1)
    distances, index = strata.distances(Y), strata.index(Y)
    assert strata.names[0] == "free"
    for row, m in zip(distances, index):
        if row.min() < -0.05:
            assert m == -1
        else:
            touching = [name for name, distance in zip(strata.pairs, row) if distance <= 0.03]
            assert strata.names[m] == (" + ".join(touching) or "free")
    assert set(np.unique(index)) >= {-1, 0, 1, 2, 3}
    assert isinstance(strata, Strata)


def test_all_combinations_up_to_a_number_and_the_rest():
    assert ContactStrata(ROOM, PAIRS, at_most=1).names == ("free", "rod-west", "rod-north", "rod-posts", "other contact")
    two = ContactStrata(ROOM, PAIRS)
    assert len(two.names) == 1 + 3 + 3 + 1
    assert two.names[4] == "rod-west + rod-north"
    assert two.rest == 7
    every = ContactStrata(ROOM, PAIRS, at_most=9)
    assert len(every.names) == 8
    assert every.rest is None
    assert every.features.tolist()[:4] == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert two.features[-1].tolist() == [1, 1, 1]


def test_combinations_seen_become_strata_and_rare_ones_do_not():
    Y = poses(3000, seed=2)
    tolerance = {"tolerance": 0.03, "depth": 0.05}
    seen = ContactStrata(ROOM, PAIRS, seen=Y, **tolerance)
    index = ContactStrata(ROOM, PAIRS, at_most=3, **tolerance).index(Y)
    every = ContactStrata(ROOM, PAIRS, at_most=3, **tolerance).names
    occurring = {every[m] for m in np.unique(index[index >= 0])}
    assert set(seen.names) == occurring | {"other contact"}
    assert seen.index(Y).max() < seen.rest
    counts = np.bincount(index[index > 0])
    fewer = ContactStrata(ROOM, PAIRS, seen=Y, at_least=int(np.sort(counts)[-1]), **tolerance)
    assert fewer.names == ("free", every[counts.argmax()], "other contact")
    single = ContactStrata(ROOM, PAIRS, seen=Y, at_most=1, **tolerance)
    assert not any(" + " in name for name in single.names)


def test_a_body_stands_for_its_geoms_that_collide():
    strata = ContactStrata(ROOM, [("robot", "posts")])
    assert strata.pairs == ("robot-posts",)
    parts = ContactStrata(ROOM, [(["rod", "ball"], "posts")])
    Y = poses(200)
    assert strata.distances(Y)[:, 0] == pytest.approx(parts.distances(Y).min(axis=1))


def test_coordinates_pick_entries_and_the_reference_holds_the_others():
    Y = poses(50)
    whole = ContactStrata(ROOM, PAIRS)
    held = Y.copy()
    held[:, :] = np.column_stack([np.full(50, 0.2), Y[:, 1], Y[:, 2]])
    for given in (["y", "turn"], [1, 2], ["y", 2]):
        some = ContactStrata(ROOM, PAIRS, coordinates=given, reference="home")
        assert (some.distances(Y[:, 1:]) == whole.distances(held)).all()
    mirrored = ContactStrata(ROOM, PAIRS, coordinates=lambda Y: -Y)
    assert (mirrored.distances(-Y) == whole.distances(Y)).all()


def test_file_text_and_compiled_model_are_the_same(tmp_path):
    file = tmp_path / "room.xml"
    file.write_text(ROOM)
    compiled = mujoco.MjModel.from_xml_string(ROOM)
    given = [ContactStrata(model, PAIRS) for model in (ROOM, file, str(file), compiled)]
    assert len({strata.digest() for strata in given}) == 1
    compiled.geom_pos[:] += 1  # ours is a copy
    assert given[3].digest() == given[0].digest()


def test_the_fingerprint_changes_with_what_strata_depend_on():
    grid = Grid.between((-0.9, -0.9), (0.9, 0.9), 0.2)
    moved = ROOM.replace("-1.1 0 0", "-1.2 0 0")
    painted = ROOM.replace('name="west"', 'name="west" rgba="1 0 0 1"')
    several = [
        ContactStrata(ROOM, PAIRS),
        ContactStrata(moved, PAIRS),
        ContactStrata(ROOM, PAIRS, tolerance=0.01),
        ContactStrata(ROOM, PAIRS, at_most=1),
        ContactStrata(ROOM, PAIRS, reference="home"),
        ContactStrata(ROOM, PAIRS, coordinates=["x", "y"], grid=grid),
    ]
    assert len({strata.digest() for strata in several}) == len(several)
    assert ContactStrata(painted, PAIRS).digest() == several[0].digest()
    several[0].index(poses(3))
    assert pickle.loads(pickle.dumps(several[0])).digest() == several[0].digest()


def transitions(n, seed):
    """Pushes of the ball between west and north, stopped by them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform([-0.9, 0.0, -0.4, -0.4], [-0.4, 0.9, 0.4, 0.4], size=(n, 4))
    return X, np.clip(X[:, :2] + 1.2 * X[:, 2:] + 0.02 * rng.standard_normal((n, 2)), [-0.9, -2], [2, 0.9])


def slides(X, n_particles, rng):
    noise = 0.03 * rng.standard_normal((len(X), n_particles, 2))
    return np.clip(X[:, None, :2] + X[:, None, 2:] + noise, [-0.9, -2], [2, 0.9])


@pytest.mark.parametrize("groups", [PerStratum(), Tree(min_leaf=60), Tree(per_stratum=False, min_leaf=60)], ids=repr)
def test_an_empty_other_contact_is_taken_in_wholly_and_warned_of_never(groups, tmp_path):
    grid = Grid.between((-1.0, -0.5), (0.2, 1.0), 0.02)
    X, Y = transitions(1500, 0)
    pairs = [("ball", ["west", "north"]), ("rod", "posts")]
    options = {"coordinates": ["x", "y"], "tolerance": 0.02, "grid": grid}
    strata = ContactStrata(ROOM, pairs, seen=transitions(300, 1)[1], **options)
    assert set(strata.names) == {"free", "ball-west", "ball-north", "ball-west + ball-north", "other contact"}
    cap = Capture(slides, strata, groups=groups).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaptureWarning)
        region = cap.region(X[0], alpha=0.1)
    assert np.isinf(region.thresholds[strata.rest])
    cap.save(tmp_path / "room.capture")
    again = Capture.load(tmp_path / "room.capture", model=slides, strata=strata)
    assert (again.thresholds(X) == cap.thresholds(X)).all()
    wider = ContactStrata(ROOM, pairs, seen=transitions(300, 1)[1], **(options | {"tolerance": 0.025}))
    with pytest.raises(CaptureError, match="made for other strata"):
        Capture.load(tmp_path / "room.capture", model=slides, strata=wider)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ContactStrata("no.xml", PAIRS), "MuJoCo model no.xml does not exist"),
        (lambda: ContactStrata("<mujoco>", PAIRS), "MuJoCo cannot read the model"),
        (lambda: ContactStrata(7, PAIRS), "the MuJoCo model is a int; expected an MJCF file"),
        (lambda: ContactStrata(ROOM, []), "pairs are \\[\\]; expected a list of two names"),
        (lambda: ContactStrata(ROOM, [("rod", "west", "north")]), "expected a list of two names each"),
        (lambda: ContactStrata(ROOM, [("rood", "west")]), "unknown geom or body 'rood'.* Did you mean 'rod'"),
        (lambda: ContactStrata(ROOM, [("rod", "west"), ("west", "rod")]), "listed twice"),
        (lambda: ContactStrata(ROOM, [("rod", "robot")]), "one geom with itself"),
        (lambda: ContactStrata(ROOM, [("rod", "lamp")]), "body lamp has no colliding geom"),
        (lambda: ContactStrata(ROOM, [("floor", "ground")]), "planes or height fields only"),
        (lambda: ContactStrata(ROOM, PAIRS, tolerance=-1), "tolerance is -1; expected a number of at least 0"),
        (lambda: ContactStrata(ROOM, PAIRS, at_most=0), "at_most is 0"),
        (lambda: ContactStrata(ROOM, PAIRS, coordinates="x"), "coordinates are 'x'; expected a list"),
        (lambda: ContactStrata(ROOM, PAIRS, coordinates=["z"]), "unknown joint 'z'"),
        (lambda: ContactStrata(ROOM, PAIRS, coordinates=["x", 0]), "expected distinct entries from 0 to 2"),
        (lambda: ContactStrata(ROOM, PAIRS, reference="away"), "unknown keyframe 'away'; known: home"),
        (lambda: ContactStrata(ROOM, PAIRS, grid=Grid((0, 0), 1.0, (2, 2))), "grid has 2 axes, but a configuration has 3"),
        (lambda: ContactStrata(ROOM, PAIRS).index([[0.0, 0.0]]), "Y has shape"),
        (
            lambda: ContactStrata(ROOM, PAIRS, coordinates=lambda Y: Y[:, :2]).index(poses(2)),
            "what coordinates\\(Y\\) returned",
        ),
        (lambda: ContactStrata(ROOM, PAIRS, seen=[[0, 0, np.nan]]), "NaN or infinite"),
    ],
)
def test_bad_input_is_told_in_one_sentence(make, sentence):
    with pytest.raises(CaptureError, match=sentence) as error:
        make()
    assert "\n" not in str(error.value)


def test_too_many_strata_are_refused():
    geoms = "".join(f'<geom name="g{i}" type="sphere" size="0.1" pos="{i} 0 0"/>' for i in range(40))
    crowd = f'<mujoco><worldbody>{geoms}<body><joint type="slide"/><geom name="me" size="0.1"/></body></worldbody></mujoco>'
    with pytest.raises(CaptureError, match="make 821 strata, more than 512"):
        ContactStrata(crowd, [("me", [f"g{i}" for i in range(40)])])
    assert len(ContactStrata(crowd, [("me", [f"g{i}" for i in range(40)])], at_most=1).names) == 42
