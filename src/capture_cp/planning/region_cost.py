"""Calibrated regions as a cost for any planner: how much of each lies on a hazard."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, positive_number, whole_number
from capture_cp.capture.fitted import Fitted
from capture_cp.planning.hazard_count import hazard_counter
from capture_cp.planning.probes import POINTS


class RegionCost:
    """The cost of the regions of planned steps: `weight` times the hazard inside each, as in the library's own planners.

    Accepts arrays of NumPy, PyTorch and JAX; the cost is an array of the same library, type and device. It is computed on
    the CPU, inside `jax.jit` through a callback. A count is constant almost everywhere, so there is no gradient.

    Args:
        cap: calibrated predictor whose regions are tested, with a particle score. Regions of one step are applied all along
            a plan, as in the paper; a `HorizonCapture` has thresholds for each step.
        hazard: what must be avoided: grid cells, bool (cells,), or a function of configurations (n, dc) that returns whether
            they are on the hazard, bool (n,), or their signed distances from it.
        alpha: failure rate of the regions.
        weight: cost of each hazard cell in a region; for a hazard function without a grid, of a region that is all hazard.
        simultaneous: for `HorizonCapture` only, whether its regions hold simultaneously.
        points: number of points around the particles of a region at which a hazard function is evaluated.
        farthest: distance from its particles up to which an unbounded region is searched with a hazard function; by default
            such a region raises an error.
    """

    def __init__(
        self,
        cap: Fitted,
        hazard: Any,
        alpha: float = 0.1,
        weight: float = 1.0,
        simultaneous: bool = False,
        points: int = POINTS,
        farthest: float | None = None,
    ) -> None:
        cap.check_fitted()
        if cap.score_.ambient:
            raise CaptureError(f"a region cost needs a particle score; {cap.score_!r} has none, so use another method.")
        self.cap, self.alpha, self.weight = cap, alpha, positive_number("weight", weight)
        self.simultaneous, self._avoided = simultaneous, hazard
        self._thresholds = cap.plan_thresholds(alpha, simultaneous)
        self._count = hazard_counter(cap, hazard, points, farthest)
        self._steps = len(cap.steps_)

    def __call__(self, states: Any, actions: Any, particles: Any, step: int = 1) -> Any:
        """Cost (n,) of one step, or the sum over several.

        Args:
            states: before the step, (n, ds); for H successive steps (n, H, ds). Along a plan, the means of the particles.
            actions: (n, da), or (n, H, da).
            particles: the model's configurations after the step, (n, L, dc), or (n, H, L, dc); as many as in the
                calibration.
            step: number of this step in the plan, or of the first of several; it matters to a `HorizonCapture` only.
        """
        several = len(np.shape(states)) == 3
        found = self.stages(states, actions, particles, step)
        return found.sum(1) if several else found

    def stages(self, states: Any, actions: Any, particles: Any, step: int = 1) -> Any:
        """Cost of each step: (n,), or (n, H) where arrays have H steps; arguments as in a call."""
        first = whole_number("step", step, 1) - 1
        given = states, actions, particles
        shape = tuple(np.shape(states))[:-1]
        return asked_in_kind(lambda *arrays: self._cost(first, *arrays), given, shape)

    def _cost(self, first: int, states: Any, actions: Any, particles: Any) -> Floats:
        """The same for NumPy arrays; `first` counts from 0."""
        x, clouds, rows = self._checked(states, actions, particles)
        if self._steps == 1 or len(rows) == 1:
            return self._hazard(first, x, clouds).reshape(rows)
        n, horizon = rows
        x, clouds = x.reshape(n, horizon, -1), clouds.reshape(n, horizon, *clouds.shape[1:])
        parts = [self._hazard(first + h, x[:, h], np.ascontiguousarray(clouds[:, h])) for h in range(horizon)]
        return np.stack(parts, axis=1)

    def _hazard(self, h: int, x: Floats, clouds: Floats) -> Floats:
        """Cost of regions at step h (from 0), of inputs x (n, dx) and particles (n, L, dc): (n,)."""
        groups = self.cap.partition_at(h).groups_everywhere(x)
        q = self._thresholds[np.arange(len(self._thresholds)), groups]
        return self.weight * np.asarray(self._count(clouds, q), dtype=np.float64)

    def _checked(self, states: Any, actions: Any, particles: Any) -> tuple[Floats, Floats, tuple[int, ...]]:
        """Inputs (N, dx) and particles (N, L, dc) of all rows, and the rows' own shape, (n,) or (n, H)."""
        rows, sizes = checked_rows(self.cap, *map(np.shape, (states, actions, particles)))
        parts = zip(("states", "actions", "particles"), (states, actions, particles), sizes)
        s, a, p = (finite_array(name, part, (*rows, *size), _MEANING[name]) for name, part, size in parts)
        total = int(np.prod(rows))
        s, a, p = (part.reshape(total, *size) for part, size in zip((s, a, p), sizes))
        return np.hstack([s, a]), p, rows


