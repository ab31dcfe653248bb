"""A short tour: a goal that is reached, one that is not and why, and a thousand poses of a robot."""

import time

import numpy as np

import posable as ps

g = ps.goals


def reach(human: ps.Skeleton) -> ps.Result:
    """Reach for a cup on a shelf, look at it, and keep the feet in place."""
    at_rest = ps.forward(human, human.rest)
    cup = (-0.35, 1.45, 0.45)
    return ps.solve(
        human,
        [
            g.Position("hand.R", cup),
            g.Aim("head", axis="z", at=cup),
            g.Position("foot.L", at_rest.position("foot.L")),
            g.Position("foot.R", at_rest.position("foot.R")),
            g.Posture(weight=1e-5),
        ],
    )


def overreach(human: ps.Skeleton) -> ps.Result:
    """Reach behind the back with feet and pelvis fixed."""
    at_rest = ps.forward(human, human.rest)
    held = [g.Position(site, at_rest.position(site), weight=10) for site in ("foot.L", "foot.R", "pelvis")]
    return ps.solve(human, [*held, g.Position("hand.R", (-0.2, 1.2, -1.6))])


def thousand() -> None:
    """Solve a thousand random reachable poses of a Panda within its limits."""
    panda = ps.figures.panda()
    rng = np.random.default_rng(1)
    targets = ps.forward(panda, rng.uniform(panda.lower, panda.upper, size=(1000, panda.size))).matrix("hand")
    ps.solve(panda, g.Pose("hand", targets[:32]), restarts=100)
    begin = time.perf_counter()
    result = ps.solve(panda, g.Pose("hand", targets), restarts=100)
    taken = time.perf_counter() - begin
    print(f"{result.ok.sum()} of {result.ok.size} poses reached in {taken * 1e3:.0f} ms, {taken * 1e3:.0f} us each.")


def main() -> None:
    """Run the tour."""
    human = ps.figures.human()
    print(f"A human: {human.size} degrees of freedom, {2 * human.size} limits.\n")
    print("Reach for the cup, look at it, keep the feet in place:")
    print(reach(human), "\n")
    print("Reach behind the back with feet and pelvis fixed:")
    print(overreach(human), "\n")
    print("A Panda arm, a thousand random poses within its limits:")
    thousand()


if __name__ == "__main__":
    main()
