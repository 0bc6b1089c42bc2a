"""Particles that several methods ask for, computed once: methods with one seed and one model draw the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import generator, rng_of_chunk
from capture_cp.capture.capture import Capture
from capture_cp.conformal.scores import Score
from capture_cp.data.log_part import chunks_of

#: Numbers in the particles of one log that are kept for the next method; more are computed again.
MOST = 2**25


class SharedParticles:
    """Particles at the inputs (n, dx) that methods are calibrated and tested on.

    They are those of `Capture.fit` and of `Capture.coverage` with `rng=seed`. None stands for those that are not shared.
    """

    def __init__(self, calibration: Floats, test: Floats, seed: int) -> None:
        self._inputs, self._seed = (calibration, test), seed
        self._known: dict[int, tuple[Floats, Floats]] = {}

    def of(self, cap: Capture, dims: int) -> tuple[Any, Any]:
        """The particles (n, L, dims) of a method for both logs; its seed is that of all others."""
        particles = cap.n_particles
        if type(cap.score_).predict is not Score.predict or max(map(len, self._inputs)) * particles * dims > MOST:
            return None, None
        if particles not in self._known:
            fitted, asked = self._inputs
            drawn = [
                cap.model(fitted[rows], particles, cap.fit_stream("particles", *([number] if number else [])))
                for number, rows in chunks_of(len(fitted))
            ]
            answers = [
                cap.model(asked[rows], particles, generator(rng_of_chunk(self._seed, number)))
                for number, rows in chunks_of(len(asked))
            ]
            self._known[particles] = np.concatenate(drawn), np.concatenate(answers)
        return self._known[particles]
