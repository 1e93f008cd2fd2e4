"""Text to ids and back, whole and in a stream, on a small vocabulary and on SmolLM2's own."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.errors import PromptError
from forerun.models.gguf import read_gguf
from forerun.text.tokenizer import Tokenizer

from .tiny import LETTER, metadata, tokenizer

TINY = tokenizer()
TEXTS = [
    " a", "  a", "   a   ", "a\r\nb\r\n", "\r", "\n\n\n", "\t", "a\x00b", "é", "e\u0301", "\u0301",
    "😀", "👨‍👩‍👧‍👦", "你好，世界", "hello hello", "<|im_end|>", "12 1212", "\ufffd",
    "\U0010ffff", "",
]  # fmt: skip


def byte(value: int) -> int:
    """The id of a single byte in the small vocabulary."""
    return metadata()["tokenizer.ggml.tokens"].index(LETTER[value])


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_that_goes_in_comes_out(text: str) -> None:
    assert TINY.decode(TINY.encode(text)) == text


@given(st.text())
def test_any_text_comes_out_as_it_went_in(text: str) -> None:
    ids = TINY.encode(text)
    assert TINY.decode(ids) == text
    assert b"".join(map(TINY.token_bytes, ids)) == text.encode()


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(PromptError, match=r"half of a surrogate pair at position 1: '\\ud83d'"):
        TINY.encode("a\ud83d")


def test_special_tokens_are_text_unless_asked_for() -> None:
    assert TINY.encode("<|im_end|>") != [2]
    assert TINY.encode("<|im_end|>", special=True) == [2]
    assert TINY.encode("<|im_end|>") != [2]
    assert TINY.decode(TINY.encode("<|im_end|>")) == "<|im_end|>"


def test_user_defined_tokens_are_found_in_any_text_and_shown() -> None:
    assert TINY.encode("<think>") == [3]
    assert TINY.decode([3]) == "<think>"


def test_special_tokens_have_no_text_but_a_name() -> None:
    ids = [1, *TINY.encode("hello"), 2, 0]
    assert TINY.decode(ids) == "hello"
    assert TINY.token_bytes(2) == b""
    assert TINY.token_text(2) == "<|im_end|>"


def test_tokens_for_people() -> None:
    assert TINY.token_text(TINY.encode(" hello")[0]) == " hello"
    assert TINY.token_text(byte(0xF0)) == "\\xf0"


@pytest.mark.parametrize("token", [-1, 267, 10**9])
def test_ids_out_of_range_are_named(token: int) -> None:
    for use in (
        TINY.token_bytes,
        TINY.token_text,
        TINY.stream().push,
        lambda token: TINY.decode([token]),
    ):
        with pytest.raises(PromptError, match=f"token id {token} is out of range: 0 to 266"):
            use(token)


@given(st.binary())
def test_a_stream_shows_what_decode_shows(data: bytes) -> None:
    ids = [byte(value) for value in data]
    stream = TINY.stream()
    pieces = [stream.push(i) for i in ids]
    assert "".join(pieces) + stream.finish() == TINY.decode(ids) == data.decode(errors="replace")


@given(st.text(min_size=1))
def test_a_stream_never_shows_half_a_character(text: str) -> None:
    stream = TINY.stream()
    shown = ""
    for value in text.encode():
        shown += stream.push(byte(value))
        assert text.startswith(shown)
    assert shown == text
    assert stream.finish() == ""


def test_bytes_are_held_back_only_while_they_can_become_a_character() -> None:
    stream = TINY.stream()
    assert stream.push(byte(0xF0)) == ""
    assert stream.push(byte(0x9F)) == ""
    assert stream.push(byte(ord("a"))) == "\ufffda"
    assert stream.push(byte(0xFF)) == "\ufffd"
    assert stream.push(byte(0xE2)) == ""
    assert stream.finish() == "\ufffd"
    assert stream.finish() == ""


def test_a_special_token_in_a_stream_shows_nothing() -> None:
    stream = TINY.stream()
    assert [stream.push(i) for i in (1, byte(ord("a")), 2)] == ["", "a", ""]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_stream_can_be_copied_in_the_middle_of_a_character(copied) -> None:  # type: ignore[no-untyped-def]
    first, second, third = "€".encode()
    stream = TINY.stream()
    stream.push(byte(first))
    other = copied(stream)
    assert stream.push(byte(ord("a"))) == "\ufffda"
    assert other.push(byte(second)) + other.push(byte(third)) == "€"


def test_a_tokenizer_can_be_pickled() -> None:
    other = pickle.loads(pickle.dumps(TINY))
    assert other.encode(" hello<|im_end|>", special=True) == TINY.encode(
        " hello<|im_end|>", special=True
    )
    assert (other.eos, other.bos, other.chat_template) == (TINY.eos, TINY.bos, TINY.chat_template)


def test_threads_do_not_disturb_each_other() -> None:
    wrong: list[list[int]] = []
    plain = TINY.encode("<|im_end|>")

    def work(special: bool) -> None:
        for _ in range(300):
            found = TINY.encode("<|im_end|>", special=special)
            if found != ([2] if special else plain):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_chat_is_rendered_and_its_special_tokens_found() -> None:
    ids = TINY.encode_chat([{"role": "user", "content": "hello"}])
    assert ids[0] == 1
    assert ids.count(2) == 1
    assert TINY.decode(ids) == "user\nhello\nassistant\n"


def test_special_tokens_spelled_in_a_message_are_read_as_such() -> None:
    """As transformers and llama.cpp do; the docstring warns of it."""
    ids = TINY.encode_chat([{"role": "user", "content": "hello<|im_end|>"}])
    assert ids.count(2) == 2
    assert TINY.decode(ids) == "user\nhello\nassistant\n"


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(read_gguf(smollm2_path).metadata)


@pytest.mark.model
def test_smollm2_is_tokenised_as_llama_cpp_does(smollm2: Tokenizer, data: Path) -> None:
    vectors = json.loads((data / "smollm2_tokens.json").read_text())["vectors"]
    assert len(vectors) > 250
    for vector in vectors:
        assert smollm2.encode(vector["text"]) == vector["ids"], vector["text"]
        parsed = vector.get("special", vector["ids"])
        assert smollm2.encode(vector["text"], special=True) == parsed, vector["text"]


@pytest.mark.model
def test_smollm2_gives_every_text_back(smollm2: Tokenizer, data: Path) -> None:
    lost = "\x1d"  # one of the few bytes the vocabulary has no token for
    for vector in json.loads((data / "smollm2_tokens.json").read_text())["vectors"]:
        assert smollm2.decode(vector["ids"]) == vector["text"].replace(lost, "")


@pytest.mark.model
def test_smollm2_takes_digits_one_by_one_and_keeps_spaces(smollm2: Tokenizer) -> None:
    pieces = [smollm2.token_text(i) for i in smollm2.encode("In  1999,")]
    assert pieces == ["In", "  ", "1", "9", "9", "9", ","]


@pytest.mark.model
def test_smollm2s_end_tokens_and_template(smollm2: Tokenizer) -> None:
    assert {smollm2.token_text(i) for i in smollm2.eos} == {"<|im_end|>", "<|endoftext|>"}
    assert (smollm2.bos, smollm2.adds_bos, smollm2.vocab_size) == (1, False, 49152)
    assert smollm2.render_chat([{"role": "user", "content": "Hi"}]) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
