"""A model folder's tokenizer files as a vocabulary: tokenizer.json and its companions.

tokenizer.json says how to merge and how to put tokens together again; from the second we take the
bytes of each token, so that streaming needs no library call. Byte-level BPE (GPT-2, Llama 3, Qwen)
and SentencePiece's kind (Llama 2, Mistral, Gemma: `▁` for a space, `<0x0A>` for a byte) can be
read. Which token begins and ends a text stands in tokenizer_config.json, generation_config.json
and config.json; the chat template in chat_template.jinja or tokenizer_config.json. Where a
tokenizer normalises text first (Qwen: NFC), the text that comes out is the normalised one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from forerun.errors import ModelFileError
from forerun.text.byte_level import from_letters
from forerun.text.encoder import LibraryEncoder
from forerun.text.end_tokens import end_tokens
from forerun.text.tokenizer import Vocabulary

_FALLBACK = re.compile("<0x[0-9A-Fa-f]{2}>").fullmatch
_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")


def read_folder(path: str | os.PathLike[str]) -> Vocabulary:
    """The vocabulary of a model folder. ModelFileError if tokenizer.json is missing or strange."""
    folder = Path(path)
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ModelFileError(
            f"{folder} has no tokenizer.json; transformers can write it: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        )
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more precise
        raise ModelFileError(f"{file} cannot be read: {error}") from error
    config = _json(folder / "tokenizer_config.json")
    roles = _roles(config, _json(folder / "special_tokens_map.json"))
    added = backend.get_added_tokens_decoder()
    special = {i for i, token in added.items() if token.special}
    special |= {i for i in (backend.token_to_id(name) for name in roles.values()) if i in added}

    to_bytes, strip_first = _decoder(file, backend)
    verbatim = added if to_bytes is from_letters else special  # an added "▁▁" is spaces
    ids = backend.get_vocab(with_added_tokens=True)
    token_bytes = [b""] * (max(ids.values(), default=-1) + 1)
    for token, i in ids.items():
        token_bytes[i] = token.encode() if i in verbatim else to_bytes(token)

    bos, adds_bos = _bos(backend, config, roles)
    return Vocabulary(
        encoder=LibraryEncoder(backend),
        token_bytes=token_bytes,
        special=frozenset(special),
        fallback=frozenset(
            i for token, i in ids.items() if _FALLBACK(token) and len(token_bytes[i]) == 1
        ),
        bos=bos,
        adds_bos=adds_bos,
        eos=end_tokens(
            _named_ends(folder, backend, roles),
            {added[i].content: i for i in special if i in added},
        ),
        chat_template=_template(folder, config),
        template_tokens=roles,
        strip_first=strip_first,
    )


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFileError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ModelFileError(f"{file} holds a {type(found).__name__}, not an object")
    return found


def _roles(*configs: Mapping[str, Any]) -> dict[str, str]:
    """Names of the tokens with a role; a file gives each as a string or as an object."""
    found: dict[str, str] = {}
    for config in configs:
        for role in _ROLES:
            name = config.get(role)
            name = name.get("content") if isinstance(name, dict) else name
            if isinstance(name, str):
                found.setdefault(role, name)
    return found


def _bos(
    backend: Any, config: Mapping[str, Any], roles: Mapping[str, str]
) -> tuple[int | None, bool]:
    """BOS, and whether raw text starts with it: what the tokenizer itself puts before no text."""
    before = backend.encode("", add_special_tokens=True).ids[:1]
    bos = backend.token_to_id(roles["bos_token"]) if "bos_token" in roles else None
    if bos is None and before and "bos_token" not in roles:
        token = backend.id_to_token(before[0])
        bos = None if token == roles.get("eos_token") else before[0]
    adds = config.get("add_bos_token")
    if not isinstance(adds, bool):
        adds = before == [bos]
    return bos, adds and bos is not None


def _named_ends(folder: Path, backend: Any, roles: Mapping[str, str]) -> list[int | None]:
    found: list[int | None] = []
    for name in ("generation_config.json", "config.json"):
        config = _json(folder / name)
        text = config.get("text_config")
        for ends in (config.get("eos_token_id"), text and text.get("eos_token_id")):
            found += [i for i in (ends if isinstance(ends, list) else [ends]) if type(i) is int]
    if "eos_token" in roles:
        found.append(backend.token_to_id(roles["eos_token"]))
    return found


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = config.get("chat_template") or _json(folder / "chat_template.json").get("chat_template")
    if isinstance(found, list):  # several, by name
        found = {entry.get("name"): entry.get("template") for entry in found}.get("default")
    return found if isinstance(found, str) else None


def _decoder(file: Path, backend: Any) -> tuple[Callable[[str], bytes], bytes]:
    """How a token's letters become its bytes, and what is taken off the beginning of a text."""
    state = {} if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    steps = state.get("decoders", [state])
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"]:
        return from_letters, b""
    if kinds == ["Metaspace"]:
        mark = steps[0]["replacement"]
        strip = b"" if steps[0].get("prepend_scheme") == "never" else b" "
        return (lambda token: token.replace(mark, " ").encode()), strip
    if "ByteFallback" in kinds and set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip"}:
        marks = [
            (step["pattern"]["String"], step["content"])
            for step in steps
            if step["type"] == "Replace" and "String" in step["pattern"]
        ]
        strips = [step["content"] * step["start"] for step in steps if step["type"] == "Strip"]
        return (lambda token: _with_fallback(token, marks)), "".join(strips).encode()
    raise ModelFileError(
        f"{file}: its decoder ({', '.join(map(str, kinds))}) is unknown. Known: ByteLevel, "
        "Metaspace, and Replace with ByteFallback"
    )


def _with_fallback(token: str, marks: list[tuple[str, str]]) -> bytes:
    if _FALLBACK(token):
        return bytes([int(token[3:5], 16)])
    for mark, text in marks:
        token = token.replace(mark, text)
    return token.encode()
