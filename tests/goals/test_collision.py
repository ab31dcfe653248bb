"""NoCollision: pairs, obstacles, errors and what is refused; poses judged by MuJoCo's own collision checks."""

import numpy as np
import pytest

import posable as ps
from posable.errors import GoalError, PosableError, PosableWarning, SolverError
from posable.model import shapes
from posable.model.collision import candidate_pairs, couple, distances, retreated


def arm(count=5):
    """A chain of capsules that can coil up."""
    joints = [ps.Joint("base", ps.Fixed())]
    solids = [shapes.sphere("base", 0.05)]
    for k in range(count):
        joints.append(ps.Joint(f"j{k}", ps.Ball("rotvec"), joints[-1].name, offset=(0.2 * (k > 0), 0, 0)))
        solids.append(shapes.capsule(f"j{k}", (0, 0, 0), (0.2, 0, 0), 0.04, name=f"link{k}"))
    return ps.Skeleton(joints, [ps.Site("tip", joints[-1].name, (0.2, 0, 0))], shapes=solids)


def test_pairs_are_chosen():
    figure = arm()
    assert ("j0", "j1") not in candidate_pairs(figure)  # neighbours
    assert ("base", "j0") not in candidate_pairs(figure)
    assert ("j0", "j2") in figure.collision_pairs
    assert ("j0", "j2") not in figure.replace(disabled_pairs=[("j2", "j0")]).collision_pairs
    assert figure.replace(collision_pairs=[("j0", "j4")]).collision_pairs == (("j0", "j4"),)
    far = figure.replace(shapes=[shapes.sphere("j0", 0.01), shapes.sphere("j2", 0.01, (0.2, 0, 0))])
    assert far.collision_pairs == (("j0", "j2"),)
    always = [shapes.sphere("base", 0.5), shapes.sphere("j1", 0.5)]
    assert figure.replace(shapes=always).collision_pairs == ()  # they touch at every pose
    never = [shapes.sphere("base", 0.01), shapes.sphere("j1", 0.01)]
    assert figure.replace(shapes=never).collision_pairs == ()  # 20 cm apart at every pose


def test_pairs_that_rarely_meet_are_checked():
    """Two arms whose fingertips can meet, which none of the random poses at which pairs are examined shows."""
    joints, solids = [ps.Joint("base", ps.Fixed())], []
    for side, x in (("l", -0.85), ("r", 0.85)):
        above = "base"
        for k in range(4):
            offset = (x, 0, 0) if k == 0 else (0.25, 0, 0)
            joints.append(ps.Joint(f"{side}{k}", ps.Ball("rotvec"), above, offset=offset))
            above = f"{side}{k}"
        solids.append(shapes.sphere(above, 0.01, (0.25, 0, 0), name=side))
    figure = ps.Skeleton(joints, [ps.Site(s, f"{s}3", (0.25, 0, 0)) for s in "lr"], shapes=solids)
    rng = np.random.default_rng(0)
    near = [distances(figure.replace(collision_pairs=[("l3", "r3")]), pose, within=0.05)
            for pose in rng.uniform(-np.pi, np.pi, (1000, figure.size))]  # fmt: skip
    assert not any(near)
    assert figure.collision_pairs == (("l3", "r3"),)


