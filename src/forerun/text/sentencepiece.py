"""SentencePiece's BPE in GGUF files, their "llama" model: Llama 2, Mistral, Gemma.

The file gives each token a score; `score_merges.py` says how text becomes tokens by them. `▁` in a
name is a space, `<0x0A>` of the type byte is that byte, and where `add_space_prefix` says so (it
does unless the file denies it) a text begins with a space that is not its own.

What merges is text: names of control, unknown and byte tokens that stand in a text are their
letters, as in SentencePiece (llama.cpp could merge its way to one). Where user-defined tokens
overlap, the leftmost counts, as in SentencePiece (llama.cpp takes the longest anywhere first).
And a token has the type its file gives it: `</s>` is one of Gemma's HTML tags (llama.cpp makes it
control by its name). A `▁` in a text is a space, there and here. Spaces that a model's own
tokenizer drops after special tokens (Phi-3) are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from forerun.errors import ModelFileError
from forerun.text.gguf_table import BYTE, KEY, TokenTable, read_list, read_table
from forerun.text.score_merges import SPACE, ScoreMerges
from forerun.text.tokenizer import Vocabulary

_BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]
_DEFAULT_IDS = {"unknown": 0, "bos": 1, "eos": 2}


def read_sentencepiece(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary. ModelFileError for scores or byte tokens that are missing or wrong."""
    if KEY + "token_type" not in metadata:
        raise ModelFileError(
            f"{KEY}token_type is missing, so control and byte tokens cannot be told from text; "
            "it has a number from 1 to 6 for each token: convert the model again"
        )
    table = read_table(metadata, default_ids=_DEFAULT_IDS)
    scores = _scores(metadata)
    byte_ids = _byte_ids(table)
    space_first = _flag(metadata, "add_space_prefix")
    ids = {token: i for i, token in enumerate(table.tokens)}
    token_bytes = [token.replace(SPACE, " ").encode() for token in table.tokens]
    for i in table.special:
        token_bytes[i] = table.tokens[i].encode()
        del ids[table.tokens[i]]
    for byte, i in enumerate(byte_ids):
        token_bytes[i] = bytes([byte])
        ids.pop(table.tokens[i], None)
    return table.vocabulary(
        encoder=ScoreMerges(
            ids=ids,
            scores=scores,
            byte_ids=byte_ids,
            whole={table.tokens[i].replace(SPACE, " "): i for i in table.user_defined},
            whole_if_special={table.tokens[i]: i for i in table.special},
            space_first=space_first,
        ),
        token_bytes=token_bytes,
        adds_bos=_flag(metadata, "add_bos_token"),
        strip_first=b" " if space_first else b"",
        fallback=frozenset(byte_ids),
    )


def _scores(metadata: Mapping[str, Any]) -> list[float]:
    tokens = metadata[KEY + "tokens"]
    scores = read_list(metadata, "scores", float, length=len(tokens))
    if any(map(math.isnan, scores)):
        i = next(i for i, score in enumerate(scores) if math.isnan(score))
        raise ModelFileError(
            f"{KEY}scores has NaN for token {i}, {tokens[i]!r}; it has a number for each token, "
            "the higher the earlier it is merged"
        )
    return scores


def _byte_ids(table: TokenTable) -> list[int]:
    """The ids of the byte tokens, by byte."""
    ids = {table.tokens[i]: i for i, kind in enumerate(table.types) if kind == BYTE}
    missing = [name for name in _BYTE_NAMES if name not in ids]
    if missing:
        raise ModelFileError(
            f"{KEY}tokens lacks {len(missing)} of the 256 byte tokens, {missing[0]} first; "
            f"'<0x00>' to '<0xFF>' are needed, each with {KEY}token_type {BYTE}"
        )
    if len(ids) > len(_BYTE_NAMES):
        strange = next(name for name in ids if name not in _BYTE_NAMES)
        raise ModelFileError(
            f"{KEY}token_type is {BYTE} (byte) for token {ids[strange]} {strange!r}; "
            "only '<0x00>' to '<0xFF>' are bytes"
        )
    return [ids[name] for name in _BYTE_NAMES]


def _flag(metadata: Mapping[str, Any], name: str) -> bool:
    """A flag that is on unless the file denies it."""
    found = metadata.get(KEY + name, True)
    if not isinstance(found, bool):
        raise ModelFileError(f"{KEY}{name} must be true or false, not {found!r}")
    return found
