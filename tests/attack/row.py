"""What one way of attacking has come to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Row:
    """Tries and failures of one attack; `note` says why it was left out, or what is known of it."""

    attack: str
    tries: int = 0
    failures: list[str] = field(default_factory=list)
    note: str = ""

    @contextmanager
    def trying(self, what: object) -> Iterator[None]:
        """One try: it fails with whatever is raised in the block."""
        self.tries += 1
        try:
            yield
        except Exception as error:
            self.failures.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