def test_deep_overlaps_begin_again_between_their_bodies_only():
    """Two arms on a slide: of the one that is inside the wall post, its own joints go back, all else stays."""
    joints = [ps.Joint("cart", ps.Prismatic("z"))]
    solids = [shapes.box("cart", (0.1, 0.1, 0.1))]
    for side, x in (("l", -0.4), ("r", 0.4)):
        joints += [ps.Joint(f"{side}0", ps.Revolute("y"), "cart", offset=(x, 0, 0)),
                   ps.Joint(f"{side}1", ps.Revolute("y"), f"{side}0", offset=(0, 0, 0.3))]  # fmt: skip
        solids.append(shapes.capsule(f"{side}1", (0, 0, 0), (0, 0, 0.3), 0.03))
    figure = ps.Skeleton(joints, shapes=solids, collision_pairs=[("cart", "l1"), ("cart", "r1"), ("l1", "r1")])
    problem = ps.Problem(figure, ps.goals.NoCollision())
    start, pose = np.zeros((1, 5)), np.array([[0.3, 1.2, 2.0, -0.2, 0.3]])  # the left arm reaches into the cart
    assert [pair[:2] for pair in distances(figure, pose[0], within=0.0)] == [("cart", "l1")]
    np.testing.assert_array_equal(retreated(problem.figure, pose, start), [[0.3, 0.0, 0.0, -0.2, 0.3]])
    np.testing.assert_array_equal(pose, [[0.3, 1.2, 2.0, -0.2, 0.3]])


def test_a_leader_may_follow_another_leader():
    """A chain of mimic joints in any order, as TALOS's grippers have it, for the poses at which pairs are chosen."""
    figure = ps.Skeleton(
        [ps.Joint("a", ps.Revolute("z")), ps.Joint("b", ps.Revolute("z"), "a"), ps.Joint("c", ps.Revolute("z"), "b")],
        couplings=[("c", "b", -1.0, 0.1), ("b", "a", 2.0, 0.0)],
    )
    poses = np.array([[0.2, 9.0, 9.0], [-0.3, 9.0, 9.0]])
    couple(figure, poses)
    np.testing.assert_allclose(poses, [[0.2, 0.4, -0.3], [-0.3, -0.6, 0.7]])


def fingers(gap, reach):
    """Two fingers side by side on slides, `gap` [m] apart at rest."""
    joints, solids = [ps.Joint("palm", ps.Fixed())], []
    for k, side in enumerate((-1.0, 1.0)):
        spread = ps.Joint(f"spread{k}", ps.Prismatic("x"), "palm", offset=(side * (0.01 + 0.5 * gap), 0, 0),
                          limits=(-0.02, 0.02))  # fmt: skip
        joints += [spread, ps.Joint(f"tip{k}", ps.Revolute("x"), f"spread{k}", limits=(-1.5, 1.5))]
        solids.append(shapes.capsule(f"tip{k}", (0, 0, 0), (0, 0, reach), 0.01))
    sites = [ps.Site(f"end{k}", f"tip{k}", (0, 0, reach)) for k in range(2)]
    return ps.Skeleton(joints, sites, shapes=solids)


@pytest.mark.parametrize("gap", [2.5e-4, 6e-4])
def test_fingers_reach_places_less_than_a_millimetre_apart(gap):
    """Hands are built with gaps of half a millimetre: clearance must not cost the tolerance of the other goals."""
    figure = fingers(gap, 0.03)
    pose = figure.pose({"tip0": 0.4, "tip1": 0.4})
    ends = [ps.goals.Position(f"end{k}", ps.forward(figure, pose).position(f"end{k}")) for k in range(2)]
    apart = figure.pose({"spread0": -0.01, "spread1": 0.01, "tip0": -0.5, "tip1": 1.0})
    result = ps.solve(figure, [*ends, ps.goals.NoCollision(tolerance=0.0)], start=apart)
    assert result.ok, result
    rest = ps.solve(figure, [*ends, ps.goals.NoCollision(), ps.goals.Posture(weight=1e-9)], start=apart)  # converged
    assert rest.ok, rest


