"""SentencePiece vocabularies in GGUF metadata: ids as llama.cpp's, text as it went in."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.errors import ModelFileError, PromptError
from forerun.text.tokenizer import Tokenizer
from forerun.text.vocabulary import check_shared

from .tiny import PIECES, sentencepiece, sentencepiece_metadata

DATA = json.loads((Path(__file__).parents[1] / "data" / "sentencepiece.json").read_text())
PREFIX, NO_PREFIX = sentencepiece(), sentencepiece(add_space_prefix=False)
TOKENS: list[str] = sentencepiece_metadata()["tokenizer.ggml.tokens"]
NAN = float("nan")


def ids(*names: str) -> list[int]:
    return [TOKENS.index(name) for name in names]


def byte_ids(text: str) -> list[int]:
    return ids(*(f"<0x{byte:02X}>" for byte in text.encode()))


@pytest.mark.parametrize("made", DATA["vocabularies"], ids=lambda made: made["name"])
def test_ids_are_llama_cpps(made: dict[str, Any]) -> None:
    tokenizer = sentencepiece(made["pieces"], add_space_prefix=made["space_first"])
    assert len(made["vectors"]) > 80
    for vector in made["vectors"]:
        text, special = vector["text"], vector.get("special", vector["ids"])
        assert tokenizer.encode(text) == vector["ids"], text
        assert tokenizer.encode(text, special=True) == special, text


def test_the_data_hold_every_case() -> None:
    vectors = [vector for made in DATA["vocabularies"] for vector in made["vectors"]]
    assert sum("special" in vector for vector in vectors) > 50
    assert {made["space_first"] for made in DATA["vocabularies"]} == {True, False}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ", ids("▁▁")),
        ("   ", ids("▁▁", "▁▁")),
        ("hello", ids("▁hello")),
        (" hello ", ids("▁", "▁hello", "▁")),
        ("hell", ids("▁", "hell")),
        ("h\th", ids("▁", "h", "<0x09>", "h")),
        ("\n", ids("▁", "<0x0A>")),
        ("\x00", ids("▁", "<0x00>")),
        ("é", ids("▁") + byte_ids("é")),
        ("你", ids("▁") + byte_ids("你")),
        ("😀", ids("▁") + byte_ids("😀")),
        ("▁hello", ids("▁", "▁hello")),
        ("<tags>hello", ids("<tags>", "▁hello")),
        ("<0x0A>", ids("▁") + byte_ids("<0x0A>")),
        ("<unk>", ids("▁") + byte_ids("<unk>")),
    ],
)
def test_texts(text: str, expected: list[int]) -> None:
    assert PREFIX.encode(text) == expected


@pytest.mark.parametrize("tokenizer", [PREFIX, NO_PREFIX], ids=["space first", "none"])
@settings(deadline=None)
@given(text=st.text() | st.text(st.sampled_from(" helo\n\té😀\x00")))
def test_any_text_comes_out_as_it_went_in(tokenizer: Tokenizer, text: str) -> None:
    expected = text.replace("▁", " ")
    found = tokenizer.encode(text)
    assert tokenizer.decode(found) == expected
    stream = tokenizer.stream()
    assert "".join(map(stream.push, found)) + stream.finish() == expected


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(PromptError, match="half of a surrogate pair at position 1"):
        PREFIX.encode("a\ud83d")


def test_special_tokens_are_text_unless_asked_for() -> None:
    assert PREFIX.decode(PREFIX.encode("<s>hello</s>")) == "<s>hello</s>"
    assert PREFIX.encode("<s>hello</s>", special=True) == [1, *ids("▁hello"), 2]
    assert NO_PREFIX.encode("<s>hello</s>", special=True) == [1, *ids("hello"), 2]


def test_letters_never_merge_into_a_special_token() -> None:
    pieces = [("<s", 0.0, 1), ("s>", 0.0, 1), ("0x0A>", 0.0, 1), ("0x0A", 0.0, 1)]
    made = sentencepiece([*pieces, ("0x", 0.0, 1), ("0A", 0.0, 1)], add_space_prefix=False)
    assert 1 not in made.encode("<s>")
    assert made.decode(made.encode("<s><0x0A>")) == "<s><0x0A>"


def test_characters_come_together_from_their_bytes_in_a_stream() -> None:
    stream = NO_PREFIX.stream()
    euro = [stream.push(i) for i in byte_ids("€")]
    assert euro == ["", "", "€"]
    assert stream.push(byte_ids("€")[0]) == ""
    assert stream.push(*ids("hello")) == "\ufffdhello"
    assert stream.push(byte_ids("€")[0]) == ""
    assert stream.finish() == "\ufffd"


def test_the_first_space_goes_once_and_only_where_a_text_begins() -> None:
    hello = ids("▁hello", "▁hello")
    assert PREFIX.decode([1, *hello]) == "hello hello"
    assert PREFIX.decode(ids("▁▁", "hello")) == " hello"
    assert PREFIX.decode(ids("hello", "▁hello")) == "hello hello"
    assert NO_PREFIX.decode(hello) == " hello hello"
    stream = PREFIX.stream(continuing=True)
    assert "".join(map(stream.push, hello)) == " hello hello"


def test_user_defined_tokens_of_spaces_are_found_whichever_way_they_are_written() -> None:
    for name in ("▁▁▁▁▁", "     "):
        made = sentencepiece([*PIECES, (name, -1000.0, 4)], add_space_prefix=False)
        assert made.encode("h     h") == [*ids("h"), len(TOKENS), *ids("h")]
        assert made.decode([len(TOKENS)]) == "     "


def test_unused_ids_at_the_end_are_padding() -> None:
    made = sentencepiece([*PIECES, ("[PAD]", -1000.0, 5)])
    assert made.vocab_size == len(TOKENS)
    assert made.encode("hello") == ids("▁hello")


def test_ends_and_roles() -> None:
    assert PREFIX.eos == {2, *ids("<end_of_turn>")}
    assert (PREFIX.bos, PREFIX.adds_bos) == (1, True)
    assert PREFIX.special == {0, 1, 2, *ids("<end_of_turn>")}
    assert sentencepiece(eot_token_id=ids("hello")[0]).eos == {
        2, *ids("<end_of_turn>", "hello")
    }  # fmt: skip
    assert sentencepiece(add_bos_token=False).adds_bos is False
    assert sentencepiece(add_eos_token=True).encode("hello") == ids("▁hello")


def test_ids_a_file_does_not_name_are_llama_2s_where_they_are_control_tokens() -> None:
    made = sentencepiece(bos_token_id=None, eos_token_id=None)
    assert (made.bos, made.adds_bos) == (1, True)
    assert 2 in made.eos
    types = [2, 1, 3, *sentencepiece_metadata()["tokenizer.ggml.token_type"][3:]]
    made = sentencepiece(bos_token_id=None, token_type=types)
    assert (made.bos, made.adds_bos) == (None, False)


def test_a_chat() -> None:
    assert PREFIX.encode_chat([{"role": "user", "content": "hello"}])
    rendered = PREFIX.render_chat([{"role": "user", "content": "hello"}])
    assert rendered.startswith("<|im_start|>user\nhello")
    template = {
        "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    }
    made = Tokenizer.from_gguf(sentencepiece_metadata() | template)
    assert made.encode_chat([{"role": "user", "content": "hello"}]) == [1, *ids("▁hello"), 2]


def test_a_pickle_and_threads() -> None:
    other = pickle.loads(pickle.dumps(PREFIX))
    expected = {special: other.encode("<s> hello 😀" * 9, special=special) for special in (0, 1)}
    same: list[bool] = []

    def work(special: bool) -> None:
        for _ in range(100):
            found = PREFIX.encode("<s> hello 😀" * 9, special=special)
            same.append(found == expected[special])

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same == [True] * 400


def test_tokens_for_people_and_the_shared_check() -> None:
    assert PREFIX.token_text(*ids("▁hello")) == " hello"
    assert PREFIX.token_text(*ids("<0xF0>")) == "\\xf0"
    assert PREFIX.token_text(1) == "<s>"
    assert check_shared(PREFIX, NO_PREFIX) == len(TOKENS)


def without(name: str) -> dict[str, Any]:
    """One token less, under another name."""
    return {"tokens": [f"no {name}" if token == name else token for token in TOKENS]}


def one_score(value: Any) -> list[Any]:
    scores: list[Any] = sentencepiece_metadata()["tokenizer.ggml.scores"]
    return [*scores[:5], value, *scores[6:]]


def one_type(token: int, value: int) -> list[int]:
    types: list[int] = sentencepiece_metadata()["tokenizer.ggml.token_type"]
    return [*types[:token], value, *types[token + 1 :]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": None}, "tokenizer.ggml.scores is missing, or not a list of float"),
        ({"scores": [0.0] * 9}, "tokenizer.ggml.scores has 9 entries for 273 tokens"),
        ({"scores": one_score(1)}, "tokenizer.ggml.scores is missing, or not a list of float"),
        ({"scores": one_score(NAN)}, "tokenizer.ggml.scores has NaN for token 5, '<0x02>'; it has"),
        ({"token_type": None}, "tokenizer.ggml.token_type is missing.*from 1 to 6"),
        ({"token_type": [1, 2]}, "tokenizer.ggml.token_type has 2 entries for 273 tokens"),
        (without("<0x0A>"), "tokenizer.ggml.tokens lacks 1 of the 256 byte tokens, <0x0A> first"),
        ({"token_type": one_type(3, 1)}, "lacks 1 of the 256 byte tokens, <0x00> first; .*type 6"),
        ({"token_type": one_type(260, 6)}, "token_type is 6 .byte. for token 260 'h'; only"),
        ({"tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokens": [*TOKENS[:-1], "h"]}, "has 'h' twice: 260 and 272"),
        ({"add_space_prefix": 1}, "add_space_prefix must be true or false, not 1"),
        ({"add_bos_token": "yes"}, "add_bos_token must be true or false, not 'yes'"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        sentencepiece(**changes)
