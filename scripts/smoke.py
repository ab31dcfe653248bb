"""Test a built wheel as a new user would: python scripts/smoke.py dist

Installs only the wheel into a new environment, solves, runs the first example of the README and the command line,
checks that messages name every missing extra, and uninstalls: only the cache folder remains (and that of the studio,
which is not started here).
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SOLVES = """
import sys, posable as ps
assert "site-packages" in ps.__file__, ps.__file__
result = ps.solve(ps.figures.limb(), ps.goals.Position("hand", (0.2, -0.3, 0.2)))
assert result.ok, result
print("posable", ps.__version__, "solves:", result.message)
"""

# what needs an extra, and the extra that the message must name
MISSING = """
import tempfile, posable as ps
from pathlib import Path
folder = Path(tempfile.mkdtemp())
limb = ps.figures.limb()

def write(name, content):
    (folder / name).write_bytes(content)
    return folder / name

fbx = write("a.fbx", b"Kaydara FBX Binary  " + bytes(2) + bytes(40))
usd = write("a.usda", b"#usda 1.0" + bytes([10]))
mjcf = write("a.xml", b"<mujoco><worldbody/></mujoco>")
xacro = write("a.xacro", b'<robot xmlns:xacro="http://x" name="r"><xacro:x/></robot>')
from posable.cli import workers
attempts = {
    "plots": lambda: ps.plots.draw(limb, limb.rest),
    "fbx": lambda: ps.load(fbx),
    "usd": lambda: ps.load(usd),
    "mujoco": lambda: ps.load(mjcf),
    "robots": lambda: ps.load(xacro),
    "gpu": lambda: ps.solve(limb, ps.goals.Position("hand", (0.2, -0.3, 0.2)), device="cuda"),
    "cluster": lambda: workers.check("tcp://127.0.0.1:8786"),
}
for extra, attempt in attempts.items():
    try:
        attempt()
    except ps.PosableError as error:
        assert f"posable[{extra}]" in str(error), (extra, str(error))
        print(f"without {extra}: {error}")
    else:
        raise SystemExit(f"{extra}: expected an error that names it")
"""


def main(folder: Path) -> None:
    """Try the wheel of a folder."""
    (wheel,) = folder.glob("*.whl")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        venv.create(home / "env", with_pip=True)
        binaries = home / "env" / ("Scripts" if os.name == "nt" else "bin")
        surroundings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        surroundings |= {"POSABLE_CACHE": str(home / "cache"), "PYTHONUTF8": "0"}

        def run(*words: str, code: int = 0) -> str:
            done = subprocess.run(words, cwd=home, env=surroundings, capture_output=True, text=True, check=False)
            if done.returncode != code:
                raise SystemExit(f"{' '.join(words)[:200]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
            return done.stdout + done.stderr

        python = str(binaries / "python")
        run(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel.resolve()))
        print(run(python, "-c", SOLVES), end="")
        print(run(python, "-c", MISSING), end="")
        said = run(str(binaries / "posable"), "studio", "--no-browser", code=2)
        if "posable[studio]" not in said:
            raise SystemExit(f"posable studio does not name its extra: {said}")
        print(f"without studio: {said}", end="")
        run(python, "-c", _first_example())
        run(str(binaries / "posable"), "solve", "human", "--reach", "hand.R=-0.4,1.3,0.3", "--save", "pose.bvh")
        run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "posable")
        left = sorted(path for path in (home / "env").rglob("*posable*"))
        if left:
            raise SystemExit(f"uninstalling leaves {left}")
        print(f"uninstalled; what stays is the cache folder, {sum(1 for _ in (home / 'cache').rglob('*'))} files")


def _first_example() -> str:
    """Return the first program of the README."""
    return (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n", 1)[1].split("```", 1)[0]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
