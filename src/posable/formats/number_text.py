"""Fast parsing of long runs of numbers in text, vectorised over digits and exactly as `float` would.

A decimal of at most 15 digits is an integer that a float64 holds exactly over a power of ten that it holds exactly,
and one division rounds correctly: so plain decimals, and those with an exponent that leaves the power of ten exact,
need no general parser. Numbers with more digits are parsed by NumPy. On BVH files this is two to four times as fast as
NumPy alone.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 17  # bytes: fits the cache
_PAD = b" " * 32
_NEXT_BLANK = re.compile(rb"[ \t\r\n]")
_BLANK, _DOT, _MINUS, _PLUS, _EXPONENT, _OTHER = 10, 11, 12, 13, 14, 15
_CLASS = np.full(256, _OTHER, np.uint8)
_CLASS[48:58] = np.arange(10)
_CLASS[[9, 10, 11, 12, 13, 32]] = _BLANK
_CLASS[[46, 45, 43, 69, 101]] = _DOT, _MINUS, _PLUS, _EXPONENT, _EXPONENT
_POWERS = 10.0 ** np.arange(23)  # all exact
_LARGEST = 2**53


def parse_numbers(text: bytes) -> NDArray[np.float64] | None:
    """Return the blank-separated numbers of a text; None if anything in it is not a number."""
    parts: list[NDArray[np.float64]] = []
    at = 0
    while at < len(text):
        end = min(at + _CHUNK, len(text))
        if end < len(text):
            end = _next_blank(text, end)
        chunk = text[at:end]
        at = end
        values = _parse_plain(chunk)
        if values is None:
            values = _parse_any(chunk)
        if values is None:
            return None
        parts.append(values)
    return np.concatenate(parts) if parts else np.zeros(0)


def _next_blank(text: bytes, at: int) -> int:
    match = _NEXT_BLANK.search(text, at)
    return match.start() if match else len(text)


def _parse_any(chunk: bytes) -> NDArray[np.float64] | None:
    chunk = chunk.strip()
    if not chunk:
        return np.zeros(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            return np.fromstring(chunk, dtype=float, sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def _parse_plain(chunk: bytes) -> NDArray[np.float64] | None:
    """Return the numbers of a chunk if all are short decimals; otherwise None."""
    kinds = _CLASS[np.frombuffer(_PAD + chunk + _PAD, np.uint8)]
    if kinds.max() >= _OTHER:
        return None
    starts, ends = _words(kinds)
    if not len(starts):
        return np.zeros(0)
    negative = kinds[starts] == _MINUS
    exponents = np.flatnonzero(kinds == _EXPONENT)
    powers = _parse_exponents(kinds, starts, ends, exponents) if len(exponents) else None
    if len(exponents) and powers is None:
        return None
    signs = np.count_nonzero((kinds == _MINUS) | (kinds == _PLUS)) - np.count_nonzero(negative)
    if signs != np.count_nonzero(kinds[exponents + 1] >= _MINUS):
        return None
    if powers is not None:
        ends = ends.copy()
        ends[powers[0]] = exponents
    integers = _parse_digits(kinds, starts, ends, negative)
    if integers is None:
        return None
    total, fraction, most_fraction = integers
    values = total / float(10**most_fraction)
    if powers is not None:
        owner, power = powers
        exact = total[owner] // 10 ** (most_fraction - fraction[owner])
        net = power - fraction[owner]
        scale = _POWERS[np.minimum(np.abs(net), 22)]
        values[owner] = np.where(net < 0, exact / scale, exact * scale)
        far = owner[np.abs(net) > 22]
        values[far] = np.abs(_parse_words(chunk, starts[far] - len(_PAD), _words(kinds)[1][far] - len(_PAD)))
    return np.where(negative, -values, values)


def _parse_exponents(kinds: NDArray, starts: NDArray, ends: NDArray, places: NDArray) -> tuple[NDArray, NDArray] | None:
    """Return which words have an exponent, and the exponents; None if one is malformed."""
    owner = np.searchsorted(starts, places, side="right") - 1
    first = places + 1 + (kinds[places + 1] >= _MINUS)
    length = ends[owner] - first
    if (np.diff(owner) <= 0).any() or length.min() < 1 or length.max() > 3:
        return None
    power = np.zeros(len(places), np.int64)
    for k in range(3):
        digit = kinds[first + k]
        inside = length > k
        if (inside & (digit > 9)).any():
            return None
        power = np.where(inside, power * 10 + digit, power)
    return owner, np.where(kinds[places + 1] == _MINUS, -power, power)


def _parse_digits(
    kinds: NDArray, starts: NDArray, ends: NDArray, negative: NDArray
) -> tuple[NDArray, NDArray, int] | None:
    """Return words as scaled integers: (integers, digits after the point of each, their maximum)."""
    dots = np.flatnonzero(kinds == _DOT)
    if len(dots) != len(starts):
        owner = np.searchsorted(starts, dots, side="right") - 1
        if len(owner) > 1 and (np.diff(owner) <= 0).any():
            return None
        points = ends.copy()
        points[owner] = dots
        dots = points
    if (dots < starts).any() or (dots > ends).any():
        return None
    whole = dots - starts - negative
    fraction = np.maximum(ends - dots - 1, 0)
    most_whole, most_fraction = int(whole.max()), int(fraction.max())
    if most_whole + most_fraction > 18 or whole.min() < 0 or (whole + fraction).min() < 1:
        return None
    total = np.zeros(len(starts), np.int64)
    for k in range(most_whole, 0, -1):
        total *= 10
        total += kinds[dots - k] * (whole >= k)
    even = int(fraction.min()) == most_fraction
    for k in range(1, most_fraction + 1):
        total *= 10
        total += kinds[dots + k] if even else kinds[dots + k] * (fraction >= k)
    return (total, fraction, most_fraction) if int(total.max()) < _LARGEST else None


def _words(kinds: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    blank = kinds == _BLANK
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
    return edges[::2], edges[1::2]


def _parse_words(chunk: bytes, starts: NDArray[np.intp], ends: NDArray[np.intp]) -> list[float]:
    return [float(chunk[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
