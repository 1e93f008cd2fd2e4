"""Small vocabularies in the form of GGUF metadata: byte-level BPE, and SentencePiece's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.text.byte_level import _BYTE_OF
from forerun.text.encoder import LibraryEncoder
from forerun.text.tokenizer import Tokenizer, Vocabulary

LETTER = {byte: letter for letter, byte in _BYTE_OF.items()}
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # ids 0, 1, 2
USER_DEFINED = ("<think>",)  # id 3
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ Ġ", "1 2")  # ids 260 on
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def metadata(**changes: Any) -> dict[str, Any]:
    """The metadata; keywords replace `tokenizer.ggml.*` entries, None removes one."""
    letters = [LETTER[byte] for byte in range(256)]
    tokens = [*CONTROL, *USER_DEFINED, *letters, *(merge.replace(" ", "") for merge in MERGES)]
    found = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [3, 3, 3, 4] + [1] * (len(tokens) - 4),
        "merges": list(MERGES),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": False,
    } | changes
    named = {f"tokenizer.ggml.{key}": value for key, value in found.items() if value is not None}
    return named | {"general.architecture": "llama", "tokenizer.chat_template": TEMPLATE}


def tokenizer(**changes: Any) -> Tokenizer:
    return Tokenizer.from_gguf(metadata(**changes))


def library(made: Tokenizer) -> Any:
    """The `tokenizers.Tokenizer` behind a tokenizer."""
    encoder = made._vocabulary.encoder
    assert isinstance(encoder, LibraryEncoder)
    return encoder.library


PIECES = (  # ids 259 on: name, score, type
    ("▁", -20.0, 1), ("h", -21.0, 1), ("e", -22.0, 1), ("l", -23.0, 1), ("o", -24.0, 1),
    ("he", -2.0, 1), ("ll", -1.0, 1), ("hell", -3.0, 1), ("hello", -4.0, 1), ("▁hello", -5.0, 1),
    ("▁▁", -6.0, 1), ("<tag>", -1000.0, 4), ("<tags>", -1000.0, 4), ("<end_of_turn>", 0.0, 3),
)  # fmt: skip


def sentencepiece_metadata(
    pieces: Sequence[Sequence[Any]] = PIECES, **changes: Any
) -> dict[str, Any]:
    """<unk>, <s>, </s>, the 256 bytes, then `pieces`; keywords as in `metadata`."""
    head = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    head += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    tokens, scores, types = map(list, zip(*head, *pieces))
    found = {
        "model": "llama",
        "tokens": tokens,
        "scores": scores,
        "token_type": types,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes
    named = {f"tokenizer.ggml.{key}": value for key, value in found.items() if value is not None}
    return named | {"general.architecture": "llama", "tokenizer.chat_template": TEMPLATE}


def sentencepiece(pieces: Sequence[Sequence[Any]] = PIECES, **changes: Any) -> Tokenizer:
    return Tokenizer.from_gguf(sentencepiece_metadata(pieces, **changes))


class Greedy:
    """An encoder that takes the longest piece that fits, the first of equals."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        data, ids = text.encode(), []
        while data:
            fits = [i for i, piece in enumerate(self.pieces) if piece and data.startswith(piece)]
            ids.append(max(fits, key=lambda i: (len(self.pieces[i]), -i)))
            data = data[len(self.pieces[ids[-1]]) :]
        return ids


def of_pieces(pieces: Sequence[bytes], ends: int = 1) -> Tokenizer:
    """A vocabulary of these pieces, and `ends` special tokens after them, which end a text."""
    special = range(len(pieces), len(pieces) + ends)
    names = [*pieces, *(f"<end{i}>".encode() for i in range(ends))]
    return Tokenizer(
        Vocabulary(
            encoder=Greedy(pieces),
            token_bytes=names,
            special=frozenset(special),
            eos=frozenset(special),
        )
    )
