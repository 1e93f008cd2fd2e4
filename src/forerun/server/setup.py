"""What a page of this server's may show of it: the model, its drafters, what passes cost here.

Only what was settled when the server began: figures that move with requests, as the engine's own
corrections of these costs do, would tell one tenant of another's. Nothing is measured to answer.
"""

from __future__ import annotations

from forerun.drafters.base import parts
from forerun.engine import Engine
from forerun.models.cost import backend, processor
from forerun.openai.responses import PassCosts, Setup


def setup(engine: Engine, name: str) -> Setup:
    """Of an engine whose model has a tokenizer; `name` is what the model is called."""
    target, costs = engine.target, engine.known_costs
    return Setup(
        model=name,
        vocab_size=target.vocab_size,
        context=target.context,
        chat=bool(target.tokenizer.chat_template),
        backend=backend(target),
        threads=getattr(target, "threads", None),
        processor=processor(),
        drafters=list(parts(engine.drafter)),
        verifier=engine.verifier,
        num_draft=engine.num_draft,
        costs=None
        if costs is None
        else PassCosts(
            target_seconds=list(costs.target),
            draft_seconds={name: list(seconds) for name, seconds in costs.draft.items()},
            first_draft_seconds=dict(costs.first),
        ),
    )