def test_a_coiled_arm_keeps_off_itself_and_off_obstacles():
    figure = arm()
    box = ps.goals.Box((0.3, 0.25, 0.0), (0.1, 0.1, 0.4))
    ball = ps.goals.Sphere((0.0, 0.0, 0.3), 0.1)
    free = ps.goals.Position("tip", (0.05, 0.12, 0.05))
    coiled = figure.pose({f"j{k}": (0.1, 0.2, 2.3) for k in range(1, 5)})
    assert min(d for *_, d in distances(figure, coiled)) < 0.0
    result = ps.solve(figure, [free, ps.goals.NoCollision(obstacles=[box, ball])], start=coiled, restarts=20)
    assert result.ok, result
    assert min(d for *_, d in distances(figure, result.pose)) > -1e-4
    frames = ps.forward(figure, result.pose)
    for k in range(5):  # against the ball, by dense points of the axis
        axis = frames.convert(np.linspace((0, 0, 0), (0.2, 0, 0), 200), from_=f"j{k}")
        assert np.linalg.norm(axis - (0.0, 0.0, 0.3), axis=1).min() > 0.14 - 1e-3
        away = np.maximum(np.abs(axis - (0.3, 0.25, 0.0)) - (0.05, 0.05, 0.2), 0.0)
        assert np.linalg.norm(away, axis=1).min() > 0.04 - 1e-3
    assert result.errors["no collision"] < 1e-4


def test_margins_and_errors():
    figure = arm(2).replace(collision_pairs=[("base", "j1")])
    pose = figure.pose({"j1": (0.0, 0.0, 2.9)})
    gap = distances(figure, pose)[0][2]
    for margin in (0.0, 0.05, 0.2):
        error = ps.Problem(figure, ps.goals.NoCollision(margin=margin)).errors(pose)["no collision"]
        assert error == pytest.approx(max(0.0, margin - gap))
    pairs = ps.Problem(figure, ps.goals.NoCollision(pairs=[("base", "tip")])).errors(pose)
    assert pairs["no collision"] == pytest.approx(max(0.0, -gap))


def test_several_goals_add_up():
    figure = arm(4)
    pose = figure.pose({"j1": (0.1, 0.2, 2.5), "j2": (-0.2, 0.1, 2.5), "j3": (0.3, 0.2, 2.0)})
    wall = ps.goals.Wall((0.1, 0, 0), (1, 0, 0))
    one, two = ps.goals.NoCollision(), ps.goals.NoCollision(pairs=(), obstacles=wall, label="wall")
    both = ps.Problem(figure, [one, two])
    assert both.energy(pose) == pytest.approx(sum(ps.Problem(figure, goal).energy(pose) for goal in (one, two)))
    assert both.energy(pose) > 0.0
    assert both.check_derivatives(pose, step=1e-6).ok
    assert set(both.errors(pose)) == {"no collision", "wall"}


def test_a_batch_is_as_each_alone():
    figure = arm()
    targets = np.array([(0.05, 0.12, 0.05), (0.3, 0.1, 0.2), (0.1, -0.1, 0.1)])
    goals = [ps.goals.Position("tip", targets), ps.goals.NoCollision()]
    batch = ps.solve(figure, goals, restarts=2)
    for k, target in enumerate(targets):
        alone = ps.solve(figure, [ps.goals.Position("tip", target), goals[1]], restarts=2)
        np.testing.assert_array_equal(alone.pose, batch.pose[k])


def test_answers_that_do_not_collide_are_those_without():
    figure = arm()
    rng = np.random.default_rng(2)
    targets = rng.normal(size=(60, 3))
    targets *= rng.uniform(0.15, 0.3, (60, 1)) / np.linalg.norm(targets, axis=1, keepdims=True)
    free = ps.solve(figure, ps.goals.Position("tip", targets), restarts=5)
    clear = ps.solve(figure, [ps.goals.Position("tip", targets), ps.goals.NoCollision()], restarts=5)
    depth = np.array([min((d for *_, d in distances(figure, pose)), default=1.0) for pose in free.pose])
    collides = depth < -1e-4
    assert 3 < collides.sum() < 57
    np.testing.assert_array_equal(clear.pose[~collides], free.pose[~collides])
    found = np.array([min((d for *_, d in distances(figure, pose)), default=1.0) for pose in clear.pose])
    assert (found[clear.ok] > -1.1e-4).all()
    assert clear.ok[collides].mean() > 0.9
    assert (clear.pose[collides] != free.pose[collides]).any(axis=1).all()  # each was solved anew
    np.testing.assert_allclose(clear.errors["no collision"][clear.ok], np.maximum(0.0, -found[clear.ok]), atol=1e-9)


