"""Files that are meant to hurt: long chains, long lists, numbers that promise more than the file holds."""

import base64
import io
import json
import os
import re
import struct
import subprocess
import sys
import time
import warnings
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from posable import figures
from posable.cli.batch import expand
from posable.errors import FormatError
from posable.formats import load, safe_xml, urdf
from posable.formats import save as formats_save
from posable.formats.source import Source

resource = pytest.importorskip("resource", reason="memory is measured with POSIX's getrusage")

SECONDS = 5.0  # of processor time; on an idle machine each takes well below one
CHAIN = 30_000
BVH_END = "MOTION\nFrames: 0\nFrame Time: 0.1\n"
ASF_BONE = "begin\nname b{0}\ndirection 0 1 0\nlength 1\nend\n"


def bvh_chain():
    return "HIERARCHY\nROOT a\n{\nOFFSET 0 0 0\n" + "JOINT b\n{\nOFFSET 0 1 0\n" * CHAIN + "}" * (CHAIN + 1) + BVH_END


def bvh_moving_chain():
    joint = "JOINT b\n{\nOFFSET 0 1 0\nCHANNELS 3 Zrotation Xrotation Yrotation\n"
    return "HIERARCHY\nROOT a\n{\nOFFSET 0 0 0\n" + joint * 5000 + "}" * 5001 + BVH_END


def bvh_end_sites():
    return "HIERARCHY\nROOT a\n{\nOFFSET 0 0 0\n" + "End Site\n{\nOFFSET 0 1 0\n}\n" * 5000 + "}\n" + BVH_END


def bvh_same_names():
    return "HIERARCHY\nROOT a\n{\nOFFSET 0 0 0\n" + "JOINT b\n{\nOFFSET 0 1 0\n}\n" * 3000 + "}\n" + BVH_END


def asf_chain():
    bones = "".join(ASF_BONE.format(i) for i in range(5000))
    tree = "root b0\n" + "".join(f"b{i} b{i + 1}\n" for i in range(4999))
    return f":version 1.10\n:units\nlength 1\n:bonedata\n{bones}:hierarchy\nbegin\n{tree}end\n"


def asf_star():
    bones = "".join(ASF_BONE.format(i) for i in range(60_000))
    tree = " ".join(f"b{i}" for i in range(60_000))
    return f":version 1.10\n:units\nlength 1\n:bonedata\n{bones}:hierarchy\nbegin\nroot {tree}\nend\n"


def urdf_chain():
    links = "".join(f'<link name="l{i}"/>' for i in range(5001))
    joint = '<joint name="j{0}" type="fixed"><parent link="l{0}"/><child link="l{1}"/></joint>'
    return f'<robot name="r">{links}{"".join(joint.format(i, i + 1) for i in range(5000))}</robot>'


def urdf_deep_xml():
    return '<robot name="r">' + "<a>" * 100_000 + "</a>" * 100_000 + "</robot>"


def urdf_mimics():
    links = "".join(f'<link name="l{i}"/>' for i in range(1501))
    joint = '<joint name="j{0}" type="continuous"><parent link="l0"/><child link="l{1}"/><mimic joint="j{2}"/></joint>'
    return f'<robot name="r">{links}{"".join(joint.format(i, i + 1, max(i - 1, 0) or 1) for i in range(1500))}</robot>'


def gltf_chain():
    nodes = [{"children": [i + 1]} for i in range(5000)] + [{}]
    return json.dumps({"asset": {"version": "2.0"}, "nodes": nodes})


def gltf_shared_mesh():
    """One mesh, and a thousand nodes that each show it."""
    accessor = {"bufferView": 0, "componentType": 5126, "count": 3000, "type": "VEC3"}
    return json.dumps(
        {
            "asset": {"version": "2.0"},
            "nodes": [{"mesh": 0} for _ in range(1000)],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [accessor],
            "bufferViews": [{"buffer": 0, "byteLength": 36000}],
            "buffers": [{"byteLength": 36000, "uri": "data:;base64," + "A" * 48000}],
        }
    )


