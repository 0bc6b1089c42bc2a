"""Random streams by purpose: reproducible from a seed, and distinct from every `default_rng(n)` of the user.

`SeedSequence([s, 0])` equals `SeedSequence(s)`. A library that numbers its purposes would therefore draw, for the first
one, the numbers of the user's own `default_rng(s)`, and a simulated outcome would coincide with one of its particles.
Streams here are separated by a spawn key that is a digest of their purpose.
"""

from __future__ import annotations

import hashlib

import numpy as np

from capture_cp.base.checks import whole_number

#: Source of random numbers for a call: a generator, a seed, or None for fresh entropy from the system.
Randomness = np.random.Generator | int | None


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator for one purpose, such as `stream(0, "coverage", "center", 3)`: same arguments, same numbers."""
    return np.random.default_rng(seed_sequence(seed, *purpose))


def derived_seed(seed: int, *purpose: str | int) -> int:
    """A seed for one purpose, below 2⁶², for code that needs an integer."""
    return int(seed_sequence(seed, *purpose).generate_state(1, np.uint64)[0] >> 2)


def seed_sequence(seed: int, *purpose: str | int) -> np.random.SeedSequence:
    """The seed sequence for one purpose."""
    named = repr(("capture-cp", *(part if isinstance(part, str) else int(part) for part in purpose)))
    digest = hashlib.blake2b(named.encode(), digest_size=16).digest()
    return np.random.SeedSequence(seed, spawn_key=tuple(np.frombuffer(digest, dtype="<u4").tolist()))


def generator(rng: Randomness) -> np.random.Generator:
    """The generator for a call: `rng` itself, one seeded with it, or for None a new one from the system's entropy."""
    if isinstance(rng, np.random.Generator):
        return rng
    return fresh() if rng is None else stream(whole_number("rng, if not a generator,", rng, 0), "question")


def rng_of_chunk(rng: Randomness, number: int) -> Randomness:
    """The `rng` to use for chunk `number`, counted from 0, so that chunks may be processed in any order.

    A seed gives every chunk its own numbers; a generator simply continues.
    """
    if number == 0 or rng is None or isinstance(rng, np.random.Generator):
        return rng
    return stream(whole_number("rng, if not a generator,", rng, 0), "question", number)


def fresh() -> np.random.Generator:
    """A new generator from the system's entropy."""
    return np.random.default_rng()
