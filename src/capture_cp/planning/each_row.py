"""Predictions of many plans at once, each with its own random numbers: a result does not depend on the other plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.horizon_particles import Cloud


class _OtherDraws(BaseException):
    """The model draws numbers that rows cannot share; caught here, and not an `Exception`, which would be reported."""


class _InStep(np.random.Generator):
    """Stands for n generators: normal numbers for n blocks of `rows` rows, each block from its own generator."""

    def __init__(self, rngs: Sequence[np.random.Generator], rows: int) -> None:
        super().__init__(np.random.PCG64(0))
        self._rngs, self._rows = rngs, rows

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "standard_normal":
            return super().__getattribute__(name)
        raise _OtherDraws

    def standard_normal(self, size: Any = None, *others: Any, **more: Any) -> Any:
        shape = tuple(np.atleast_1d(() if size is None else size).astype(int).tolist())
        if others or more or shape[:1] != (len(self._rngs) * self._rows,):
            raise _OtherDraws
        return np.concatenate([rng.standard_normal((self._rows, *shape[1:])) for rng in self._rngs])


def predict_each(cap: HorizonCapture, starts: Floats, actions: Floats, keys: Ints) -> list[Cloud]:
    """Like `cap.predict` from starts (n, ds) under actions (n, H, da), the particles of each row from its own key (n,).

    All rows are predicted together if the model draws only normal numbers for its rows, and one by one otherwise.
    """
    rngs = [stream(int(key), "plan") for key in keys]
    if len(rngs) > 1:
        try:
            return cap.predict(starts, actions, _InStep(rngs, cap.n_particles))
        except _OtherDraws:
            rngs = [stream(int(key), "plan") for key in keys]
    rows = [cap.predict(starts[i : i + 1], actions[i : i + 1], rng) for i, rng in enumerate(rngs)]
    return [Cloud(*(np.concatenate(parts) for parts in zip(*at))) for at in zip(*rows)]