def trc_short_rows():
    names = "\t\t\t".join(f"m{i}" for i in range(20_000))
    header = "PathFileType\t4\nDataRate\tUnits\n100\tmm\n"
    return f"{header}Frame#\tTime\t{names}\n\t\tX1\n" + "1\t0\n" * 20_000


def csv_wide_and_short():
    return ",".join(f"m{i}.x" for i in range(50_000)) + "\n" + "1\n" * 50_000


def amc_without_end():
    return ":FULLY-SPECIFIED\n:DEGREES\n" + "".join(f"{i}\n" for i in range(1, 200_000))


def gltf_empty_nodes():
    return json.dumps({"asset": {"version": "2.0"}, "nodes": [{}] * 300_000})


def gltf_many_animations():
    """Two keyframes, far apart, that thousands of animations share."""
    animation = {
        "channels": [{"sampler": 0, "target": {"node": 0, "path": "rotation"}}],
        "samplers": [{"input": 0, "output": 1}],
    }
    return json.dumps(
        {
            "asset": {"version": "2.0"}, "nodes": [{}], "animations": [animation] * 5000,
            "accessors": [
                {"bufferView": 0, "componentType": 5126, "count": 2, "type": "SCALAR"},
                {"bufferView": 1, "componentType": 5126, "count": 2, "type": "VEC4"},
            ],
            "bufferViews": [{"buffer": 0, "byteLength": 8}, {"buffer": 0, "byteOffset": 8, "byteLength": 32}],
            "buffers": [{"byteLength": 40, "uri": "data:;base64," + base64.b64encode(
                struct.pack("<10f", 0, 1e6, 0, 0, 0, 1, 0, 0, 0, 1)).decode()}],
        }
    )  # fmt: skip


CASES = {
    "nodes.gltf": gltf_empty_nodes,
    "animations.gltf": gltf_many_animations,
    "chain.bvh": bvh_chain,
    "moving.bvh": bvh_moving_chain,
    "ends.bvh": bvh_end_sites,
    "names.bvh": bvh_same_names,
    "chain.asf": asf_chain,
    "star.asf": asf_star,
    "chain.urdf": urdf_chain,
    "deep.urdf": urdf_deep_xml,
    "mimics.urdf": urdf_mimics,
    "chain.gltf": gltf_chain,
    "shared.gltf": gltf_shared_mesh,
    "short.trc": trc_short_rows,
    "short.csv": csv_wide_and_short,
    "empty.amc": amc_without_end,
}


@pytest.mark.parametrize("file", CASES)
def test_time_and_memory_are_bounded(tmp_path, file, fixtures):
    path = tmp_path / file
    path.write_text(CASES[file]())
    size = path.stat().st_size
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(FormatError):
            load(path, skeleton=fixtures / "walk.asf" if file.endswith("amc") else None)
    assert time.process_time() - start < SECONDS
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 200 * size + 50e6


def test_an_encrypted_or_broken_zip(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, poses=np.zeros((2, 2)))
    raw = bytearray(path.read_bytes())
    for offset in range(0, len(raw), 7):
        broken = bytearray(raw)
        broken[offset] ^= 0xFF
        path.write_bytes(bytes(broken))
        with pytest.raises(FormatError):
            load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../outside.npy", b"x")
    with pytest.raises(FormatError):
        load(path)
    assert not (tmp_path.parent / "outside.npy").exists()


def test_mimic_joints_are_followed_once(tmp_path):
    """Every joint follows the next with ratio 1 or -1 and an offset: all lead to the last, in linear time."""
    count = 20_000
    element = '<joint name="j{0}" type="continuous"><mimic joint="{1}" multiplier="{2}" offset="0.5"/></joint>'
    last = '<joint name="last" type="continuous"/>'
    text = "".join(element.format(k, f"j{k + 1}" if k + 1 < count else "last", (-1) ** k) for k in range(count)) + last
    source = Source(tmp_path / "a.urdf", f'<robot name="r">{text}</robot>'.encode())
    joints = [urdf._Joint(e, e.attributes["name"], "continuous", "", "") for e in safe_xml.parse(source).all("joint")]
    start = time.process_time()
    couplings = {name: rule for name, *rule in urdf._couplings(source, joints)}
    assert time.process_time() - start < 1.5  # quadratic: a minute
    ratio, offset = 1.0, 0.0  # the value of j_k is ratio * last + offset
    for k in reversed(range(count)):
        ratio, offset = (-1) ** k * ratio, 0.5 + (-1) ** k * offset
        assert couplings[f"j{k}"] == ["last", ratio, offset]


