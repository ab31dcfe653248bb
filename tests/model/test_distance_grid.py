"""Grids of signed distances against closed formulas, against coal, and against differences of themselves."""

from functools import cache

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import GoalError, PosableWarning
from posable.model import shapes
from posable.model.collision import measure, pair_tables, spread_seeds
from posable.model.distance_grid import is_closed, mesh_grid, point_grid

g = ps.goals
BOX_FACES = np.array([(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
                      (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)])  # fmt: skip


def box(half, center=(0.0, 0.0, 0.0)):
    return shapes.box("world", half).points + center, BOX_FACES


def box_distance(points, half, center=(0.0, 0.0, 0.0)):
    outside = np.abs(points - center) - half
    return np.linalg.norm(np.maximum(outside, 0.0), axis=-1) + np.minimum(outside.max(axis=-1), 0.0)


def table():
    """A table top and one leg, as one mesh of two closed parts."""
    top, leg = box((0.4, 0.3, 0.02), (0, 0, 0.5)), box((0.03, 0.03, 0.24), (0.3, 0.2, 0.24))
    return np.concatenate([top[0], leg[0]]), np.concatenate([top[1], leg[1] + 8])


def table_distance(points):
    return np.minimum(
        box_distance(points, (0.4, 0.3, 0.02), (0, 0, 0.5)), box_distance(points, (0.03, 0.03, 0.24), (0.3, 0.2, 0.24))
    )


def torus_distance(points):
    return np.hypot(np.hypot(points[..., 0], points[..., 1]) - 0.3, points[..., 2]) - 0.08


def torus(large=0.3, small=0.08, n=60, m=30):
    u, v = np.meshgrid(2 * np.pi * np.arange(n) / n, 2 * np.pi * np.arange(m) / m, indexing="ij")
    across = large + small * np.cos(v)
    vertices = np.stack([across * np.cos(u), across * np.sin(u), small * np.sin(v)], axis=-1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    a, b = i * m + j, (i + 1) % n * m + j
    c, d = i * m + (j + 1) % m, (i + 1) % n * m + (j + 1) % m
    return vertices, np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([b, d, c], -1).reshape(-1, 3)])


def test_distances_are_those_of_closed_formulas():
    rng = np.random.default_rng(0)
    half = np.array([0.2, 0.15, 0.1])
    grid = mesh_grid(*box(half), 0.01, 0.05)
    points = rng.uniform(-half - 0.05, half + 0.05, (5000, 3))
    off = np.abs(grid.distances(points) - box_distance(points, half))
    assert np.median(off) < 1e-12  # flat faces are interpolated exactly
    assert off.max() < 0.4 * grid.spacing  # at edges
    grid = mesh_grid(*torus(), 0.01, 0.05)
    exact = torus_distance(points)
    near = (np.abs(exact) < 0.05) & (np.abs(points[:, 2]) < 0.13)
    assert near.sum() > 200
    assert np.abs(grid.distances(points) - exact)[near].max() < 1.5e-3


def test_far_away_it_is_a_lower_bound():
    half = np.array([0.2, 0.15, 0.1])
    grid = mesh_grid(*box(half), 0.02, 0.02)
    points = np.random.default_rng(1).normal(size=(500, 3))
    found, exact = grid.distances(points), box_distance(points, half)
    assert (found <= exact + 0.4 * grid.spacing).all()
    far = exact > 0.2
    np.testing.assert_allclose(found[far], exact[far], rtol=0.2)


def test_gradients_are_those_of_the_interpolated_distance():
    points = np.random.default_rng(2).uniform(-0.7, 0.7, (400, 3))
    grid = mesh_grid(*torus(), 0.02, 0.05)
    step = 1e-7 * np.eye(3)
    differences = np.stack([(grid.distances(points + s) - grid.distances(points - s)) / 2e-7 for s in step], axis=-1)
    off = np.abs(differences - grid.gradients(points)).max(axis=1)
    assert np.quantile(off, 0.99) < 1e-6  # a difference may straddle two cells


def test_a_point_cloud_is_balls():
    rng = np.random.default_rng(3)
    points = rng.uniform(-0.2, 0.2, (400, 3))
    grid = point_grid(points, 0.015, 0.005, 0.02)
    asked = rng.uniform(-0.2, 0.2, (2000, 3))
    exact = cKDTree(points).query(asked)[0] - 0.015
    assert np.abs(grid.distances(asked) - exact).max() < grid.spacing
    assert np.median(np.abs(grid.distances(asked) - exact)) < 0.1 * grid.spacing