_MEANING = {
    "states": "(n, ds), or (n, H, ds) of successive steps",
    "actions": "(n, da), or (n, H, da): one action per state",
    "particles": "(n, L, dc), or (n, H, L, dc): as many as in the calibration",
}


def checked_rows(
    cap: Fitted, states: tuple[int, ...], actions: tuple[int, ...], particles: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """From the shapes of three arrays: their rows (n,) or (n, H), and the shape of a row of each; or an error."""
    rows, cloud = states[:-1], (cap.n_particles, cap.n_outputs_)
    alike = len(states) in (2, 3) and actions[:-1] == rows and particles == (*rows, *cloud)
    if not alike or states[-1] + actions[-1] != cap.n_inputs_:
        raise CaptureError(
            f"states {states}, actions {actions} and particles {particles} do not fit the calibration; expected (n, ds), "
            f"(n, da) and (n, L, dc), or all with steps as a second axis, where ds + da is {cap.n_inputs_} and (L, dc) is "
            f"{cloud}."
        )
    return rows, ((states[-1],), (actions[-1],), cloud)


# -- arrays of other libraries, which are imported only when one of their arrays is passed ---------------------------------

#: A function of float64 NumPy arrays that returns one.
Plain = Callable[..., Floats]


def library_of(*arrays: Any) -> str:
    """The library of the arrays: "torch" or "jax" if any is, else "numpy"."""
    found = {type(array).__module__.split(".")[0].replace("jaxlib", "jax") for array in arrays} & {"torch", "jax"}
    if len(found) > 1:
        raise CaptureError("PyTorch and JAX arrays are mixed; give arrays of one library.")
    return found.pop() if found else "numpy"


def asked_in_kind(function: Plain, arrays: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Apply a function of NumPy arrays to arrays of any library; the result has `shape` and is of their library.

    Its type and device are those of the last array. On the CPU, contiguous float64 is passed without a copy.
    """
    library = library_of(*arrays)
    if library == "torch":
        torch, like = import_module("torch"), next(array for array in reversed(arrays) if library_of(array) == "torch")
        answer = function(*map(as_numpy, arrays))
        kind = like.dtype if like.dtype.is_floating_point else torch.float64
        return torch.from_numpy(answer).to(dtype=kind, device=like.device)
    if library == "jax":
        return _asked_by_jax(function, arrays, shape)
    kinds = [array.dtype for array in arrays if isinstance(array, np.ndarray)]
    kind = kinds[-1] if kinds and kinds[-1].kind == "f" else np.dtype(np.float64)
    return function(*arrays).astype(kind, copy=False)


def as_numpy(array: Any) -> Any:
    """An array of any library as a NumPy array; CPU memory is not copied."""
    library = library_of(array)
    if library == "torch":
        tensor = array.detach().cpu()
        return (tensor if tensor.dtype.itemsize >= 4 else tensor.float()).numpy()  # NumPy has no bfloat16
    return np.asarray(array) if library == "jax" else array


def _asked_by_jax(function: Plain, arrays: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """The same for JAX: directly for concrete arrays, through a callback while a function is traced."""
    jax = import_module("jax")
    like = next(array for array in reversed(arrays) if library_of(array) == "jax")
    kind = like.dtype if jax.numpy.issubdtype(like.dtype, jax.numpy.floating) else jax.numpy.zeros(()).dtype

    def answered(*given: Any) -> Any:
        return function(*(np.asarray(part, dtype=np.float64) for part in given)).astype(kind, copy=False)

    if not any(isinstance(array, jax.core.Tracer) for array in arrays):
        return jax.device_put(answered(*arrays), like.sharding)
    wanted = jax.ShapeDtypeStruct(shape, kind)
    return jax.pure_callback(answered, wanted, *arrays, vmap_method="sequential")
