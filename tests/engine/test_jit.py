"""Kernels as Numba compiles them: from Python, from a user's own function, and again from the cache."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from posable.engine.jit import OPTIONS, entry, kernel, machine_code, mode, optional, plain, with_names, write_cached

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
hits = sum(sum(one.compiled.stats.cache_hits.values()) for one in (halve_all, clear_all))
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

STEP_ELSEWHERE = """
import numpy as np
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
compiled = halve_twice.compiled
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
    x = np.arange(3.0)
    for _ in range(3):
        four_times(x, 2)
    assert x.tolist() == [0.0, 1.0, 128.0]


def test_a_function_compiled_by_numba_itself_may_call_kernels():
    called = four_times

    @numba.njit(**OPTIONS)
    def own(x):
        called(x, 0)
        called(x, 1)

    x = np.ones(2)
    own(x)
    assert x.tolist() == [4.0, 4.0]


@pytest.mark.skipif(mode() != "linked", reason="plain Numba exports its own functions")
def test_the_kernels_of_an_entry_are_private_to_it(tmp_path, monkeypatch):
    monkeypatch.setenv("POSABLE_CACHE", str(tmp_path))  # code from the cache cannot be looked into
    fresh = entry(plain(four_times_all))
    fresh(np.zeros(1))
    compiled = fresh.compiled
    text = compiled.inspect_llvm(compiled.signatures[0])
    defined = [line for line in text.splitlines() if line.startswith("define")]
    assert defined
    others = [line for line in defined if "four_times_all" not in line]
    assert all(line.startswith("define internal") for line in others), others


def test_the_plain_function_is_accessible():
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
        told.append(run(tmp_path, STEP_ELSEWHERE))
    assert told == ["[4.0, 2.0]\n", "[2.0, 1.0]\n"]


def test_a_copy_under_other_names_leaves_the_function_as_it_was():
    copy = with_names(plain(four_times), "four_halves", twice=None)
    assert copy.__name__ == "four_halves"
    assert copy.__globals__["twice"] is None
    assert plain(four_times).__globals__["twice"] is not None


@pytest.mark.parametrize("mode", ["linked", "plain"])
def test_compiling_is_not_part_of_the_solving_time(tmp_path, mode):
    """Neither the compiler nor, in the next process, the import of Numba and the loading of the code count."""
    timed = HALVE_TWICE.replace("halve_twice(x)\ncompiled", "begin, start = solving_time(), time.perf_counter()\n"
        "halve_twice(x)\nprint(solving_time() - begin, time.perf_counter() - start)\nexit()\ncompiled")  # fmt: skip
    timed = "import time\nfrom posable.engine.jit import solving_time\n" + timed
    for _ in range(2):
        solving, whole = map(float, run(tmp_path, timed, POSABLE_JIT=mode).split())
        assert 0.0 <= solving < 0.2 * whole


# --- The other ways to compile ---


@pytest.mark.parametrize("mode", ["plain", "python"])
def test_other_modes_do_the_same_work(tmp_path, mode):
    source = HALVE_TWICE.replace("compiled = halve_twice.compiled\n", "").replace(
        "sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values())", "'numba' in sys.modules"
    )
    told = run(tmp_path, "import sys\n" + source, POSABLE_JIT=mode)
    assert told == f"[2.0, 1.0] {mode == 'plain'}\n"


def test_plain_numba_takes_over_with_one_line_where_its_internals_differ(tmp_path):
    changed = "from numba.core.compiler import CompileResult\ndel CompileResult._rebuild\n"
    source = HALVE_TWICE.replace("compiled = halve_twice.compiled\n", "").replace(
        ", sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values())", ""
    )
    done = process(tmp_path, changed + source, POSABLE_QUIET="")
    assert done.stdout == "[2.0, 1.0]\n"
    lines = [line for line in done.stderr.splitlines() if "internals" in line]
    assert len(lines) == 1
    assert "plain njit" in lines[0]


def test_an_unknown_mode_is_refused(tmp_path):
    done = process(tmp_path, HALVE_TWICE, check=False, POSABLE_JIT="fast")
    assert "POSABLE_JIT: expected linked, plain, python, got 'fast'" in done.stderr


# --- Bad days of the cache ---


