"""Model folders: each kind of tokenizer.json, and the files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from forerun.errors import ModelFileError
from forerun.models.gguf import read_gguf
from forerun.text.tokenizer import Tokenizer

from .tiny import TEMPLATE, library, tokenizer

PIECES = [
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{b:02X}>" for b in range(256)),
    "▁",
    "a",
    "b",
    "▁a",
    "▁ab",
    "é",
]


def sentencepiece(prefix: bool) -> tokenizers.Tokenizer:
    """As Llama 2 (a space before the text) and Gemma (none) write theirs."""
    merges = [("▁", "a"), ("▁a", "b")]
    made = tokenizers.Tokenizer(
        models.BPE(
            vocab={piece: i for i, piece in enumerate([*PIECES])},
            merges=merges,
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    prepend = [normalizers.Prepend("▁")] if prefix else []
    made.normalizer = normalizers.Sequence([*prepend, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    made.add_special_tokens([AddedToken(name, normalized=False) for name in PIECES[:3]])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return made


def metaspace() -> tokenizers.Tokenizer:
    made = sentencepiece(prefix=False)
    made.normalizer = None
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    return made


def folder(path: Path, backend: tokenizers.Tokenizer, **files: Any) -> Path:
    backend.save(str(path / "tokenizer.json"))
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (path / name.replace("__", ".")).write_text(text)
    return path


def byte_level() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(library(tokenizer()).to_str())


@pytest.mark.parametrize("prefix", [True, False])
@given(text=st.text())
@settings(max_examples=50, deadline=None)
def test_sentencepiece_texts_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, prefix: bool, text: str
) -> None:
    text = text.replace("▁", "_")  # in such a vocabulary this letter is a space
    made = Tokenizer.from_folder(folder(tmp_path_factory.mktemp("m"), sentencepiece(prefix)))
    ids = made.encode(text)
    assert made.decode(ids) == text
    stream = made.stream()
    assert "".join(map(stream.push, ids)) + stream.finish() == text


@pytest.mark.parametrize("prompt", ["a", " a", "ab ab", "é"])
@pytest.mark.parametrize("continuation", ["▁b ▁b", "▁a ▁ab", "▁ ▁ab", "b ▁a", "a", "<0x0A> ▁a"])
def test_a_continuation_keeps_the_space_at_the_join(
    tmp_path: Path, prompt: str, continuation: str
) -> None:
    for backend in (sentencepiece(True), sentencepiece(False), metaspace()):
        backend.add_tokens(["▁b"])
        made = Tokenizer.from_folder(folder(tmp_path, backend))
        begun, more = (
            made.encode(prompt),
            [library(made).token_to_id(t) for t in continuation.split()],
        )
        stream = made.stream(continuing=True)
        shown = "".join(map(stream.push, more)) + stream.finish()
        assert made.decode(begun) + shown == made.decode([*begun, *more])


def test_a_text_of_its_own_begins_without_the_space(tmp_path: Path) -> None:
    made = Tokenizer.from_folder(folder(tmp_path, sentencepiece(True)))
    ids = [PIECES.index("▁a"), PIECES.index("▁ab")]
    assert made.stream().extend(ids) == "a ab"
    assert made.stream(continuing=True).extend(ids) == " a ab"


@pytest.mark.parametrize("text", ["ab", " ab", "  ab a", "é", "日本", "a\nb"])
def test_decoding_agrees_with_the_library(tmp_path: Path, text: str) -> None:
    for backend in (sentencepiece(True), sentencepiece(False), metaspace(), byte_level()):
        made = Tokenizer.from_folder(folder(tmp_path, backend))
        ids = made.encode(text)
        assert ids == backend.encode(text, add_special_tokens=False).ids
        assert made.decode(ids) == backend.decode(ids)


def test_an_added_token_of_spaces_is_spaces(tmp_path: Path) -> None:
    for backend in (sentencepiece(False), metaspace()):
        backend.add_tokens([AddedToken("▁▁▁", normalized=False)])
        ids = [PIECES.index("a"), len(PIECES), PIECES.index("a")]
        made = Tokenizer.from_folder(folder(tmp_path, backend))
        assert made.decode(ids) == backend.decode(ids) == "a   a"


def test_bytes_of_sentencepiece_tokens(tmp_path: Path) -> None:
    made = Tokenizer.from_folder(folder(tmp_path, sentencepiece(True)))
    assert made.token_bytes(PIECES.index("<0x0A>")) == b"\n"
    assert made.token_bytes(PIECES.index("▁ab")) == b" ab"
    assert made.token_bytes(1) == b""
    assert made.token_text(1) == "<s>"


def test_bos_is_what_the_tokenizer_puts_first(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    made = Tokenizer.from_folder(
        folder(tmp_path, sentencepiece(True), tokenizer_config__json=config)
    )
    assert (made.bos, made.adds_bos, made.eos) == (1, True, {2})
    config["add_bos_token"] = False
    made = Tokenizer.from_folder(
        folder(tmp_path, sentencepiece(True), tokenizer_config__json=config)
    )
    assert (made.bos, made.adds_bos) == (1, False)


def test_without_a_config_bos_is_found_in_the_tokenizer_alone(tmp_path: Path) -> None:
    made = Tokenizer.from_folder(folder(tmp_path, sentencepiece(True)))
    assert (made.bos, made.adds_bos) == (1, True)
    made = Tokenizer.from_folder(folder(tmp_path, byte_level()))
    assert (made.bos, made.adds_bos) == (None, False)


def test_ends_are_gathered_from_all_files(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        byte_level(),
        tokenizer_config__json={"eos_token": "<|im_end|>"},
        generation_config__json={"eos_token_id": [7, 8]},
        config__json={"eos_token_id": 9, "text_config": {"eos_token_id": 10}},
    )
    assert Tokenizer.from_folder(path).eos == {0, 2, 7, 8, 9, 10}


@pytest.mark.parametrize(
    "files",
    [
        {"chat_template__jinja": TEMPLATE},
        {"tokenizer_config__json": {"chat_template": TEMPLATE}},
        {
            "tokenizer_config__json": {
                "chat_template": [
                    {"name": "tool_use", "template": "x"},
                    {"name": "default", "template": TEMPLATE},
                ]
            }
        },
        {"chat_template__json": {"chat_template": TEMPLATE}},
    ],
)
def test_where_chat_templates_stand(tmp_path: Path, files: dict[str, Any]) -> None:
    assert Tokenizer.from_folder(folder(tmp_path, byte_level(), **files)).chat_template == TEMPLATE


def test_no_chat_template(tmp_path: Path) -> None:
    assert Tokenizer.from_folder(folder(tmp_path, byte_level())).chat_template is None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no tokenizer.json; transformers can write it"),
        ({"tokenizer.json": "{"}, "tokenizer.json cannot be read"),
        ({"tokenizer.json": None, "config.json": "{"}, "config.json is not valid JSON"),
        ({"tokenizer.json": None, "tokenizer_config.json": "[]"}, "holds a list, not an object"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: dict[str, str | None], message: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(byte_level().to_str() if content is None else content)
    with pytest.raises(ModelFileError, match=message):
        Tokenizer.from_folder(tmp_path)


def test_an_unknown_decoder_is_refused(tmp_path: Path) -> None:
    backend = byte_level()
    backend.decoder = decoders.WordPiece()
    with pytest.raises(ModelFileError, match=r"decoder \(WordPiece\) is unknown. Known: ByteLevel"):
        Tokenizer.from_folder(folder(tmp_path, backend))


@pytest.mark.model
def test_smollm2_from_a_folder_is_smollm2_from_gguf(
    smollm2_path: Path, tmp_path: Path, data: Path
) -> None:
    ours = Tokenizer.from_gguf(read_gguf(smollm2_path).metadata)
    other = Tokenizer.from_folder(folder(tmp_path, library(ours)))
    assert [ours.token_bytes(i) for i in range(49152)] == [
        other.token_bytes(i) for i in range(49152)
    ]
    for vector in json.loads((data / "smollm2_tokens.json").read_text())["vectors"]:
        assert other.encode(vector["text"]) == vector["ids"]
