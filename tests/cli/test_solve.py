"""`posable solve`: every goal has its words, and the exit code says whether it was reached."""

import json

import numpy as np
import pytest

import posable as ps
from posable.cli import main as cli
from posable.cli.solve import pose_text

STAND = ["--fix", "foot.L,foot.R"]


def call(capsys, *words):
    code = cli.main(["solve", "human", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_reached(capsys):
    code, out, _ = call(capsys, *STAND, "--reach=hand.R=-0.4,1.2,0.3", "--aim", "head:z=0,1.5,3")
    assert code == 0
    assert out.startswith("REACHED")
    assert "shoulder.R" in out


def test_not_reached(capsys):
    code, out, _ = call(capsys, "--reach", "hand.R=40,1.2,0.3", *STAND)
    assert code == 1
    assert "missed" in out


@pytest.mark.parametrize(
    "words",
    [
        ["--turn", "hand.R=0,-20,180"],
        ["--along", "hand.R:y=0,1,0"],
        ["--plane", "hand.R=0,1.2,0.4:0,0,1"],
        ["--line", "hand.R=0.1,1.2,0.4:1,0,0"],
        ["--side", "hand.R=0,1.0,0:0,1,0"],
        ["--distance", "hand.L,hand.R=0.3"],
        ["--hold", "hand.L,wrist.R=0,0,0.05"],
        ["--mass", "0.02,0.9,0.02"],
        ["--keep-out", "elbow.R=sphere:0.3,1.1,0.3,0.1"],
        ["--keep-out", "elbow.R=capsule:0.3,0,0.3,0.3,2,0.3,0.1"],
        ["--keep-out", "elbow.R=wall:0,0,0.5,0,0,-1"],
        ["--keep-out", "elbow.R=spine2"],
        ["--couple", "spine2=spine1,0.5,10", "--reach", "crown=0.1,1.6,0.2"],
        ["--balance", "--posture", "--reach", "hand.R=-0.3,0.9,0.4"],
    ],
    ids=lambda words: words[0] + words[1].partition(":")[0],
)
def test_every_goal_has_its_words(capsys, words):
    code, out, err = call(capsys, *STAND, *words, "--restarts", "3", "--json")
    assert err == ""
    assert json.loads(out)["ok"]
    assert code == 0


def test_a_robot_keeps_off_itself(capsys, tmp_path):
    pytest.importorskip("mujoco")
    robot, path = tmp_path / "two.xml", tmp_path / "goals.toml"
    arm = """<body name="{0}" pos="0 {1} 0"><joint name="{0}" axis="0 0 1" range="-90 90"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/><site name="{0}_hand" pos="0.3 0 0"/></body>"""
    robot.write_text(f"<mujoco><worldbody>{arm.format('left', 0.2)}{arm.format('right', -0.2)}</worldbody></mujoco>")
    crossed = ["--reach", "left_hand=0.22,0.0,0", "--reach", "right_hand=0.22,0.0,0"]
    words = ["solve", str(robot), *crossed, "--no-collision", "0.01", "--write-goals", str(path), "--json"]
    assert cli.main(words) == 1
    answer = json.loads(capsys.readouterr().out)
    figure = ps.load(robot).skeleton
    assert ps.distances(figure, figure.pose(answer["pose"]))[0][2] > 0.009
    assert cli.main(["solve", str(robot), "--goals", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["pose"] == answer["pose"]


def test_goal_files_go_round(capsys, tmp_path):
    path = tmp_path / "goals.toml"
    first = call(capsys, *STAND, "--reach", "hand.R=-0.4,1.2,0.3", "--write-goals", str(path), "--json")
    again = call(capsys, "--goals", str(path), "--json")
    assert first[0] == again[0] == 0
    assert json.loads(first[1])["pose"] == json.loads(again[1])["pose"]


def test_plot_and_save(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture, motion = tmp_path / "pose.png", tmp_path / "pose.bvh"
    code, out, _ = call(capsys, "--reach", "hand.R=-0.4,1.2,0.3", "--plot", str(picture), "--save", str(motion))
    assert code == 0
    assert picture.stat().st_size > 10000
    assert ps.load(motion).motion.poses.shape[0] == 1
    assert "wrote" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a goal, such as"),
        (["--reach", "hand.R=1,2"], "--reach: expected BODY=X,Y,Z"),
        (["--reach", "hnd.R=1,2,3"], "did you mean 'hand.R'"),
        (["--keep-out", "elbow.R=cube:1"], "--keep-out: expected"),
        (["--fix", "fot.L"], "did you mean 'foot.L'"),
        (["--aim", "head=1,2,3"], "--aim: expected BODY:AXIS=X,Y,Z"),
        (["--reach", "hand.R=1,2,3", "--solver", "newtn"], "did you mean 'newton'"),
        (["--goals", "no_such.toml"], "no_such.toml"),
    ],
)
def test_wrong_words(capsys, words, said):
    code, _, err = call(capsys, *words)
    assert code == 2
    assert said in err


def test_an_unknown_figure(capsys):
    assert cli.main(["solve", "humn", "--reach", "hand.R=1,2,3"]) == 2
    assert "did you mean 'human'" in capsys.readouterr().err


def test_a_printed_remedy_reaches_the_goals_when_applied(capsys):
    words = ["--fix", "pelvis", "--reach=hand.R=-0.2,1.2,-1.6", "--restarts", "auto", "--remedy"]
    code, out, _ = call(capsys, *words)
    assert code == 1
    assert " conflict" in out
    assert "random starts ended in" in out
    assert "Each of these changes reaches the goals:" in out
    code, out, _ = call(capsys, *words, "--json")
    data = json.loads(out)
    assert all(remedy["verified"] for remedy in data["remedies"])
    moved = next(remedy for remedy in data["remedies"] if remedy["targets"])
    target = ",".join(f"{x:.5f}" for x in moved["targets"]["hand.R"])
    code, out, _ = call(capsys, "--fix", "pelvis", f"--reach=hand.R={target}", "--restarts", "auto")
    assert code == 0


def test_lengths_and_angles_are_told_apart_by_their_joints():
    joints = [ps.Joint("rail", ps.Prismatic("x")), ps.Joint("left.thumb", ps.Revolute("z"), "rail")]
    figure = ps.Skeleton([*joints, ps.Joint("left.tip", ps.Ball("xyz"), "left.thumb")], name="gripper")
    text = pose_text(figure, np.array([0.25, np.pi / 2, 0.0, np.pi / 6, 0.0]))
    assert "rail: 0.250" in text
    assert "left.thumb: 90.0" in text
    assert "left.tip: 0.0, 30.0, 0.0" in text


ROBOT = """<robot name="two"><link name="base"/><link name="upper"/><link name="hand"/>
  <joint name="turn" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2"/></joint>
  <joint name="slide" type="prismatic"><parent link="upper"/><child link="hand"/><axis xyz="0 0 1"/>
    <limit lower="0" upper="1"/></joint></robot>"""
STATE = """<robot name="two"><group_state name="half" group="all"><joint name="turn" value="0.5"/>
  <joint name="slide" value="0.25"/></group_state></robot>"""


@pytest.fixture
def robot(tmp_path):
    """Return the words for a robot whose SRDF has another name and lies elsewhere."""
    (tmp_path / "two.urdf").write_text(ROBOT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "states.srdf").write_text(STATE)
    return [str(tmp_path / "two.urdf"), "--srdf", str(tmp_path / "other" / "states.srdf")]


def solve_robot(capsys, *words):
    code = cli.main(["solve", *words, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out or "{}"), captured.err


def test_a_start_by_name_is_a_state_of_the_srdf(capsys, robot):
    goal = "--reach=hand=0,0,0.25"  # any turn reaches it
    code, result, err = solve_robot(capsys, *robot, goal, "--start", "half")
    assert (code, result["pose"], err) == (0, {"turn": 0.5, "slide": 0.25}, "")
    code, _, err = solve_robot(capsys, *robot, goal, "--start", "halv")
    assert code == 2
    assert "unknown named pose 'halv', did you mean 'half'?" in err


def test_a_floating_root(capsys, robot):
    goal = "--reach=hand=3,0,0"  # out of reach of a fixed robot
    assert solve_robot(capsys, *robot, goal)[0] == 1
    code, result, _ = solve_robot(capsys, *robot, goal, "--floating", "--start", "half")
    assert (code, len(result["pose"])) == (0, 8)


def test_a_built_in_figure_has_no_srdf_and_no_other_root(capsys):
    for words in (["--floating"], ["--srdf", "a.srdf"]):
        code, _, err = call(capsys, "--reach=hand.R=0,1,0", *words)
        assert code == 2
        assert "expected the file of a robot, got the built-in figure 'human'" in err


def test_a_start_by_name_is_a_keyframe_of_mjcf(capsys, tmp_path):
    pytest.importorskip("mujoco")
    (tmp_path / "arm.xml").write_text("""<mujoco model="arm"><worldbody><body name="upper"><joint name="turn"/>
      <geom size="0.1"/><site name="tip" pos="0 0 0.5"/></body></worldbody>
      <keyframe><key name="bent" qpos="0.7"/></keyframe></mujoco>""")
    code, result, _ = solve_robot(capsys, str(tmp_path / "arm.xml"), "--reach=tip=0,0,0.5", "--start", "bent")
    assert (code, result["pose"]) == (0, {"turn": 0.7})
