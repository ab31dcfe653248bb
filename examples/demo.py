"""A short tour: a person reaches, a person cannot reach and is told why, a robot reaches a thousand times."""

import time

import numpy as np

import posable as ps

g = ps.goals


def reach(human: ps.Skeleton) -> ps.Result:
    """The right hand takes a cup from a shelf, the eyes follow it, the feet stay where they are."""
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
    """The same person, feet and pelvis fixed, reaches for something behind the back."""
    at_rest = ps.forward(human, human.rest)
    held = [g.Position(site, at_rest.position(site), weight=10) for site in ("foot.L", "foot.R", "pelvis")]
    return ps.solve(human, [*held, g.Position("hand.R", (-0.2, 1.2, -1.6))])


def thousand() -> None:
    """A Panda finds the joint angles of a thousand random reachable poses, all within its limits."""
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
    print("Take the cup, look at it, keep the feet where they are:")
    print(reach(human), "\n")
    print("Reach behind the back with feet and pelvis fixed:")
    print(overreach(human), "\n")
    print("A Panda arm, a thousand random poses within its limits:")
    thousand()


if __name__ == "__main__":
    main()
