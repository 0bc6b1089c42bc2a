"""Numbers of a CSV file from their text, rounded exactly as Python's float: about ten times faster than NumPy.

A number is its first 19 digits times a power of ten. Multiplied by the leading 128 bits of that power, these digits almost
always determine the nearest float64 (Lemire, "Number parsing at a gigabyte per second", 2021). The kernel leaves the rest to
Python.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

#: Powers of ten with a table entry. Below them a number rounds to zero, above them it overflows.
LEAST, MOST = -342, 308
#: Cells of this kind are left to Python; after `IRREGULAR` ones, the table is not one of plain numbers.
HARD, IRREGULAR = 1, 2

COMMA, NEWLINE, RETURN, QUOTE, POINT, MINUS, PLUS, SPACE, TAB = (np.uint8(ord(sign)) for sign in ',\n\r".-+ \t')
INFINITY = np.frombuffer(b"infinity", dtype=np.uint8)


@lru_cache(maxsize=1)
def powers_of_ten():
    """The leading 128 bits of 5^q for q from `LEAST` to `MOST`, as two uint64: (q, 2)."""
    found = []
    for q in range(LEAST, MOST + 1):
        five = 5 ** abs(q)
        if q >= 0:
            shift = 128 - five.bit_length()
            bits = five << shift if shift >= 0 else five >> -shift
        else:
            z = (five - 1).bit_length()
            bits = (1 << (z + 127 if q >= -27 else 2 * z + 128)) // five + 1
            bits >>= max(0, bits.bit_length() - 128)
        found.append((bits >> 64, bits & (2**64 - 1)))
    return np.array(found, dtype=np.uint64)


@njit(cache=True, inline="always")
def _product(a, b):
    """High and low 64 bits of the product of two uint64."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    first = a_low * b_low
    middle = a_high * b_low + (first >> half)
    other = a_low * b_high + (middle & low)
    return a_high * b_high + (middle >> half) + (other >> half), a * b


@njit(cache=True, inline="always")
def _leading_zeros(w):
    zeros = 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == 0:
            w <<= np.uint64(step)
            zeros += step
    return zeros


