"""Which functions have been tried with which calibration: studies make hundreds of planners of the same few."""

from __future__ import annotations

import hashlib
import pickle
import weakref
from collections.abc import Hashable
from typing import Any

from capture_cp.capture.fitted import Fitted

#: By the calibration's id, for as long as it lives: its model, and the keys of what was tried.
_TRIED: dict[int, tuple[Any, set[Hashable]]] = {}


def tried_with(cap: Fitted) -> set[Hashable]:
    """Keys of what has been tried with a calibration and the model that it has now; add to it."""
    model = cap.model_
    if id(cap) not in _TRIED:
        weakref.finalize(cap, _TRIED.pop, id(cap), None)
    if _TRIED.get(id(cap), (None,))[0] is not model:
        _TRIED[id(cap)] = model, set()
    return _TRIED[id(cap)][1]


def content_key(params: Any) -> Hashable:
    """A key that is the same for parameters of the same content, or of this very object where that cannot be known."""
    try:
        return hashlib.sha256(pickle.dumps(params)).hexdigest()
    except Exception:
        return _Same(params)


class _Same:
    """A key that keeps its object alive, so that its id is not given away."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)
