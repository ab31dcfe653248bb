"""Test a built wheel as a new user would: python scripts/smoke.py dist

Installs only the wheel into a new environment, solves, runs the first example of the README and the command line,
and checks that messages name every missing extra. Adds the extra of the studio and opens its page in a browser, where
there are playwright and chromium. Uninstalls: of what Posable wrote to the home folder, only its two folders remain,
compiled code and the state of the studio.
"""

import json
import os
import shutil
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
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place, home = Path(name), Path(name) / "home"
        home.mkdir()
        venv.create(place / "env", with_pip=True)
        binaries = place / "env" / ("Scripts" if os.name == "nt" else "bin")
        ours = ("PYTHONPATH", "PYTHONHOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "POSABLE_CACHE", "POSABLE_STATE")
        outside = {key: value for key, value in os.environ.items() if key not in ours}
        inside = {**outside, "HOME": str(home), "USERPROFILE": str(home), "PYTHONUTF8": "0"}

        def run(*words: str, code: int = 0, surroundings: dict[str, str] = inside) -> str:
            done = subprocess.run(words, cwd=place, env=surroundings, capture_output=True, text=True, check=False)
            if done.returncode != code:
                raise SystemExit(f"{' '.join(words)[:200]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
            return done.stdout + done.stderr

        def pip(*words: str) -> None:
            run(python, "-m", "pip", *words, "--quiet", surroundings=outside)  # keeps a cache of its own at home

        python, posable = str(binaries / "python"), str(binaries / "posable")
        pip("install", "--only-binary", ":all:", str(wheel.resolve()))
        print(run(python, "-c", SOLVES), end="")
        print(run(python, "-c", MISSING), end="")
        said = run(posable, "studio", "--no-browser", code=2)
        if "posable[studio]" not in said:
            raise SystemExit(f"posable studio does not name its extra: {said}")
        print(f"without studio: {said}", end="")
        run(python, "-c", _first_example())
        run(posable, "solve", "human", "--reach", "hand.R=-0.4,1.3,0.3", "--save", "pose.bvh")
        if chromium := _chromium():
            pip("install", "--only-binary", ":all:", f"{wheel.resolve()}[studio]")
            print(_open_studio(posable, chromium, place, inside))
        else:
            print("the studio is not opened: needs playwright (posable[dev]) and chromium")
        pip("uninstall", "--yes", "posable")
        left = list((place / "env").rglob("*posable*"))
        kept = {
            home / ".cache" / "posable": "compiled code",
            home / ".local" / "state" / "posable": "the studio's state",
        }
        files = [path for path in home.rglob("*") if not path.is_dir()]
        left += [path for path in files if not kept.keys() & {*path.parents}]
        if left:
            raise SystemExit(f"uninstalling leaves {left}")
        counts = [f"{what}, {sum(1 for path in files if where in path.parents)} files" for where, what in kept.items()]
        print(f"uninstalled; what stays in the home folder: {'; '.join(counts)}")


def _chromium() -> str | None:
    """Return the path of the system's chromium, or None if there is none or nothing to drive it."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return None
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def _open_studio(posable: str, chromium: str, folder: Path, surroundings: dict[str, str]) -> str:
    """Start the studio, open its page, and choose a panel on it; return what happened."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    studio = subprocess.Popen(
        [posable, "studio", "--no-browser", "--json"], cwd=folder, env=surroundings, stdout=subprocess.PIPE, text=True
    )
    try:
        assert studio.stdout is not None
        url = json.loads(studio.stdout.readline())["url"]
        with sync_playwright() as play, play.chromium.launch(executable_path=chromium, args=flags) as browser:
            page = browser.new_page()
            page.set_default_timeout(90_000)
            faults: list[str] = []
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.goto(url)
            page.get_by_role("tab", name="Joints").click()  # the server sends the panels once the page has connected
            page.get_by_text("All [rad, m]").first.wait_for()
            page.locator("canvas").first.wait_for()
            if faults:
                raise SystemExit(f"the page of the studio: {faults}")
            return f"posable studio: a browser shows its page ({page.title()})"
    finally:
        studio.terminate()
        studio.wait(30)


def _first_example() -> str:
    """Return the first program of the README."""
    return (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n", 1)[1].split("```", 1)[0]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
