"""Which chains are limbs, and what is said of those that are not."""

import numpy as np
import pytest

import posable as ps


def chain(*joints, sites=()):
    return ps.Skeleton(joints, sites)


BALL = ps.Joint("shoulder", ps.Ball("zyx"))
HINGE = ps.Joint("elbow", ps.Revolute("y"), "shoulder", offset=(0.3, 0, 0))
WRIST = ps.Joint("wrist", ps.Ball("zyx"), "elbow", offset=(0.3, 0, 0))


@pytest.mark.parametrize(
    ("joints", "site", "why"),
    [
        ((BALL, HINGE, ps.Joint("wrist", ps.Revolute("x"), "elbow")), "wrist", "'wrist' must be a ball joint"),
        ((ps.Joint("shoulder", ps.Free("zyx")), HINGE, WRIST), "wrist", "'shoulder' must be a ball joint"),
        ((BALL, ps.Joint("elbow", ps.Ball("zyx"), "shoulder"), WRIST), "wrist", "'elbow' must be a hinge"),
        (
            (
                BALL,
                ps.Joint("slide", ps.Prismatic("x"), "shoulder"),
                ps.Joint("elbow", ps.Revolute("y"), "slide"),
                WRIST,
            ),
            "wrist",
            "'shoulder' and 'elbow': 'slide'",
        ),
        ((BALL, HINGE, ps.Joint("wrist", ps.Ball("zyx"), "shoulder", offset=(1, 0, 0))), "wrist", "is not below"),
        ((BALL, HINGE, WRIST), "elbow", "site 'elbow' is not on the bone of 'wrist'"),
        (
            (BALL, ps.Joint("elbow", ps.Revolute("x"), "shoulder", offset=(0.3, 0, 0)), WRIST),
            "wrist",
            "axis of 'elbow' passes through 'shoulder'",
        ),
        ((ps.Joint("shoulder", ps.Ball("zyx"), frozen=True), HINGE, WRIST), "wrist", "'shoulder' is frozen"),
    ],
)
def test_why_a_chain_is_not_a_limb(joints, site, why):
    with pytest.raises(ps.PosableError, match="not a limb") as raised:
        ps.Limb(chain(*joints), "shoulder", "elbow", "wrist", site=site)
    assert why in str(raised.value)


def test_unknown_names_are_suggested():
    with pytest.raises(ps.PosableError, match="did you mean 'elbow'"):
        ps.Limb(chain(BALL, HINGE, WRIST), "shoulder", "elbo", "wrist")


def test_rigid_joints_may_stand_between():
    plate = ps.Joint("plate", ps.Fixed(), "shoulder", offset=(0, 0.1, 0))
    elbow = ps.Joint("elbow", ps.Revolute("y"), "plate", offset=(0.3, 0, 0))
    glove = ps.Joint("glove", ps.Fixed(), "wrist", offset=(0.05, 0, 0))
    skeleton = chain(BALL, plate, elbow, WRIST, glove, sites=[ps.Site("tip", "glove", offset=(0.02, 0, 0))])
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="tip")
    pose = np.array([0.3, 0.2, 0.1, 0.9, -0.2, 0.3, 0.1])
    target = ps.forward(skeleton, pose).matrix("tip")
    solution = limb.solve(target, swivel=limb.swivel(pose))
    assert solution.ok
    assert np.abs(ps.forward(skeleton, solution.pose).matrix("tip") - target).max() < 1e-9


def test_without_a_site_the_last_joint_is_placed():
    limb = ps.Limb(chain(BALL, HINGE, WRIST), "shoulder", "elbow", "wrist")
    assert limb.site == "wrist"
    solution = limb.solve((0.4, 0.1, 0.1))
    assert solution.ok
    assert limb.swivel(solution.pose) == pytest.approx(solution.swivel)
