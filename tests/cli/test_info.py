"""posable info and posable convert."""

import json

import pytest

from posable.cli import main as cli
from posable.formats import load

BVH = """HIERARCHY
ROOT hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  JOINT knee
  {
    OFFSET 0 -40 0
    CHANNELS 1 Xrotation
    End Site
    {
      OFFSET 0 -45 0
    }
  }
}
MOTION
Frames: 3
Frame Time: 0.1
0 90 0 0 0 0 0
0 90 0 0 0 0 45
0 90 0 0 0 0 90
"""


@pytest.fixture(autouse=True)
def verbs(monkeypatch):
    monkeypatch.setattr(cli, "VERBS", ("info", "convert"))


@pytest.fixture
def leg(tmp_path):
    path = tmp_path / "leg.bvh"
    path.write_text(BVH)
    return path


def test_info_draws_the_tree(leg, capsys):
    assert cli.main(["info", str(leg)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "skeleton 'leg': 2 joints, 7 degrees of freedom, 1 site, y up, file unit 0.01 m"
    assert lines[2] == "hips  free zxy, 0.000 m"
    assert lines[3] == "└─ knee  revolute, 0.400 m"
    assert lines[4] == "   └─ knee.end  (site)"
    assert lines[5] == "motion 'leg': 3 frames at 10 fps, 0.20 s"


def test_info_of_a_built_in_figure(capsys):
    assert cli.main(["info", "panda"]) == 0
    assert "7 degrees of freedom" in capsys.readouterr().out


def test_info_names_frozen_degrees_of_freedom(leg, capsys):
    leg.write_text(BVH.replace("1 Xrotation", "6 Xposition Yposition Zposition Zrotation Xrotation Yrotation"))
    text = leg.read_text().splitlines()
    leg.write_text("\n".join([*text[:-3], *("0 90 0 0 0 0 0 -40 0 0 0 0",) * 3]) + "\n")
    assert cli.main(["info", str(leg)]) == 0
    assert "m, tx ty tz frozen" in capsys.readouterr().out.splitlines()[3]


def test_info_for_machines(leg, capsys):
    assert cli.main(["info", str(leg), "--json", "--unit", "m", "--up", "z"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["skeleton"]["up"] == "z"
    assert data["skeleton"]["joints"][1] == {
        "name": "knee", "parent": "hips", "type": "Revolute", "length": 40.0,
        "dofs": ["knee"], "lower": [None], "upper": [None],
    }  # fmt: skip
    assert data["motions"] == [{"name": "leg", "frames": 3, "fps": 10.0, "seconds": 0.2}]


@pytest.mark.files(
    {
        "arm/arm.urdf": "joint3 (link3)  revolute, 0.260 m, -137.5..137.5°",
        "walk.c3d": "RBHD  unseen in 5 of 64 frames",
        "walk.amc": "spine2  ball xzy, 0.151 m, x -15..30°, z -18..18°, y -18..18°",
        "character.glb": "motion 'Nod': 13 frames at 24 fps, 0.50 s",
        "urdf/erd_panda.urdf": "panda_joint4 (panda_link4)  revolute, 0.083 m, -176..-3.999°",
        "c3d/Gait.c3d": "RSHO  unseen in 293 of 487 frames",
        "cmu/02_01.amc": "lfemur  ball zyx, 0.143 m, z -60..70°, y -70..70°, x -160..20°",
        "gltf/khronos_Fox.glb": "motion 'Walk': 18 frames at 24 fps, 0.71 s",
    }
)
def test_info_on_every_kind_of_file(path, expected, capsys):
    assert cli.main(["info", str(path)]) == 0
    assert expected in capsys.readouterr().out
    assert cli.main(["info", str(path), "--json"]) == 0
    json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("suffix", [".glb", ".gltf", ".amc", ".csv", ".npz", ".bvh"])
def test_convert(leg, tmp_path, suffix, capsys):
    out = tmp_path / f"out{suffix}"
    assert cli.main(["convert", str(leg), str(out)]) == 0
    assert capsys.readouterr().out == f"wrote {out}: 2 joints, 3 frames\n"
    assert len(load(out, skeleton=leg if suffix == ".csv" else None).motion) == 3


def test_convert_resamples(leg, tmp_path, capsys):
    assert cli.main(["convert", str(leg), str(tmp_path / "out.bvh"), "--fps", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"] == ["2 joints", "5 frames"]
    assert len(load(tmp_path / "out.bvh").motion) == 5


def test_a_bad_file_is_one_line_and_code_2(leg, tmp_path, capsys):
    leg.write_text(BVH.replace("0 90 0 0 0 0 45", "0 90 0 0 0 0 x"))
    assert cli.main(["info", str(leg)]) == 2
    assert capsys.readouterr().err == f"posable: {leg}:20:14: expected a number, found 'x'\n"
    assert cli.main(["info", str(tmp_path / "missing.bvh")]) == 2
    leg.write_text(BVH)
    assert cli.main(["convert", str(leg), str(tmp_path / "out.c3d")]) == 2
    assert cli.main(["convert", str(leg), str(tmp_path / "out.xyz")]) == 2


def test_repairs_go_to_stderr(leg, capsys):
    leg.write_text(BVH.replace("Frames: 3", "Frames: 7"))
    assert cli.main(["info", str(leg)]) == 0
    assert capsys.readouterr().err == "note: the header states 7 frames, the file has 3; 3 were read\n"


def test_info_of_a_robot_with_its_srdf(tmp_path, capsys):
    (tmp_path / "two.urdf").write_text("""<robot name="two"><link name="base"/><link name="upper"/><link name="hand"/>
      <joint name="turn" type="revolute"><parent link="base"/><child link="upper"/><limit lower="-2" upper="2"/></joint>
      <joint name="grip" type="revolute"><parent link="upper"/><child link="hand"/><limit lower="0" upper="1"/></joint>
      </robot>""")
    (tmp_path / "other.srdf").write_text("""<robot name="two"><group name="arm"><joint name="turn"/></group>
      <group_state name="half" group="arm"><joint name="turn" value="0.5"/></group_state>
      <disable_collisions link1="base" link2="hand"/></robot>""")
    words = ["info", str(tmp_path / "two.urdf"), "--srdf", str(tmp_path / "other.srdf")]
    assert cli.main(words) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-3:] == ["pairs that are never checked for collision: 1", "groups: arm", "poses: half"]
    assert cli.main([*words, "--floating", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["skeleton"]
    assert data["groups"] == {"arm": [["joint", "turn"]]}
    assert (len(data["disabled_pairs"]), data["size"]) == (1, 8)
    assert cli.main(["info", "panda", "--floating"]) == 2
