"""A user's script type-checks: public functions return the types that their callers go on with."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np
from typing import assert_type
import posable as ps

scene = ps.load("robot.urdf")
robot = scene.skeleton
assert_type(robot, ps.Skeleton)
assert_type(scene.has_skeleton, bool)
assert_type(ps.load("a.bvh", skeleton=robot).skeleton.size, int)
ps.Scene(skeleton=None)
result = ps.solve(robot, [ps.goals.Position("hand", (0.4, 0.0, 0.3))])
if result.ok:
    frames = ps.forward(robot, result.pose)
    print(frames.position("hand") + 1.0, result.status, result.message)
motion = scene.motion
if motion is not None:
    ps.save("out.csv", ps.retarget(motion, ps.figures.human()))
if scene.markers is not None:
    take = ps.track(ps.calibrate(robot, scene.markers), scene.markers)
    ps.save("take.bvh", take.motion)
ps.load(1)                     # wrong
ps.Scene(skeleton="human")     # wrong
robot.no_such_name             # wrong
"""


def checker() -> str | None:
    """Return the path of the type checker: beside this Python, or on the path."""
    beside = Path(sys.executable).parent / "basedpyright"
    return str(beside) if beside.exists() else shutil.which("basedpyright")


@pytest.mark.skipif(checker() is None, reason="basedpyright is not installed")
def test_a_users_script_type_checks(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    source = Path(__file__).resolve().parents[1] / "src"
    config = {"include": ["script.py"], "extraPaths": [str(source)], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [checker(), "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = {item["range"]["start"]["line"]: item["message"] for item in found if item["severity"] == "error"}
    wrong = {i for i, line in enumerate(SCRIPT.splitlines()) if line.endswith("# wrong")}
    assert set(errors) == wrong, errors
