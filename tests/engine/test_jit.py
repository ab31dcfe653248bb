"""Kernels as Numba compiles them: from Python, from a function of the user's own, and again from the cache."""

import os
import subprocess
import sys

import numba
import numpy as np

from posable.engine.jit import OPTIONS, entry, kernel, plain, with_names

ONE_LOOP_FOR_TWO = """
import numpy as np
from posable.engine.jit import entry, kernel, with_names

step = None

def over_all(x):
    for k in range(x.shape[0]):
        step(x, k)

@kernel
def halve(x, k):
    x[k] *= 0.5

@kernel
def clear(x, k):
    x[k] = 0.0

halve_all = entry(with_names(over_all, "halve_all", step=halve))
clear_all = entry(with_names(over_all, "clear_all", step=clear))
x, y = np.array([8.0, 4.0]), np.array([8.0, 4.0])
halve_all(x), clear_all(y)
both = (getattr(one, "_dispatcher", one) for one in (halve_all, clear_all))
hits = sum(sum(one.stats.cache_hits.values()) for one in both)
print(x.tolist(), y.tolist(), hits)
"""

LOOP = """
step = None

def over_all(x):
    for k in range(x.shape[0]):
        step(x, k)
"""

LATE_STEP = """
from posable.engine.jit import entry, kernel, with_names
from loops.loop import over_all

@kernel
def scale(x, k):
    x[k] *= FACTOR

scale_all = entry(with_names(over_all, "scale_all", step=scale))
"""

STEP_AFTER_ACTIVATION = """
import numpy as np
from posable.engine.jit import activate

activate()
from steps.late import scale_all

x = np.array([8.0, 4.0])
scale_all(x)
print(x.tolist())
"""

HALVE_TWICE = """
import numpy as np
from posable.engine.jit import entry, kernel

@kernel
def halve(x, k):
    x[k] *= 0.5

@kernel
def halve_all(x):
    for k in range(x.shape[0]):
        halve(x, k)

@entry
def halve_twice(x):
    halve_all(x)
    halve_all(x)

x = np.array([8.0, 4.0])
halve_twice(x)
compiled = getattr(halve_twice, "_dispatcher", halve_twice)
print(x.tolist(), sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values()))
"""


@kernel
def twice(x, k):
    x[k] *= 2.0


@kernel
def four_times(x, k):
    twice(x, k)
    twice(x, k)


@entry
def four_times_all(x):
    for k in range(x.shape[0]):
        four_times(x, k)


def test_an_entry_reaches_kernels_by_way_of_kernels():
    x = np.arange(5.0)
    four_times_all(x)
    assert x.tolist() == [0.0, 4.0, 8.0, 12.0, 16.0]


def test_a_kernel_called_from_python_does_its_work_again_and_again():
    four_times_all(np.zeros(1))  # from here on the names stand for compiled code
    x = np.arange(3.0)
    for _ in range(3):
        four_times(x, 2)
    assert x.tolist() == [0.0, 1.0, 128.0]


def test_a_function_compiled_by_numba_itself_may_call_kernels():
    four_times_all(np.zeros(1))
    called = four_times

    @numba.njit(**OPTIONS)
    def own(x):
        called(x, 0)
        called(x, 1)

    x = np.ones(2)
    own(x)
    assert x.tolist() == [4.0, 4.0]


def test_the_kernels_of_an_entry_are_private_to_it(tmp_path, monkeypatch):
    four_times_all(np.zeros(1))
    monkeypatch.setenv("POSABLE_CACHE", str(tmp_path))  # code from the cache cannot be looked into
    fresh = entry(plain(four_times_all))
    fresh(np.zeros(1))
    compiled = getattr(fresh, "_dispatcher", fresh)
    text = compiled.inspect_llvm(compiled.signatures[0])
    defined = [line for line in text.splitlines() if line.startswith("define")]
    assert defined
    others = [line for line in defined if "four_times_all" not in line]
    assert all(line.startswith("define internal") for line in others), others


def test_the_plain_function_stays_at_hand():
    four_times_all(np.zeros(1))
    x = [3.0]
    assert plain(twice) is not twice
    plain(twice)(x, 0)
    assert x == [6.0]


def test_another_process_loads_what_was_compiled(tmp_path):
    told = run_twice(tmp_path, HALVE_TWICE)
    assert told == ["[2.0, 1.0] 0 1\n", "[2.0, 1.0] 1 0\n"]


def test_one_loop_serves_two_kernels_and_both_come_from_the_cache(tmp_path):
    told = run_twice(tmp_path, ONE_LOOP_FOR_TWO)
    assert told == ["[4.0, 2.0] [0.0, 0.0] 0\n", "[4.0, 2.0] [0.0, 0.0] 2\n"]


def test_an_edited_step_of_a_loop_in_another_folder_is_compiled_anew(tmp_path):
    for folder in ("loops", "steps"):
        (tmp_path / folder).mkdir()
    (tmp_path / "loops" / "loop.py").write_text(LOOP)
    told = []
    for factor in ("0.5", "0.25"):
        (tmp_path / "steps" / "late.py").write_text(LATE_STEP.replace("FACTOR", factor))
        told.append(run(tmp_path, STEP_AFTER_ACTIVATION))
    assert told == ["[4.0, 2.0]\n", "[2.0, 1.0]\n"]


def run_twice(folder, source):
    return [run(folder, source) for _ in range(2)]


def run(folder, source):
    script = folder / "script.py"
    script.write_text(source)
    own = {"POSABLE_CACHE": str(folder / "cache"), "POSABLE_QUIET": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run([sys.executable, script], env=os.environ | own, capture_output=True, text=True, check=True)
    return told.stdout


def test_a_copy_made_after_activation_takes_plain_kernels_too():
    four_times_all(np.zeros(1))  # from here on the names stand for compiled code
    copy = with_names(plain(four_times), "by_plain_kernels", twice=plain(twice))
    assert copy.__globals__["twice"] is twice


def test_a_copy_under_other_names_leaves_the_function_as_it_was():
    copy = with_names(plain(four_times), "four_halves", twice=None)
    assert copy.__name__ == "four_halves"
    assert copy.__globals__["twice"] is None
    assert plain(four_times).__globals__["twice"] is not None