def test_open_surfaces_are_sheets():
    vertices, faces = box((0.2, 0.2, 0.2))
    assert is_closed(vertices, faces)
    assert is_closed(vertices[faces].reshape(-1, 3), np.arange(36).reshape(12, 3))  # STL: no vertex is shared
    assert not is_closed(vertices, faces[:-1])
    with pytest.warns(PosableWarning, match=r"not closed, so it counts as a sheet, 10 mm thick"):
        grid = g.Mesh(vertices, faces[:-2], spacing=0.01).shape(0.02).grid
    assert grid.distances(np.array([0.0, 0.0, 0.0])) > 0.1  # its inside is free
    assert grid.distances(np.array([0.0, 0.0, -0.2])) < 0.0


def moving(shape):
    joints = [ps.Joint("root", ps.Fixed()), ps.Joint("a", ps.Free("rotvec"), "root")]
    return ps.Skeleton(joints, shapes=[shape])


def solid(kind, rng):
    return {
        "sphere": shapes.sphere("a", 0.05, (0.02, 0, 0)),
        "capsule": shapes.capsule("a", (-0.1, 0, 0), (0.1, 0.02, 0), 0.03),
        "box": shapes.box("a", (0.06, 0.08, 0.1)),
        "hull": shapes.hull("a", 0.07 * rng.normal(size=(40, 3))),
    }[kind]


@cache
def obstacle_of(mesh):
    return g.Mesh(*mesh(), spacing=0.01).shape(0.16)


def coal_distance(skeleton, pose, vertices, faces):
    """Return the distance of the one shape from a mesh, by coal: 0 where they touch."""
    coal = pytest.importorskip("coal")
    model = coal.BVHModelOBBRSS()
    model.beginModel(len(faces), len(vertices))
    model.addVertices(np.asarray(vertices, float))
    for face in faces:
        model.addTriangle(*(vertices[k] for k in face))
    model.endModel()
    shape = skeleton.shapes[0]
    corners = ps.forward(skeleton, pose).convert(shape.points, from_="a")
    place = coal.Transform3s()
    if len(corners) <= 2:
        axis = corners[-1] - corners[0]
        length = float(np.linalg.norm(axis))
        place.setTranslation(corners.mean(axis=0))
        body = coal.Capsule(shape.radius, length) if length else coal.Sphere(shape.radius)
        if length:
            place.setRotation(Rotation.align_vectors([axis / length], [[0.0, 0.0, 1.0]])[0].as_matrix())
    else:
        points = coal.StdVec_Vec3s()
        for corner in corners:
            points.append(corner)
        body = coal.Convex.convexHull(points, True, "Qt")
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    return coal.distance(model, coal.Transform3s(), body, place, request, result)


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box", "hull"])
@pytest.mark.parametrize("mesh", [table, torus])
def test_distances_of_solids_are_those_of_coal(kind, mesh):
    rng = np.random.default_rng(len(kind))
    skeleton = moving(solid(kind, rng))
    vertices, faces = mesh()
    obstacle = obstacle_of(mesh)
    tables = pair_tables(skeleton, (), (obstacle,))
    compared, off = 0, []
    for _ in range(80):
        centre = vertices[faces[rng.integers(len(faces))]].mean(axis=0) + 0.11 * rng.normal(size=3)
        pose = np.concatenate([centre, rng.normal(size=3)])
        found = measure(tables, pose[None], 0.1)[0, 0]
        exact = coal_distance(skeleton, pose, vertices, faces)
        within = table_distance(centre) < 0.0 if mesh is table else torus_distance(centre) < 0.0
        if 0.0 < exact < 0.09 and not within:  # coal sees surfaces: what is wholly inside is apart from them
            off.append(found - exact)
            compared += 1
    assert compared >= 10
    assert np.abs(off).max() < 0.005  # half a spacing, at edges and corners
    assert np.median(np.abs(off)) < 0.001


def test_depths_are_those_of_a_box():
    """A box that presses into the face of a larger one is as deep as its lowest corner."""
    rng = np.random.default_rng(7)
    skeleton = moving(shapes.box("a", (0.06, 0.08, 0.1)))
    tables = pair_tables(skeleton, (), (g.Mesh(*box((0.5, 0.5, 0.3)), spacing=0.02).shape(0.02),))
    for _ in range(20):
        pose = np.concatenate([(0.1, -0.1, 0.3 + 0.1 * rng.normal()), rng.normal(size=3)])
        lowest = ps.forward(skeleton, pose).convert(skeleton.shapes[0].points, from_="a")[:, 2].min()
        found = measure(tables, pose[None], 0.02)[0, 0]
        if -0.15 < lowest - 0.3 < 0.02:
            assert found == pytest.approx(lowest - 0.3, abs=1e-4)


