"""Arrays on their way to the GPU."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.cuda.arrays import blocks, device_array, is_on_device, tuple_on_device
from capture_lab.tasks.marble.maps import load_map


def test_numpy_arrays_are_converted_and_copied():
    found = device_array("X", [[1, 2], [3, 4]], np.float64, (None, 2))
    assert is_on_device(found)
    np.testing.assert_array_equal(found.copy_to_host(), [[1.0, 2.0], [3.0, 4.0]])


def test_arrays_of_the_device_are_not_copied():
    found = device_array("X", np.ones(3), np.float64, (None,))
    assert device_array("X", found, np.float64, (3,)) is found


@pytest.mark.parametrize("shape", [(4,), (3, None)])
def test_another_shape_is_refused(shape):
    with pytest.raises(CaptureError, match="expected float64 of shape"):
        device_array("X", np.ones(3), np.float64, shape)


def test_another_type_on_the_device_is_refused():
    found = device_array("X", np.ones(3), np.float32, (None,))
    with pytest.raises(CaptureError, match="X is float32"):
        device_array("X", found, np.float64, (None,))


def test_a_tuple_keeps_its_numbers():
    geometry = load_map("center").geometry
    there = tuple_on_device(geometry)
    assert there.radius == geometry.radius
    np.testing.assert_array_equal(there.walls.copy_to_host(), geometry.walls)


def test_every_item_has_a_thread():
    assert [blocks(n, 128) for n in (0, 1, 128, 129)] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("given", "kind"), [(["a", "b"], np.float64), ([[1.0], [2.0, 3.0]], np.float64), ([0.5, 1.0], np.int64)]
)
def test_what_is_no_such_array_is_refused(given, kind):
    with pytest.raises(CaptureError, match="X is not an array of"):
        device_array("X", given, kind, (None,))
