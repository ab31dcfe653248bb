"""The verb: prints where the page is, says who may look on, ends by itself for tests."""

import json

import pytest

from posable.cli.main import main

pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")


def test_it_says_where_it_is(capsys):
    assert main(["studio", "limb", "--no-browser", "--port", "8490", "--seconds", "0.5", "--json"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert json.loads(first)["url"].startswith("http://127.0.0.1:84")


def test_a_file_that_is_not_there_is_a_wrong_call(capsys):
    assert main(["studio", "nowhere.bvh", "--no-browser", "--seconds", "0.5"]) == 2
    assert "nowhere.bvh" in capsys.readouterr().err
