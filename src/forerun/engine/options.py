"""What a caller may say of one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from forerun.engine.resume import Resume
from forerun.sampling import SamplingOptions
from forerun.text.grammar import Grammar


class EngineOptions(SamplingOptions, total=False):
    """Keywords of one request: sampling, and how it is decoded.

    drafter     who drafts for it: a name of the engine's drafters, several joined by +, or None
                for nobody; all of them where it does not say
    prediction  text, or token ids, that the output is expected to be like: drafted beside those
    grammar     what the output must look like; tokens that it forces are drafted before all others
    logprobs    0 to 20: with each token its logprob by the model's raw logits, before penalties,
                temperature and masks, and so many of the likeliest; None: none
    trace_heads  the likeliest tokens of the laws in its trace; the engine's where it does not say
    prompt_logprobs  the same for the prompt's tokens, of which the first has none; with
                max_tokens=0 that is all
    resume      an output that another engine began: what comes goes on behind it. Pieces and the
                trace are of what comes, text and tokens of the whole
    """

    verifier: str
    num_draft: int | Literal["auto"]
    drafter: str | None
    prediction: str | Sequence[int]
    logprobs: int | None
    prompt_logprobs: int | None
    trace_heads: bool
    grammar: Grammar | None
    resume: Resume | None
