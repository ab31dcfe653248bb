"""The verb: prints where the page is, says who may look on, ends by itself for tests."""

import json
import subprocess
import sys

import pytest

from posable.cli.main import main

pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")


def test_it_says_where_it_is(capsys):
    assert main(["studio", "limb", "--no-browser", "--port", "8490", "--seconds", "0.5", "--json"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert json.loads(first)["url"].startswith("http://127.0.0.1:84")


def test_a_file_that_is_not_there_is_a_wrong_call(capsys):
    assert main(["studio", "nowhere.bvh", "--no-browser", "--seconds", "0.5"]) == 2
    assert "nowhere.bvh" in capsys.readouterr().err


SIGNAL_IN_A_CALLBACK = """
import os, signal, sys, time, types, weakref
from posable.cli import main, studio

class Thing: pass

def sleep(seconds):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    del thing

studio.time = types.SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
sys.exit(main.main(["studio", "limb", "--no-browser", "--port", "8495"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_it_ends_although_python_ignores_the_exception_of_the_signal(tmp_path, monkeypatch):
    monkeypatch.setenv("POSABLE_STATE", str(tmp_path))
    command = [sys.executable, "-c", SIGNAL_IN_A_CALLBACK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert "Exception ignored" in done.stderr
