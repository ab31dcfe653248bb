"""Goal files: what is written is read back, and wrong ones say where."""

import os
import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posable as ps
from posable.goals.toml import toml

g = ps.goals


def data(figure, goal):
    return [(s.kind, s.body, s.other, s.name, s.tolerance, s.constants, s.targets) for s in goal.springs(figure)]


def test_every_goal_is_read_back_as_it_was(lab, human, tmp_path):
    goals = {name: goal for name, goal in lab.goals.items() if not name.startswith("custom")}
    goals["labelled"] = g.Position(
        "hand.R", (1, 2, 3), label='the "right" one,\r\n\x00\x1b\x7f\\u0041 übrig', priority=2, robust=0.3
    )
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


BAD = {
    "no list": "goal = 5",
    "numbers": "goal = [1]",
    "one table": "[goal]\nkind = 'Position'",
    "kind is a list": "[[goal]]\nkind = ['a']",
    "kind is a table": "[[goal]]\nkind = {}",
    "members are a number": "[[goal]]\nkind = 'AnyOf'\ngoals = 5",
    "members are a text": "[[goal]]\nkind = 'AnyOf'\ngoals = 'ab'",
    "members are texts": "[[goal]]\nkind = 'AnyOf'\ngoals = ['ab']",
    "deep": "x = " + "[" * 20_000,
    "deep target": "[[goal]]\nkind = 'Position'\nbody = 'a'\ntarget = " + "[" * 300 + "]" * 300,
    "a key of many words": ".".join("a" * 20_000) + " = 1",
    "a table of many words": "[" + " . ".join("a" * 20_000) + "]",
    "NUL": "\x00",
    "not UTF-8": b"[[goal]]\nkind = '\xff'",
    "400 digits": "[[goal]]\nkind = 'Position'\nbody = 'a'\ntarget = [1, 2, 3]\nweight = " + "9" * 400,
    "5000 digits": "[[goal]]\nkind = 'Position'\nbody = 'a'\ntarget = [1, 2, 3]\nweight = " + "9" * 5000,
    "a date": "[[goal]]\nkind = 'Position'\nbody = 'a'\ntarget = 1979-05-27",
    "no shape": "[[goal]]\nkind = 'Avoid'\nbody = 'a'\nobstacle = {}",
    "a shape of a number": "[[goal]]\nkind = 'Avoid'\nbody = 'a'\nobstacle = { sphere = 3 }",
    "a shape of wrong parts": "[[goal]]\nkind = 'Avoid'\nbody = 'a'\nobstacle = { sphere = { middle = 3 } }",
    "a shape of texts": "[[goal]]\nkind = 'Avoid'\nbody = 'a'\nobstacle = { sphere = { center = 'x', radius = 'y' } }",
    "a rotation of texts": "[[goal]]\nkind = 'Orientation'\nbody = 'a'\nrotation = { euler = 3, degrees = 'x' }",
    "a rotation of 400 digits":
        f"[[goal]]\nkind = 'Orientation'\nbody = 'a'\nrotation = {{ rotation_vector = [{'9' * 400}, 0, 0] }}",
    "no polygon": "[[goal]]\nkind = 'Balance'\npolygon = []",
    "an attribute": "[[goal]]\nkind = 'Position'\nbody = 'a'\ntarget = [1, 2, 3]\n__class__ = 5",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_raises_one_posable_error(tmp_path, name):
    path = tmp_path / "goals.toml"
    path.write_bytes(BAD[name] if isinstance(BAD[name], bytes) else BAD[name].encode())
    start = time.process_time()
    with pytest.raises(ps.errors.FormatError, match=r"goals\.toml"):
        g.load(path)
    assert time.process_time() - start < 1.0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_a_pipe_a_folder_and_a_large_file_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate(3_000_000_000)  # a file with a hole: it takes no room
    for name in ("pipe.toml", "large.toml", "."):
        with pytest.raises(ps.errors.FormatError):
            g.load(tmp_path / name)


def test_natural_is_read_back(tmp_path):
    g.save(tmp_path / "a.toml", [g.Natural(weight=0.3)])
    assert g.load(tmp_path / "a.toml")[0].weight == 0.3


@given(st.data())
def test_values_of_any_type_in_any_place(tmp_path_factory, data):
    """Whatever stands in place of an argument: goals, or one error of ours; then a problem, or one error of ours."""
    path = tmp_path_factory.getbasetemp() / "any.toml"
    human = ps.figures.human()
    goals = [
        g.Position("hand.R", (0.4, 1.2, 0.3)), g.Pose("hand.R", np.eye(4)), g.Aim("head", axis="z", at=(0, 1, 2)),
        g.Plane("foot.L", (0, 0, 0), (0, 1, 0)), g.Distance("hand.L", "hand.R", 0.3),
        g.Balance(["toe.L", "toe.R", "heel.L"]),
        g.Avoid("hand.R", g.Sphere((0, 1, 0.3), 0.1)), g.Posture(), g.Coupling("elbow.R", "elbow.L"),
        g.AnyOf([g.Position("hand.R", (0, 1, 0)), g.Position("hand.R", (0, 2, 0))]),
    ]  # fmt: skip
    table = g.to_table(data.draw(st.sampled_from(goals)))
    scalars = st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just("hand.R"))
    values = st.recursive(
        scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=3), v, max_size=2)
    )
    table[data.draw(st.sampled_from(sorted(table)))] = data.draw(values)
    path.write_text(
        "[[goal]]\n" + "\n".join(f"{key} = {toml(value)}" for key, value in table.items()), encoding="utf-8"
    )
    with suppress(ps.PosableError):
        ps.Problem(human, g.load(path))