def damaged_by(name):
    def damage(path):
        whole = path.read_bytes()
        path.write_bytes(
            {
                "nothing": b"",
                "half": whole[: len(whole) // 2],
                "one bit": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
                "text": b"this is no machine code",
            }[name]
        )

    return damage


CACHE_FILES = [("linked", "bin"), ("plain", "nbi"), ("plain", "nbc")]


def foreign(path):
    write_cached(path, b"a sound file of something else")


def of_another_function(path):
    """Replace it by the whole file of another function."""
    run(path.parent.parent.parent, HALVE_TWICE.replace("halve", "split"))
    (other,) = path.parent.parent.rglob("split*.bin")
    other.replace(path)


@pytest.mark.parametrize(
    "damage",
    [*(damaged_by(name) for name in ("nothing", "half", "one bit", "text")), foreign, of_another_function],
)
def test_a_damaged_cache_is_rebuilt_with_one_line(tmp_path, damage):
    run(tmp_path, HALVE_TWICE)
    (file,) = (tmp_path / "cache").rglob("*.bin")
    damage(file)
    done = process(tmp_path, HALVE_TWICE, POSABLE_QUIET="")
    assert done.stdout == "[2.0, 1.0] 0 1\n"
    assert len([line for line in done.stderr.splitlines() if str(file) in line]) == 1
    assert run(tmp_path, HALVE_TWICE) == "[2.0, 1.0] 1 0\n"


@pytest.mark.parametrize("damage", [damaged_by(name) for name in ("nothing", "half", "text")])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_of_plain_numba_is_rebuilt(tmp_path, damage, suffix):
    run(tmp_path, HALVE_TWICE, POSABLE_JIT="plain")
    (file,) = (tmp_path / "cache").rglob(f"*.{suffix}")
    damage(file)
    done = process(tmp_path, HALVE_TWICE, POSABLE_JIT="plain", POSABLE_QUIET="")
    assert done.stdout == "[2.0, 1.0] 0 1\n"
    assert len([line for line in done.stderr.splitlines() if "is damaged" in line]) == 1
    assert run(tmp_path, HALVE_TWICE, POSABLE_JIT="plain") == "[2.0, 1.0] 1 0\n"


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes in folders are POSIX")
@pytest.mark.parametrize(("mode", "suffix"), CACHE_FILES)
def test_a_pipe_in_the_place_of_a_cache_file_is_replaced(tmp_path, mode, suffix):
    run(tmp_path, HALVE_TWICE, POSABLE_JIT=mode)
    (file,) = (tmp_path / "cache").rglob(f"*.{suffix}")
    file.unlink()
    os.mkfifo(file)
    begun = start(tmp_path, HALVE_TWICE, POSABLE_JIT=mode)
    try:
        told, _ = begun.communicate(timeout=120)  # it would wait for a writer for ever
    finally:
        begun.kill()
    assert told == "[2.0, 1.0] 0 1\n"
    assert run(tmp_path, HALVE_TWICE, POSABLE_JIT=mode) == "[2.0, 1.0] 1 0\n"


@pytest.mark.parametrize("content", [None, "notes.txt"])
@pytest.mark.parametrize(("mode", "suffix"), CACHE_FILES)
def test_a_folder_in_the_place_of_a_cache_file_makes_room(tmp_path, mode, suffix, content):
    """An empty folder is removed, another one renamed with what it contains; one process compiles, the next loads."""
    run(tmp_path, HALVE_TWICE, POSABLE_JIT=mode)
    (file,) = (tmp_path / "cache").rglob(f"*.{suffix}")
    file.unlink()
    file.mkdir()
    if content is not None:
        (file / content).write_text("kept")
    done = process(tmp_path, HALVE_TWICE, POSABLE_QUIET="", POSABLE_JIT=mode)
    assert done.stdout == "[2.0, 1.0] 0 1\n"
    (line,) = [line for line in done.stderr.splitlines() if str(file) in line]
    folders = [path for path in file.parent.iterdir() if path.is_dir()]
    if content is None:
        assert line.endswith("removed it")
        assert not folders
    else:
        assert line.endswith(f"renamed it to {folders[0]}")
        assert (folders[0] / content).read_text() == "kept"
    assert run(tmp_path, HALVE_TWICE, POSABLE_JIT=mode) == "[2.0, 1.0] 1 0\n"


def test_a_cache_that_cannot_be_written_is_skipped(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    done = process(tmp_path, HALVE_TWICE, POSABLE_QUIET="")
    assert done.stdout == "[2.0, 1.0] 0 1\n"
    assert len([line for line in done.stderr.splitlines() if "cannot be written" in line]) == 1


def test_a_cache_that_cannot_be_written_is_read(tmp_path):
    run(tmp_path, HALVE_TWICE)
    folders = [tmp_path / "cache", *(tmp_path / "cache").iterdir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done = process(tmp_path, HALVE_TWICE, POSABLE_QUIET="")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert (done.stdout, done.stderr) == ("[2.0, 1.0] 1 0\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
@pytest.mark.parametrize("mode", ["linked", "plain"])
def test_a_full_disk_leaves_no_partial_file(tmp_path, mode):
    full = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    done = process(tmp_path, full + HALVE_TWICE, POSABLE_QUIET="", POSABLE_JIT=mode)
    assert done.stdout == "[2.0, 1.0] 0 1\n"
    assert len([line for line in done.stderr.splitlines() if "cannot be written" in line]) == 1
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_works_without_a_home_folder(tmp_path):
    gone = "import os, pathlib\nos.environ.pop('POSABLE_CACHE')\nos.environ.pop('XDG_CACHE_HOME', None)\n"
    gone += "def nobody(self): raise RuntimeError('Could not determine home directory.')\n"
    gone += "pathlib.Path.expanduser = nobody\n"
    done = process(tmp_path, gone + HALVE_TWICE, POSABLE_QUIET="")
    assert done.stdout == "[2.0, 1.0] 0 1\n"
    assert "no home folder" in done.stderr


def test_two_processes_compile_at_once(tmp_path):
    both = [start(tmp_path, HALVE_TWICE) for _ in range(2)]
    told = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert all(line.startswith("[2.0, 1.0]") for line in told)
    assert run(tmp_path, HALVE_TWICE) == "[2.0, 1.0] 1 0\n"


STOP_WHILE_COMPILING = """
import os
import signal
from numba.core import event

class Stop(event.Listener):
    def on_start(self, event):
        os.kill(os.getpid(), signal.SIGSTOP)

    def on_end(self, event):
        pass

event.register("numba:compile", Stop())
"""


@pytest.mark.skipif(not hasattr(os, "WUNTRACED"), reason="stopping a process is POSIX")
def test_a_process_stopped_while_it_compiles_keeps_nobody_waiting(tmp_path):
    stopped = start(tmp_path, STOP_WHILE_COMPILING + HALVE_TWICE)
    try:
        assert os.WIFSTOPPED(os.waitpid(stopped.pid, os.WUNTRACED)[1])
        assert process(tmp_path, HALVE_TWICE, timeout=60).stdout == "[2.0, 1.0] 0 1\n"
    finally:
        stopped.kill()
        stopped.communicate()
    assert run(tmp_path, HALVE_TWICE) == "[2.0, 1.0] 1 0\n"


FORK_WHILE_A_THREAD_COMPILES = """
import os
import signal
import threading
import time
from numba.core import event

class Linger(event.Listener):
    def on_start(self, event):
        begun.set()
        time.sleep(0.5)

    def on_end(self, event):
        pass

@entry
def triple(x):
    for k in range(x.shape[0]):
        x[k] *= 3.0

begun = threading.Event()
event.register("numba:compile", Linger())
other = threading.Thread(target=triple, args=(np.array([1.0]),))
other.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    y = np.array([1.0])
    halve_twice(y)
    triple(y)
    os._exit(0 if y[0] == 0.75 else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_while_another_thread_compiles_can_compile(tmp_path):
    kernels = HALVE_TWICE.partition("x = np.array")[0]
    assert run(tmp_path, kernels + FORK_WHILE_A_THREAD_COMPILES) == "0\n"


def test_clocks_that_disagree_change_nothing(tmp_path):
    run(tmp_path, HALVE_TWICE)
    for path in (tmp_path / "cache").rglob("*"):
        os.utime(path, (4e9, 4e9))  # of a machine whose clock is a century ahead
    assert run(tmp_path, HALVE_TWICE) == "[2.0, 1.0] 1 0\n"


# --- Compiling forbidden ---


def test_the_environment_forbids_compiling_and_not_what_is_cached(tmp_path):
    done = process(tmp_path, HALVE_TWICE, check=False, POSABLE_COMPILE="never")
    assert "CompilingForbidden: __main__.halve_twice is not in the compile cache" in done.stderr
    run(tmp_path, HALVE_TWICE)
    assert run(tmp_path, HALVE_TWICE, POSABLE_COMPILE="never") == "[2.0, 1.0] 1 0\n"


def test_a_call_forbids_compiling_and_allows_it_again(tmp_path):
    source = HALVE_TWICE.replace(
        "x = np.array",
        "from posable.engine.jit import CompilingForbidden, forbid_compiling\n"
        "forbid_compiling()\n"
        "try:\n    halve_twice(np.zeros(1))\nexcept CompilingForbidden:\n    print('forbidden')\n"
        "forbid_compiling(False)\nx = np.array",
    )
    assert run(tmp_path, source).startswith("forbidden\n[2.0, 1.0] 0")


def run_twice(folder, source):
    return [run(folder, source) for _ in range(2)]


def run(folder, source, **environment):
    return process(folder, source, **environment).stdout


def process(folder, source, check=True, timeout=None, **environment):
    running = start(folder, source, **environment)
    stdout, stderr = running.communicate(timeout=timeout)
    assert not check or running.returncode == 0, stderr
    return subprocess.CompletedProcess(running.args, running.returncode, stdout, stderr)


def start(folder, source, **environment):
    script = folder / "script.py"
    if not script.exists() or script.read_text() != source:  # older releases of Numba compile again what is newer
        script.write_text(source)
    own = {"POSABLE_CACHE": str(folder / "cache"), "POSABLE_QUIET": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    own |= {"POSABLE_JIT": "linked", **environment}
    return subprocess.Popen(
        [sys.executable, script], env=os.environ | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@optional("extras", 0.5)
def extra(x, k):
    return 10.0 * x[k]


@kernel
def with_extra(x, k):
    return x[k] + extra(x, k)


@entry
def sum_with_extras(x):
    total = 0.0
    for k in range(x.shape[0]):
        total += with_extra(x, k)
    return total


def test_an_entry_without_a_feature_takes_the_constant_in_its_place():
    x = np.array([1.0, 2.0])
    lean = sum_with_extras.without("extras")
    assert sum_with_extras(x) == 33.0
    assert lean(x) == 4.0
    assert lean is sum_with_extras.without("extras")
    assert sum_with_extras.without() is sum_with_extras


def test_what_does_not_reach_an_optional_kernel_is_not_copied():
    assert four_times_all.without("extras") is four_times_all


ELSEWHERE = """
from posable.engine.jit import kernel

@kernel
def tenfold(x, k):
    return 10.0 * x[k]

@kernel
def distant(x, k):
    return x[k] + tenfold(x, k)
"""
NEEDS_ELSEWHERE = """
import sys
import numpy as np
from posable.engine.jit import entry, optional

def elsewhere():
    import elsewhere
    return elsewhere

@optional("extras", 0.5, home=elsewhere)
def distant(x, k):
    pass

@entry
def total(x):
    out = 0.0
    for k in range(x.shape[0]):
        out += distant(x, k)
    return out

x = np.array([1.0, 2.0])
print(total.without("extras")(x), "elsewhere" in sys.modules, total(x), total.without("others")(x), distant(x, 1))
print("elsewhere" in sys.modules)
"""


@pytest.mark.parametrize("mode", ["linked", "plain", "python"])
def test_a_kernel_of_another_module_is_imported_where_it_is_compiled(tmp_path, mode):
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    process = start(tmp_path, NEEDS_ELSEWHERE, POSABLE_JIT=mode)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert out.split() == ["1.0", "False", "33.0", "33.0", "22.0", "True"]


def test_machine_code_is_that_of_arguments_of_the_same_types():
    @entry
    def doubled(values, out):
        for i in range(values.shape[0]):
            out[i] = 2.0 * values[i]

    dispatcher, out = doubled.compiled, np.empty(3)
    dispatcher(np.ones(3), out)
    code = machine_code(dispatcher, (np.ones(3), out))
    code(np.arange(3.0), out)
    np.testing.assert_array_equal(out, [0.0, 2.0, 4.0])
    strided = np.ones(6)[::2]
    assert machine_code(dispatcher, (strided, out)) is dispatcher  # nothing is compiled for these
    assert machine_code(doubled.function, (strided, out)) is doubled.function
