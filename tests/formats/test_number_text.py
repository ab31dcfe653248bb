"""Numbers in text: bit for bit what `float` makes of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posable.formats.number_text import parse_numbers

plain = st.decimals(min_value=-99999, max_value=99999, places=6, allow_nan=False).map(str)
short = st.floats(-1e6, 1e6).map(lambda value: f"{value:.6g}")
awkward = st.sampled_from(
    [
        "0",
        "-0.0",
        ".5",
        "-.25",
        "7.",
        "1e-7",
        "1.75086e-014",
        "123456789012345678",
        "0.1234567890123456789",
        "-1E+3",
        "1e-30",
        "-2.5e+300",
        "9.9e-320",
        "6.83322e-17",
        "12e5",
    ]
)


@given(
    st.lists(st.one_of(plain, awkward, st.integers(-(10**9), 10**9).map(str), short), max_size=60),
    st.sampled_from([" ", "\n", "\t", "\r\n", "  "]),
)
def test_as_float_reads_them(words, blank):
    values = parse_numbers(blank.join(words).encode())
    expected = np.array([float(word) for word in words])
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))


def test_long_texts_are_cut_between_numbers():
    generator = np.random.default_rng(0)
    values = np.round(generator.normal(size=200_000) * 100, 4)
    text = " ".join(map(repr, values.tolist())).encode()
    np.testing.assert_array_equal(parse_numbers(text), values)


@pytest.mark.parametrize(
    "text",
    [
        b"1 x 2",
        b"1..2",
        b"1.2.3 4",
        b"--1",
        b"1-2 3.0",
        b"- 1",
        b".",
        b"1 . 2",
        b"1_0 2.0 3.0 4.0 5.0",
        b"1,5",
        b"0x10 1.0",
        b"1e 2.0",
        b"1e5e5 2.0",
        b"1e+ 2.0",
        b"e5 2.0",
        b"1.0e5.5 2.0",
        b"+-1.0 2",
        b"1e-5- 2.0",
        b"1-e5 2.0",
    ],
)
def test_what_is_not_a_number(text):
    assert parse_numbers(text) is None
