"""What every test may use: the data folder, the benchmarks as modules, and the Hypothesis profiles."""

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


FIXTURES = Path(__file__).resolve().parent / "fixtures"
RECORDINGS = Path(os.environ.get("POSABLE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the recorded motions and robots: $POSABLE_DATA, or shared/data beside the checkout."""
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
    """Folder of the small files that tests/fixtures/generate.py writes: a walk in every format, a robot arm."""
    return FIXTURES


def pytest_collection_modifyitems(config, items) -> None:
    """Without recordings, keep one of the tests of each file that need them: it skips, and says why for all."""
    if RECORDINGS.is_dir():
        return
    seen, kept, dropped = set(), [], []
    for item in items:
        needs = "data_dir" in item.fixturenames
        (dropped if needs and item.path in seen else kept).append(item)
        if needs:
            seen.add(item.path)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)
