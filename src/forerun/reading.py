"""Reading before the first round: of each request all ids but the last, several in one pass.

    ids   [ prompt … , last ]      cached by passes over chunks; `last` is read by the next round

Where a prompt's logprobs are asked for, its chunks are read with their rows, a few at a time, so
that there are never [prompt, V] logits at once. Without them no row is computed.

What this module does not know: who is to read when (the engine's scheduler), what pages hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from forerun.errors import CacheError, LawError
from forerun.generation import Generation
from forerun.laws import located
from forerun.models.base import Model, Step
from forerun.numerics.logprobs import token_logprob

CHUNK = 512  # tokens read in one pass
LEAST = 16  # tokens of a request: a pass over so many costs about as much as one over a few
ROWS = 64  # of one prompt whose logprobs are asked for: each is a row of V logits


def unread(g: Generation, target: Model) -> int:
    """How many ids are to be read before the next round; 0 for a request that has ended. One whose
    output was ended by another engine may still want its prompt's logprobs."""
    ended = g.finish_reason is not None and (g.error is not None or g.prompt_scored)
    return 0 if ended else len(g.ids) - 1 - target.length(g.slot)


def read_prompt(g: Generation, target: Model) -> None:
    """All that `g` has not read."""
    while unread(g, target):
        read_prompts([g], target, CHUNK)


def read_prompts(batch: Sequence[Generation], target: Model, tokens: int) -> int:
    """One pass over the next ids of those that have not read all: `tokens` at most, shared evenly,
    LEAST a request. Where that is not enough for all, those at the end wait. Returns how many ids
    were read.

    A request whose prompt's logits make no logprobs ends with an error; the others go on.
    """
    reading = [g for g in batch if unread(g, target)]
    steps: list[Step] = []
    left = tokens
    for i, g in enumerate(reading):
        share = min(max(left // (len(reading) - i), LEAST), left)
        if share < 1:
            break
        steps.append(_step(g, target, share))
        left -= len(steps[-1].tokens)
    if not steps:
        return 0
    for g, step, rows in zip(reading, steps, target.extend(steps)):
        end = target.length(g.slot)
        target.keep(g.slot, end)
        if (held := target.length(g.slot)) != end:  # else it would be read for ever
            raise CacheError(f"{target.name} was told to keep {end} tokens, and holds {held}")
        start = end - len(step.tokens)
        for position, row in enumerate(rows, start=start + 1):  # the row after the token before it
            try:
                found = token_logprob(row, g.ids[position], g.prompt_logprobs or 0)
            except LawError as error:
                g.fail(located(error, target.name, g.slot, position))
                break
            g.prompt_found.append(found)
    return tokens - left


def _step(g: Generation, target: Model, most: int) -> Step:
    """The next chunk. After a pause ids are read again; those whose logprobs are known, without
    rows."""
    start, end, rows = target.length(g.slot), len(g.ids) - 1, False
    if not g.prompt_scored:
        known = len(g.prompt_found)
        assert start <= known, "of a prompt whose logprobs are asked for, a part was never read"
        rows = start == known
        end = g.prompt_length - 1 if rows else known
        most = min(most, ROWS) if rows else most
    chunk = tuple(g.ids[start : min(start + most, end)])
    return Step(slot=g.slot, tokens=chunk, rows=len(chunk) if rows else 0)
