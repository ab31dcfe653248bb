"""The studio in a browser, for the tests of the page. Set POSABLE_SHOTS to a folder to keep the pictures."""

import os
from pathlib import Path

import pytest

from .browser import Bench, browser, chromium


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    chromium()
    folder = Path(os.environ.get("POSABLE_SHOTS", tmp_path_factory.mktemp("shots")))
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as open_page:
        made = Bench(open_page, folder)
        yield made
        made.studio.close()


@pytest.fixture(autouse=True)
def clean_page(request):
    """Open the page anew after a failure, so that the same test run again and those after it start on a clean one."""
    if "bench" in request.fixturenames and (made := request.getfixturevalue("bench")).stale:
        made.reopen()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember a failure. The page is opened anew by a fixture, where an exception fails a test and not the run."""
    report = yield
    if report.failed and isinstance(made := getattr(item, "funcargs", {}).get("bench"), Bench):
        made.stale = True
    return report
