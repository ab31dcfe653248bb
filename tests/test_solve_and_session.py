"""`solve` and `Session`: shared packed constants, rejected magnitudes, time limits, Control-C."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import posable as ps
from posable.engine import jit
from posable.engine.layout import MAX_MAGNITUDE
from posable.errors import GoalError, SolverError, UnknownName
from posable.solvers.base import CompiledSolver, SolveOptions
from posable.solvers.result import judge_again

g = ps.goals


@pytest.fixture(scope="module")
def panda():
    return ps.figures.panda()


def transforms(skeleton, count, seed=0):
    rng = np.random.default_rng(seed)
    return ps.forward(skeleton, rng.uniform(skeleton.lower, skeleton.upper, (count, skeleton.size))).matrix("tcp")


def at(*place):
    out = np.eye(4)
    out[:3, 3] = place
    return out


# --- Moves and shared constants ---


def test_one_call_moves_several_goals_and_solves(panda):
    place, turn = transforms(panda, 2)[0][:3, 3], transforms(panda, 2)[0][:3, :3]
    session = ps.Session(panda, [g.Position("tcp", (0.4, 0, 0.4)), g.Orientation("hand", np.eye(3))], restarts=20)
    result = session.solve({"tcp": place, "hand": turn})
    assert result.ok
    assert np.linalg.norm(ps.forward(panda, result.pose).position("tcp") - place) < 1e-4
    assert np.array_equal(session.goals[0].target, place)
    assert np.array_equal(session.goals[1].target, turn)


def test_a_wrong_target_moves_none(panda):
    first, second = transforms(panda, 2)
    session = ps.Session(panda, [g.Pose("tcp", first), g.Position("flange", (0, 0, 0), weight=0.0)])
    for wrong, error in (({"tcp": second, "flange": (0, 0)}, GoalError), ({"tcp": second, "flangee": 0}, UnknownName)):
        with pytest.raises(error):
            session.solve(wrong)
        assert np.array_equal(session.goals[0].target, first)
        assert np.array_equal(session.problem.targets, ps.Problem(panda, session.goals).targets)


@pytest.mark.parametrize("wrong", [np.full((4, 4), np.nan), 2.0 * np.eye(4), np.diag([1.0, 1.0, -1.0, 1.0])])
def test_a_move_to_what_is_not_a_transform_is_refused(panda, wrong):
    session = ps.Session(panda, g.Pose("tcp", np.eye(4)))
    with pytest.raises(GoalError):
        session.move("tcp", wrong)
    assert np.array_equal(session.goals[0].target, np.eye(4))


def test_targets_given_in_any_form_are_the_same(panda):
    from scipy.spatial.transform import RigidTransform

    matrix = transforms(panda, 1)[0]
    forms = [matrix, matrix.tolist(), RigidTransform.from_matrix(matrix), np.asfortranarray(matrix)]
    packed = []
    for form in forms:
        session = ps.Session(panda, g.Pose("tcp", np.eye(4)))
        session.move("tcp", form)
        packed.append(session.problem.targets)
    assert all(np.allclose(one, packed[0], atol=1e-15) for one in packed)


def test_problems_share_constants_and_not_their_switches(panda):
    first, second = transforms(panda, 2)
    one = ps.Session(panda, [g.Pose("tcp", first), g.Position("flange", (0.3, 0, 0.5))])
    other = ps.Session(panda, [g.Pose("tcp", second), g.Position("flange", (0.2, 0, 0.5))])
    assert one.problem.kind is other.problem.kind
    one.enable("tcp", False)
    fresh = ps.Problem(panda, other.goals)
    assert (one.problem.constants != other.problem.constants).any()
    assert np.array_equal(other.problem.constants, fresh.constants)
    assert np.array_equal(other.problem.targets, fresh.targets)


@pytest.mark.parametrize("change", [{"weight": 2.0}, {"tolerance": (1e-2, 1e-2)}, {"robust": 0.1}, {"label": "x"}])
def test_goals_that_differ_do_not_share(panda, change):
    plain, other = (ps.Problem(panda, g.Pose("tcp", np.eye(4), **options)) for options in ({}, change))
    assert plain.kind is not other.kind
    again = ps.Problem(panda, g.Pose("tcp", transforms(panda, 1)[0], **change))
    assert np.array_equal(again.tolerances, other.tolerances)
    assert again.labels == other.labels


def test_a_batch_packs_what_single_problems_pack(panda):
    targets = transforms(panda, 6).reshape(2, 3, 4, 4)
    place = np.array([0.3, 0.1, 0.5])
    batch = ps.Problem(panda, [g.Pose("tcp", targets), g.Position("flange", place)])
    assert batch.batch_shape == (2, 3)
    for k, target in enumerate(targets.reshape(6, 4, 4)):
        alone = ps.Problem(panda, [g.Pose("tcp", target), g.Position("flange", place)])
        assert np.array_equal(batch.targets[k], alone.targets[0])


def test_a_bad_target_in_a_batch_is_found(panda):
    targets = transforms(panda, 5000)
    targets[4321, 0, 0] += 1e-3
    with pytest.raises(GoalError, match="a rotation"):
        g.Pose("tcp", targets)
    targets[4321, 0, 0] = np.nan
    with pytest.raises(GoalError, match="finite"):
        g.Pose("tcp", targets)


# --- Magnitudes ---


@pytest.mark.parametrize(
    "make",
    [
        lambda: g.Position("tcp", (1e155, 0.0, 0.0)),
        lambda: g.Position("tcp", np.full((3, 3), 2.0 * MAX_MAGNITUDE)),
        lambda: g.Position("tcp", (0.0, 0.0, 0.0), weight=1e300),
        lambda: g.Position("tcp", (0.0, 0.0, 0.0), weight=(1.7e308, 0.0, 1.0)),
        lambda: g.Position("tcp", (0.0, 0.0, 0.0), weight=1e200 * np.eye(3)),
        lambda: g.Weighted([g.Position("tcp", (0.0, 0.0, 0.0))], 1e200 * np.eye(3)),
        lambda: g.Position("tcp", (0.0, 0.0, 0.0), robust=1e300),
        lambda: g.Coupling("panda_joint1", "panda_joint2", ratio=1e300),
        lambda: g.Avoid("hand", g.Sphere((1e200, 0.0, 0.0), 0.1)),
    ],
)
def test_numbers_that_would_overflow_are_refused_with_their_range(make):
    with pytest.raises(GoalError, match=r"1e\+30"):
        make()


def test_an_energy_that_would_overflow_is_refused(panda):
    steep = g.Custom(lambda points, directions: 1e308 * points["tcp"][0], points=["tcp"])
    with pytest.raises(GoalError, match=r"1e\+60"):
        ps.solve(panda, steep)


def test_a_start_that_would_overflow_is_refused(panda):
    with pytest.raises(SolverError, match=r"1e\+30.*panda_joint1"):
        ps.solve(panda, g.Position("tcp", (0.4, 0.0, 0.4)), start=np.full(7, 1.5e154), limits=False)


@pytest.mark.parametrize("solver", ["newton", "dls", "ccd"])
def test_the_largest_numbers_give_a_finite_pose_within_limits(panda, solver):
    far = ps.solve(panda, g.Position("tcp", (0.9 * MAX_MAGNITUDE, 0.0, 0.0), weight=0.9 * MAX_MAGNITUDE), solver=solver)
    assert far.status == ps.Status.OUT_OF_REACH
    assert np.isfinite(far.pose).all()
    assert ((far.pose >= panda.lower) & (far.pose <= panda.upper)).all()


def test_slides_with_limits_too_large_to_be_squared_have_a_status():
    slide = ps.Skeleton([ps.Joint("slide", ps.Prismatic("x"), limits=(-1.8e307, 1.8e307))], [ps.Site("tip", "slide")])
    far = ps.solve(slide, g.Position("tip", (1e20, 1.0, 0.0)))
    assert far.status == ps.Status.STUCK
    assert np.isfinite(far.pose).all()


def test_the_verdict_never_takes_nan_for_reached(panda):
    problem = ps.Problem(panda, g.Position("tcp", (0.4, 0.0, 0.4)))
    poses = np.full((2, 7), np.nan)
    poses[1] = 1e200  # forward kinematics at such an angle is still a number; the limits are not held
    free = np.full(7, np.inf)
    assert judge_again(problem, poses, SolveOptions(poses, -free, free)).tolist()[0] is False
    assert not judge_again(problem, poses, SolveOptions(poses, panda.lower, panda.upper)).any()


# --- Time ---


def test_a_batch_obeys_its_time_limit(panda):
    goal = g.Pose("tcp", transforms(panda, 4000))
    ps.solve(panda, g.Pose("tcp", transforms(panda, 40)), restarts=5, time_limit=10.0)
    begin = time.perf_counter()
    result = ps.solve(panda, goal, restarts=10**6, time_limit=0.1)
    assert time.perf_counter() - begin < 2.0
    assert (result.status == ps.Status.OUT_OF_TIME).any()
    assert np.isfinite(result.pose).all()
    assert ((result.pose >= panda.lower) & (result.pose <= panda.upper)).all()


def test_a_choice_obeys_its_time_limit(panda):
    far = [g.Pose("tcp", at(0.6 + 0.01 * k, 0.6, 0.6)) for k in range(8)]
    ps.solve(panda, g.AnyOf(far), time_limit=0.01)
    begin = time.perf_counter()
    ps.solve(panda, g.AnyOf(far), restarts=10**6, time_limit=0.1)
    assert time.perf_counter() - begin < 1.5


LIMIT, LATE = 0.1, 0.6  # [s] of processor time, which a busy machine does not lengthen; seconds without the checks


def processor_time(call):
    begin = time.process_time()
    result = call()
    return result, time.process_time() - begin


def out_of_time_inside_the_limits(result, skeleton):
    assert np.any(np.asarray(result.status) == ps.Status.OUT_OF_TIME)
    assert np.isfinite(result.pose).all()
    assert ((result.pose >= skeleton.lower) & (result.pose <= skeleton.upper)).all()
    assert all(np.isfinite(errors).all() for errors in result.errors.values())


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("solver", ["trust-region", "sqp", "rate", "bfgs"])
def test_a_step_on_many_dofs_obeys_the_time_limit(solver, record):
    """The eigenvalues of one step of the trust region take seconds."""
    arm = ps.figures.planar_arm([0.01] * 500)
    goal = g.Position("tip", (2.0, -2.0, 0.0))
    start = np.random.default_rng(0).uniform(-0.1, 0.1, arm.size)
    ps.solve(arm, goal, solver=solver, start=start, max_iterations=1, record=record, time_limit=20.0)
    options = {"solver": solver, "start": start, "time_limit": LIMIT, "restarts": 1000, "record": record}
    result, seconds = processor_time(lambda: ps.solve(arm, goal, **options))
    assert seconds < LIMIT + LATE
    if not result.ok:
        out_of_time_inside_the_limits(result, arm)


def test_compiling_does_not_count_for_the_time_limit(panda, monkeypatch):
    enter, seconds = CompiledSolver._enter, 4.0

    def compile_and_enter(*arguments):
        with jit._preparing():
            time.sleep(seconds)
        monkeypatch.undo()
        enter(*arguments)

    goal = g.Position("tcp", [(0.4, 0.0, 0.4), (0.5, 0.0, 0.4)])
    ps.solve(panda, goal, time_limit=10.0)
    monkeypatch.setattr(CompiledSolver, "_enter", compile_and_enter)
    result = ps.solve(panda, goal, time_limit=0.75 * seconds)
    assert result.ok.all()
    assert result.seconds < seconds


def test_threads_share_the_clock_of_their_caller(monkeypatch):
    monkeypatch.setattr(jit._preparation, "seconds", 1e4, raising=False)
    barrier, clocks = threading.Barrier(2), []

    def work(piece):
        barrier.wait(60.0)  # both threads are at work
        clocks.append(jit.solving_time())

    jit.run_chunks(work, 2, 1, threads=2)
    assert abs(clocks[0] - clocks[1]) < 1e3


def test_an_endless_time_limit_is_none():
    arm = ps.figures.planar_arm([0.1] * 80)
    goal = g.Position("tip", (3.0, 3.0, 0.0))
    options = {"solver": "trust-region", "max_iterations": 3}
    pose = ps.solve(arm, goal, **options).pose
    assert np.array_equal(ps.solve(arm, goal, time_limit=np.inf, **options).pose, pose)


def levels(points):
    return [g.Position("tcp", points), g.Posture(priority=1), g.Position("panda_joint4", points, priority=2)]


def choices(points):
    return [g.AnyOf([g.Position("tcp", points + 0.3 * k) for k in range(4)])]


def models(points):
    points = points[:1000]  # the errors of every answer call the energy
    return [g.Custom(lambda p, d: p["panda_joint4"][2] ** 2, points=["panda_joint4"]), g.Position("tcp", points)]


@pytest.mark.parametrize("solver", ["newton", "sqp"])
@pytest.mark.parametrize("goals", [levels, choices, models])
def test_a_batch_that_takes_several_runs_obeys_its_time_limit(panda, goals, solver):
    points = np.random.default_rng(0).uniform(-0.8, 0.8, (10_000, 3))
    ps.solve(panda, goals(points[:3]), solver=solver, time_limit=10.0)
    options = {"solver": solver, "time_limit": LIMIT, "restarts": 5, "threads": 1}
    result, seconds = processor_time(lambda: ps.solve(panda, goals(points), **options))
    assert seconds < LIMIT + LATE
    out_of_time_inside_the_limits(result, panda)


def test_a_batch_of_people_and_their_random_starts_obey_the_time_limit():
    human = ps.figures.human()
    points = np.random.default_rng(0).uniform(-0.8, 0.8, (20_000, 3))
    ps.solve(human, g.Position("hand.R", points[:3]), restarts="auto", time_limit=10.0)
    options = {"time_limit": LIMIT, "restarts": "auto", "threads": 1}
    result, seconds = processor_time(lambda: ps.solve(human, g.Position("hand.R", points), **options))
    assert seconds < LIMIT + LATE
    out_of_time_inside_the_limits(result, human)


def test_in_slices_the_answer_has_the_same_bits(panda):
    goal = g.Pose("tcp", transforms(panda, 30, seed=3))
    whole = ps.solve(panda, goal, restarts=5)
    sliced = ps.solve(panda, goal, restarts=5, time_limit=1e6)
    assert np.array_equal(whole.pose, sliced.pose)
    assert np.array_equal(whole.iterations, sliced.iterations)


FOREVER = """
import signal
import numpy as np, posable as ps
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored
panda = ps.figures.panda()
far = np.tile((3.0, 0.0, 0.0), (COUNT, 1))
ps.solve(panda, ps.goals.Position("tcp", far[:20]), max_iterations=3)
print("ready", flush=True)
ps.solve(panda, ps.goals.Position("tcp", far), restarts=RESTARTS)
"""

FOREVER_WITH_MANY_DOFS = """
import signal
import posable as ps
from posable.engine import jit
signal.signal(signal.SIGINT, signal.default_int_handler)
arm, goal = ps.figures.planar_arm([0.01] * 300), ps.goals.Position("tip", (-2.0, 2.0, 0.0))
ps.solve(arm, goal, solver="trust-region", max_iterations=1)
print("ready", flush=True)
while True:
    ps.solve(arm, goal, solver="trust-region")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(
    "script",
    [
        FOREVER.replace("COUNT", count).replace("RESTARTS", restarts)
        for count, restarts in (("1", "10**7"), ("200", "10**7"), ("100_000", "50"))
    ]
    + [FOREVER_WITH_MANY_DOFS],
    ids=["one", "some", "many", "many dofs"],
)
def test_control_c_ends_a_solve(script):
    running = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.5)
    begin = time.perf_counter()
    running.send_signal(signal.SIGINT)
    try:
        _, stderr = running.communicate(timeout=60)
    finally:
        running.kill()
    assert "KeyboardInterrupt" in stderr
    assert time.perf_counter() - begin < 10.0


