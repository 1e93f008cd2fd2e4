"""What GGUF files of every kind say of their tokens: names, types, and which have a role.

    tokenizer.ggml.tokens       the names, by id
    tokenizer.ggml.token_type   1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte

Unknown and control tokens are special, and so is every one that begins or ends a text. User-defined
ones are found in any text, as the models' own tokenizers do. Ids at the end that are marked unused
are padding, not vocabulary. Prompts end without EOS, so `add_eos_token` is not read.

This module does not know how text becomes tokens (`byte_level.py`, `sentencepiece.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forerun.errors import ModelFileError
from forerun.text.encoder import Encoder
from forerun.text.end_tokens import end_tokens
from forerun.text.tokenizer import Vocabulary

KEY = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
# The names chat templates know tokens by, and the files' own.
_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


@dataclass(frozen=True, kw_only=True)
class TokenTable:
    """The tokens of a file, and their roles; made by `read_table`."""

    tokens: Sequence[str]
    types: Sequence[int]
    special: frozenset[int]
    user_defined: Sequence[int]  # those that are not special
    bos: int | None
    eos: frozenset[int]
    roles: Mapping[str, str]  # bos_token, eos_token, ...: the names of their tokens
    chat_template: str | None

    def vocabulary(
        self,
        *,
        encoder: Encoder,
        token_bytes: Sequence[bytes],
        adds_bos: bool,
        strip_first: bytes = b"",
        fallback: frozenset[int] = frozenset(),
    ) -> Vocabulary:
        return Vocabulary(
            encoder=encoder,
            token_bytes=token_bytes,
            special=self.special,
            bos=self.bos,
            adds_bos=adds_bos and self.bos is not None,
            eos=self.eos,
            chat_template=self.chat_template,
            template_tokens=self.roles,
            strip_first=strip_first,
            fallback=fallback,
        )


def read_table(metadata: Mapping[str, Any], *, default_ids: Mapping[str, int]) -> TokenTable:
    """The table. `default_ids` are of control tokens, by role, where a file names none."""
    tokens = _tokens(metadata)
    types = read_list(metadata, "token_type", int, [NORMAL] * len(tokens), len(tokens))
    while types and types[-1] == UNUSED:
        types.pop()
        tokens.pop()
    control = {i for i, kind in enumerate(types) if kind in (UNKNOWN, CONTROL)}

    def role(name: str) -> int | None:
        key = f"{KEY}{name}_token_id"
        if key not in metadata:
            found = default_ids.get(name)
            return found if found in control else None
        found = metadata[key]
        return found if isinstance(found, int) and 0 <= found < len(tokens) else None

    named = {name: role(name) for name in ("bos", "eos", "eot", "eom")}
    special = control | {i for i in named.values() if i is not None}
    return TokenTable(
        tokens=tokens,
        types=types,
        special=frozenset(special),
        user_defined=[
            i for i, kind in enumerate(types) if kind == USER_DEFINED and i not in special
        ],
        bos=named["bos"],
        eos=end_tokens(
            (named[name] for name in ("eos", "eot", "eom")), {tokens[i]: i for i in control}
        ),
        roles={key: tokens[i] for key, name in _ROLES.items() if (i := role(name)) is not None},
        chat_template=metadata.get("tokenizer.chat_template"),
    )


def read_list(
    metadata: Mapping[str, Any], name: str, of: type, default: Any = None, length: int | None = None
) -> list[Any]:
    """A list of one type. ModelFileError if it is missing, or has not `length` entries."""
    found = metadata.get(KEY + name, default)
    if not isinstance(found, list) or not set(map(type, found)) <= {of}:
        raise ModelFileError(f"{KEY}{name} is missing, or not a list of {of.__name__}")
    if length is not None and len(found) != length:
        raise ModelFileError(f"{KEY}{name} has {len(found)} entries for {length} tokens")
    return list(found)


def _tokens(metadata: Mapping[str, Any]) -> list[str]:
    tokens = read_list(metadata, "tokens", str)
    tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(tokens)]
    if len(set(tokens)) < len(tokens):
        first: dict[str, int] = {}
        for i, token in enumerate(tokens):
            if first.setdefault(token, i) != i:
                raise ModelFileError(f"{KEY}tokens has {token!r} twice: {first[token]} and {i}")
    return tokens
