"""A small byte-level vocabulary in the form of GGUF metadata."""

from __future__ import annotations

from typing import Any

from forerun.text.gguf_vocabulary import _BYTE_OF
from forerun.text.tokenizer import Tokenizer

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
