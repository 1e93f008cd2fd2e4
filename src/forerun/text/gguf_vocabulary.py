"""A GGUF file's metadata as a vocabulary, by the kind of tokenizer the file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forerun.errors import ModelFileError
from forerun.text.byte_level import read_byte_level
from forerun.text.gguf_table import KEY
from forerun.text.sentencepiece import read_sentencepiece
from forerun.text.tokenizer import Vocabulary

KINDS: dict[str, Callable[[Mapping[str, Any]], Vocabulary]] = {
    "gpt2": read_byte_level,
    "llama": read_sentencepiece,
}


def read_metadata(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary in a GGUF file's metadata. ModelFileError says what is missing or unknown."""
    model = metadata.get(KEY + "model")
    if model is None:
        raise ModelFileError(f"the file holds no tokenizer: {KEY}model is missing")
    if model not in KINDS:
        raise ModelFileError(
            f"tokenizer model {model!r} cannot be read from a GGUF file. Known: 'gpt2' (byte-level "
            "BPE), 'llama' (SentencePiece's BPE). A folder with the model's tokenizer.json works"
        )
    return KINDS[model](metadata)
