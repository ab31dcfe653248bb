"""Files that are meant to hurt: long chains, long lists, numbers that promise more than the file holds."""

import json
import resource
import time
import warnings
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from posable.errors import FormatError
from posable.formats import load

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


CASES = {
    "chain.bvh": bvh_chain,
    "moving.bvh": bvh_moving_chain,
    "ends.bvh": bvh_end_sites,
    "names.bvh": bvh_same_names,
    "chain.asf": asf_chain,
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
