"""Ranges, solutions, the circle, objectives and `solve` speak of one and the same thing; calls that make no sense."""

import numpy as np
import pytest
from scipy.optimize import minimize

import posable as ps

NAN = float("nan")


@pytest.fixture(scope="module")
def checks(benchmark_module):
    return benchmark_module("limb_checks")


@pytest.fixture
def limb():
    return ps.Limb(ps.figures.limb(), "shoulder", "elbow", "wrist", site="hand")


def test_ranges_agree_with_an_independent_brute_force(checks, capsys):
    assert checks.check_ranges(40, seed=21), capsys.readouterr().out


def test_random_goals_are_met(checks, capsys):
    assert checks.check(1000), capsys.readouterr().out


def places_that_move_the_wrist(make_case, balls, count):
    """Yield (case, place, base): the wrist as it is in base does not reach the place, another way to hold it does."""
    found = 0
    for seed in range(1000):
        case = make_case(seed, balls[seed % 14], balls[(5 * seed + 3) % 14], widest=1.6)
        pose, base = case.pose(), case.pose()
        base[: case.limb.columns[0]] = pose[: case.limb.columns[0]]
        place = case.hand(pose)[:3, 3]
        if "had to move" in case.limb.solve(place, base=base).message:
            yield case, place, base
            found += 1
            if found == count:
                return


def test_where_the_wrist_has_to_move_all_answers_agree(make_case, balls):
    for case, place, base in places_that_move_the_wrist(make_case, balls, 25):
        limb = case.limb
        plain = limb.solve(place, base=base)
        ranges = limb.swivel_ranges(place, base=base)
        wrist = plain.pose[limb.columns[4:]]
        assert any(plain.swivel in r or r.width < 1e-9 for r in ranges)
        for wish in (-2.0, 0.3, 1.7):
            solution = limb.solve(place, swivel=wish, base=base)
            assert solution.ok
            assert case.holds(solution.pose)
            assert np.abs(case.hand(solution.pose)[:3, 3] - place).max() < 1e-9
            assert np.array_equal(solution.pose[limb.columns[4:]], wrist)  # whatever is wished, the wrist is one
            gap = min(abs(np.sin(0.5 * (solution.swivel - end))) for r in ranges for end in r)
            assert gap < 1e-6 or any(solution.swivel in r for r in ranges)
            if any(wish in r for r in ranges):
                assert abs(np.sin(0.5 * (solution.swivel - wish))) < 1e-12
        for r in ranges:
            inside = [s for s in limb.solutions(place, 0.5 * (r[0] + r[1]), base=base) if s.clearance > -1e-9]
            assert inside
            assert all(np.abs(case.hand(s.pose)[:3, 3] - place).max() < 1e-9 for s in inside)
        circle = limb.elbow_circle(place, base=base)
        elbow = ps.forward(case.skeleton, plain.pose).position("elbow")
        assert np.abs(circle.point(plain.swivel) - elbow).max() < 1e-8


def test_ranges_of_a_moved_wrist_agree_with_brute_force(make_case, balls, checks):
    grid = np.linspace(-np.pi, np.pi, 720, endpoint=False) + 1e-4
    for case, place, base in places_that_move_the_wrist(make_case, balls, 12):
        held = base.copy()
        held[case.limb.columns[4:]] = case.limb.solve(place, base=base).pose[case.limb.columns[4:]]
        assert not len(checks.disagreements(case.limb, held, place, grid))
        assert case.limb.swivel_ranges(place, base=held) == case.limb.swivel_ranges(place, base=base)


def test_an_objective_counts_where_the_wrist_has_to_move(make_case, balls):
    for case, place, base in places_that_move_the_wrist(make_case, balls, 6):
        limb, columns = case.limb, case.limb.columns
        middle = 0.5 * (case.skeleton.lower[columns] + case.skeleton.upper[columns])

        def value(pose, columns=columns, middle=middle):
            return float(np.sum((pose[columns] - middle) ** 2))

        best = min(
            value(s.pose)
            for r in limb.swivel_ranges(place, base=base)
            for a in np.linspace(*r, 60)
            for s in limb.solutions(place, a, base=base)
            if s.ok
        )
        solution = limb.solve(place, objective=value, base=base)
        assert solution.ok
        assert case.holds(solution.pose)
        assert np.abs(case.hand(solution.pose)[:3, 3] - place).max() < 1e-9
        assert value(solution.pose) <= best + 1e-6


def test_without_limits_the_wrist_stays_as_it_is(limb):
    base = np.array([0.0, 0.5, 0.0, 0.8, 0.3, 2.0, -2.5])  # the wrist outside its limits
    solution = limb.solve((0.3, 0.1, 0.1), limits=False, base=base)
    assert solution.ok
    assert np.array_equal(solution.pose[4:], base[4:])
    turned = limb.solutions((0.3, 0.1, 0.1), solution.swivel, limits=False, base=base)
    assert any(np.abs(s.pose - solution.pose).max() < 1e-9 for s in turned)


