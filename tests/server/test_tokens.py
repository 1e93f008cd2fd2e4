"""Texts and ids, in vLLM's shapes."""

from __future__ import annotations

from engine.fakes import TOKENS


def test_the_text_of_ids(lively):
    found = lively.ask("/tokenize", {"prompt": "hello é", "return_token_strs": True}).json
    assert found["tokens"] == TOKENS.encode("hello é")
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert lively.ask("/detokenize", {"tokens": found["tokens"]}).json == {"prompt": "hello é"}
    talk = [{"role": "user", "content": "hello"}]
    chat = lively.ask("/tokenize", {"messages": talk}).json
    assert chat["tokens"] == TOKENS.encode_chat(talk)
    assert chat["token_strs"] is None
    long = [{"role": "user", "content": "a" * (256 << 10)}, *talk]
    for body in ({"prompt": "a" * (257 << 10)}, {"messages": long}):
        refused = lively.ask("/tokenize", body)
        assert refused.status == 400
        assert "262144 are read at once" in refused.error["message"]
    assert lively.ask("/detokenize", {"tokens": [5] * (257 << 10)}).error["param"] == "tokens"
    for body in ({}, {"prompt": "a", "messages": talk}, {"prompt": 5}):
        assert lively.ask("/tokenize", body).status == 400
    for body in ({"tokens": [99999]}, {"tokens": ["a"]}, {"tokens": 5}, {}):
        assert lively.ask("/detokenize", body).status == 400


def test_what_a_client_learns_of_the_tokenizer(lively):
    """Enough to count tokens, to begin and to end a text, and to write a conversation."""
    info = lively.ask("/tokenizer_info").json
    assert sorted(info) == ["bos_token", "chat_template", "eos_token", "pad_token"]
    assert info["chat_template"] == TOKENS.chat_template
    eos = lively.ask("/tokenize", {"prompt": info["eos_token"]}).json["tokens"]
    assert len(eos) == 1
    assert set(eos) <= TOKENS.eos
    within = "a " + info["eos_token"]  # in a text it is letters, as in a prompt
    assert lively.ask("/tokenize", {"prompt": within}).json["tokens"] == TOKENS.encode(within)
