"""Long runs of numbers in text, read fast: whole columns of digits at once, and exactly as `float` reads them.

A decimal of at most 15 digits is an integer that a float64 holds exactly over a power of ten that it holds exactly,
and one division rounds correctly: so plain decimals need no general parser. Whatever is not plain (exponents, more
digits) goes to NumPy's. Measured on BVH: about twice as fast as `numpy.fromstring` alone.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 17  # bytes: what stays in the cache
_PAD = b" " * 32
_NEXT_BLANK = re.compile(rb"[ \t\r\n]")
_BLANK, _DOT, _MINUS, _OTHER = 10, 11, 12, 13
_CLASS = np.full(256, _OTHER, np.uint8)
_CLASS[48:58] = np.arange(10)
_CLASS[[9, 10, 11, 12, 13, 32]] = _BLANK
_CLASS[46], _CLASS[45] = _DOT, _MINUS
_LARGEST = 2**53


def parse_numbers(text: bytes) -> NDArray[np.float64] | None:
    """Return the numbers, separated by blanks, of a text; None if anything in it is no number."""
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
    """Return the numbers of a chunk if all are plain decimals of few digits; None otherwise."""
    kinds = _CLASS[np.frombuffer(_PAD + chunk + _PAD, np.uint8)]
    starts, ends = _words(kinds)
    if not len(starts):
        return np.zeros(0)
    odd: NDArray[np.intp] = np.zeros(0, np.intp)
    exact: list[float] | None = []
    others = np.flatnonzero(kinds == _OTHER)
    if len(others):  # numbers with an exponent: read one by one, and a plain 0 in their place
        odd = np.unique(np.searchsorted(starts, others, side="right") - 1)
        exact = (
            _parse_words(chunk, starts[odd] - len(_PAD), ends[odd] - len(_PAD)) if 4 * len(odd) < len(starts) else None
        )
        if exact is None:
            return None
        for start, end in zip(starts[odd].tolist(), ends[odd].tolist(), strict=True):
            kinds[start:end] = _BLANK
            kinds[start] = 0
        starts, ends = _words(kinds)
    dots = np.flatnonzero(kinds == _DOT)
    if len(dots) != len(starts):
        owner = np.searchsorted(starts, dots, side="right") - 1
        if len(owner) > 1 and (np.diff(owner) <= 0).any():
            return None
        points = ends.copy()
        points[owner] = dots
        dots = points
    elif (dots < starts).any() or (dots >= ends).any():
        return None
    negative = kinds[starts] == _MINUS
    if np.count_nonzero(kinds == _MINUS) != np.count_nonzero(negative):
        return None
    whole = dots - starts - negative
    fraction = np.maximum(ends - dots - 1, 0)
    most_whole, most_fraction = int(whole.max()), int(fraction.max())
    if most_whole + most_fraction > 18 or (whole + fraction).min() < 1:
        return None
    digits = np.where(kinds < 10, kinds, 0).astype(np.uint8)
    total = np.zeros(len(starts), np.int64)
    for k in range(most_whole, 0, -1):
        total *= 10
        total += digits[dots - k] * (whole >= k)
    even = int(fraction.min()) == most_fraction
    for k in range(1, most_fraction + 1):
        total *= 10
        total += digits[dots + k] if even else digits[dots + k] * (fraction >= k)
    if int(total.max()) >= _LARGEST:
        return None
    values = total / float(10**most_fraction)
    values = np.where(negative, -values, values)
    if len(odd):
        values[odd] = exact
    return values


def _words(kinds: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    blank = kinds == _BLANK
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
    return edges[::2], edges[1::2]


def _parse_words(chunk: bytes, starts: NDArray[np.intp], ends: NDArray[np.intp]) -> list[float] | None:
    words = [chunk[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    try:
        return None if any(b"_" in word for word in words) else [float(word) for word in words]
    except ValueError:
        return None
