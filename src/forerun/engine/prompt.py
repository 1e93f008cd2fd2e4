"""A prompt as callers give it, and the ids it stands for.

What this module does not know: requests, models beyond their vocabulary and context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forerun.errors import PromptError
from forerun.models.base import Model
from forerun.sampling import is_whole

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""Text, token ids, or chat messages ({"role": …, "content": …})."""


def prompt_ids(target: Model, prompt: Prompt) -> tuple[int, ...]:
    """The ids a prompt stands for, checked. PromptError says what is wrong with it."""
    tokenizer = target.tokenizer
    if isinstance(prompt, (bytes, Mapping)) or not hasattr(prompt, "__getitem__"):
        raise PromptError(f"a prompt is text, token ids, or chat messages, not {prompt!r}")
    if tokenizer is None and (isinstance(prompt, str) or is_chat(prompt)):
        raise PromptError(f"{target.name} has no tokenizer: give the prompt as token ids")
    if isinstance(prompt, str):
        start = [tokenizer.bos] if tokenizer.adds_bos else []
        ids = [*start, *tokenizer.encode(prompt)]
    elif is_chat(prompt):
        ids = tokenizer.encode_chat(prompt)
    else:
        ids = [_token_id(i) for i in prompt]
        if not ids and tokenizer is not None and tokenizer.adds_bos:
            ids = [tokenizer.bos]
    if not ids:
        raise PromptError(
            f"the prompt is empty and {target.name} has no beginning-of-text token: "
            "give at least one token"
        )
    if bad := [i for i in ids if not 0 <= i < target.vocab_size]:
        raise PromptError(
            f"token id {bad[0]} is not in the vocabulary of {target.name}: "
            f"0 to {target.vocab_size - 1}"
        )
    if target.context is not None and len(ids) >= target.context:
        raise PromptError(
            f"the prompt has {len(ids)} tokens; {target.name} has a context of {target.context}, "
            f"so that at most {target.context - 1} leave room for an answer"
        )
    return tuple(ids)


def is_chat(prompt: Prompt) -> bool:
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def has_text(target: Model, ids: Sequence[int]) -> bool:
    return target.tokenizer is not None and any(target.tokenizer.token_bytes(i) for i in ids)


def _token_id(value: Any) -> int:
    if not is_whole(value):
        raise PromptError(
            f"a prompt is text, token ids, or chat messages; {value!r} is none of them"
        )
    return int(value)
