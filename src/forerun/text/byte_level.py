"""Byte-level BPE in GGUF files, their "gpt2" model: letters for bytes, and a list of merges.

Tokens and merges lie in the file; how text is cut before merging is only named there, see
`pretokenizers.py`. GGUF files know no normalisation, so text is taken as it is (llama.cpp does the
same).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models

from forerun.errors import ModelFileError
from forerun.text.encoder import LibraryEncoder
from forerun.text.gguf_table import KEY, read_list, read_table
from forerun.text.pretokenizers import pre_tokenizer
from forerun.text.tokenizer import Vocabulary


def read_byte_level(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary. ModelFileError for a way of cutting text that the file does not name."""
    if KEY + "pre" not in metadata:
        raise ModelFileError(
            f"{KEY}pre is missing, so how this model cuts text is unknown; files made since "
            "April 2024 have it: convert the model again"
        )
    pre = pre_tokenizer(metadata[KEY + "pre"])
    table = read_table(metadata, default_ids={})
    tokens, added = table.tokens, table.special.union(table.user_defined)
    library = Tokenizer(_merging(tokens, read_list(metadata, "merges", str), pre.whole_words))
    library.pre_tokenizer = pre.build()
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(
        [AddedToken(tokens[i], normalized=False) for i in sorted(table.special)]
    )
    library.add_tokens([AddedToken(tokens[i], normalized=False) for i in table.user_defined])
    return table.vocabulary(
        encoder=LibraryEncoder(library),
        token_bytes=[
            token.encode() if i in added else from_letters(token) for i, token in enumerate(tokens)
        ],
        adds_bos=bool(metadata.get(KEY + "add_bos_token", pre.adds_bos)),
    )


def _merging(tokens: Sequence[str], merges: Sequence[str], whole_words: bool) -> models.BPE:
    pairs: list[tuple[str, str]] = []
    for merge in merges:
        left, gap, right = merge.partition(" ")
        if not (left and gap and right):
            raise ModelFileError(f"{KEY}merges has {merge!r}, which is not a pair of tokens")
        pairs.append((left, right))
    try:
        return models.BPE(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=pairs,
            ignore_merges=whole_words,
        )
    except Exception as error:  # the library raises nothing more precise
        raise ModelFileError(f"the tokens and merges do not fit together: {error}") from error


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
