"""What a stranger finds: versions that agree, workflows whose every step runs here too, links that lead somewhere."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import posable as ps

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")]

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="not a checkout")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_versions_agree():
    citation = text("CITATION.cff")
    assert f"\nversion: {ps.__version__}\n" in citation
    date = re.search(r'^date-released: "([^"]+)"$', citation, re.MULTILINE)[1]
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", text("CHANGELOG.md"), re.MULTILINE)
    assert released[0] == (ps.__version__, date)
    command = [sys.executable, str(ROOT / "scripts" / "version.py")]
    assert subprocess.run([*command, f"v{ps.__version__}"], check=False).returncode == 0
    assert subprocess.run([*command, "v9.9.9"], capture_output=True, check=False).returncode == 1


def test_the_example_plugin_fits_this_version():
    plugin = tomllib.loads(text("examples/plugin/pyproject.toml"))["project"]
    major, minor = ps.__version__.split(".")[:2]
    assert plugin["dependencies"] == [f"posable>={major}.{minor},<{major}.{int(minor) + 1}"]


def test_every_address_is_of_one_home():
    home = PROJECT["urls"]["Homepage"]
    assert all(url.startswith((home, PROJECT["urls"]["Documentation"])) for url in PROJECT["urls"].values())
    files = [
        *PAGES,
        *WORKFLOWS,
        *(ROOT / ".github").rglob("*.yml"),
        ROOT / "CITATION.cff",
        *(ROOT / "docs").glob("*.md"),
    ]
    for path in files:
        for url in re.findall(r"https://github\.com/posable[^\s)\"]*", path.read_text(encoding="utf-8")):
            assert url.startswith(home), (path, url)


def test_the_pythons_of_the_classifiers_are_tested():
    stated = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    matrix = re.search(r"python: (\[.*\])", text(".github/workflows/tests.yml"))[1]
    assert json.loads(matrix) == stated
    assert PROJECT["requires-python"] == f">={stated[0]}"


def test_the_oldest_dependencies_are_the_lower_bounds():
    lines = [line for line in text(".github/oldest.txt").splitlines() if line and not line.startswith("#")]
    needed = [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["plots"],
        *PROJECT["optional-dependencies"]["test"],
    ]
    bounds = [re.match(r"([\w-]+)>=([\d.]+)", entry).groups() for entry in needed]
    assert lines == [f"{name}=={version}" for name, version in bounds]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_of_a_workflow_is_a_target_or_a_script(path):
    """They cannot run here; what they run can."""
    targets = set(re.findall(r"^([a-z]+):.*##", text("Makefile"), re.MULTILINE))
    steps = re.findall(r"run: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    for step in steps:
        if step.startswith("make "):
            assert step.split()[1] in targets, step
        elif step.startswith("python "):
            assert (ROOT / step.split()[1]).is_file(), step
        else:
            assert step == "choco install make --no-progress"
    extras = set(PROJECT["optional-dependencies"])
    for chosen in re.findall(r"EXTRAS=([\w,]+)", path.read_text(encoding="utf-8")):
        assert set(chosen.split(",")) <= extras
    assert all(Path(ROOT / ".github" / name).is_file() for name in re.findall(r"\.github/(\S+\.txt)", "".join(steps)))


def test_schemas_and_known_risks():
    folder = Path(sys.executable).parent
    if not all((folder / name).exists() for name in ("zizmor", "check-jsonschema")):
        pytest.skip("needs zizmor and check-jsonschema: pip install 'posable[dev]'")
    recipe = re.search(r"^workflows:.*?\n((?:\t.*\n)+)", text("Makefile"), re.MULTILINE)[1]
    for line in recipe.replace("$(BIN)", str(folder)).splitlines():
        words = re.sub(r"\$\(wildcard (\S+)\)", lambda m: " ".join(map(str, sorted(ROOT.glob(m[1])))), line).split()
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_targets_that_contributing_names_are_there():
    targets = set(re.findall(r"^([a-z]+):.*##", text("Makefile"), re.MULTILINE))
    named = set(re.findall(r"^    make ([a-z]+)", text("CONTRIBUTING.md") + text("README.md"), re.MULTILINE))
    assert named <= targets
    for script in re.findall(r"scripts/(\w+\.py)", text("Makefile")):
        assert (ROOT / "scripts" / script).is_file(), script


def test_the_readme_on_pypi_has_complete_addresses():
    pytest.importorskip("hatchling")
    path = ROOT / tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"]
    spec = importlib.util.spec_from_file_location("pypi_readme", path)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    shown = hook.with_addresses(text("README.md"))
    targets = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", shown)
    homes = {"!": hook.FILES, "": hook.PAGES}
    assert all(url.startswith(("https://", "http://")) for _, url in targets)
    assert {(kind, url) for kind, url in targets if url.startswith(homes[kind])} >= {
        ("!", f"{hook.FILES}docs/images/studio.png"), ("", f"{hook.PAGES}CONTRIBUTING.md")
    }  # fmt: skip
    assert hook.PAGES.startswith(PROJECT["urls"]["Homepage"])
