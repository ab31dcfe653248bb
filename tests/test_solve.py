"""`solve`: every kind of call has a defined result, and a wrong call states what was expected."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError, UnknownName

g = ps.goals


@pytest.fixture(scope="module")
def limb():
    return ps.figures.limb()


def test_no_goals_returns_the_projected_start(limb):
    result = ps.solve(limb, [], start=limb.upper + 1.0)
    assert result.ok
    assert np.array_equal(result.pose, limb.upper)


def test_batches_of_targets_and_starts(limb):
    targets = ps.forward(limb, np.zeros((4, 3, 7)) + limb.rest).position("hand") + np.linspace(0, 0.05, 12).reshape(
        4, 3, 1
    )
    result = ps.solve(limb, g.Position("hand", targets))
    assert result.pose.shape == (4, 3, 7)
    assert result.ok.shape == (4, 3)
    assert result.status.shape == (4, 3)
    assert result.errors["hand"].shape == (4, 3)
    assert (result.status == ps.Status.REACHED).all()
    starts = np.zeros((5, 1, 1, 7)) + limb.rest
    assert ps.solve(limb, g.Position("hand", targets), start=starts).pose.shape == (5, 4, 3, 7)
    one = ps.solve(limb, g.Position("hand", targets[0, 0]), start=np.zeros((6, 7)))
    assert one.pose.shape == (6, 7)


@pytest.mark.parametrize("solver", ps.solvers.names())
def test_a_batch_of_nothing(limb, solver):
    for figure in (limb, limb.freeze(["elbow"])):
        result = ps.solve(figure, ps.goals.Position("hand", np.zeros((0, 3))), solver=solver)
        assert result.pose.shape == (0, limb.size)
        assert result.ok.shape == result.status.shape == result.errors["hand"].shape == (0,)


def test_frozen_joints_keep_their_start(limb):
    start = limb.rest.copy()
    start[limb.index("elbow")] = 0.7
    result = ps.solve(limb.freeze("elbow"), g.Position("hand", (0.3, 0.2, 0.1)), start=start)
    assert result.pose[limb.index("elbow")] == 0.7


def test_a_wholly_frozen_or_fixed_figure_answers(limb):
    held = limb.freeze(limb.names)
    result = ps.solve(held, g.Position("hand", (0.3, 0.2, 0.1)))
    assert not result.ok
    assert np.array_equal(result.pose, held.rest)
    statue = ps.Skeleton([ps.Joint("stone", ps.Fixed())], [ps.Site("top", "stone", (0, 1, 0))])
    assert ps.solve(statue, g.Position("top", (0, 1, 0))).ok
    assert not ps.solve(statue, g.Position("top", (0, 2, 0))).ok


def test_zero_weights_huge_targets_and_equal_limits(limb):
    idle = ps.solve(limb, g.Position("hand", (9, 9, 9), weight=0.0))
    assert np.isfinite(idle.pose).all()
    huge = ps.solve(limb, g.Position("hand", (1e12, 0, 0)))
    assert huge.status == ps.Status.OUT_OF_REACH
    assert np.all((huge.pose >= limb.lower) & (huge.pose <= limb.upper))
    pinned = limb.with_limits({"elbow": (1.0, 1.0)})
    assert ps.solve(pinned, g.Position("hand", (0.3, 0.2, 0.1))).pose[limb.index("elbow")] == 1.0


def test_a_batch_of_nothing_leaves_the_next_solve_alone():
    limb = ps.figures.limb()
    assert ps.solve(limb, g.Position("hand", np.zeros((0, 3)))).pose.shape == (0, limb.size)
    assert ps.solve(limb, g.Position("hand", (0.3, 0.2, 0.1))).ok


def test_limits_off_may_leave_the_box(limb):
    target = ps.forward(limb, limb.upper + 0.3).matrix("hand")
    assert ps.solve(limb, g.Pose("hand", target), limits=False, restarts=5).ok


def test_time_and_iterations_run_out(limb):
    goal = g.Position("hand", (0.0, 0.0, 5.0))
    tight = ps.solve(limb, g.Pose("hand", ps.forward(limb, limb.upper).matrix("hand")), max_iterations=1)
    assert tight.iterations <= 1
    assert tight.status in (ps.Status.OUT_OF_ITERATIONS, ps.Status.REACHED)
    late = ps.solve(limb, goal, time_limit=0.0, restarts=1000)
    assert late.seconds < 1.0
    assert not late.ok


def test_a_start_of_huge_numbers_is_put_into_the_limits(limb):
    result = ps.solve(limb, g.Position("hand", (0.3, 0.2, 0.1)), start=np.full(limb.size, 1e308))
    assert np.isfinite(result.pose).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": [0.0, 1.0]}, "shape"),
        ({"start": [np.nan] * 7}, "finite"),
        ({"start": [np.inf, -np.inf, 0.0, 0.0, 0.0, 0.0, 0.0]}, "finite numbers, got inf"),
        ({"restarts": -1}, "restarts"),
        ({"max_iterations": 2.5}, "max_iterations"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"device": "tpu"}, "device"),
        ({"seed": 1.5}, "seed"),
        ({"solver": 3}, "solver"),
    ],
)
def test_wrong_calls_say_what_was_expected(limb, options, words):
    with pytest.raises(SolverError, match=words) as error:
        ps.solve(limb, g.Position("hand", (0.3, 0.2, 0.1)), **options)
    assert "expected" in str(error.value)


def test_unknown_names_suggest_the_nearest(limb):
    with pytest.raises(UnknownName, match="newton"):
        ps.solve(limb, [], solver="newtom")
    with pytest.raises(UnknownName, match="hand"):
        ps.solve(limb, g.Position("hamd", (0, 0, 0)))


def test_session_follows_a_moving_target(limb):
    session = ps.Session(limb, g.Position("hand", (0.4, 0.1, 0.0)))
    for t in np.linspace(0, 2 * np.pi, 50):
        target = np.array([0.35 + 0.1 * np.cos(t), 0.1 * np.sin(t), 0.1])
        session.move("hand", target)
        result = session.solve()
        assert result.ok
        assert np.linalg.norm(ps.forward(limb, result.pose).position("hand") - target) <= 1e-4
    with pytest.raises(UnknownName, match="hand"):
        session.move("hnad", (0, 0, 0))


def test_a_trace_has_a_row_for_every_iteration(limb):
    result = ps.solve(limb, g.Position("hand", (0.1, 0.3, 0.1)), record=True)
    rows = result.iterations
    assert rows > 0
    for name in ("energy", "gradient", "step", "damping", "active", "evaluations", "seconds"):
        assert len(result.trace[name]) == rows
    assert np.all(np.diff(result.trace["energy"]) <= 0)
    assert np.array_equal(result.pose, ps.solve(limb, g.Position("hand", (0.1, 0.3, 0.1))).pose)


def test_an_answer_stays_as_it_was_when_the_session_goes_on(limb):
    session = ps.Session(limb, g.Position("hand", (-0.6, 0.0, 0.0)))
    first = session.solve()
    session.move("hand", (3.0, 0.0, 0.0))
    far = session.solve()
    session.move("hand", (0.3, 0.1, 0.2))
    assert first.status == ps.Status.STUCK
    assert first.blocking
    assert far.status == ps.Status.OUT_OF_REACH
    with pytest.raises(ps.PosableError, match="one pose"):
        session.move("hand", np.ones((2, 3)))
    assert session.solve().ok


def test_a_slide_without_limits_goes_as_far_as_it_must():
    slider = ps.Skeleton([ps.Joint("rail", ps.Prismatic("z"))])
    for distance in (300.0, 1e6):
        assert ps.solve(slider, g.Position("rail", (0.0, 0.0, distance))).ok


def test_things_that_are_no_figures_goals_or_weights_are_refused(limb):
    with pytest.raises(ps.PosableError, match="Skeleton"):
        ps.solve("limb", [])
    with pytest.raises(ps.PosableError, match="goal"):
        ps.solve(limb, None)
    with pytest.raises(ps.PosableError, match="finite"):
        g.Position("hand", (0, 0, 0), weight=np.inf)
    with pytest.raises(ps.PosableError, match="Joint"):
        ps.Skeleton(["a"])
    with pytest.raises(ps.PosableError, match="none"):
        ps.from_dh([])


def test_a_default_posture_leaves_reachable_goals_reached(limb):
    assert ps.solve(limb, [g.Position("hand", (0.3, 0.1, 0.2)), g.Posture()]).ok


def test_explanations_and_residuals_are_of_one_pose(limb):
    two = g.Position("hand", [(0.3, 0.1, 0.2), (3.0, 0.0, 0.0)])
    for call in (lambda: ps.explain(limb, two, limb.rest), lambda: ps.Problem(limb, two).residuals(limb.rest)):
        with pytest.raises(ps.PosableError, match="one pose"):
            call()
    one = g.Position("hand", (0.3, 0.1, 0.2))
    with pytest.raises(ps.PosableError, match="one pose"):
        ps.explain(limb, one, np.zeros((2, 7)))
    with pytest.raises(ps.PosableError, match="finite"):
        ps.explain(limb, one, np.full(7, np.nan))


@pytest.mark.parametrize("solver", ["newton", "dls"])
def test_a_batch_may_have_different_values_of_frozen_joints(solver):
    """Every row keeps its own values, and is what it would be alone."""
    human = ps.figures.human().freeze(["spine1", "elbow.L"])
    rng = np.random.default_rng(3)
    starts = np.repeat(human.rest[None], 6, axis=0)
    for joint in ("spine1", "elbow.L"):
        where = human.index(joint)
        starts[:, where] = rng.uniform(human.lower[where], human.upper[where], (6, where.stop - where.start))
    starts[4] = starts[1]  # two of a kind
    places = ps.forward(human, starts).position("hand.R") + rng.uniform(-0.1, 0.1, (6, 3))
    batch = ps.solve(human, ps.goals.Position("hand.R", places), start=starts, solver=solver)
    assert batch.ok.all()
    for k in range(6):
        alone = ps.solve(human, ps.goals.Position("hand.R", places[k]), start=starts[k], solver=solver)
        assert (batch.pose[k] == alone.pose).all()
        for joint in ("spine1", "elbow.L"):
            assert (batch.pose[k][human.index(joint)] == starts[k][human.index(joint)]).all()


@pytest.mark.parametrize("kind", ["priorities", "choice", "auto"])
def test_frozen_values_may_differ_with_priorities_choices_and_automatic_restarts(kind):
    human = ps.figures.human().freeze(["spine1"])
    where, rng = human.index("spine1"), np.random.default_rng(4)
    starts = np.repeat(human.rest[None], 4, axis=0)
    starts[:, where] = rng.uniform(human.lower[where], human.upper[where], (4, where.stop - where.start))
    starts[3] = starts[0]
    places = ps.forward(human, starts).position("hand.R") + rng.uniform(-0.1, 0.1, (4, 3))
    far = places + np.array([[0.0], [0.0], [4.0], [0.0]])
    options = {"restarts": "auto"} if kind == "auto" else {}

    def goals(rows):
        if kind == "priorities":
            return [g.Position("pelvis", (0.0, 0.95, 0.0)), g.Position("hand.R", places[rows], priority=1)]
        if kind == "choice":
            return [g.AnyOf([g.Position("hand.R", far[rows]), g.Position("hand.L", places[rows] * (-1, 1, 1))])]
        return [g.Position("hand.R", far[rows]), g.Position("foot.L", (0.1, 0.08, 0.0))]

    batch = ps.solve(human, goals(slice(None)), start=starts, **options)
    for k in range(4):
        alone = ps.solve(human, goals(k), start=starts[k], **options)
        assert np.allclose(batch.pose[k], alone.pose, atol=1e-9)
        assert bool(batch.ok[k]) == alone.ok
        assert (batch.pose[k][where] == starts[k][where]).all()
        if kind == "choice":
            assert next(iter(batch.chosen.values()))[k] == next(iter(alone.chosen.values()))