ONE_STEP = """
import os, signal, threading, time
import posable as ps
signal.signal(signal.SIGINT, signal.default_int_handler)
arm, goal = ps.figures.planar_arm([0.01] * 700), ps.goals.Position("tip", (-2.0, 2.0, 0.0))
ps.solve(arm, goal, solver="trust-region", max_iterations=0)
pressed = []
def press():
    pressed.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.5, press).start()
try:
    ps.solve(arm, goal, solver="trust-region")
except KeyboardInterrupt:
    print(time.process_time() - pressed[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_control_c_does_not_wait_for_a_step_of_seconds():
    done = subprocess.run([sys.executable, "-c", ONE_STEP], capture_output=True, text=True, check=True)
    assert float(done.stdout.splitlines()[-1]) < 1.0  # [s]; a step of 700 degrees of freedom takes several


# --- Words ---


def test_stuck_mentions_restarts():
    limb = ps.figures.limb()
    stuck = next(
        result
        for target in np.random.default_rng(0).normal(0.0, 0.15, (50, 3))
        if (result := ps.solve(limb, g.Position("hand", target))).status == ps.Status.STUCK
    )
    assert "restarts=30" in stuck.message
    assert "restarts=30" in str(stuck)


def test_out_of_reach_of_a_choice_needs_every_member_out_of_reach(panda):
    far, near = g.Position("tcp", (9.0, 0.0, 0.0)), g.Position("tcp", transforms(panda, 1)[0][:3, 3])
    stuck_at = g.Pose("tcp", at(0.0, 0.0, -0.6))
    assert ps.solve(panda, g.AnyOf([far, g.Position("tcp", (0.0, 9.0, 0.0))])).status == ps.Status.OUT_OF_REACH
    assert ps.solve(panda, g.AnyOf([far, near]), restarts=5).ok
    missed = ps.solve(panda, g.AnyOf([far, stuck_at]))
    assert missed.status != ps.Status.OUT_OF_REACH


def test_a_solve_loads_few_modules():
    script = (
        "import sys, posable as ps\n"
        "ps.solve(ps.figures.human(), ps.goals.Position('hand.R', (0.4, 1.2, 0.3)))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('posable.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    packages = {name.rpartition(".")[0] for name in loaded}
    modules = [name for name in loaded if name not in packages]
    assert len(modules) <= 42, modules  # least change and collision bring seven of them
    assert not any(name.startswith(("posable.mocap", "posable.formats", "posable.gpu")) for name in loaded)


def test_the_verdict_of_the_loop_is_that_of_a_fresh_evaluation(panda):
    rng = np.random.default_rng(8)
    targets = rng.uniform(-1.2, 1.2, (40, 3))  # some within reach, some not
    result = ps.solve(panda, ps.goals.Position("hand", targets))
    assert result.outcome.good is not None
    anew = judge_again(result.problem, result.outcome.poses, result.options)
    assert np.array_equal(result.ok, anew)
    assert 0 < anew.sum() < 40


def test_a_loop_without_couplings_answers_with_the_same_bits(panda, monkeypatch):
    targets = np.random.default_rng(9).uniform((-0.5, -0.5, -0.1), (0.5, 0.5, 0.9), (8, 3))
    goals = [ps.goals.Position("hand", targets), ps.goals.Direction("hand", "z", (0.0, 0.0, -1.0))]
    lean = ps.solve(panda, goals)
    monkeypatch.setattr(type(lean.problem), "fitted", lambda problem, loop: loop)
    whole = ps.solve(panda, goals)
    assert lean.pose.tobytes() == whole.pose.tobytes()
    assert lean.iterations.tolist() == whole.iterations.tolist()
