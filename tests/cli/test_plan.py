"""`forerun plan` at the command line."""

from __future__ import annotations

import json

import pytest

from cli import fakes


@pytest.fixture
def plan(cli, monkeypatch):
    monkeypatch.setattr("forerun.cli.plan.load_model", fakes.load_model)

    def go(*args):
        return cli("plan", *args)

    return go


def test_a_table_and_an_advice(plan):
    result = plan("fake", "-n", "64", "--minutes", "0.1")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["DRAFTER", "VERIFIER", "BEST"]
    table = lines[: lines.index("")]
    assert {"none", "ngram", "suffix", "suffix-tree"} <= {line.split()[0] for line in table[1:]}
    assert "Not tried: model, intersection" in result.out
    (advice,) = [line for line in lines if "forerun generate -m fake --temperature 0" in line]
    assert "--drafter" in advice


def test_a_draft_model_and_a_check_in_json(plan, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "the cat sat"}\n')
    result = plan(
        "fake", "--draft-model", "fake", "--prompts", prompts, "-n", "48", "--minutes", "0.1",
        "--slots", "1,2", "--check", "--json",
    )  # fmt: skip
    assert result.code == 0
    found = json.loads(result.out)
    assert found["texts"] == [{"name": "prompts.jsonl:1", "prompt_tokens": 11, "tokens": 48}]
    assert set(found["plain"]) == {"1", "2"}
    names = {way["drafter"] for way in found["drafters"]}
    assert {"ngram", "suffix", "suffix-tree", "model", "tree", "suffix+model"} <= names
    assert {one["drafter"] for one in found["checked"]} == {*names, "none"}
    assert all(one["measured"] > 0 for one in found["checked"])


def test_a_plot(plan, tmp_path):
    pytest.importorskip("matplotlib")
    result = plan("fake", "-n", "32", "--minutes", "0.05", "--plot", tmp_path / "p.svg")
    assert result.code == 0
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--slots", "1,x"], "--slots takes numbers from 1 to 64, as 1,4, not '1,x'"),
        (["--slots", "0"], "--slots takes numbers from 1 to 64"),
        (["--minutes", "0"], "--minutes must be above 0"),
        (["-n", "4"], "--max-tokens must be at least 16"),
        (["--plot", "a.png"], "--plot draws SVG: give a file such as plan.svg"),
        (["--prompts", "nowhere"], "--prompts nowhere cannot be read: no such file"),
        (["--temperature", "-1"], "temperature"),
        (["--plot", "nowhere/a.svg"], "--plot nowhere/a.svg cannot be written"),
    ],
)
def test_what_is_asked_wrongly(plan, args, says):
    result = plan("fake", *args)
    assert result.code == 2
    assert says in result.err
    assert len(result.err.splitlines()) == 1
    assert not result.out
