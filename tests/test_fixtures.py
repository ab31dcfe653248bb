"""tests/fixtures/generate.py writes the files that are beside it."""

import importlib


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def test_the_generator_writes_the_files_that_are_there(fixtures, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(fixtures)
    importlib.import_module("generate").write_others(tmp_path)
    made, kept = files_of(tmp_path), files_of(fixtures)
    walks = {f"walk.{suffix}" for suffix in ("bvh", "asf", "amc", "glb", "c3d")}  # their last digits are the solver's
    assert {name for name in kept if not name.endswith((".py", ".pyc"))} == {*made, *walks}
    for name, path in made.items():
        if not name.endswith(".glb"):  # their picture is compressed as the system's zlib does
            assert path.read_bytes() == kept[name].read_bytes(), name
