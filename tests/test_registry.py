import sys

import pytest

from posable.errors import PosableError, UnknownName
from posable.registry import Registry


@pytest.fixture
def registry():
    return Registry("animal")


def test_register_returns_the_thing_unchanged(registry):
    @registry.register("cat")
    class Cat:
        pass

    assert registry.get("cat") is Cat
    assert registry.names() == ("cat",)
    assert "cat" in registry
    assert list(registry) == ["cat"]
    assert len(registry) == 1


def test_get_of_an_unknown_name_suggests(registry):
    registry.register("newton")(object())
    with pytest.raises(UnknownName, match="unknown animal 'nwton', did you mean 'newton'") as caught:
        registry.get("nwton")
    assert caught.value.choices == ("newton",)


def test_lazy_entries_are_imported_by_the_first_get(registry, tmp_path, monkeypatch):
    (tmp_path / "far_away_module.py").write_text("class Dog: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry.lazy("dog", "far_away_module:Dog")
    assert registry.names() == ("dog",)
    assert "far_away_module" not in sys.modules
    dog = registry.get("dog")
    assert dog is sys.modules["far_away_module"].Dog
    assert registry.get("dog") is dog


def test_the_home_of_a_lazy_entry_may_register_itself(registry):
    def here():
        pass

    registry.lazy("here", f"{__name__}:{here.__qualname__}")
    registry.register("here")(here)
    assert registry.get("here") is here


def test_a_name_is_registered_once(registry):
    registry.register("cat")(1)
    with pytest.raises(PosableError, match="twice"):
        registry.register("cat")(2)
    with pytest.raises(PosableError, match="twice"):
        registry.lazy("cat", "module:Cat")


def test_a_lazy_name_is_not_taken_by_a_stranger(registry):
    registry.lazy("cat", "module:Cat")

    def stranger():
        pass

    with pytest.raises(PosableError, match="twice"):
        registry.register("cat")(stranger)


@pytest.mark.parametrize("home", ["module", "module:", ":Cat"])
def test_a_home_has_a_module_and_an_attribute(registry, home):
    with pytest.raises(PosableError, match=r"package\.module:attribute"):
        registry.lazy("cat", home)
