"""Where a text must end, and where it must not: the part of a law that is not drawn.

What this module does not know: probabilities.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


def fault(
    tokens: Sequence[int], *, max_tokens: int, end_ids: Collection[int], vocab_size: int
) -> str | None:
    """What is wrong with a sample's length and end; None: nothing.

    A text ends with its first end id, or has `max_tokens` tokens.
    """
    for i, token in enumerate(tokens):
        if not 0 <= token < vocab_size:
            return f"token {token} at position {i} is no id of the {vocab_size} there are"
        if token in end_ids and i + 1 < len(tokens):
            return f"{len(tokens) - i - 1} tokens after the end token {token} at position {i}"
    if len(tokens) > max_tokens:
        return f"{len(tokens)} tokens where {max_tokens} were the most"
    if len(tokens) < max_tokens and not (tokens and tokens[-1] in end_ids):
        return f"{len(tokens)} of {max_tokens} tokens, and no end token at the end"
    return None
