"""Files are written whole or not at all: full disks, read-only folders, links, two files at once."""

import os
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import posable as ps
from posable._files import read_regular, write_files, write_text
from posable.errors import FormatError

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX links, pipes and limits")
unprivileged = pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root may write anywhere")

FULL = """
import resource, signal, sys, warnings
import numpy as np
import posable as ps
warnings.simplefilter("ignore")
human, rng = ps.figures.human(), np.random.default_rng(0)
poses = np.clip(human.rest + 0.01 * rng.normal(size=(400, human.size)), human.lower, human.upper)
markers = ps.Markers([f"m{k}" for k in range(41)], rng.normal(size=(400, 41, 3)), 100.0, "y")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)   # a write past the limit is then an error, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
for path in sys.argv[1:]:
    try:
        if path.endswith(".png"):
            from posable._files import write_files
            write_files({path: bytes(5000)})
        ps.save(path, markers if path.endswith((".c3d", ".trc")) else ps.Motion(human, poses, 100.0))
        print("written", path)
    except (ps.PosableError, OSError) as error:
        print("refused", path if str(error).count(path) == 1 else error)
"""
SUFFIXES = ["png", "bvh", "amc", "glb", "gltf", "csv", "npz", "mot", "c3d", "trc", "urdf", "usda"]


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".posable-")]


@posix
def test_a_full_disk_leaves_the_old_file_in_every_format(tmp_path):
    suffixes = [s for s in SUFFIXES if s != "usda" or find_spec("pxr")]
    paths = [tmp_path / f"take.{suffix}" for suffix in suffixes]
    for path in paths:
        path.write_text("what was there")
    command = [sys.executable, "-c", FULL, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split("\n")[:-1] == [f"refused {path}" for path in paths], done.stderr
    assert [path.read_text() for path in paths] == ["what was there"] * len(paths)
    assert sorted(tmp_path.iterdir()) == sorted(paths)  # no ASF without its AMC, no partial file


def test_all_files_or_none(tmp_path):
    first, second = tmp_path / "a", tmp_path / "missing" / "b"
    first.write_bytes(b"old")
    with pytest.raises(OSError, match="missing"):
        write_files({first: b"new", second: b"new"})
    assert first.read_bytes() == b"old"
    assert not leftovers(tmp_path)


def test_a_writer_that_fails_on_the_way_leaves_the_old_file(tmp_path):
    def parts():
        yield b"half"
        raise ZeroDivisionError

    place = tmp_path / "a"
    place.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write_files({place: parts()})
    assert place.read_bytes() == b"old"
    assert not leftovers(tmp_path)


@posix
def test_links_stay_links_and_permissions_stay(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_files({link: b"new"})
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    new = tmp_path / "new"
    write_text(new, "text")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~mask


@posix
@unprivileged
def test_read_only_files_and_folders_are_refused(tmp_path):
    arm = ps.figures.planar_arm([1, 1])
    place = tmp_path / "a.npz"
    ps.save(place, arm)
    before = place.read_bytes()
    place.chmod(0o444)
    with pytest.raises(FormatError, match="Permission denied"):
        ps.save(place, arm)
    place.chmod(0o644)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(FormatError, match="Permission denied"):
            ps.save(place, arm)
    finally:
        tmp_path.chmod(0o755)
    assert place.read_bytes() == before


@posix
def test_devices_are_written_directly(tmp_path):
    write_files({os.devnull: [b"a", b"b"]})
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@posix
def test_only_regular_files_are_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FormatError, match="regular file"):
        read_regular(pipe)
    with pytest.raises(FormatError, match="a folder"):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")
    (tmp_path / "large").write_bytes(bytes(11))
    with pytest.raises(FormatError, match="at most 10 bytes"):
        read_regular(tmp_path / "large", 10)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(FormatError, match="cannot be opened"):
        read_regular(loop)


def test_what_is_saved_over_a_file_is_read_back(tmp_path):
    arm = ps.figures.planar_arm([1, 1, 1])
    path = tmp_path / "arm.npz"
    for k in (5, 2):
        ps.save(path, ps.Motion(arm, np.full((k, arm.size), 0.1 * k), 30.0))
        assert np.array_equal(ps.load(path).motion.poses, np.full((k, arm.size), 0.1 * k))
    assert not leftovers(tmp_path)
