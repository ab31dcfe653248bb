"""Distances between rounded convex hulls against coal, and the springs that keep them apart against differences."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.engine.jit import entry
from posable.engine.layout import FIELD, workspace
from posable.engine.narrow_phase import direction_cell
from posable.engine.newton import energy_below
from posable.model import collision, shapes
from posable.model.collision import (
    MOST_CORNERS,
    SolidTables,
    distances,
    extreme_corners,
    fitted,
    hull_distances,
    measure,
    shape_pairs,
)

KINDS = ("sphere", "capsule", "box", "cylinder", "hull")


def random_shape(rng, joint, kind):
    made = {
        "sphere": lambda: shapes.sphere(joint, 0.1),
        "capsule": lambda: shapes.capsule(joint, (0, 0, -0.2), (0, 0, 0.2), 0.05),
        "box": lambda: shapes.box(joint, (0.1, 0.15, 0.2)),
        "cylinder": lambda: shapes.cylinder(joint, 0.1, 0.2),
        "hull": lambda: shapes.hull(joint, 0.1 * rng.normal(size=(30, 3))),
    }[kind]()
    return made.moved(joint, 0.1 * rng.normal(size=3), Rotation.from_rotvec(rng.normal(size=3)))


def two_bodies(rng, a, b):
    joints = [
        ps.Joint("root", ps.Fixed()),
        ps.Joint("a", ps.Ball("zyx"), "root", offset=(-0.15, 0, 0)),
        ps.Joint("b", ps.Free("rotvec"), "root", offset=(0.15, 0, 0)),
    ]
    return ps.Skeleton(
        joints, shapes=[random_shape(rng, "a", a), random_shape(rng, "b", b)], collision_pairs=[("a", "b")]
    )


def tables_of(skeleton):
    tables = SolidTables(skeleton)
    tables.add(shape_pairs(skeleton, [("a", "b")]))
    return tables


def coal_distance(skeleton, pose):
    """Return the distance of the two shapes as coal computes it, from primitives of its own where it has them."""
    coal = pytest.importorskip("coal")
    frames = ps.forward(skeleton, pose)
    solids = []
    for shape in skeleton.shapes:
        corners = frames.convert(shape.points, from_=shape.joint)
        place = coal.Transform3s()
        if len(corners) <= 2:
            axis = corners[-1] - corners[0]
            length = float(np.linalg.norm(axis))
            solid = coal.Capsule(shape.radius, length) if length else coal.Sphere(shape.radius)
            place.setTranslation(corners.mean(axis=0))
            if length:
                turn, _ = Rotation.align_vectors([axis / length], [[0.0, 0.0, 1.0]])
                place.setRotation(turn.as_matrix())
        else:
            points = coal.StdVec_Vec3s()
            for corner in corners:
                points.append(corner)
            solid = coal.Convex.convexHull(points, True, "Qt")
        solids += [solid, place]
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.enable_signed_distance = True
    return coal.distance(*solids, request, result)


@pytest.mark.parametrize("a", KINDS)
@pytest.mark.parametrize("b", KINDS)
def test_distances_are_those_of_coal(a, b):
    rng = np.random.default_rng(KINDS.index(a) * 10 + KINDS.index(b))
    for _ in range(8):
        skeleton = two_bodies(rng, a, b)
        pose = 0.4 * rng.normal(size=skeleton.size)
        found = distances(skeleton, pose, within=10.0)[0][2]
        assert found == pytest.approx(coal_distance(skeleton, pose), abs=1e-5)


@pytest.mark.parametrize("a", KINDS)
@pytest.mark.parametrize("b", KINDS)
def test_derivatives_agree_with_differences(a, b):
    rng = np.random.default_rng(100 + KINDS.index(a) * 10 + KINDS.index(b))
    active = 0
    for _ in range(4):
        skeleton = two_bodies(rng, a, b)
        problem = ps.Problem(skeleton, ps.goals.NoCollision(margin=0.3, weight=1.0))
        pose = 0.3 * rng.normal(size=skeleton.size)
        check = problem.check_derivatives(pose, step=1e-5)
        assert check.gradient < 1e-8
        assert check.hessian < 1e-6
        active += problem.energy(pose) > 0.0
    assert active


def test_deep_overlaps_have_derivatives_too():
    rng = np.random.default_rng(5)
    deep = 0
    for _ in range(10):
        skeleton = two_bodies(rng, "box", "hull")
        pose = skeleton.pose({"b": (-0.28, 0.01, 0.02, *(0.2 * rng.normal(size=3)))})
        problem = ps.Problem(skeleton, ps.goals.NoCollision(weight=1.0))
        deep += problem.errors(pose)["no collision"] > 0.05
        assert problem.check_derivatives(pose, step=1e-5).ok
    assert deep >= 5


def test_a_plane_keeps_the_lowest_corner_up():
    rng = np.random.default_rng(3)
    skeleton = two_bodies(rng, "box", "hull")
    goal = ps.goals.NoCollision(pairs=(), obstacles=ps.goals.Wall((0, 0, 0.2), (0, 0, 1)), weight=1.0)
    problem = ps.Problem(skeleton, goal)
    pose = 0.3 * rng.normal(size=skeleton.size)
    frames = ps.forward(skeleton, pose)
    depth = max(0.2 - frames.convert(s.points, from_=s.joint)[:, 2].min() for s in skeleton.shapes)
    assert problem.errors(pose)["no collision"] == pytest.approx(depth)
    assert problem.check_derivatives(pose, step=1e-5).ok


def test_a_fitted_hull_covers_its_mesh():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 3))
    points *= 0.1 / np.linalg.norm(points, axis=1, keepdims=True)
    points[:, 2] *= 3.0
    shape = shapes.hull("a", points)
    corners, radius = fitted(shape)
    assert len(corners) <= MOST_CORNERS
    assert radius < 0.005
    assert hull_distances(corners, points).max() <= radius + 1e-9
    assert hull_distances(points, 0.5 * points).max() == 0.0
    np.testing.assert_allclose(hull_distances(shapes.box("a", (1, 1, 1)).points, np.array([[3.0, 0, 0]])), [2.0])


def test_extreme_corners_by_direction_are_those_of_all_corners(monkeypatch):
    rng = np.random.default_rng(4)
    for number in range(20):
        skeleton = two_bodies(rng, "cylinder" if number % 2 else "hull", "hull")
        poses = 0.6 * rng.normal(size=(50, skeleton.size))
        with_table = measure(tables_of(skeleton), poses, 1.0)
        with monkeypatch.context() as patch:
            patch.setattr(collision, "FEW_CORNERS", 1000)
            assert (tables_of(skeleton).figure().solid[:, FIELD] == -1.0).all()
            assert np.array_equal(measure(tables_of(skeleton), poses, 1.0), with_table)


def test_a_table_lists_the_furthest_corner_of_every_direction():
    rng = np.random.default_rng(5)
    corners = rng.normal(size=(40, 3)) * (1.0, 0.3, 0.1)
    table = extreme_corners(corners, 7, 100)
    directions = np.concatenate([rng.normal(size=(2000, 3)), np.eye(3), -np.eye(3), [(1, 1, 1), (-1, 1, 0)]])
    listed = 0
    for x, y, z in directions:
        first, last = table[direction_cell(x, y, z) :][:2].astype(int) - 100
        rows = table[first:last].astype(int) - 7
        assert np.argmax(corners @ (x, y, z)) in rows
        listed += len(rows)
    assert listed < 0.3 * len(corners) * len(directions)


@entry
def bounded_energy(figure, springs, theta, work, d, most):
    """Return `energy_below` at a pose."""
    ws, _ = workspace(figure, springs.kind.shape[0], work, d)
    return energy_below(figure, springs, theta, ws, ws.row, most)  # a scratch row as the state, which counts the calls


def test_an_energy_above_the_bound_need_not_be_exact_but_exceeds_it():
    """Goals and overlaps count together: the trial of a step is rejected or accepted as by its exact energy."""
    rng = np.random.default_rng(5)
    rejected_by_both = 0
    for kinds in (("hull", "box"), ("cylinder", "hull")):
        skeleton = two_bodies(rng, *kinds)
        problem = ps.Problem(skeleton, [ps.goals.Position("b", (0.2, 0.1, 0.0)), ps.goals.NoCollision()])
        for _ in range(20):
            pose = 0.2 * rng.normal(size=skeleton.size)
            exact = problem.energy(pose)
            goal = 0.5 * problem.errors(pose)["b"] ** 2
            for share in (0.1, 0.5, 0.99, 1.01, 3.0):
                most = share * exact
                found = bounded_energy(
                    problem.figure, problem.packed(0), pose, np.zeros(problem.work_size), problem.depth, most
                )
                rejected_by_both += goal < most < exact and exact - goal < most
                assert found >= most if share < 1.0 else found == pytest.approx(exact, rel=1e-12)
    assert rejected_by_both > 5


def test_far_pairs_are_not_measured():
    rng = np.random.default_rng(0)
    skeleton = two_bodies(rng, "box", "hull")
    tables = SolidTables(skeleton)
    tables.add([skeleton.shapes])
    poses = np.zeros((3, skeleton.size))
    poses[:, skeleton.index("b")] = [[0, 0, 0, 0, 0, 0], [0.5, 0, 0, 0, 0, 0], [5.0, 0, 0, 0, 0, 0]]
    near, some, far = measure(tables, poses, 1.0)[:, 0]
    assert near < some < 1.0 < far
    assert measure(tables, poses, 10.0)[1, 0] == pytest.approx(some, abs=1e-12)


ALIGNED = [(0.05, 0.0, 0.0), (0.0, 0.0, 0.0), (0.05, 0.02, 0.0), (0.1, 0.1, 0.1), (0.0, 0.0, 0.19)]


@pytest.mark.parametrize("offset", ALIGNED)
def test_aligned_boxes_that_overlap_are_as_deep_as_they_are(offset):
    """Boxes with parallel faces put the origin on an edge or a face of the first simplex: they overlap all the same."""
    half = np.array([0.1, 0.1, 0.1])
    joints = [ps.Joint("root", ps.Fixed()), ps.Joint("a", ps.Free(), "root"), ps.Joint("b", ps.Free(), "root")]
    solids = [shapes.box("a", half), shapes.box("b", half)]
    figure = ps.Skeleton(joints, shapes=solids, collision_pairs=[("a", "b")])
    pose = figure.rest.copy()
    pose[figure.index("b")] = (*offset, 0.0, 0.0, 0.0)
    ((_, _, found),) = distances(figure, pose, within=0.5)
    assert found == pytest.approx(-(2.0 * half - np.abs(offset)).min(), abs=1e-6)
    if offset != (0.0, 0.0, 0.0):
        result = ps.solve(figure, [ps.goals.NoCollision(), ps.goals.Position("a", (0, 0, 0))], start=pose)
        assert result.ok
        assert distances(figure, result.pose, within=1.0)[0][2] > -1e-4
