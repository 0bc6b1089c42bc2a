"""What a browser may send to the page: messages whose numbers are numbers. The rest is dropped before viser sees it.

viser believes a control's new value and passes it on to every browser before it asks us. A number too large to be sent would
then cut all of them off, and another property than the value would change the page under them.
"""

from __future__ import annotations

import math
from typing import Any

#: Largest number and longest text of a message; whole numbers beyond have no exact value in a browser either.
LARGEST, LONGEST = 2**53, 10_000


class SoundMessages:
    """A connection whose `recv` returns only messages that are sound; in all else the connection itself."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> Any:
        """The next message that may be passed on."""
        while True:
            message = await self._connection.recv()
            if is_sound(message):
                return message


def is_sound(message: Any) -> bool:
    """Whether a message is one that the page's own script could have sent."""
    import msgspec

    if not isinstance(message, bytes):
        return False
    try:
        content = msgspec.msgpack.decode(message)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    if not isinstance(content, dict) or not _is_plain(content):
        return False
    return content.get("type") != "GuiUpdateMessage" or _is_value(content.get("updates"))


def _is_value(updates: Any) -> bool:
    return isinstance(updates, dict) and set(updates) == {"value"}


def _is_plain(value: Any) -> bool:
    """Whether numbers are finite and of a size that can be sent on, and texts short; files come as bytes."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return len(value) <= LONGEST
    if isinstance(value, int | float):
        return math.isfinite(value) and abs(value) <= LARGEST
    return value is None or isinstance(value, bytes)
