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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Open the page anew after a failure, so that the same test run again and those after it start on a clean one."""
    report = yield
    if report.failed and isinstance(made := getattr(item, "funcargs", {}).get("bench"), Bench):
        made.reopen()
    return report
