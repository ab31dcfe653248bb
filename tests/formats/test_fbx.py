"""FBX through ufbx, from a text file written here: centimetres, z up, pre-rotation, a curve."""

import numpy as np
import pytest

from posable import forward, load
from posable.errors import FormatError

pytest.importorskip("ufbx")

TICKS = 46186158000  # of FBX's clock in a second
HEAD = """; FBX 7.4.0 project file
FBXHeaderExtension:  { FBXHeaderVersion: 1003 FBXVersion: 7400 }
GlobalSettings:  { Version: 1000
    Properties70:  {
        P: "UpAxis", "int", "Integer", "",2
        P: "UpAxisSign", "int", "Integer", "",1
        P: "FrontAxis", "int", "Integer", "",1
        P: "FrontAxisSign", "int", "Integer", "",-1
        P: "CoordAxis", "int", "Integer", "",0
        P: "CoordAxisSign", "int", "Integer", "",1
        P: "UnitScaleFactor", "double", "Number", "",1
        P: "TimeMode", "enum", "", "",6
    }
}
"""


def bone(identity, name, place, extra=""):
    return f"""    Model: {identity}, "Model::{name}", "LimbNode" {{ Version: 232
        Properties70:  {{
            P: "Lcl Translation", "Lcl Translation", "", "A",{place}
            {extra}
        }}
    }}
    NodeAttribute: {100 + identity}, "NodeAttribute::{name}", "LimbNode" {{ TypeFlags: "Skeleton" }}
"""


@pytest.fixture
def arm(tmp_path):
    """A shoulder at 100 cm, an elbow 30 cm beside it that bends by 90 degrees about z in a second, a hand 20 cm on."""
    keys = f"""KeyTime: *2 {{ a: 0,{TICKS} }}
        KeyValueFloat: *2 {{ a: 0,90 }}
        KeyAttrFlags: *1 {{ a: 4 }}
        KeyAttrDataFloat: *4 {{ a: 0,0,0,0 }}
        KeyAttrRefCount: *1 {{ a: 2 }}"""
    text = (
        HEAD
        + f"""Objects:  {{
{bone(1, "Rig:shoulder", "0,0,100")}{bone(2, "Rig:elbow", "30,0,0", 'P: "RotationActive", "bool", "", "",1')}
{bone(3, "Rig:hand", "20,0,0")}
    AnimationStack: 10, "AnimStack::wave", "" {{ Properties70:  {{
        P: "LocalStart", "KTime", "Time", "",0
        P: "LocalStop", "KTime", "Time", "",{TICKS}
    }} }}
    AnimationLayer: 11, "AnimLayer::base", "" {{ }}
    AnimationCurveNode: 12, "AnimCurveNode::R", "" {{
        Properties70:  {{ P: "d|X", "Number", "", "A",0
            P: "d|Y", "Number", "", "A",0
            P: "d|Z", "Number", "", "A",0 }}
    }}
    AnimationCurve: 13, "AnimCurve::", "" {{ Default: 0
        KeyVer: 4009
        {keys}
    }}
}}
Connections:  {{
    C: "OO",101,1
    C: "OO",102,2
    C: "OO",103,3
    C: "OO",1,0
    C: "OO",2,1
    C: "OO",3,2
    C: "OO",11,10
    C: "OO",12,11
    C: "OP",12,2, "Lcl Rotation"
    C: "OP",13,12, "d|Z"
}}
"""
    )
    path = tmp_path / "arm.fbx"
    path.write_text(text)
    return path


def test_units_axes_and_curves(arm):
    scene = load(arm)
    assert scene.skeleton.names == ("Rig:shoulder", "Rig:elbow", "Rig:hand")
    assert scene.motion.fps == 30.0
    assert len(scene.motion) == 31
    frames = forward(scene.skeleton, scene.motion.poses)
    np.testing.assert_allclose(frames.position("Rig:shoulder")[0], (0.0, 1.0, 0.0), atol=1e-9)  # y up, metres
    np.testing.assert_allclose(frames.position("Rig:elbow"), np.tile((0.3, 1.0, 0.0), (31, 1)), atol=1e-9)
    bend = np.radians(3.0 * np.arange(31))
    hand = np.stack([0.3 + 0.2 * np.cos(bend), np.ones(31), -0.2 * np.sin(bend)], axis=1)
    np.testing.assert_allclose(frames.position("Rig:hand"), hand, atol=1e-6)


def test_reading_many_times_is_safe(arm):
    for _ in range(20):
        assert len(load(arm).skeleton.joints) == 3


def test_what_ufbx_refuses(tmp_path):
    (tmp_path / "a.fbx").write_bytes(b"Kaydara FBX Binary  \x00 and then nothing")
    with pytest.raises(FormatError, match="ufbx cannot read it"):
        load(tmp_path / "a.fbx")
