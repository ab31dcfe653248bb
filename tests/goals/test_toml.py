"""Goal files: what is written is read back, and wrong ones say where."""

import numpy as np
import pytest

import posable as ps

g = ps.goals


def data(figure, goal):
    return [(s.kind, s.body, s.other, s.name, s.tolerance, s.constants, s.targets) for s in goal.springs(figure)]


def test_every_goal_is_read_back_as_it_was(lab, human, tmp_path):
    goals = {name: goal for name, goal in lab.goals.items() if not name.startswith("custom")}
    goals["labelled"] = g.Position("hand.R", (1, 2, 3), label='the "right" one', priority=2, robust=0.3)
    goals["batch"] = g.Position("hand.R", np.arange(6.0).reshape(2, 3))
    goals["feet"] = g.Balance(["toe.L", "toe.R", "heel.L", "heel.R"], up="y")
    goals["posture"] = g.Posture({"elbow.R": 0.3}, {"elbow.R": 2.0})
    path = tmp_path / "goals.toml"
    g.save(path, goals.values())
    back = g.load(path)
    assert len(back) == len(goals)
    for old, new in zip(goals.values(), back, strict=True):
        assert type(new) is type(old)
        assert (new.label, new.priority, new.robust) == (old.label, old.priority, old.robust)
        for a, b in zip(data(human, old), data(human, new), strict=True):
            assert a[:4] == b[:4]
            assert a[4] == b[4]
            for x, y in zip(a[5:], b[5:], strict=True):
                assert np.allclose(x, y, rtol=1e-15, atol=1e-15)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(
            goals["posture"].pulls(human), g.load(path)[list(goals).index("posture")].pulls(human), strict=True
        )
    )


def test_a_file_written_by_hand(tmp_path, human):
    path = tmp_path / "goals.toml"
    path.write_text(
        """
[[goal]]
kind = "Orientation"
body = "hand.R"
rotation = { euler = "xyz", degrees = [0, 90, 0] }

[[goal]]
kind = "Avoid"
body = "elbow.R"
obstacle = { sphere = { center = [0, 1, 0.3], radius = 0.1 } }

[[goal]]
kind = "AnyOf"
label = "cup"
goals = [
  { kind = "Position", body = "hand.R", target = [0, 1, 0.4] },
  { kind = "Position", body = "hand.L", target = [0, 1, 0.4] },
]
"""
    )
    goals = g.load(path)
    assert [type(goal).__name__ for goal in goals] == ["Orientation", "Avoid", "AnyOf"]
    assert ps.Problem(human, goals).labels == ("hand.R", "elbow.R off sphere", "cup")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[goal]\n", ["not TOML"]),
        ("figure = 3\n", ["[[goal]] tables", "figure"]),
        ('[[goal]]\nkind = "Positon"\n', ["goal 1", "did you mean 'Position'"]),
        ('[[goal]]\nkind = "Position"\nbody = "hand.R"\n', ["goal 1", "target"]),
        ('[[goal]]\nkind = "Position"\nbody = "a"\ntarget = [1, 2]\n', ["goal 1", "shape"]),
        ('[[goal]]\nkind = "Position"\nbody = "a"\ntarget = [1, 2, 3]\nwieght = 3\n', ["goal 1", "wieght"]),
        ('[[goal]]\nkind = "Avoid"\nbody = "a"\nobstacle = { cube = { side = 1 } }\n', ["unknown shape 'cube'"]),
    ],
)
def test_a_wrong_file_says_where(tmp_path, text, words):
    path = tmp_path / "goals.toml"
    path.write_text(text)
    with pytest.raises(ps.errors.FormatError) as caught:
        g.load(path)
    for word in ["goals.toml", *words]:
        assert word in str(caught.value)


def test_an_energy_in_python_has_no_form_in_a_file(tmp_path, lab):
    with pytest.raises(ps.errors.GoalError, match="no form in a file"):
        g.save(tmp_path / "x.toml", lab.goals["custom"])
