"""Plain CSV files in blocks of whole lines, read by compiled code on several threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Floats
from capture_cp.base.threads import in_order

BLOCK = 1 << 22  # bytes
THREADS = 2
MOST_HARD = 1000  # cells of a block that are read one by one


class NotPlain(Exception):
    """The file is not a plain table of numbers and one column of words; what is wrong with it, if anything, is unknown."""


class Block(NamedTuple):
    """Some rows of a file.

    Attributes:
        numbers: by column, (columns, n); meaningless in the column of words.
        starts: rows whose word differs from that of the row before, (w,).
        words: of these rows.
    """

    numbers: Floats
    starts: npt.NDArray[np.int64]
    words: list[str]


def plain_blocks(file: Path, header: int, columns: int, labels: int) -> Iterator[Block]:
    """The rows after so many lines of names, in order; `labels` is the column of words, or -1.

    Raises `NotPlain`, possibly after some blocks.
    """
    with file.open("rb") as data:
        for _ in range(header):
            if b"\r" in data.readline().rstrip(b"\r\n"):
                raise NotPlain
        yield from in_order(partial(_parsed, columns=columns, labels=labels), _blocks(data), THREADS)


def _blocks(data: BinaryIO) -> Iterator[bytes]:
    while text := data.read(BLOCK) + data.readline():
        yield text if text.endswith(b"\n") else text + b"\n"


def _parsed(text: bytes, columns: int, labels: int) -> Block:
    from capture_cp.kernels.decimals import powers_of_ten, read_rows  # loaded for long files only

    lines = text.count(b"\n")
    bits = np.empty((columns, lines), dtype=np.uint64)
    cells, words = np.empty((MOST_HARD, 4), dtype=np.int64), np.empty((lines if labels >= 0 else 0, 3), dtype=np.int64)
    counts = read_rows(np.frombuffer(text, dtype=np.uint8), columns, labels, powers_of_ten(), bits, cells, words)
    rows, hard, changes = (int(count) for count in counts)
    if rows < 0:
        raise NotPlain
    numbers: Floats = bits.view(np.float64)[:, :rows]
    for row, column, begin, end in cells[:hard].tolist():
        numbers[column, row] = float(text[begin:end])
    found = [text[begin:end].decode() for _, begin, end in words[:changes].tolist()]
    return Block(numbers, words[:changes, 0].copy(), found)


class Words:
    """Words by the codes 0, 1, ... in the order in which they first occur."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, word: str) -> int:
        """The code of a word, without the spaces around it."""
        return self._codes.setdefault(word.strip(), len(self._codes))

    def codes(self, block: Block) -> npt.NDArray[np.int64]:
        """The code of the word of each row of a block, (n,)."""
        codes = [self.code(word) for word in block.words]
        ends: Sequence[Any] = [*block.starts[1:], block.numbers.shape[1]]
        return np.repeat(np.array(codes, dtype=np.int64), np.subtract(ends, block.starts))

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)