def test_what_is_refused():
    bare = ps.figures.planar_arm([1, 1])
    with pytest.raises(GoalError, match="a figure with shapes"):
        ps.solve(bare, ps.goals.NoCollision())
    with pytest.raises(PosableError, match="unknown joint or site 'elbow'"):
        ps.solve(arm(), ps.goals.NoCollision(pairs=[("elbow", "j1")]))
    with pytest.raises(GoalError, match="Sphere, Capsule, Box, Hull, Wall, Mesh or PointCloud"):
        ps.goals.NoCollision(obstacles=[3])
    with pytest.raises(GoalError, match="a solver of energies"):
        ps.solve(arm(), [ps.goals.Position("tip", (0.3, 0, 0)), ps.goals.NoCollision()], solver="dls")
    with pytest.raises((SolverError, PosableError)):
        ps.solve(arm(), [ps.goals.Position("tip", (0.3, 0, 0)), ps.goals.NoCollision()], device="cuda")
    with pytest.raises(GoalError, match="three non-negative numbers"):
        ps.goals.Box((0, 0, 0), (1, -1, 1))


@pytest.mark.files({"humanoid/humanoid.xml": 0.8, "mjcf/unitree_g1/g1.xml": 0.9})
def test_a_humanoid_does_not_collide_by_mujocos_own_measure(path, expected):
    mujoco = pytest.importorskip("mujoco")
    skeleton = ps.load(path).skeleton
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    home = skeleton.named_poses["stand"]
    rng = np.random.default_rng(4)
    low, high = (np.where(np.isfinite(side), side, 0.0) for side in (skeleton.lower, skeleton.upper))
    reached = rng.uniform(low, high, (40, skeleton.size))
    reached[:, :6] = home[:6]
    hands = ps.forward(skeleton, reached)
    goals = [ps.goals.Position(f"{side}_wrist_yaw_link", hands.position(f"{side}_wrist_yaw_link"))
             for side in ("left", "right")]  # fmt: skip
    goals.append(ps.goals.Pose("pelvis", ps.forward(skeleton, home).matrix("pelvis")))
    result = ps.solve(skeleton, [*goals, ps.goals.NoCollision()], start=home, restarts=10)
    assert result.ok.mean() > expected  # some hands were drawn inside the body
    checked = {frozenset(pair) for pair in skeleton.collision_pairs}
    names = [model.body(b).name for b in range(model.nbody)]
    home_of = {site.name: site.joint for site in skeleton.sites}
    for pose, ok in zip(result.pose, result.ok, strict=True):
        data.qpos[:] = skeleton.to_qpos(pose)
        mujoco.mj_forward(model, data)
        for contact in data.contact:
            joints = frozenset(home_of[names[model.geom_bodyid[g]]] for g in contact.geom)
            assert not ok or joints not in checked or contact.dist > -1e-3


@pytest.mark.files("humanoid/humanoid.xml", "mjcf/unitree_g1/g1.xml")
def test_balance_finds_where_a_robot_stands(path):
    pytest.importorskip("mujoco")
    skeleton = ps.load(path).skeleton
    corners = ps.goals.Balance().corners(skeleton)
    assert len(corners) == 8  # four spheres under each foot
    feet = ps.forward(skeleton, skeleton.rest)
    for side in ("left", "right"):
        near = np.linalg.norm((corners - feet.position(f"{side}_ankle_roll_link"))[:, :2], axis=1) < 0.15
        assert near.sum() == 4
    stand = [
        ps.goals.Pose(f"{side}_ankle_roll_link", feet.matrix(f"{side}_ankle_roll_link")) for side in ("left", "right")
    ]
    result = ps.solve(skeleton, [*stand, ps.goals.Balance(), ps.goals.Position("left_wrist_yaw_link", (0.3, 0.3, 1.0))])
    assert result.ok, result


