import os
import subprocess
import sys
from types import ModuleType

import pytest

import posable as ps
from posable.cli import main as cli


@pytest.fixture
def fake(monkeypatch):
    """A verb `fake WHAT`, whose `what` decides how it ends."""

    def add(parser):
        parser.add_argument("what")

    def run(args):
        ends = {
            "broken": ps.errors.FormatError("header", path="a.bvh", line=3, expected="'HIERARCHY'"),
            "faulty": ps.errors.SkeletonError(["no root", "two hands"], name="arm"),
            "absent": FileNotFoundError(2, "No such file or directory", "b.bvh"),
            "greedy": MemoryError("Unable to allocate 8 EiB"),
            "stopped": KeyboardInterrupt(),
        }
        if args.what in ends:
            raise ends[args.what]
        print(f"{args.what} json={args.json}")
        return cli.REACHED if args.what == "near" else cli.NOT_REACHED

    module = ModuleType("posable.cli.fake", "`posable fake WHAT`: pretend to work.")
    module.EXAMPLE, module.add, module.run = "posable fake near", add, run
    monkeypatch.setitem(sys.modules, "posable.cli.fake", module)
    monkeypatch.setattr(cli, "VERBS", ("fake",))
    return module


@pytest.mark.usefixtures("fake")
class TestVerbs:
    @pytest.mark.parametrize(("what", "code"), [("near", 0), ("far", 1)])
    def test_the_exit_code_is_the_verbs(self, what, code, capsys):
        assert cli.main(["fake", what]) == code
        assert capsys.readouterr().out == f"{what} json=False\n"

    def test_every_verb_takes_json(self, capsys):
        assert cli.main(["fake", "near", "--json"]) == 0
        assert capsys.readouterr().out == "near json=True\n"

    @pytest.mark.parametrize(
        ("what", "line"),
        [
            ("broken", "posable: a.bvh:3: header: expected 'HIERARCHY'\n"),
            ("faulty", "posable: skeleton 'arm' has 2 faults: no root; two hands\n"),
            ("absent", "posable: b.bvh: No such file or directory\n"),
            ("greedy", "posable: not enough memory: Unable to allocate 8 EiB\n"),
        ],
    )
    def test_an_error_is_one_line_and_code_2(self, what, line, capsys):
        assert cli.main(["fake", what]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", line)

    def test_control_c_is_one_line_and_code_130(self, capsys):
        assert cli.main(["fake", "stopped"]) == 130
        assert capsys.readouterr().err == "posable: interrupted\n"

    def test_closed_outputs_are_no_fault(self, monkeypatch):
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", None)
        assert cli.main(["fake", "near"]) == 0
        assert cli.main(["fake", "absent"]) == 2

    def test_an_unknown_verb_suggests(self, capsys):
        assert cli.main(["fakee"]) == 2
        assert "unknown verb 'fakee', did you mean 'fake'?" in capsys.readouterr().err

    def test_a_wrong_call_is_code_2(self):
        with pytest.raises(SystemExit) as caught:
            cli.main(["fake"])
        assert caught.value.code == 2

    def test_help_teaches_with_an_example(self, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main(["--help"])
        assert caught.value.code == 0
        text = capsys.readouterr().out
        assert "pretend to work" in text
        assert "  posable fake near\n" in text


def test_only_the_verb_that_is_called_is_imported(fake, monkeypatch):
    monkeypatch.setattr(cli, "VERBS", ("fake", "no_such_module"))
    assert cli.main(["fake", "near"]) == 0
    with pytest.raises(ModuleNotFoundError):
        cli.main(["--help"])


def test_no_verb_prints_the_help_and_is_code_2(capsys):
    assert cli.main([]) == 2
    assert capsys.readouterr().err.startswith("usage: posable")


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([verb, "--help"])
    assert caught.value.code == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["posable", "posable.cli.main"])
def test_version_as_a_process(module):
    out = subprocess.check_output([sys.executable, "-m", module, "--version"], text=True)
    assert out == f"posable {ps.__version__}\n"


def test_a_closed_pipe_is_silent(tmp_path):
    ps.save(tmp_path / "human.npz", ps.figures.human())
    command = [sys.executable, "-m", "posable", "info", str(tmp_path / "human.npz")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_a_terminal_without_unicode(tmp_path):
    """Names and units that ASCII has not are shown by their codes; nothing fails."""
    arm = ps.Skeleton([ps.Joint("κνήμη", ps.Revolute("z"))], [ps.Site("tip", "κνήμη", (1, 0, 0))], "σκέλος")
    ps.save(tmp_path / "leg.npz", arm)
    command = [sys.executable, "-m", "posable", "info", str(tmp_path / "leg.npz")]
    said = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert said.returncode == 0, said.stderr
    assert b"\\u03ba\\u03bd" in said.stdout


PATH = ["planar_arm", "--path", "tip=0.5,0.5,0:0.6,0.4,0"]
WRONG_NUMBERS = [
    *(["solve", "planar_arm", "--reach", "tip=0.5,0.5,0", "--max-iterations", word] for word in ("-1", "9" * 30)),
    *(["follow", *PATH, "-o", "a.csv", flag, word] for flag in ("--fps", "--seconds") for word in ("inf", "1e300")),
    *(["control", *PATH, "--rate", word] for word in ("inf", "1e300", "0", "nan")),
    *(["control", *PATH, "--stay", word] for word in ("inf", "1e300", "-1", "nan")),
    *(["reach", "planar_arm", "--site", "tip", "--grid", word] for word in ("1e300", "inf", "nan", "-1")),
    ["reach", "planar_arm", "--site", "tip", "--orientations", "9" * 30],
]  # fmt: skip


@pytest.mark.parametrize("words", WRONG_NUMBERS, ids=" ".join)
def test_a_number_out_of_range_is_a_wrong_call(words, capsys):
    assert cli.main(words) == cli.WRONG_CALL
    assert "expected" in capsys.readouterr().err


WRONG_CALLS = [
    (["studio", "--port", "abc"], "posable studio: --port: expected an integer, got 'abc'; see posable studio --help"),
    (["bench", "--count", "1.5"], "posable bench: --count: expected an integer, got '1.5'; see posable bench --help"),
    (["render", "a", "--fps", "x"], "posable render: --fps: expected a number, got 'x'; see posable render --help"),
    (["solve", "human", "--restarts", "x"], "posable solve: --restarts: expected an integer or auto, got 'x'; see "
     "posable solve --help"),
    (["info", "a", "--up", "x"], "posable info: --up: expected one of 'y', 'z', got 'x'; see posable info --help"),
    (["info", "a", "b"], "posable info: unexpected argument 'b'; see posable info --help"),
    (["render", "a"], "posable render: expected -o/--output; see posable render --help"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "line"), WRONG_CALLS)
def test_a_wrong_call_is_one_line(words, line, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == cli.WRONG_CALL
    assert capsys.readouterr().err == f"{line}\n"


def test_a_misspelt_flag_suggests_the_right_one(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["info", "a", "--jsno"])
    assert caught.value.code == cli.WRONG_CALL
    assert capsys.readouterr().err.startswith("posable info: unknown argument '--jsno', did you mean '--json'?")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["solve", "planar_arm", "--reach", "tip=0.5,0.5,0", "--plot", "a.xyz"],
            "a.xyz: expected a suffix such as .png",
        ),
        (["solve", "planar_arm", "--reach", "tip=0.5,0.5,0", "--plot", "none/a.png"], "none/a.png: No such file"),
        (["follow", *PATH, "--smooth", "-1"], "--smooth: expected 0 s or more, got -1"),
        (["studio", "--detail", "nan"], "--detail: expected 0.2 to 2, got nan"),
        (["render", "human", "-o", "a.mp4", "--fps", "0"], "--fps: expected a positive number, got 0"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == cli.WRONG_CALL
    line, *more = capsys.readouterr().err.splitlines()
    assert said in line
    assert not more
