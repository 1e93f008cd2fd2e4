"""The command line with the real model, greedily and briefly."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.model

PROMPT = "1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2,"
SHORT = ("--temperature", "0", "-n", "8", "-t", "1", "-k", "4")  # γ by cost would depend on times


@pytest.fixture(autouse=True)
def fetched(smollm2_path):
    """The model is there before the command runs."""


def test_generate(cli):
    text = cli("generate", PROMPT, *SHORT)
    assert (text.code, text.err) == (0, "")
    done = json.loads(cli("generate", PROMPT, *SHORT, "--json").out)
    assert done["text"] + "\n" == text.out
    assert done["text"].startswith(" 3, 4,")
    assert done["stats"]["accepted"] > 0


def test_compare_with_the_model_as_its_own_draft(cli):
    result = cli("generate", PROMPT, *SHORT, "--draft-model", "smollm2", "--compare", "--json")
    both = json.loads(result.out)
    assert both["identical"]
    assert both["speculative"]["stats"]["acceptance_rate"] == 1


def test_chat(cli):
    result = cli("chat", *SHORT, "--system", "Answer briefly.", "--json", stdin=b"Hello.\nBye.\n")
    assert result.code == 0
    first, second = [json.loads(line) for line in result.out.splitlines()]
    assert first["text"]
    assert len(second["prompt"]) > len(first["prompt"]) + len(first["tokens"]) - 1