@pytest.mark.parametrize("place", [(0.9, 0.0, 0.0), (0.0, 0.02, 0.01), (-0.6, 0.0, 0.1)])
def test_the_reach_in_a_message_is_the_true_one(limb, place):
    """Against the least and greatest distance of the hand from the shoulder that a general optimiser finds."""
    solution = limb.solve(place)
    assert not solution.ok
    skeleton, wanted = limb.skeleton, np.linalg.norm(place)
    bounds = list(zip(skeleton.lower, skeleton.upper, strict=True))
    starts = np.random.default_rng(0).uniform(skeleton.lower, skeleton.upper, (12, 7))

    def distance(pose):
        return float(np.linalg.norm(ps.forward(skeleton, pose).position("hand")))

    near = min(minimize(distance, x, bounds=bounds).fun for x in starts)
    far = -min(minimize(lambda pose: -distance(pose), x, bounds=bounds).fun for x in starts)
    if solution.status == "TOO_FAR":
        assert wanted > far
        assert f"at most {far:.4f} m" in solution.message
    elif solution.status == "TOO_NEAR":
        assert wanted < near
        assert f"no less than {near:.4f} m" in solution.message
    else:
        assert near < wanted < far
        assert solution.message.startswith("no swivel angle satisfies every limit; blocked by shoulder.z")


def test_batches_of_partial_orientation_and_aiming_are_as_one_by_one(make_case):
    case = make_case(12)
    limb = case.limb
    poses = np.array([case.pose() for _ in range(6)])
    hands = ps.forward(case.skeleton, poses).matrix("hand")
    far = hands[:, :3, 3].copy()
    far[4] += 9.0  # one that is out of reach
    points = far + 0.7 * hands[:, :3, 0]
    for limits in (False, True):
        many = limb.solve_partial(far.reshape(2, 3, 3), "x", hands[:, :3, 0].reshape(2, 3, 3), limits=limits,
                                  base=poses.reshape(2, 3, -1))  # fmt: skip
        aimed = limb.aim(points, "x", limits=limits, base=poses)
        assert many.pose.shape == (2, 3, case.skeleton.size)
        assert many.spin.shape == many.ok.shape == (2, 3)
        for k in range(6):
            one = limb.solve_partial(far[k], "x", hands[k, :3, 0], limits=limits, base=poses[k])
            assert np.array_equal(one.pose, many.pose.reshape(6, -1)[k])
            assert one.ok == many.ok.reshape(6)[k] == (k != 4)
            single = limb.aim(points[k], "x", limits=limits, base=poses[k])
            assert np.array_equal(single.pose, aimed.pose[k])
    assert "too far" in limb.solve_partial(far[4], "x", hands[4, :3, 0], base=poses[4]).message


def test_nothing_to_do_is_an_empty_answer(limb):
    assert limb.solve(np.zeros((0, 3))).pose.shape == (0, 7)
    assert limb.solve(np.zeros((2, 0, 4, 4))).ok.shape == (2, 0)
    assert limb.solve_partial(np.zeros((0, 3)), "x", (1, 0, 0)).pose.shape == (0, 7)
    assert limb.aim(np.zeros((0, 3)), "x").ok.shape == (0,)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda limb: limb.solve((0.3, 0.1, 0), swivel=NAN), "swivel: expected a finite number"),
        (lambda limb: limb.solve((0.3, 0.1, 0), swivel="a"), "swivel: expected a finite number"),
        (lambda limb: limb.solve((0.3, 0.1, 0), swivel=[1, 2]), "swivel: expected one, or leading axes"),
        (lambda limb: limb.solve((0.3, 0.1, 0), base=np.full(7, NAN)), "base: expected finite numbers, got nan at"),
        (lambda limb: limb.solve((0.3, 0.1, 0), elbow=(1, 2)), "elbow: expected three finite numbers"),
        (lambda limb: limb.solve((0.3, 0.1, 0), elbow="up"), "elbow: expected three finite numbers"),
        (lambda limb: limb.solve((0.3, 0.1, 0), elbow=(NAN, 0, 0)), "elbow: expected three finite numbers"),
        (lambda limb: limb.solve(np.zeros((2, 3)), base=np.zeros((3, 7))), "leading axes that fit together"),
        (lambda limb: limb.solutions((0.3, 0.1, 0), NAN), "swivel: expected a finite number"),
        (lambda limb: limb.swivel_ranges(np.zeros((2, 3))), "expected one target"),
        (lambda limb: limb.swivel(np.full(7, NAN)), "pose: expected finite numbers"),
        (lambda limb: limb.solve_partial((0.3, 0, 0), "x", (1, 0, 0), spin=NAN), "spin: expected a finite number"),
        (lambda limb: limb.solve_partial((0.3, 0, 0), "x", (0, 0, 0)), "along: expected"),
        (lambda limb: limb.aim((1.0, 0, 0), "x", bend=9.0), "bend: expected angles inside the limits of 'elbow'"),
        (lambda limb: limb.aim((1.0, 0, 0), "x", swivel=NAN), "swivel: expected a finite number"),
        (lambda limb: limb.solve((0.3, 0.1, 0), objective=lambda pose: "a"), "objective: expected a number"),
    ],
)
def test_what_makes_no_sense_is_refused(limb, call, says):
    with pytest.raises(ps.PosableError) as raised:
        call(limb)
    assert says in str(raised.value)
