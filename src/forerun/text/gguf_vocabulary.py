"""A GGUF file's metadata as a vocabulary: byte-level BPE, the files' "gpt2" model.

Tokens and merges lie in the file; how text is cut before merging is only named there, see
`pretokenizers.py`. Control tokens are special. User-defined ones are found in any text, as the
models' own tokenizers do. Ids at the end that are marked unused are padding, not vocabulary.
GGUF files know no normalisation, so text is taken as it is (llama.cpp does the same).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models

from forerun.errors import ModelFileError
from forerun.text.end_tokens import end_tokens
from forerun.text.pretokenizers import pre_tokenizer
from forerun.text.tokenizer import Vocabulary

_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 2, 3, 4, 5  # tokenizer.ggml.token_type
_KEY = "tokenizer.ggml."
# The names chat templates know tokens by, and the files' own.
_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def read_metadata(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary in a GGUF file's metadata. ModelFileError says what is missing or unknown."""
    model = metadata.get(_KEY + "model")
    if model is None:
        raise ModelFileError(f"the file holds no tokenizer: {_KEY}model is missing")
    if model != "gpt2":
        kind = " (SentencePiece)" if model == "llama" else ""
        raise ModelFileError(
            f"tokenizer model {model!r}{kind} cannot be read from a GGUF file yet. Known: 'gpt2' "
            "(byte-level BPE). A folder with the model's tokenizer.json works"
        )
    if _KEY + "pre" not in metadata:
        raise ModelFileError(
            f"{_KEY}pre is missing, so how this model cuts text is unknown; files made since "
            "April 2024 have it: convert the model again"
        )
    pre = pre_tokenizer(metadata[_KEY + "pre"])
    tokens = _tokens(metadata)
    types = _list(metadata, "token_type", int, [1] * len(tokens), len(tokens))
    while types and types[-1] == _UNUSED:
        types.pop()
        tokens.pop()
    named = {name: _id(metadata, name, len(tokens)) for name in ("bos", "eos", "eot", "eom")}
    control = {i for i, kind in enumerate(types) if kind in (_UNKNOWN, _CONTROL)}
    special = control | {i for i in named.values() if i is not None}
    user_defined = [i for i, kind in enumerate(types) if kind == _USER_DEFINED and i not in special]
    added = special.union(user_defined)

    backend = Tokenizer(_merging(tokens, _list(metadata, "merges", str), pre.whole_words))
    backend.pre_tokenizer = pre.build()
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(tokens[i], normalized=False) for i in sorted(special)])
    backend.add_tokens([AddedToken(tokens[i], normalized=False) for i in user_defined])
    bos = named["bos"]
    return Vocabulary(
        backend=backend,
        token_bytes=[
            token.encode() if i in added else from_letters(token) for i, token in enumerate(tokens)
        ],
        special=frozenset(special),
        bos=bos,
        adds_bos=bos is not None and bool(metadata.get(_KEY + "add_bos_token", pre.adds_bos)),
        eos=end_tokens(
            (named[name] for name in ("eos", "eot", "eom")), {tokens[i]: i for i in control}
        ),
        chat_template=metadata.get("tokenizer.chat_template"),
        template_tokens={
            role: tokens[i]
            for role, name in _ROLES.items()
            if (i := _id(metadata, name, len(tokens))) is not None
        },
    )


def _merging(tokens: Sequence[str], merges: Sequence[str], whole_words: bool) -> models.BPE:
    pairs: list[tuple[str, str]] = []
    for merge in merges:
        left, gap, right = merge.partition(" ")
        if not (left and gap and right):
            raise ModelFileError(f"{_KEY}merges has {merge!r}, which is not a pair of tokens")
        pairs.append((left, right))
    try:
        return models.BPE(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=pairs,
            ignore_merges=whole_words,
        )
    except Exception as error:  # the library raises nothing more precise
        raise ModelFileError(f"the tokens and merges do not fit together: {error}") from error


def _tokens(metadata: Mapping[str, Any]) -> list[str]:
    tokens = _list(metadata, "tokens", str)
    tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(tokens)]
    if len(set(tokens)) < len(tokens):
        first: dict[str, int] = {}
        for i, token in enumerate(tokens):
            if first.setdefault(token, i) != i:
                raise ModelFileError(f"{_KEY}tokens has {token!r} twice: {first[token]} and {i}")
    return tokens


def _list(
    metadata: Mapping[str, Any], name: str, of: type, default: Any = None, length: int | None = None
) -> list[Any]:
    found = metadata.get(_KEY + name, default)
    if not isinstance(found, list) or not all(type(item) is of for item in found):
        raise ModelFileError(f"{_KEY}{name} is missing, or not a list of {of.__name__}")
    if length is not None and len(found) != length:
        raise ModelFileError(f"{_KEY}{name} has {len(found)} entries for {length} tokens")
    return list(found)


def _id(metadata: Mapping[str, Any], name: str, size: int) -> int | None:
    found = metadata.get(f"{_KEY}{name}_token_id")
    return found if isinstance(found, int) and 0 <= found < size else None


def _letters() -> dict[str, int]:
    """GPT-2's printable letter for each byte: itself where it is visible, else from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)) - set(visible))
    return {chr(b): b for b in visible} | {chr(0x100 + i): b for i, b in enumerate(hidden)}


_BYTE_OF = _letters()


def from_letters(token: str) -> bytes:
    """The bytes a byte-level token stands for; a token with other letters stands for itself."""
    try:
        return bytes([_BYTE_OF[letter] for letter in token])
    except KeyError:
        return token.encode()