@njit(cache=True)
def _nearest(w, q, negative, powers):
    """Bits of the float64 nearest to w * 10^q, and whether they are certain; w is not 0."""
    one = np.uint64(1)
    if q < LEAST or q > MOST:
        return np.uint64(0), False
    zeros = _leading_zeros(w)
    w <<= np.uint64(zeros)
    high, low = _product(w, powers[q - LEAST, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more = _product(w, powers[q - LEAST, 1])[0]
        low += more
        if more > low:
            high += one
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and (q < -27 or q > 55):
        return np.uint64(0), False
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if exponent <= 0 or exponent >= 2046:  # subnormal, or near overflow
        return np.uint64(0), False
    if low <= one and -4 <= q <= 23 and mantissa & np.uint64(3) == one and mantissa << shift == high:
        mantissa &= ~one  # halfway: to even
    mantissa = (mantissa + (mantissa & one)) >> one
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        exponent += 1
    bits = (mantissa & np.uint64((1 << 52) - 1)) | (np.uint64(exponent) << np.uint64(52))
    return bits | (np.uint64(negative) << np.uint64(63)), True


@njit(cache=True)
def _special(text, at, negative):
    """The word "nan", "inf" or "infinity" at text[at], in letters of any case: its bits, its end, and whether it is one."""
    end = at
    while end < at + 9 and np.uint8((text[end] | np.uint8(32)) - np.uint8(97)) < 26:
        end += 1
    word = text[at:end] | np.uint8(32)
    sign = np.uint64(negative) << np.uint64(63)
    if len(word) == 3 and word[0] == 110 and word[1] == 97 and word[2] == 110:
        return sign | np.uint64(0x7FF8000000000000), end, True
    infinity = len(word) == 3 or len(word) == 8
    for i in range(len(word)):
        infinity = infinity and word[i] == INFINITY[i]
    return sign | np.uint64(0x7FF0000000000000), end, infinity


@njit(cache=True)
def _cell(text, at, powers):
    """The number that begins at text[at]: its bits, where it ends, and 0, `HARD` or `IRREGULAR`."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    w, digits, seen, q = np.uint64(0), 0, 0, 0
    pointed = False
    while True:
        digit = np.uint8(text[at] - np.uint8(48))
        if digit < 10:
            seen += 1
            if digits < 19:
                w = w * np.uint64(10) + np.uint64(digit)
                q -= int(pointed)
            else:
                q += int(not pointed)
            digits += int(w > 0)
        elif text[at] == POINT and not pointed:
            pointed = True
        else:
            break
        at += 1
    if seen == 0:
        bits, at, special = _special(text, at, negative)
        return bits, at, 0 if special and not pointed else IRREGULAR
    if text[at] == np.uint8(101) or text[at] == np.uint8(69):  # e, E
        at += 1
        below = text[at] == MINUS
        if below or text[at] == PLUS:
            at += 1
        start, power = at, 0
        while np.uint8(text[at] - np.uint8(48)) < 10 and at - start < 9:
            power = 10 * power + int(text[at] - np.uint8(48))
            at += 1
        if at == start:
            return np.uint64(0), at, IRREGULAR
        q += -power if below else power
    if w == 0:
        return np.uint64(negative) << np.uint64(63), at, 0
    bits, certain = _nearest(w, q, negative, powers)
    if certain and digits > 19:  # the digits that were left out lie between these and the next larger ones
        above, certain = _nearest(w + np.uint64(1), q, negative, powers)
        certain = certain and above == bits
    return bits, at, 0 if certain else HARD


@njit(cache=True, inline="always")
def _past_blanks(text, at):
    while text[at] == SPACE or text[at] == TAB:
        at += 1
    return at


@njit(cache=True)
def _same(text, a, a_end, b, b_end):
    """Whether text[a:a_end] and text[b:b_end] are equal."""
    i = 0
    while i < a_end - a and i < b_end - b and text[a + i] == text[b + i]:
        i += 1
    return i == a_end - a == b_end - b


@njit(cache=True, nogil=True)
def read_rows(text, columns, labels, powers, numbers, cells, words):
    """The table in `text`, uint8 (n,), whole lines each of which ends with a newline.

    Args:
        columns: number of columns.
        labels: the column that contains text, -1 for none.
        powers: `powers_of_ten()`.
        numbers: filled with the bits of the numbers, uint64 (columns, r); r must be at least the number of lines.
        cells: filled with cells that Python must read: row, column, begin and end, (c, 4).
        words: filled with rows whose label differs from that of the row before: row, begin and end, (r, 3).

    Returns:
        The numbers of rows, cells and words that were filled in; -1 rows if this is not a plain table of numbers.
    """
    at, row, hard, changes = 0, 0, 0, 0
    before, before_end = 0, -1
    while at < len(text):
        if text[at] == NEWLINE or (text[at] == RETURN and text[at + 1] == NEWLINE):  # a blank line
            at += 1 if text[at] == NEWLINE else 2
            continue
        for column in range(columns):
            quoted = text[at] == QUOTE
            at = at + 1 if quoted else _past_blanks(text, at) if column != labels else at
            begin = at
            if column == labels:
                stop = QUOTE if quoted else COMMA
                while text[at] != stop and text[at] != NEWLINE and text[at] != RETURN and (quoted or text[at] != QUOTE):
                    at += 1
                if not _same(text, before, before_end, begin, at):
                    words[changes, 0], words[changes, 1], words[changes, 2] = row, begin, at
                    changes += 1
                before, before_end = begin, at
            else:
                bits, at, kind = _cell(text, at, powers)
                if kind == IRREGULAR or (kind == HARD and hard == len(cells)):
                    return -1, hard, changes
                if kind == HARD:
                    cells[hard, 0], cells[hard, 1], cells[hard, 2], cells[hard, 3] = row, column, begin, at
                    hard += 1
                numbers[column, row] = bits
            if quoted and text[at] != QUOTE:
                return -1, hard, changes
            at = at + 1 if quoted else _past_blanks(text, at)
            if column < columns - 1:
                if text[at] != COMMA:
                    return -1, hard, changes
                at += 1
        at += text[at] == RETURN
        if text[at] != NEWLINE:
            return -1, hard, changes
        at += 1
        row += 1
    return row, hard, changes
