"""CSV files."""

from __future__ import annotations

from mutations.raw import ODD, WORDS, Rng, pick


def odd_cells(data: bytes, rng: Rng) -> bytes:
    rows = [line.split(",") for line in data.decode().splitlines()]
    for _ in range(int(rng.integers(1, 6))):
        row = pick(rng, rows)
        row[int(rng.integers(len(row)))] = str(pick(rng, ODD))
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


def flood(data: bytes, rng: Rng) -> bytes:
    """The same word in every cell."""
    lines, word = data.decode().splitlines(), str(pick(rng, WORDS))
    return "\n".join([lines[0]] + [",".join([word] * (lines[0].count(",") + 1))] * len(lines)).encode()


def odd_text(data: bytes, rng: Rng) -> bytes:
    text = data.decode()
    way = int(rng.integers(8))
    if way == 0:
        return text.replace(",", pick(rng, [";", "\t", ",,", '","', "\0", " "])).encode()
    if way == 1:
        return text.replace("\n", pick(rng, ["\r", "\r\n", "\n\n", "\v", "\x1c", "\u2028"])).encode()
    if way == 2:
        return text.encode(pick(rng, ["utf-16", "utf-32", "utf-7", "utf-8-sig"]))
    if way == 3:
        at = int(rng.integers(len(text)))
        return (text[:at] + pick(rng, ['"', "'", "#", "1"]) * int(rng.choice([1, 100, 140_000])) + text[at:]).encode()
    if way == 4:
        return (text.splitlines()[0] + ",a" * int(rng.choice([3, 3000])) + "\n" + text).encode()
    if way == 5:
        return (text + "1," * int(rng.choice([5, 50_000]))).encode()
    if way == 6:
        return text.replace("episode", "episode" * 5000).encode()
    return (text + "\n".join(text.splitlines()[1:]).replace("run", "r" * int(rng.choice([10, 5000])))).encode()


CSV = [odd_cells, odd_cells, flood, odd_text, odd_text]
