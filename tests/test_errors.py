import copy
import pickle
from pathlib import Path

import pytest

from posable import errors
from posable.errors import (
    FormatError,
    GoalError,
    MissingFile,
    PosableError,
    PosableWarning,
    SkeletonError,
    SolverError,
    UnknownName,
    did_you_mean,
    unknown,
)

EXAMPLES = [
    SkeletonError(["joint 'elbow': parent 'sholder' is not a joint", "joint 'hand' is there twice"], name="arm"),
    GoalError("Position('hand.R'): target", expected="shape (..., 3)", got="shape (4,)"),
    SolverError("dls: damping", expected="a positive number", got=-1.0),
    FormatError("joint", path=Path("walk.bvh"), line=7, column=3, expected="'CHANNELS'", found="'CHANELS'"),
    MissingFile("no such file", path=Path("wlak.bvh")),
    UnknownName("solver", "newtn", ("newton", "dls")),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
class TestEveryError:
    def test_is_a_posable_error(self, error):
        assert isinstance(error, PosableError)

    def test_survives_pickling_and_copying_with_its_data(self, error):
        # worker processes send their errors home by pickle
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(twin) is type(error)
            assert str(twin) == str(error)
            assert vars(twin) == vars(error)


def test_every_public_error_has_an_example():
    concrete = {
        value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, PosableError) and not name.startswith("_")
    }
    assert concrete - {PosableError} == {type(error) for error in EXAMPLES}


def test_skeleton_error_lists_every_finding_on_its_own_line():
    error = SkeletonError(["first", "second"], name="arm")
    assert error.findings == ("first", "second")
    assert str(error) == "skeleton 'arm' has 2 faults:\n  - first\n  - second"


def test_skeleton_error_takes_a_single_finding():
    error = SkeletonError("no joints")
    assert error.findings == ("no joints",)
    assert str(error) == "skeleton has 1 fault:\n  - no joints"


@pytest.mark.parametrize("kind", [GoalError, SolverError])
def test_value_errors_say_expected_and_got(kind):
    error = kind("weight", expected="a number >= 0", got=-2)
    assert (error.expected, error.got) == ("a number >= 0", -2)
    assert str(error) == "weight: expected a number >= 0, got -2"
    assert str(kind("weights must be finite")) == "weights must be finite"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"path": "a.bvh", "line": 7, "column": 3}, "a.bvh:7:3: broken: expected X, found Y"),
        ({"path": "a.bvh", "line": 7}, "a.bvh:7: broken: expected X, found Y"),
        ({"line": 7}, "line 7: broken: expected X, found Y"),
        ({"path": "a.c3d", "offset": 512}, "a.c3d at byte 512: broken: expected X, found Y"),
        ({"offset": 0}, "at byte 0: broken: expected X, found Y"),
        ({}, "broken: expected X, found Y"),
    ],
)
def test_format_error_says_where(place, text):
    assert str(FormatError("broken", **place, expected="X", found="Y")) == text


def test_unknown_name_carries_the_choices_and_a_suggestion():
    error = unknown("joint", "Elbw", ["shoulder", "elbow"])
    assert isinstance(error, UnknownName)
    assert (error.kind, error.name, error.choices, error.suggestion) == (
        "joint",
        "Elbw",
        ("shoulder", "elbow"),
        "elbow",
    )
    assert str(error) == "unknown joint 'Elbw', did you mean 'elbow'? Choices: shoulder, elbow"


def test_long_lists_of_choices_are_cut():
    error = unknown("joint", "zzz", [f"joint{k}" for k in range(100)])
    assert str(error).endswith("joint22, joint23 and 76 more")
    assert len(error.choices) == 100


def test_nothing_close_gives_no_suggestion():
    assert did_you_mean("zzz", ["elbow"]) == ""
    assert unknown("joint", "zzz", ["elbow"]).suggestion is None
    assert str(unknown("site", "x", [])) == "unknown site 'x'; choices: none"


def test_warning_is_a_user_warning():
    assert issubclass(PosableWarning, UserWarning)