# --- Containers that unpack to more than they are ---

LOADED = """
import sys, time, resource, warnings
import posable as ps
warnings.simplefilter("ignore")
ps.load("{fixture}")
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    print("read", ps.load(sys.argv[1]))
except ps.PosableError as error:
    print("refused", error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, time.process_time() - start)
"""


def growth(path, fixtures):
    """Load a file in a process of its own; return what it said, the bytes its memory has grown by, and the seconds."""
    code = LOADED.replace("{fixture}", str(fixtures / "walk.glb"))
    command = [sys.executable, "-c", code, str(path)]
    said, numbers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().rsplit("\n", 1)
    return said, *map(float, numbers.split())


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def texts_of_no_length(path):
    header = b"{'descr': '<U0', 'fortran_order': False, 'shape': (10000000,), }".ljust(117) + b"\n"
    raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("marker_names.npy", raw)
        archive.writestr("marker_positions.npy", npy(np.zeros((1, 1, 3))))


def zeros_deflated(path):
    """Several arrays of zeros beside what does not compress: each alone would be let pass."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("noise.npy", np.random.default_rng(0).bytes(5_000_000))
        archive.writestr("marker_names.npy", npy(np.array(["a"])))
        archive.writestr("marker_positions.npy", npy(np.zeros((10_000_000, 1, 3))))


def json_deflated(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("skeleton.npy", npy(np.frombuffer(b'{"joints": [' + b"[]," * 20_000_000 + b"0]}", np.uint8)))


def buffers_of_itself(path):
    count, size = 4000, 1_000_000
    views = [{"buffer": i, "byteLength": 36} for i in range(count)]
    accessors = [{"bufferView": i, "componentType": 5126, "count": 3, "type": "VEC3"} for i in range(count)]
    images = [{"uri": path.name}] * 1000
    primitives = [{"attributes": {"POSITION": i}} for i in range(count)]
    document = {"asset": {"version": "2.0", "copyright": "x" * size}, "nodes": [{"mesh": 0}], "bufferViews": views,
                "buffers": [{"uri": path.name, "byteLength": size - i} for i in range(count)], "accessors": accessors,
                "meshes": [{"primitives": primitives}], "images": images}  # fmt: skip
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "make"),
    [("texts.npz", texts_of_no_length), ("zeros.npz", zeros_deflated), ("json.npz", json_deflated),
     ("itself.gltf", buffers_of_itself)],
)  # fmt: skip
def test_what_it_would_unpack_is_bounded_first(tmp_path, fixtures, name, make):
    path = tmp_path / name
    make(path)
    _, grown, seconds = growth(path, fixtures)
    assert grown < 150e6
    assert seconds < SECONDS


def test_buffers_in_one_file_are_read_once_and_kept_once(tmp_path):
    """Two buffers in one file beside it: the positions are right, and what is written holds the file once."""
    corners = np.arange(18, dtype="<f4")
    (tmp_path / "data.bin").write_bytes(corners.tobytes())
    views = [{"buffer": 0, "byteLength": 36}, {"buffer": 1, "byteOffset": 36, "byteLength": 36}]
    accessors = [{"bufferView": i, "componentType": 5126, "count": 3, "type": "VEC3"} for i in range(2)]
    document = {"asset": {"version": "2.0"}, "nodes": [{"mesh": 0}], "bufferViews": views, "accessors": accessors,
                "buffers": [{"uri": "data.bin", "byteLength": 36}, {"uri": "data.bin", "byteLength": 72}],
                "meshes": [{"primitives": [{"attributes": {"POSITION": i}} for i in range(2)]}]}  # fmt: skip
    path = tmp_path / "two.gltf"
    path.write_text(json.dumps(document))
    scene = load(path)
    assert np.array_equal(scene.meshes[0].vertices.ravel(), corners[:9])
    assert np.array_equal(scene.meshes[1].vertices.ravel(), corners[9:])
    character = scene.skeleton.info["character"]
    assert character.binary == corners.tobytes()
    assert [view["byteOffset"] for view in character.json["bufferViews"]] == [0, 36]


# --- Exceptions that were not ours ---


def c3d_with_used(path, value):
    """A C3D file whose POINT:USED is a real number."""
    from posable.model.motion import Markers

    formats_save(path, Markers(("a", "b"), np.zeros((3, 2, 3)), 100.0, "z"))
    raw = path.read_bytes()
    first = raw.index(b"USED")
    raw = raw[:first] + b"NONE" + raw[first + 4 :]
    rate = raw.index(b"RATE")
    raw = raw[:rate] + b"USED" + raw[rate + 4 : rate + 8] + struct.pack("<f", value) + raw[rate + 12 :]
    path.write_bytes(raw)


@pytest.mark.parametrize("value", [np.nan, np.inf, -5.0])
def test_a_c3d_with_a_strange_number_of_points(tmp_path, value):
    path = tmp_path / "a.c3d"
    c3d_with_used(path, value)
    with pytest.warns(UserWarning, match="the header's count is used"):
        assert load(path).markers.names == ("a", "b")


def test_scales_that_overflow_together(tmp_path):
    path = tmp_path / "a.gltf"
    nodes = [{"children": [i + 1], "scale": [1e99] * 3} for i in range(5)] + [{"translation": [1, 0, 0]}]
    path.write_text(json.dumps({"asset": {"version": "2.0"}, "nodes": nodes}))
    with pytest.raises(FormatError, match=r"within 1e\+30"):
        load(path)


@pytest.mark.parametrize("digits", [400, 5000])
def test_integers_of_many_digits(tmp_path, digits):
    many = "1" * digits
    path = tmp_path / "a.trc"
    path.write_text(
        "PathFileType\t4\t(X/Y/Z)\ta\nDataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\n"
        f"100\t100\t{many}\t{many}\tmm\nFrame#\tTime\tA\t\t\n\t\tX1\tY1\tZ1\n\n1\t0\t{many}\t2\t3\n"
    )
    with pytest.warns(UserWarning, match="number of rows is used"):
        assert load(path).markers.names == ("A",)
    path = tmp_path / "a.npz"
    formats_save(path, figures.planar_arm([1, 1]))
    text = bytes(np.load(path)["skeleton"]).decode()
    for field in ('"mass": 0.0', '"unit": 1.0', '"rest": 0.0'):
        changed = text.replace(field, f"{field.split(':')[0]}: {many}", 1)
        assert changed != text
        np.savez(path, skeleton=np.frombuffer(changed.encode(), np.uint8))
        with pytest.raises(FormatError):
            load(path)


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_links_that_lead_to_themselves(tmp_path):
    (tmp_path / "loop.bin").symlink_to("loop.bin")
    document = {"asset": {"version": "2.0"}, "nodes": [{"mesh": 0}], "buffers": [{"uri": "loop.bin", "byteLength": 36}],
                "bufferViews": [{"buffer": 0, "byteLength": 36}], "images": [{"uri": "loop.bin"}],
                "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
                "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}]}  # fmt: skip
    path = tmp_path / "a.gltf"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="same folder"):
        load(path)
    with pytest.raises(FormatError, match="cannot be opened"):
        load(tmp_path / "loop.bin")
    assert expand([str(tmp_path / "loop.bin")]) == [str(tmp_path / "loop.bin")]


@pytest.mark.parametrize(
    "extension",
    [
        5,
        [],
        {"VRM": 5},
        {"VRMC_vrm": {"humanoid": []}},
        {"VRM": {"humanoid": {"humanBones": [5, {"bone": [], "node": {}}]}}},
    ],
)
def test_extensions_of_wrong_types(tmp_path, extension):
    path = tmp_path / "a.gltf"
    path.write_text(json.dumps({"asset": {"version": "2.0"}, "nodes": [{}], "extensions": extension}))
    with suppress(FormatError):
        assert load(path).skeleton.size == 3


def test_messages_hold_no_codes_for_terminals(tmp_path, capsys):
    path = tmp_path / "a\x1b[31m.bvh"
    name = b"a\x1b[2J\xc2\x9b5m"
    tree = b"ROOT %b\n{\nOFFSET 0 0 0\nJOINT %b\n{\nOFFSET 0 0 0\n}\n}\n" % (name, name)
    path.write_bytes(b"HIERARCHY\n" + tree + b"MOTION\nFrames: 0\nFrame Time: 0.1\n")
    with pytest.warns(UserWarning, match="made unique") as caught:
        scene = load(path)
    said = [str(caught[0].message), *scene.notes, *scene.skeleton.names]
    with pytest.raises(FormatError) as error:
        load(tmp_path / "b\x07\x00\x1b[31m.bvh")
    said.append(str(error.value))
    assert not [c for text in said for c in text if not c.isprintable()]


def test_a_view_of_a_buffer_that_is_not_there(tmp_path):
    """Nobody reads it, yet the document is kept whole."""
    document = {"asset": {"version": "2.0"}, "nodes": [{}], "bufferViews": [{"buffer": 3, "byteLength": 4}]}
    path = tmp_path / "a.gltf"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"bufferViews\[0\]\.buffer: expected an index into 0 buffers"):
        load(path)


@pytest.mark.parametrize(
    ("element", "found"),
    [
        ('<replicate count="2000000" offset="1 0 0"><geom size=".1"/></replicate>', "2e+06"),
        ('<replicate count="200" sep=">"><replicate count="200"><geom size=".1"/></replicate></replicate>', "40000"),
        ('<composite type="cable" count="200000 1 1" size="1"/>', "200000"),
        ('<body name="b"><flexcomp name="f" type="grid" count="300 300 300" spacing="1 1 1"/></body>', "2.7e+07"),
        ('</worldbody><asset><hfield name="h" nrow="30000" ncol="30000" size="1 1 1 1"/></asset><worldbody>', "9e+08"),
        ('</worldbody><asset><texture name="t" width="60000" height="60000"/></asset><worldbody>', "3.6e+09"),
        ('</worldbody><size nuser_body="100000000"/><worldbody>', "1e+08"),
    ],
)
def test_what_mujoco_would_expand_is_bounded_first(element, found):
    pytest.importorskip("mujoco")
    text = f'<mujoco><worldbody><body><joint/><geom size="1"/></body>{element}</worldbody></mujoco>'
    with pytest.raises(FormatError, match=f":1:.*at most .*found {re.escape(found)}$"):
        load(text, format="mjcf")
    load(text.replace(element, f"<!-- {element} -->"), format="mjcf")


def test_objects_of_ufbx_that_crash_when_they_are_freed(tmp_path):
    pytest.importorskip("ufbx")
    models = "".join(f'Model: {i}, "Model::a{i}", "LimbNode" {{ }}\n' for i in range(1, 5000))
    links = "".join(f'C: "OO",{i},0\n' for i in range(1, 5000))
    path = tmp_path / "many.fbx"
    path.write_text(
        "; FBX 7.4.0 project file\nFBXHeaderExtension:  { FBXVersion: 7400 }\n"
        f"Objects: {{\n{models}}}\nConnections: {{\n{links}}}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import sys, posable; print(len(posable.load(sys.argv[1]).skeleton.joints))", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "5000\n"), done


def test_links_that_collide_with_none_are_counted_first(tmp_path):
    links = "".join(
        f'<link name="l{i}"/><joint name="j{i}" type="fixed"><parent link="a"/><child link="l{i}"/></joint>'
        for i in range(1100)
    )
    apart = "".join(f'<disable_default_collisions link="l{i}"/>' for i in range(1100))
    with pytest.raises(FormatError, match=r"at most 1000000 pairs, found 1100 links times 1101"):
        load(f'<robot name="r"><link name="a"/>{links}</robot>', format="urdf", srdf=f"<robot>{apart}</robot>")
