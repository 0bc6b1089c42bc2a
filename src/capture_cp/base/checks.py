"""The errors of this package, and checks of everything passed to the public API, with one clear message each."""

from __future__ import annotations

import difflib
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: Up to this size an array is checked by its sum.
FEW = 32

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Labels = npt.NDArray[np.signedinteger[Any]]  # of any size
Bools = npt.NDArray[np.bool_]


class CaptureError(ValueError):
    """An input that capture-cp cannot use; the message states what is wrong, what was expected and what to do."""


class CaptureWarning(UserWarning):
    """The result is valid, but probably not what you want, such as an unbounded region."""


def finite_array(name: str, value: Any, shape: Sequence[int | None], meaning: str) -> Floats:
    """`value` as a C-contiguous float64 array of the given shape (None = any length but 0 columns), all finite.

    `meaning` describes the axes, for example "(n, dx): one row per transition".
    """
    array = _floats(name, value, meaning)
    fits = array.ndim == len(shape) and all(want is None or have == want for have, want in zip(array.shape, shape))
    if not fits or any(have == 0 != want for have, want in zip(array.shape[1:], shape[1:])):
        wanted = tuple("any" if want is None else want for want in shape)
        raise CaptureError(f"{name} has shape {array.shape}, expected {meaning}, here {_brackets(wanted)}.")
    # one number instead of an array of answers, which takes longer for a single state; it may also be infinite by overflow
    if not (array.size <= FEW and math.isfinite(sum(array.ravel().tolist()))) and not np.isfinite(array).all():
        bad = ~np.isfinite(array)
        rows = np.flatnonzero(bad.reshape(len(array), -1).any(axis=1))
        raise CaptureError(
            f"{name} has {int(bad.sum())} NaN or infinite values, first in {row_numbers(rows)}; "
            "remove or repair those rows before calling."
        )
    return array


def finite_rows(name: str, value: Any, columns: int, meaning: str) -> Floats:
    """Like `finite_array` with any number of rows; a single row may be passed as a 1-D array."""
    array = _floats(name, value, meaning)
    return finite_array(name, array[None] if array.ndim == 1 else array, (None, columns), meaning)


def some_rows(name: str, array: Floats) -> Floats:
    """Raise an error if the array has no rows."""
    if len(array) == 0:
        raise CaptureError(f"{name} has no rows; at least one transition is needed.")
    return array


def same_length(first: str, a: Floats, second: str, b: Floats) -> None:
    """Raise an error if two arrays differ in their number of rows."""
    if len(a) != len(b):
        raise CaptureError(f"{first} has {len(a)} rows and {second} has {len(b)}; they must pair up row by row.")


def failure_rate(alpha: float) -> float:
    """`alpha` as a float strictly between 0 and 1."""
    return probability("alpha", alpha, "the allowed failure rate, for example 0.1 for 90% coverage")


def confidence_level(confidence: float | None) -> float | None:
    """`confidence` as a float strictly between 0 and 1, or None."""
    if confidence is None:
        return None
    return probability(
        "confidence", confidence, "the fraction of calibration sets that must not undercover, for example 0.95"
    )


def whole_number(name: str, value: Any, at_least: int) -> int:
    """`value` as an int of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise CaptureError(f"{name} is {value!r}; expected a whole number of at least {at_least}.")
    return int(value)


def probability(name: str, value: Any, meaning: str = "a probability, for example 0.05") -> float:
    """`value` as a float strictly between 0 and 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 < number < 1.0:
        raise CaptureError(f"{name} is {value!r}; expected a number strictly between 0 and 1: {meaning}.")
    return number


def positive_number(name: str, value: Any, or_zero: bool = False) -> float:
    """`value` as a finite float above 0, or of at least 0."""
    number = float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
    if not (0.0 < number < math.inf or (or_zero and number == 0.0)):
        raise CaptureError(f"{name} is {value!r}; expected a {'number of at least 0' if or_zero else 'positive number'}.")
    return number


def _floats(name: str, value: Any, meaning: str) -> Floats:
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        return np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CaptureError(f"{name} is not an array of numbers ({error}); expected shape {meaning}.") from None


def row_numbers(rows: npt.NDArray[np.intp]) -> str:
    """The first of some row numbers, as text."""
    shown = ", ".join(str(int(row)) for row in rows[:5])
    return f"{'row' if len(rows) == 1 else 'rows'} {shown}{', ...' if len(rows) > 5 else ''}"


def _brackets(shape: Sequence[object]) -> str:
    return "(" + ", ".join(str(part) for part in shape) + ("," if len(shape) == 1 else "") + ")"


# -- names and text -------------------------------------------------------------------------------------------------------


def known_name(kind: str, given: Any, known: Iterable[str]) -> str:
    """`given` if it is one of `known`; otherwise an error that offers the nearest match."""
    names = list(known)
    if isinstance(given, str) and given in names:
        return given
    # truncated before comparing: names may come from a file, and the search is quadratic in their length
    names = [shortened(name) for name in names[:1000]]
    near = difflib.get_close_matches(shortened(str(given)).lower(), [name.lower() for name in names], n=1, cutoff=0.5)
    hint = next((f" Did you mean {name!r}?" for name in names if near and name.lower() == near[0]), "")
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    raise CaptureError(f"unknown {kind} {shortened(repr(given))}; known: {listed or 'none'}.{hint}")


def shortened(text: str, most: int = 60) -> str:
    """Text shortened to at most `most` characters, to fit into a sentence."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    """Text with control characters escaped; names may come from files, and a terminal acts on control characters."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else repr(c)[1:-1] for c in text)
