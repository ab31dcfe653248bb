"""Clips that are made here, and work that goes wrong on purpose."""

import argparse

import numpy as np
import pytest

import posable as ps
from posable.cli.checkpoint import Job

CLIPS, FRAMES, FPS = 30, 60, 60.0

STRANGE = '''
import os, signal
from pathlib import Path
import numpy as np
from posable.cli.batch import FileResult

def write(args):
    """Write the file's content as its own result; `count` is how many times the file was begun."""
    count = Path(args.log) / Path(args.file).name
    with open(count, "a") as file:
        file.write(f"{os.getpid()}\\n")
    text = Path(args.file).read_text()
    Path(args.out).write_text(text.upper())
    Path(args.report).write_text("a report")
    return text, len(count.read_text().splitlines())

def fine(args):
    text, _ = write(args)
    return FileResult(len(text), 0.5, "too short" if text == "short" else "")

def deadly(args):
    text, times = write(args)
    if text == "deadly" or (text == "deadly once" and times == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return FileResult(len(text))

def greedy(args):
    text, _ = write(args)
    if text == "greedy":
        np.ones(int(4e9))  # 32 GB
    return FileResult(len(text))

def faulty(args):
    text, _ = write(args)
    if text == "faulty":
        raise ZeroDivisionError("of one file")
    return FileResult(len(text))
'''


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A module of strange work that workers can import, too."""
    (tmp_path / "strange_work.py").write_text(STRANGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import importlib

    module = importlib.import_module("strange_work")
    yield module
    import sys

    del sys.modules["strange_work"]


@pytest.fixture
def jobs(tmp_path):
    """Return jobs of a work, one for each text."""
    (tmp_path / "log").mkdir()

    def make(work, texts):
        made = []
        for k, text in enumerate(texts):
            source = tmp_path / f"{k:02d}.txt"
            source.write_text(text)
            result = tmp_path / "out" / f"{k:02d}.res"
            args = argparse.Namespace(log=str(tmp_path / "log"))
            options = {"posable": ps.__version__, "a": [1, 2], "b": ("x",)}
            made.append(Job(source.name, source, result, result.with_suffix(".rep"), work, args, options, "run1"))
        return made

    return make


@pytest.fixture(scope="session")
def clips(tmp_path_factory):
    """Thirty short recordings of the human's own markers, no two alike."""
    folder = tmp_path_factory.mktemp("clips")
    human = ps.figures.human()
    names = [name for name in human.site_names if name.isupper()]
    seconds = np.arange(FRAMES)[:, None] / FPS
    for k in range(CLIPS):
        swings = 0.05 * np.sin(2.0 * np.pi * (0.3 + 0.02 * k) * seconds + np.arange(human.size))
        poses = np.clip(human.rest + swings, human.lower, human.upper)
        frames = ps.forward(human, poses)
        places = np.stack([frames.position(name) for name in names], axis=1)
        ps.save(folder / f"clip{k:02d}.c3d", ps.Markers(names, places, FPS, "y"))
    return folder
