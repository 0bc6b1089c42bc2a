"""Random streams by purpose: reproducible from a seed, and none that a plain `default_rng(n)` gives to a user.

`SeedSequence([s, 0])` is `SeedSequence(s)`: a library that numbers its purposes draws, for the first of them, the
numbers of the user's own `default_rng(s)`, and a simulated outcome is then one of its particles. Streams here are kept
apart by a spawn key that is a digest of their purpose.
"""

from __future__ import annotations

import hashlib

import numpy as np

from capture_cp.base.checks import whole_number

#: How a question names its random numbers: a generator to draw from, a seed, or None for numbers that nobody had before.
Randomness = np.random.Generator | int | None


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator of one purpose, such as `stream(0, "coverage", "center", 3)`: same arguments, same numbers."""
    return np.random.default_rng(seed_sequence(seed, *purpose))


def derived_seed(seed: int, *purpose: str | int) -> int:
    """A seed of one purpose, below 2⁶², for code that takes a number."""
    return int(seed_sequence(seed, *purpose).generate_state(1, np.uint64)[0] >> 2)


def seed_sequence(seed: int, *purpose: str | int) -> np.random.SeedSequence:
    """The seed sequence of one purpose."""
    named = repr(("capture-cp", *(part if isinstance(part, str) else int(part) for part in purpose)))
    digest = hashlib.blake2b(named.encode(), digest_size=16).digest()
    return np.random.SeedSequence(seed, spawn_key=tuple(np.frombuffer(digest, dtype="<u4").tolist()))


def generator(rng: Randomness) -> np.random.Generator:
    """The generator that answers a question: the one given, that of a seed, or a new one from the system's entropy."""
    if isinstance(rng, np.random.Generator):
        return rng
    return fresh() if rng is None else stream(whole_number("rng, if it is no generator,", rng, 0), "question")


def asked_again(rng: Randomness, number: int) -> Randomness:
    """What a question about the chunk of that number, from 0, is asked with, so that chunks may be asked about in any order.

    A seed gives every chunk numbers of its own; a generator goes on.
    """
    if number == 0 or rng is None or isinstance(rng, np.random.Generator):
        return rng
    return stream(whole_number("rng, if it is no generator,", rng, 0), "question", number)


def fresh() -> np.random.Generator:
    """A generator whose numbers nobody had before."""
    return np.random.default_rng()
