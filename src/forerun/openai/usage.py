"""Counts of an answer: OpenAI's usage, and vLLM's statistics of speculation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from forerun.engine import Completion
from forerun.openai.responses import (
    CompletionDetails,
    Metrics,
    PromptDetails,
    SpeculativeDecoding,
    Trace,
    Usage,
    Words,
)
from forerun.text.tokenizer import Tokenizer
from forerun.trace import Round, ids

PREDICTION = "prediction"  # the drafter behind predicted outputs, by name


def usage(choices: Sequence[Completion], n: int, *, predicted: bool) -> Usage:
    """Of all choices; a prompt counts once for its `n` of them.

    `predicted`: the client sent a prediction; a drafter of that name may be the server's own, too.
    Rejected tokens of a prediction are none of the completion's: they cost time, not tokens.
    """
    read = sum(len(done.prompt) for done in choices[::n])
    written = sum(len(done.tokens) for done in choices)
    by_drafter = [done.stats.drafters for done in choices] if predicted else []
    drafted = [drafters[PREDICTION] for drafters in by_drafter if PREDICTION in drafters]
    accepted = sum(one.accepted for one in drafted)
    return Usage(
        prompt_tokens=read,
        completion_tokens=written,
        total_tokens=read + written,
        prompt_tokens_details=PromptDetails(
            cached_tokens=sum(done.cached_tokens for done in choices[::n])
        ),
        completion_tokens_details=CompletionDetails(
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=sum(one.drafted for one in drafted) - accepted,
            reasoning_tokens=0,
        ),
    )


def metrics(choices: Sequence[Completion]) -> Metrics:
    """Of the rounds of all choices in which something was drafted."""
    steps = [record for done in choices for record in done.trace if record.drafted]
    accepted = [record.kinds.count("accepted") for record in steps]
    drafted = [len(record.drafted) for record in steps]
    histogram = [0] * (max(drafted, default=0) + 1)
    for count in accepted:
        histogram[count] += 1
    return Metrics(
        speculative_decoding=SpeculativeDecoding(
            mean_acceptance_length=1 + sum(accepted) / len(steps) if steps else 1.0,
            draft_acceptance_rate=sum(accepted) / sum(drafted) if steps else 0.0,
            acceptance_histogram=histogram,
            num_spec_steps=len(steps),
            num_accepted_draft_tokens=sum(accepted),
            num_draft_tokens=sum(drafted),
            num_spec_tokens=max(drafted, default=0),
        )
    )


def trace(rounds: Iterable[Round]) -> Trace:
    return [json.loads(record.to_json()) for record in rounds]


def words(rounds: Iterable[Round], tokenizer: Tokenizer) -> Words:
    """The text of every id in a trace."""
    found = sorted({token for record in rounds for token in ids(record)})
    return {str(token): tokenizer.token_text(token) for token in found}
