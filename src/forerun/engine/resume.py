"""Going on with an answer that another engine began, and did not end.

    prompt │ output that was sent │ what is written now
                                  └ the cut: behind any token

What was sent is a prefix with the target's law, whoever wrote it, and stays as it is. What is
written now has the law given that prefix, for positions, budget, penalties, stops and the grammar
stand where they stood. And the noise behind the cut is fresh:

    verifiers that race     noise is keyed by the absolute position; the tokens are those that
                            would have come without the cut. So are greedy ones
    all others              keys hold an epoch, which each resumption raises: no coin that the
                            engine before may have looked at is tossed again

A seed promises one text. Under verifiers that do not race that text depends on where its rounds
begin, so once something was sent such a request cannot go on, and is refused.

What this module does not know: how it came to the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.numerics.logprobs import TokenLogprob
from forerun.sampling import SamplingParams, is_whole
from forerun.verifiers.base import Verifier


@dataclass(frozen=True, kw_only=True)
class Resume:
    """An answer up to the cut. Raises OptionError for values that make no sense."""

    output: Sequence[int]  # ids that were sent; none of them: it begins, as that choice
    choice: int = 0  # which completion of the seed it is
    seed: int | None = None  # the engine's that began it; None: the request's own, or a fresh one
    epoch: int = 1  # how many engines have left it
    logprobs: Sequence[TokenLogprob] | None = None  # of `output`, where they are asked for

    def __post_init__(self) -> None:
        for name, most in (("choice", 2**32), ("epoch", 2**32), ("seed", 2**128)):
            value = getattr(self, name)
            if not (is_whole(value) and 0 <= value < most) and (name, value) != ("seed", None):
                raise OptionError(f"resume: {name} must be a whole number from 0, not {value!r}")


START = Resume(output=(), epoch=0)
"""Of an answer that nobody began."""


def checked_resume(resume: Any) -> Resume:
    if resume is None:
        return START
    if not isinstance(resume, Resume):
        raise OptionError(f"resume takes a Resume(output=…), not {resume!r:.80}")
    return resume


def check_resume(
    resume: Resume, target: Model, chosen: Verifier, params: SamplingParams, logprobs: int | None
) -> None:
    """Refuse an output that cannot go on under these parameters. OptionError."""
    output, ends = resume.output, params.end_ids
    for token in output:
        if not is_whole(token) or not 0 <= token < target.vocab_size:
            raise OptionError(
                f"resume: {token!r} is no token id of {target.name}: 0 to {target.vocab_size - 1}"
            )
    if len(output) > params.max_tokens or any(token in ends for token in output[:-1]):
        raise OptionError(
            f"resume: its output of {len(output)} tokens goes on behind the answer's end"
        )
    if logprobs is not None and len(resume.logprobs or ()) != len(output):
        raise OptionError(
            f"resume: logprobs are asked for, so give those of its {len(output)} tokens, not "
            f"{len(resume.logprobs or ())}"
        )
    if output and params.seed is not None and params.temperature > 0 and not chosen.races:
        raise OptionError(
            f"resume: under verifier {chosen.name!r} seed {params.seed} promises a text that "
            "another engine cannot go on with; 'coupled' and 'auto' can, and so can any without a "
            "seed"
        )
