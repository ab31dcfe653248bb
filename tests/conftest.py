"""What every test may use: the data folder and the Hypothesis profiles."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the recorded motions and robots: $POSABLE_DATA, or shared/data beside the checkout."""
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("POSABLE_DATA", beside_checkout))
    if not folder.is_dir():
        pytest.skip(f"no data: {folder} is not a folder; set POSABLE_DATA")
    return folder
