"""The errors of this package, and text in them. It imports nothing, so that a mistyped command is answered at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class CaptureError(ValueError):
    """An input that capture-cp cannot use; the message states what is wrong, what was expected and what to do."""


class CaptureWarning(UserWarning):
    """The result is valid, but probably not what you want, such as an unbounded region."""


def known_name(kind: str, given: Any, known: Iterable[str]) -> str:
    """`given` if it is one of `known`; otherwise an error that offers the nearest match."""
    names = list(known)
    if isinstance(given, str) and given in names:
        return given
    import difflib

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
    import unicodedata

    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else repr(c)[1:-1] for c in text)
