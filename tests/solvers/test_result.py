"""The answer: what blocks is checked by relaxing the limit, out of reach only with a proof, readable text."""

import numpy as np
import pytest

import posable as ps

g = ps.goals


@pytest.fixture(scope="module")
def stuck():
    """An arm whose elbow's limit keeps it from a target within its length."""
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (0.0, 1.0)})
    goal = g.Position("tip", (0.5, 1.2, 0.0))
    return arm, goal, ps.solve(arm, goal)


def test_a_miss_says_which_limit_is_in_the_way(stuck):
    arm, _, result = stuck
    assert not result.ok
    assert result.status == ps.Status.STUCK
    assert {block.dof for block in result.blocking} == {"joint1", "joint2"}
    assert all(block.side == "upper" and block.multiplier > 0 for block in result.blocking)
    assert inside(arm, result.pose)


def inside(skeleton, pose):
    return np.all(pose >= skeleton.lower - 1e-9) and np.all(pose <= skeleton.upper + 1e-9)


def test_costs_are_what_relaxing_the_limit_gains(stuck):
    arm, goal, result = stuck
    step = 1e-4
    for block in result.blocking:
        lower, upper = arm.joint(block.dof).limits
        relaxed = arm.with_limits({block.dof: (lower, upper + step)})
        again = ps.solve(relaxed, goal, start=result.pose)
        gained = (result.errors["tip"] - again.errors["tip"]) / step
        assert gained == pytest.approx(block.cost["tip"], rel=1e-2)
        fall = (ps.Problem(arm, goal).energy(result.pose) - ps.Problem(relaxed, goal).energy(again.pose)) / step
        assert fall == pytest.approx(block.multiplier, rel=1e-2)


def test_costs_of_a_human_are_what_relaxing_gains():
    human = ps.figures.human()
    feet = [g.Position(s, ps.forward(human, human.rest).position(s), weight=10) for s in ("foot.L", "foot.R", "pelvis")]
    goals = [*feet, g.Position("hand.R", (-0.2, 1.2, -1.6))]
    result = ps.solve(human, goals, max_iterations=2000)
    assert not result.ok
    block = result.blocking[0]
    dof = human.dof(block.dof)
    joint = next(j for j, where in zip(human.joints, human.slices, strict=True) if where.start <= dof < where.stop)
    box = np.array(joint.limits, dtype=float).reshape(-1, 2)
    row = dof - human.index(joint.name).start
    step = 1e-4
    box[row, 0 if block.side == "lower" else 1] += -step if block.side == "lower" else step
    again = ps.solve(human.with_limits({joint.name: box}), goals, start=result.pose, max_iterations=2000)
    problem = ps.Problem(human, goals)
    fall = (problem.energy(result.pose) - problem.energy(again.pose)) / step
    assert fall == pytest.approx(block.multiplier, rel=0.05)


def test_out_of_reach_is_proved():
    limb = ps.figures.limb()
    far = ps.solve(limb, g.Position("hand", (0.0, 0.0, 3.0)))
    assert far.status == ps.Status.OUT_OF_REACH
    assert "long" in far.message
    near = ps.solve(limb, g.Position("hand", (0.0, 0.0, 0.02)))
    assert near.status in (ps.Status.REACHED, ps.Status.STUCK)


def test_text_reads_well(stuck):
    _, _, result = stuck
    text = str(result)
    assert "STUCK" in text
    assert "missed by" in text
    assert "Blocking limits" in text
    assert "joint2 is at its upper limit" in text
    batch = ps.solve(ps.figures.limb(), g.Position("hand", [(0.3, 0.1, 0.0), (0.0, 0.0, 9.0)]))
    assert "1 of 2 reached" in str(batch)


def test_blocking_is_empty_where_all_is_well():
    result = ps.solve(ps.figures.limb(), g.Position("hand", (0.4, 0.1, 0.0)))
    assert result.ok
    assert result.blocking == []
    assert result.trace is None


def test_a_batch_of_two_axes_keeps_its_shape(stuck):
    arm, goal, alone = stuck
    targets = np.tile([0.5, 1.2, 0.0], (2, 3, 1))
    targets[1, 2] = (1.9, 0.1, 0.0)
    result = ps.solve(arm, goal.moved(targets), record=True)
    assert [len(row) for row in result.blocking] == [3, 3]
    assert [len(row) for row in result.trace] == [3, 3]
    assert result.blocking[1][2] == []
    assert result.blocking[1][1] == alone.blocking
    assert len(result.trace[1][2]["energy"]) == result.iterations[1, 2]


@pytest.mark.parametrize("solver", ["newton", "dls", "bfgs"])
def test_no_time_is_no_iteration(solver):
    goal = g.Position("hand", [(0.3, 0.1, 0.0), (0.2, 0.2, 0.1)])
    result = ps.solve(ps.figures.limb(), goal, solver=solver, time_limit=0.0)
    assert result.iterations.tolist() == [0, 0]
    assert result.status.tolist() == ["OUT_OF_TIME"] * 2
    assert np.array_equal(result.pose[0], ps.figures.limb().rest)


def test_an_option_that_a_solver_does_not_have_suggests():
    with pytest.raises(ps.PosableError, match="unknown option of dls 'dampng', did you mean 'damping'"):
        ps.solvers.get("dls")(dampng=0.1)
    assert ps.solvers.get("dls")(damping=0.1).damping == 0.1


def test_a_closed_form_has_a_trace_without_rows():
    result = ps.solve(ps.figures.limb(), g.Position("hand", (0.3, 0.1, 0.0)), solver="limb", record=True)
    assert result.ok
    assert len(result.trace["energy"]) == result.iterations == 0


def test_a_block_says_what_would_help_in_words():
    """The sentence's numbers are the solution's: relaxing the limit by 5 degrees changes the error by what it says."""
    arm = ps.Skeleton(
        [
            ps.Joint("shoulder", ps.Revolute("z"), limits=(-0.5, 0.5)),
            ps.Joint("elbow", ps.Revolute("z"), "shoulder", offset=(1, 0, 0), limits=(-0.1, 0.3)),
        ],
        [ps.Site("hand", "elbow", (1, 0, 0))],
    )
    result = ps.solve(arm, ps.goals.Position("hand", (0.2, 1.2, 0.0)))
    text = str(result)
    assert "shoulder is at its upper limit (29°); 5° more would bring hand" in text
    block = next(block for block in result.blocking if block.dof == "shoulder")
    wider = ps.solve(arm.with_limits({"shoulder": (-0.5, 0.5 + np.radians(5.0))}), result.problem.goals)
    gained = result.errors["hand"] - wider.errors["hand"]
    assert np.radians(5.0) * block.cost["hand"] == pytest.approx(gained, rel=0.1)
    assert f"{1e3 * np.radians(5.0) * block.cost['hand']:.2g} mm closer" in text


def test_a_notebook_shows_a_picture_and_the_sentences(stuck):
    pytest.importorskip("matplotlib")
    arm, goal, result = stuck
    page = result._repr_html_()
    assert "data:image/png;base64,iVBOR" in page
    assert "is at its upper limit" in page
    named = g.Position("tip", (0.5, 1.2, 0.0), label="<script>alert(1)</script>")
    assert "<script>" not in ps.solve(arm, named)._repr_html_()
    batch = ps.solve(arm, goal.moved(np.tile(goal.target, (2, 1))))._repr_html_()
    assert "0 of 2 reached" in batch
    assert "png" not in batch
