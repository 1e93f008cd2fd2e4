"""Cases of engines in tests, over models that are at hand."""

from __future__ import annotations

from forerun.certify.plan import Case
from forerun.certify.prompts import random_prompts
from forerun.certify.reference import Reference
from forerun.certify.settings import matrix


def case_of(engine, target, draft=None, *, samples=64, names=(), prompts=None, eos=frozenset()):
    reference = Reference(target)
    prompts = prompts or random_prompts(target.vocab_size, eos, 3)
    settings = matrix(reference, prompts, engine.traits)
    return Case(
        name="case",
        engine=engine,
        reference=reference,
        draft=None if draft is None else Reference(draft),
        prompts=prompts,
        settings=[each for each in settings if not names or each.name in names],
        samples=samples,
        models={"kind": "none"},
    )
