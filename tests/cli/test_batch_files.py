from pathlib import Path

import pytest

import posable as ps
from posable.cli import batch as files


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_patterns_that_no_shell_has_expanded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "clips/b.c3d", "clips/a.c3d", "clips/deep/c.c3d", "clips/a.txt", "x.c3d", "odd[1].c3d")
    assert files.expand(["clips/*.c3d"]) == ["clips/a.c3d", "clips/b.c3d"]
    assert files.expand(["x.c3d", "clips/*.c3d", "./x.c3d"]) == ["x.c3d", "clips/a.c3d", "clips/b.c3d"]
    assert files.expand(["clips/**/*.c3d"]) == ["clips/a.c3d", "clips/b.c3d", "clips/deep/c.c3d"]
    assert files.expand(["odd[1].c3d"]) == ["odd[1].c3d"]
    assert files.expand(["not there.c3d"]) == ["not there.c3d"]
    with pytest.raises(ps.PosableError, match="matches a file"):
        files.expand(["clips/*.bvh"])


def test_what_is_a_folder(tmp_path):
    assert files.is_folder(str(tmp_path))
    assert files.is_folder("out/")
    assert not files.is_folder("take.bvh")
    assert not files.is_folder("take")
    assert not files.is_folder(None)


@pytest.mark.parametrize(
    ("sources", "results"),
    [
        (["/d/a.c3d", "/d/b.c3d"], ["/o/a.bvh", "/o/b.bvh"]),
        (["/d/one/a.c3d", "/d/two/a.c3d"], ["/o/one/a.bvh", "/o/two/a.bvh"]),
        (["/d/a.c3d", "/d/two/a.c3d"], ["/o/a.bvh", "/o/two/a.bvh"]),
        (["/d/a.c3d", "/d/a.trc", "/d/take.01.c3d"], ["/o/a_c3d.bvh", "/o/a_trc.bvh", "/o/take.01.bvh"]),
    ],
)
def test_where_results_go(sources, results):
    assert files.results([Path(s) for s in sources], Path("/o"), ".bvh") == [Path(r) for r in results]


def test_results_never_take_the_place_of_files():
    with pytest.raises(ps.PosableError, match="overwrite an input file"):
        files.results([Path("/d/a.bvh"), Path("/d/b.bvh")], Path("/d"), ".bvh")
    with pytest.raises(ps.PosableError, match="2 results would be written there"):
        files.results([Path("/d/a.c3d"), Path("/d/a.trc"), Path("/d/a_trc.c3d")], Path("/o"), ".bvh")
