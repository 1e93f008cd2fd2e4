"""The Hugging Face hub, as far as tokenizers need it; the only importer of huggingface_hub.

Weights are fetched by transformers itself, into the same cache of the hub.
"""

from __future__ import annotations

import re
from pathlib import Path

from forerun.errors import FetchError, MissingExtraError

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "config.json",
    "chat_template.jinja",
    "chat_template.json",
)


def is_hub_id(name: str) -> bool:
    """Whether `name` looks like `owner/name`."""
    return re.fullmatch(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", name) is not None


def fetch_tokenizer(name: str) -> Path:
    """A folder with the tokenizer's files of hub model `name`, from the hub's cache if there.

    MissingExtraError without huggingface_hub; FetchError if the hub does not give them.
    """
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError.of("huggingface_hub", "hf", f"the hub model {name!r}") from error
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=list(_TOKENIZER_FILES)))
    except Exception as error:  # one of dozens: the network, the name, gates, the disk
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FetchError(
            f"{name!r} is no file or folder here and could not be fetched from the Hugging Face "
            f"hub: {reason}. Give the path of a GGUF file or of a model folder, or the name of a "
            "known model"
        ) from error
