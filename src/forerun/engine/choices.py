"""What is chosen for a request: who judges its drafts, and who decides how far to draft."""

from __future__ import annotations

from typing import Any, Final

from forerun.control import AdaptiveControl, Control, FixedControl
from forerun.drafters.base import Drafter, parts
from forerun.errors import CapabilityError, OptionError
from forerun.numerics.token_tree import Drawn
from forerun.pace import Costs
from forerun.sampling import SamplingParams, is_whole
from forerun.verifiers import VERIFIERS, Verifier, verifier

AUTO: Final = "auto"

STEADY = 4
"""γ of `auto` where the text would depend on it, see `steady`."""


def checked_num_draft(num_draft: Any) -> int | None:
    """γ; None for "auto"."""
    if isinstance(num_draft, str) and num_draft == AUTO:
        return None
    if not is_whole(num_draft) or not 0 <= num_draft <= 64:
        raise OptionError(
            "num_draft must be a whole number from 0 (plain decoding) to 64, or 'auto', "
            f"not {num_draft!r}"
        )
    return int(num_draft)


def checked_logprobs(name: str, count: Any) -> int | None:
    """How many of the likeliest tokens to name with each one's logprob; None: no logprobs."""
    if count is None:
        return None
    if not is_whole(count) or not 0 <= count <= 20:
        raise OptionError(
            f"{name} must be None or a whole number from 0 to 20 (of the likeliest tokens), "
            f"not {count!r}"
        )
    return int(count)


def check_verifier(name: str, drafter: Drafter | None) -> None:
    """Refuse a verifier that cannot judge the drafter's proposals, naming those that can."""
    if name == AUTO:
        return
    chosen = verifier(name)
    made = [part.traits for part in parts(drafter).values()]

    def fits(one: Verifier) -> bool:
        return all(one.judges(traits.drawn, traits.chain) for traits in made)

    if drafter is None or fits(chosen):
        return
    fit = [n for n in VERIFIERS if fits(verifier(n))]
    raise CapabilityError(
        f"verifier {name!r} cannot judge what {drafter.name!r} proposes "
        f"({drafter.traits.drawn.value}); these can: {', '.join(fit)}"
    )


def choose_verifier(name: str, params: SamplingParams, drafter: Drafter | None) -> Verifier:
    """Resolve `auto`: `coupled` for greedy and for seeded requests, whose text must not depend on
    timing, batch or γ; else `block` for chains with full laws, `rejection` for other chains."""
    if name != AUTO:
        return verifier(name)
    if params.temperature == 0 or params.seed is not None:
        return verifier("coupled")
    if drafter is None:
        return verifier("rejection")
    traits = drafter.traits
    if not traits.chain:
        return verifier("coupled")
    return verifier("block" if traits.laws and traits.drawn is Drawn.SAMPLED else "rejection")


def steady(chosen: Verifier, params: SamplingParams) -> bool:
    """Whether γ must not depend on times: a seed repeats a text under this verifier only with the
    same γ."""
    return params.seed is not None and not chosen.races


def choose_control(num_draft: int | None, costs: Costs | None) -> Control:
    """Of a fixed γ, or by costs where that is None."""
    if num_draft is not None:
        return FixedControl(num_draft)
    assert costs is not None
    return AdaptiveControl(costs)