def test_derivatives_where_the_nearest_point_stays():
    rng = np.random.default_rng(8)
    active = 0
    for kind in ("sphere", "hull", "box"):
        skeleton = moving(solid(kind, rng))
        goal = g.NoCollision(obstacles=g.Mesh(*torus(), spacing=0.02), margin=0.05, weight=1.0)
        problem = ps.Problem(skeleton, goal)
        for _ in range(10):
            angle = rng.uniform(0, 2 * np.pi)
            place = (0.3 * np.cos(angle), 0.3 * np.sin(angle), 0.18)
            pose = np.concatenate([place, rng.normal(size=3)])
            if problem.energy(pose) > 1e-6:
                active += 1
                assert problem.check_derivatives(pose, step=1e-6).gradient < 2e-3  # the search ends at 0.1 um
                if kind == "sphere":
                    assert problem.check_derivatives(pose, step=1e-6).hessian < 1e-4
    assert active > 10


def test_an_arm_reaches_under_a_table():
    joints = [ps.Joint("base", ps.Fixed())]
    solids = []
    for k in range(5):
        joints.append(ps.Joint(f"j{k}", ps.Ball("rotvec"), joints[-1].name, offset=(0.2 * (k > 0), 0, 0)))
        solids.append(shapes.capsule(f"j{k}", (0, 0, 0), (0.2, 0, 0), 0.03, name=f"link{k}"))
    arm = ps.Skeleton(joints, [ps.Site("tip", "j4", (0.2, 0, 0))], shapes=solids)
    vertices, faces = table()
    vertices = vertices + np.array([0.5, 0.0, -0.5])  # the base is level with the top, before its edge
    start = arm.pose({"j0": (0.0, -0.8, 0.0)})
    reach = g.Position("tip", (0.5, 0.0, -0.15))
    for obstacle in (g.Mesh(vertices, faces, spacing=0.01), g.PointCloud(_on(vertices, faces), 0.01, spacing=0.01)):
        base = ps.Skeleton([ps.Joint("base", ps.Fixed(), offset=(-0.2, 0, 0)), *joints[1:]], arm.sites, shapes=solids)
        result = ps.solve(base, [reach, g.NoCollision(obstacles=obstacle)], start=start, restarts=20)
        assert result.ok, result
        frames = ps.forward(base, result.pose)
        for k in range(5):
            axis = frames.convert(np.linspace((0, 0, 0), (0.2, 0, 0), 100), from_=f"j{k}")
            assert box_distance(axis, (0.4, 0.3, 0.02), (0.5, 0, 0)).min() > 0.03 - 0.004
    assert not ps.solve(arm, [g.Position("tip", (0.5, 0, 0)), g.NoCollision(obstacles=g.Mesh(vertices, faces))]).ok


def _on(vertices, faces):
    """Return points of a mesh, at most about 1 cm apart."""
    n = 40
    weights = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]) / n
    return (weights @ vertices[faces]).reshape(-1, 3)


def test_seeds_cover_a_hull():
    rng = np.random.default_rng(9)
    corners = shapes.box("a", (0.05, 0.1, 0.2)).points
    seeds, cover = spread_seeds(corners)
    weights = rng.dirichlet(np.ones(3), 2000)
    points = np.einsum("pk,pkc->pc", weights, corners[BOX_FACES[rng.integers(12, size=2000)]])
    assert cKDTree(seeds).query(points)[0].max() <= cover < 0.08
    assert len(seeds) <= 48


def test_what_is_refused():
    vertices, faces = box((0.1, 0.1, 0.1))
    with pytest.raises(GoalError, match=r"Mesh: faces: expected indices \(F, 3\) of 8 vertices"):
        g.Mesh(vertices, faces + 1)
    with pytest.raises(GoalError, match="Mesh: faces"):
        g.Mesh(vertices)
    with pytest.raises(GoalError, match="Mesh: spacing: expected a positive"):
        g.Mesh(vertices, faces, spacing=0.0)
    with pytest.raises(GoalError, match="at most 20,000,000 nodes"):
        ps.Problem(moving(shapes.sphere("a", 0.1)), g.NoCollision(obstacles=g.Mesh(vertices, faces, spacing=1e-5)))
    with pytest.raises(GoalError, match="at least one point"):
        g.PointCloud(np.zeros((0, 3)), 0.01)
    with pytest.raises(ps.PosableError, match="expected for a grid in the world"):
        moving(shapes.Shape("a", vertices, kind="grid"))
    trimesh = pytest.importorskip("trimesh")
    assert g.Mesh(trimesh.creation.box((0.2, 0.2, 0.2))).spacing == 0.005
