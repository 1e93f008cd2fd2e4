"""`trace: "full"`: rounds with the likeliest tokens of each law, and the text of every id."""

from __future__ import annotations

import json

import pytest

from engine.fakes import TOKENS
from forerun.trace import Round, ids

ASK = {"max_tokens": 40, "seed": 4, "verifier": "rejection", "num_draft": 3}


def named(choices):
    """Rounds of choices, each with its words beside them; every id of theirs is among these."""
    rounds, words = [], {}
    for choice in choices:
        found = [Round.from_json(json.dumps(r)) for r in choice.get("trace", [])]
        assert {str(i) for r in found for i in ids(r)} == set(choice.get("words", {}))
        rounds += found
        words |= choice.get("words", {})
    return rounds, words


@pytest.mark.parametrize("chat", [False, True])
def test_answers_and_streams_alike(lively, chat):
    def ask(**fields):
        return (lively.chat if chat else lively.complete)("ab ab ab ab", **ASK, **fields)

    rounds, words = named(ask(trace="full").json["choices"])
    assert all(r.head and r.verifier == "rejection" for r in rounds)
    drafted = [d for r in rounds for d in r.drafted]
    assert drafted
    assert all(d.p_head and d.q_head is None for d in drafted)
    assert all(text == TOKENS.token_text(int(i)) for i, text in words.items())

    events = [e for e in ask(trace="full", stream=True).events if e != "[DONE]"]
    streamed, told = named(choice for event in events for choice in event["choices"])
    assert [(r.drafted, r.tokens, r.head) for r in streamed] == [
        (r.drafted, r.tokens, r.head) for r in rounds
    ]
    assert told == words

    plain = ask(trace=True).json["choices"][0]
    assert "words" not in plain
    assert not any("head" in r for r in plain["trace"])


def test_what_is_no_trace_and_no_verifier(lively):
    assert lively.complete(trace="much").error["param"] == "trace"
    error = lively.complete(verifier="lenient").error
    assert error["param"] is None or error["param"] == "verifier"
    assert "unknown verifier 'lenient'" in error["message"]
