"""docs/architecture.md names only files and packages that exist, and lists every package."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf8")
SOURCE = ROOT / "src" / "posable"


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`(?:posable/)?([\w/]+\.py)`", PAGE))
    assert len(named) > 20
    beside_source = {name for name in named if name.startswith(("tests/", "benchmarks/")) and (ROOT / name).exists()}
    inside = dict.fromkeys(("arguments.py", "batch.py", "workers.py"), "cli")  # named in the row of their package
    missing = [name for name in named - beside_source if not (SOURCE / inside.get(name, "") / name).exists()]
    assert not missing


def test_every_package_is_in_the_table():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    listed = set(re.findall(r"^\| `(\w+)/`", PAGE, flags=re.M))
    assert packages == listed


def test_every_module_at_the_top_is_in_the_table():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
    listed = set(re.findall(r"`(\w+\.py)`", " ".join(rows)))
    assert {path.name for path in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"} == listed


def test_the_tests_have_the_folders_of_the_package():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("test_*.py"))}
    assert {name for name in folders if not (SOURCE / name).is_dir()} == set()
    assert len(folders) > 8
