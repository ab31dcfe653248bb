"""What every test may use: the data folder, the benchmarks as modules, and the Hypothesis profiles."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["POSABLE_PLUGINS"] = "never"  # what is tested does not depend on what else is installed
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


FIXTURES = Path(__file__).resolve().parent / "fixtures"
RECORDINGS = Path(os.environ.get("POSABLE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def pytest_sessionfinish():
    """Save the coverage now: pytest-xdist kills a worker that takes longer than 10 s to exit, as on a busy machine."""
    if "coverage" in sys.modules and (measured := sys.modules["coverage"].Coverage.current()):
        measured.save()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip the rest of a test after $POSABLE_TEST_SECONDS of processor time, for scripts/coverage.py."""
    limit = float(os.environ.get("POSABLE_TEST_SECONDS") or 0.0)
    if not limit:
        return (yield)

    def stop(_, frame):
        if _may_be_left(frame):
            pytest.skip(f"stopped after {limit:g} s")
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.001)

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def _may_be_left(frame) -> bool:
    """Return whether an exception here leaves nothing half done: no import, and no lock of coverage."""
    while frame is not None:
        if "importlib" in frame.f_code.co_filename or f"{os.sep}coverage{os.sep}" in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return True


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the recorded motions and robots: $POSABLE_DATA, or shared/data beside the checkout.

    Only for what needs a particular recording; other tests are marked with `files` and run on ours too.
    """
    if not RECORDINGS.is_dir():
        pytest.skip(f"no recordings: {RECORDINGS} is not a folder; set POSABLE_DATA")
    return RECORDINGS


@pytest.fixture(scope="session")
def benchmark_module():
    """Return a function that imports a file of benchmarks/ by its name; it skips where the folder is missing."""

    def load(name):
        path = Path(__file__).resolve().parents[1] / "benchmarks" / f"{name}.py"
        if not path.is_file():
            pytest.skip(f"no {path}")
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Folder of the small files that tests/fixtures/generate.py writes: a walk, robots, a character, damaged files."""
    return FIXTURES


def pytest_configure(config) -> None:
    """Describe the marker."""
    config.addinivalue_line(
        "markers",
        "files(*names): run with `path` set to each of these files in turn: files of tests/fixtures always, recordings "
        "where their folder is there. Given one dict by name, `expected` is its value.",
    )


def pytest_generate_tests(metafunc) -> None:
    """Give a test marked with `files` its files: ours always, recordings where they are."""
    marker = metafunc.definition.get_closest_marker("files")
    if marker is None:
        return
    table = marker.args[0] if isinstance(marker.args[0], dict) else None
    paths = {name: FIXTURES / name for name in table or marker.args}
    if RECORDINGS.is_dir():
        paths = {name: path if path.exists() else RECORDINGS / name for name, path in paths.items()}
    else:
        paths = {name: path for name, path in paths.items() if path.exists()}
    assert paths, f"{metafunc.definition.nodeid}: none of the files is in tests/fixtures: use data_dir"
    if table is None:
        metafunc.parametrize("path", paths.values(), ids=paths, scope="module")
    else:
        rows = [(path, table[name]) for name, path in paths.items()]
        metafunc.parametrize(("path", "expected"), rows, ids=paths, scope="module")
