"""Does the path that serves agree with the module's own plain forward? Asked once, when wrapped.

Two texts that share a beginning, `a b c d e f z` and `a b c g h i z`, go through the module as it
is (whole, no cache), and through slots: the beginning as a prompt, the two continuations as one
tree beside another slot of another length, then a path kept and one token more. All rows must agree
up to rounding. Windows are shrunk to 2 for the comparison, so that seven tokens cross them.

This finds architectures that ignore or rewrite the masks, positions or caches they are given,
whatever their name; it takes four passes over a few tokens.

What this module does not know: which architectures are good or bad.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from forerun.errors import CapabilityError, ForerunError
from forerun.models.base import Step
from forerun.models.hf_support import text_config

if TYPE_CHECKING:
    from forerun.models.hf import HFModel

# Largest difference, in units of the spread of the plain logits, that is still rounding.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
COARSE = 0.2  # half precision
FEWEST = 7  # tokens a slot must be able to hold: the longest of the two texts
TRIES = 3  # other ids each time: a mixture of experts may switch experts on a rounding


def check(model: HFModel, limit: int | None = None) -> None:
    """CapabilityError unless the two ways agree. Leaves the model without open slots.

    `limit` is the longest text that the module's config allows (None: any); `model.context` must
    not be set yet, for it is about other slots than those of the comparison.
    """
    kind = type(model.module).__name__
    if limit is not None and limit < FEWEST:
        raise CapabilityError(
            f"{kind} allows texts of {limit} tokens by its config; at least {FEWEST} are needed"
        )
    with _small_windows(model):
        for attempt in range(TRIES):
            try:
                difference, scale = _compare(model, limit, seed=attempt)
            except ForerunError:
                raise
            except Exception as error:
                raise CapabilityError(
                    f"{kind} cannot run with slots: {type(error).__name__}: {error}"
                ) from error
            finally:
                for slot in (0, 1):
                    if slot in model._slots:
                        model.close(slot)
            allowed = TOLERANCE.get(model._module.dtype, COARSE) * scale
            if difference <= allowed:
                return
    raise CapabilityError(
        f"{kind} gives other logits with explicit masks, positions and caches than by itself"
        f" (difference {difference:.3g}, rounding allows {allowed:.3g})"
    )


def _compare(model: HFModel, limit: int | None, seed: int) -> tuple[float, float]:
    """Largest difference between the two ways, and the largest logit's size."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(model.vocab_size, (12,), generator=draw).tolist()
    a, b, c, d, e, f, g, h, i, x, y, z = ids
    texts = torch.tensor(
        [[a, b, c, d, e, f, z], [a, b, c, g, h, i, z]], device=model._module.device
    )
    with torch.inference_mode():
        plain = model._module(input_ids=texts, use_cache=False).logits[..., : model.vocab_size]
    plain = plain.to(torch.promote_types(plain.dtype, torch.float32))
    model.open(), model.open()
    prompt = model.extend([Step(slot=0, tokens=(a, b, c)), Step(slot=1, tokens=(x,), rows=0)])[0]
    tree = Step(slot=0, tokens=(d, g, e, h, f, i), parents=(-1, -1, 0, 1, 2, 3))
    beside = (y,) * (9 if limit is None else min(9, limit - 1))
    branches = model.extend([Step(slot=1, tokens=beside, rows=1), tree])[1]
    model.keep(0, 6, path=(1, 3, 5))
    after = model.extend([Step(slot=0, tokens=(z,))])[0]
    pairs = (
        (prompt, plain[0, :3]),
        (branches[[0, 2, 4]], plain[0, 3:6]),
        (branches[[1, 3, 5]], plain[1, 3:6]),
        (after, plain[1, 6:]),
    )
    difference = max((ours - theirs).abs().max().item() for ours, theirs in pairs)
    return difference, (plain.amax() - plain.amin()).item()


@contextmanager
def _small_windows(model: HFModel) -> Iterator[None]:
    """Windows and chunks of 2 and 4 tokens, in the module's masks and in ours."""
    config: Any = text_config(model.module)
    real = model._attention
    small = {"sliding_window": 2, "attention_chunk_size": 4}
    saved = {k: getattr(config, k) for k in small if getattr(config, k, None) is not None}
    try:
        for key in saved:
            setattr(config, key, small[key])
        model._attention = replace(
            real,
            window=real.window and small["sliding_window"],
            chunk=real.chunk and small["attention_chunk_size"],
        )
        yield
    finally:
        model._attention = real
        for key, value in saved.items():
            setattr(config, key, value)
