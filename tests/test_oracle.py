"""A real skeleton, 58 degrees of freedom and 41 markers, against numbers from the published code of Erleben & Andrews
2018.

`f`, `J` and `H` were computed with that code for frame 100 of an HDM05 motion. This file reads the ASF by itself.
"""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from posable.engine.assemble import evaluate
from posable.engine.layout import AT, BODY_A, CONSTANTS, DEPTH, MEASURE, POINT, TARGETS, WEIGHT, Springs, work_size
from posable.engine.springs import POINT_SPRING
from posable.model.jacobians import jacobian
from posable.model.joints import Ball, Fixed, Free, Joint, Revolute, Site, Universal
from posable.model.kinematics import forward
from posable.model.skeleton import Skeleton

CM_PER_UNIT = 2.5189 / 0.45  # the published code's inch; the file's unit is 0.45 of it
MOTIONS = {0: lambda _: Fixed(), 1: Revolute, 2: Universal, 3: Ball}
FROZEN = ("lthumb", "rthumb")  # not among the 58


def read_asf(path):
    """Return {bone: (C, start to end [cm], axes of its rotation, leftmost first)} and {bone: parent}."""
    bones, parents, block = {"root": (np.eye(3), np.zeros(3), "zyx")}, {}, {}
    section = ""
    for words in (line.split() for line in path.read_text(encoding="latin1").splitlines()):
        if not words:
            continue
        if words[0].startswith(":"):
            section = words[0]
        elif section == ":hierarchy" and words[0] not in ("begin", "end"):
            parents.update(dict.fromkeys(words[1:], words[0]))
        elif section == ":bonedata" and words[0] == "end":
            along = np.array(block["direction"][:3], dtype=float)  # six digits: not quite a unit vector
            along *= float(block["length"][0]) * CM_PER_UNIT / np.linalg.norm(along)
            axes = Rotation.from_euler("xyz", np.array(block["axis"][:3], dtype=float), degrees=True).as_matrix()
            turns = "".join(dof[1] for dof in reversed(block.get("dof", [])))  # R = Rz Ry Rx
            bones[block["name"][0]] = (axes, along, turns)
            block = {}
        elif section == ":bonedata":
            block[words[0]] = words[1:]
    return bones, parents


@pytest.fixture(scope="module")
def oracle(data_dir):
    path = data_dir / "oracle" / "HDM_dg_06-03_03_120_frame100.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return dict(np.load(path))


@pytest.fixture(scope="module")
def skeleton(data_dir, oracle):
    """Build the figure in centimetres: each joint's frame has the axes of its bone's degrees of freedom."""
    bones, parents = read_asf(data_dir / "hdm05" / "HDM_dg.asf")
    joints = [Joint("root", Free("zyx"))]
    for name in (str(bone) for bone in oracle["bone_names"][1:]):
        axes, _, turns = bones[name]
        parent_axes, along, _ = bones[parents[name]]
        motion = Fixed() if name in FROZEN else MOTIONS[len(turns)](turns)
        joints.append(Joint(name, motion, parents[name], offset=parent_axes.T @ along, rotation=parent_axes.T @ axes))
    sites = []
    offsets = oracle["marker_offset_local_cm"].T
    for marker, bone, offset in zip(oracle["marker_names"], oracle["marker_bone_id_1based"], offsets, strict=True):
        name = str(oracle["bone_names"][int(bone) - 1])
        sites.append(Site(str(marker), name, bones[name][0].T @ offset))
    return Skeleton(joints, sites)


@pytest.fixture(scope="module")
def columns(skeleton, oracle):
    """Return where each of our degrees of freedom is in the oracle's order, which has x first."""
    names = [str(name) for name in oracle["dof_names"]]

    def theirs(ours):
        joint, _, axis = ours.partition(".")
        if axis.startswith("t"):
            return names.index(ours)
        return (
            names.index(f"{joint}.r{axis}")
            if axis
            else next(i for i, n in enumerate(names) if n.startswith(joint + "."))
        )

    return np.array([theirs(name) for name in skeleton.dof_names])


@pytest.fixture(scope="module")
def pose(oracle, columns):
    return oracle["x"][columns]


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def test_joints_are_where_the_oracle_has_them(skeleton, oracle, pose):
    frames = forward(skeleton, pose)
    ours = np.array([frames.position(str(name)) for name in oracle["bone_names"]])
    assert relative(ours, oracle["bone_start_pos_cm"].T) < 1e-9
    markers = np.array([frames.position(site.name) for site in skeleton.sites])
    residuals = oracle["marker_pos_cm"].T - markers
    assert relative(residuals, oracle["r"].reshape(-1, 3)) < 1e-9


def test_jacobian(skeleton, oracle, pose, columns):
    ours = np.concatenate([jacobian(skeleton, pose, site.name) for site in skeleton.sites])
    assert relative(ours, oracle["J"][:, columns]) < 1e-9


def test_energy_gradient_and_hessian(skeleton, oracle, pose, columns):
    n, g = skeleton.size, len(skeleton.sites)
    kind, data = np.zeros((g, 4), dtype=np.int64), np.zeros((g, CONSTANTS))
    targets = np.zeros((g, TARGETS))
    kind[:, 0], kind[:, 3] = POINT_SPRING, -1
    for k, site in enumerate(skeleton.sites):
        row = skeleton.frame(site.name)
        kind[k, BODY_A] = skeleton.frame_bodies[row]
        data[k, POINT : POINT + 3] = skeleton.frame_positions[row]
        targets[k, AT : AT + 3] = oracle["marker_pos_cm"][:, k]
        data[k, WEIGHT : WEIGHT + 3] = data[k, MEASURE : MEASURE + 3] = 1.0
    depth = int(skeleton.order.rows[:, DEPTH].max()) + 1
    work = np.zeros(work_size(n, skeleton.figure.body.shape[0], g, depth))
    gradient, hessian, errors = np.empty(n), np.empty((n, n)), np.empty(g)
    springs = Springs(kind, data, targets, np.zeros(n), np.zeros(n))
    energy = evaluate(skeleton.figure, skeleton.order, springs, pose, work, depth, 1.0, gradient, hessian, errors)
    assert abs(energy - oracle["f"]) < 1e-9 * oracle["f"]
    assert relative(gradient, oracle["g"][columns]) < 1e-9
    assert relative(hessian, oracle["H_lower_mirrored"][np.ix_(columns, columns)]) < 1e-9