def test_balance_on_two_named_links_stands_on_their_shapes():
    feet = "".join(
        f"""<body name="{side}" pos="0 {y} -0.5"><joint name="{side}_ankle" axis="0 1 0"/><site name="{side}_sole"/>
        <geom type="box" size="0.1 0.04 0.02"/></body>"""
        for side, y in (("left", 0.1), ("right", -0.1))
    )
    text = f"""<mujoco><worldbody><body name="trunk" pos="0 0 1"><freejoint/><geom size="0.1"/>{feet}</body>
      </worldbody></mujoco>"""
    pytest.importorskip("mujoco")
    skeleton = ps.load(text, format="mjcf").skeleton
    for names in (["left", "right"], ["left_ankle", "right_ankle"], ["left_sole", "right_sole"]):
        corners = ps.goals.Balance(names).corners(skeleton)
        np.testing.assert_allclose(np.abs(corners).max(axis=0)[:2], (0.1, 0.14), atol=1e-9)
    one = ps.goals.Balance(["left"]).corners(skeleton)
    np.testing.assert_allclose([one[:, 1].min(), one[:, 1].max()], (0.06, 0.14), atol=1e-9)
    with pytest.raises(GoalError, match="got 2 names, of links without shapes"):
        ps.goals.Balance(["left", "right"]).corners(skeleton.replace(shapes=()))


def test_balance_without_feet_says_how_to_name_them():
    with pytest.raises(GoalError, match="names such as Balance"):
        ps.goals.Balance().corners(ps.figures.panda())


@pytest.mark.parametrize("place", [(-0.20, 1.10, 0.42), (-0.15, 1.05, 0.40), (-0.30, 1.20, 0.45)])
def test_a_pose_that_leans_on_an_obstacle_ends_by_its_gradient_and_not_by_the_cap(place):
    """The forearm slides along a ball while a weak posture pulls it: it neither bounces off nor crawls."""
    g, human = ps.goals, ps.figures.human()
    rest = ps.forward(human, human.rest)
    human = human.replace(shapes=[shapes.capsule("elbow.R", (0, 0, 0), (0, -0.25, 0), 0.04, name="forearm")])
    feet = [g.Pose(foot, rest.matrix(foot)) for foot in ("foot.L", "foot.R")]
    ball = g.NoCollision(obstacles=g.Sphere((-0.27, 1.12, 0.22), 0.10))
    goals = [*feet, g.Posture(), g.Position("hand.R", place), ball]
    result = ps.solve(human, goals, natural=False)
    assert result.ok
    assert result.iterations < 80
    energy = ps.Problem(human, goals).evaluate
    longer = ps.solve(human, goals, natural=False, max_iterations=2000)
    assert energy(result.pose)[0] <= 1.0001 * energy(longer.pose)[0]


def test_links_whose_collision_meshes_are_missing_are_reported():
    link = '<link name="{0}"><collision><geometry>{1}</geometry></collision></link>'
    hinge = '<joint name="{0}_{1}" type="revolute"><parent link="{0}"/><child link="{1}"/><axis xyz="0 0 1"/>'
    hinge += '<origin xyz="1 0 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>'
    joints = hinge.format("a", "b") + hinge.format("b", "c")
    for kind, others in (("box", '<box size="1 1 1"/>'), ("mesh", '<mesh filename="gone.stl"/>')):
        text = "<robot name='r'>" + link.format("a", others) + link.format("b", others)
        arm = ps.load(
            text + link.format("c", '<mesh filename="gone.stl"/>') + joints + "</robot>", format="urdf"
        ).skeleton
        if kind == "box":
            with pytest.warns(PosableWarning, match="collision meshes of 1 of 3 links were not opened"):
                ps.solve(arm, [ps.goals.NoCollision()])
        else:
            with pytest.raises(GoalError, match="collision meshes of 3 of 3 links were not opened"):
                ps.solve(arm, [ps.goals.NoCollision()])
