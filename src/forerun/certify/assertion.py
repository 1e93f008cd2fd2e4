"""For an engine builder's own tests: one call that raises where a sampler is not lossless.

    def test_our_decoder():
        assert_lossless(our_sample, TabularModel(...), draft=TabularModel(...), tokens=50_000)

`forerun certify` asks more of an engine: all its settings, seeds, greedy text. This asks one
question of one setting, and answers in the words of `law_verdict.py`.

What this module does not know: settings matrices, reports (`run.py`, `report.py`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from forerun.certify.engines.base import SEEDS, Engine, asked, sample_seed
from forerun.certify.engines.python import Function, PythonEngine
from forerun.certify.law_verdict import LawVerdict
from forerun.certify.reference import Reference
from forerun.certify.tally import Tally
from forerun.errors import NotLosslessError, OptionError, UndecidedError
from forerun.models.base import Model

SETTING = "as asked"
COMPARED = 2
"""With speculation off, so many times the tokens that a fault took with it on."""


def assert_lossless(
    sampler: Function | Engine,
    target: Model,
    *,
    draft: Model | None = None,
    off: Function | Engine | None = None,
    prompts: Sequence[Sequence[int]] = ((0,),),
    sampling: Mapping[str, Any] | None = None,
    max_tokens: int = 16,
    samples: int = 8,
    tokens: int = 20_000,
    seconds: float | None = None,
    level: float = 1e-6,
    exclude: float | None = None,
    seed: int = 0,
) -> LawVerdict:
    """Sample until a fault is found or the budget is spent; the verdict, if none was found.

    sampler   (prompt_ids, n, sampling, seed) -> n lists of ids, each up to and with the id that
              ended it or `max_tokens` long; each of the n, and each seed, independent
    target    says the law: any of forerun's models, on the sampler's own numbers
    draft     says q, the law drafts are drawn from, where there is one; with it more is found, and
              more excluded
    off       the sampler with speculation off: a fault that it has too is not speculation's
    prompts   ids, taken in turn
    sampling  keywords of the law, as `generate` takes them, without max_tokens
    samples   n of each call
    tokens    budget; `seconds` another
    level     largest chance of a false alarm
    exclude   mean TV of which every named fault must be excluded; None: what comes is reported
    seed      of the first sample; all have seeds of their own

    NotLosslessError, an AssertionError, where the law is not the target's, with a case to repeat;
    UndecidedError where `off` fails as well, or where `exclude` is not reached.
    """
    if tokens < 1 or samples < 1 or not prompts:
        raise OptionError(
            f"at least one token, sample and prompt are needed, not {tokens}, {samples}, "
            f"{len(prompts)}"
        )
    asked = {**(sampling or {}), "max_tokens": max_tokens}
    common: dict[str, Any] = {
        "prompts": [tuple(int(i) for i in prompt) for prompt in prompts],
        "sampling": asked,
        "samples": samples,
        "until": None if seconds is None else time.monotonic() + seconds,
    }

    def fresh() -> Tally:
        return Tally(
            Reference(target),
            level=level,
            part_level=level,
            claim=0.01 if exclude is None else exclude,
            seed=seed,
            draft=None if draft is None else Reference(draft),
        )

    tally = fresh()
    _fill(tally, _engine(sampler), tokens=tokens, seed=seed, **common)
    verdict = tally.whole.test.verdict()
    if tally.whole.fault:
        said = _failure(tally, verdict, asked, seed)
        if off is not None:
            plain = fresh()
            budget = COMPARED * max(verdict.tokens, 1000)
            common["until"] = None
            _fill(plain, _engine(off), tokens=budget, seed=sample_seed(seed, SEEDS // 2), **common)
            if plain.whole.fault:
                raise UndecidedError(
                    "could not decide: the reference differs, for with speculation off it fails as "
                    f"well. {said}"
                )
        raise NotLosslessError(said)
    if exclude is not None and (
        left := [each.name for each in verdict.alternatives if not each.excluded]
    ):
        raise UndecidedError(
            f"{verdict.tokens:,} tokens are too few to exclude {', '.join(left)} of mean TV ≥ "
            f"{exclude:g}: {verdict.sentence}"
        )
    return verdict


def _engine(sampler: Function | Engine) -> Engine:
    return sampler if hasattr(sampler, "traits") else PythonEngine(sampler)  # type: ignore[return-value]


def _fill(
    tally: Tally,
    engine: Engine,
    *,
    prompts: Sequence[tuple[int, ...]],
    sampling: Mapping[str, Any],
    samples: int,
    tokens: int,
    until: float | None,
    seed: int,
) -> None:
    """Requests in turn, each whole, until a fault shows or the budget is spent."""
    for number in itertools.count():
        prompt = prompts[number % len(prompts)]
        found = asked(engine, prompt, samples, sampling, sample_seed(seed, number * samples))
        tally.add(SETTING, prompt, [ids for ids, _ in found], sampling, [one for _, one in found])
        spent = tally.whole.test.tokens >= tokens
        if tally.whole.fault or spent or (until is not None and time.monotonic() >= until):
            return


def _failure(tally: Tally, verdict: LawVerdict, sampling: Mapping[str, Any], seed: int) -> str:
    if tally.whole.broken:
        first = tally.whole.broken[0]
        said = (
            f"not lossless: {tally.whole.broken_count:,} texts or tokens that cannot be, first "
            f"{first.why}: {list(first.tokens)} after prompt {list(first.prompt)}"
        )
    else:
        said = verdict.sentence
    parts = [f"{said}. Sampling {dict(sampling)}, first seed {seed}."]
    for place in tally.contexts.worst(1):
        shares = ", ".join(f"{i}: {p:.3g} → {f:.3g}" for i, p, f in place.tokens[:4])
        parts.append(
            f"Furthest off, of places that came often: after prompt {list(place.prompt)} and "
            f"output {list(place.output)} (id: law → {place.count:,} samples) {shares}."
        )
    return " ".join(parts)
