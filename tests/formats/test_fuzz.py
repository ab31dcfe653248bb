"""A small, bounded fuzz of every reader: FormatError or a scene, nothing else (see benchmarks/fuzz_formats.py)."""

import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posable.formats import names, table

RUNS = 400
PROCESSES = 150  # for USD, which another process opens; `make fuzz` runs more
READABLE = [name for name, known in zip(names(), table(), strict=True) if known.read is not None]


@pytest.fixture(scope="module")
def fuzz(benchmark_module):
    return benchmark_module("fuzz_formats")


@pytest.mark.parametrize("name", READABLE)
def test_mutations_of_small_files(fuzz, name):
    target, inputs = fuzz.Target(name, None), fuzz.seeds(name, None, 6000)
    if name == "c3d":
        inputs = [bytes([2, 0x50]) + bytes(510) + bytes([1, 0x50, 1, 84]) + bytes(508)]
    if name == "urdf":
        inputs = [b'<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="revolute"><parent link="a"/>'
                  b'<child link="b"/><limit lower="-1" upper="1"/></joint></robot>']  # fmt: skip
    inputs = inputs or [fuzz.WORDS[name].encode()]
    words = [word.encode() for word in fuzz.WORDS[name].split(" ") if word]
    generator = random.Random(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(PROCESSES if name == "usd" else RUNS):
            target(fuzz.mutate(generator, inputs, words))
    assert target.count == (PROCESSES if name == "usd" else RUNS)


@pytest.mark.parametrize("name", READABLE)
def test_arbitrary_bytes(fuzz, name):
    target = fuzz.Target(name, None)

    @given(st.binary(max_size=300))
    def check(data):
        target(data)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()
