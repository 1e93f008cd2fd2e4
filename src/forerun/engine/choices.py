"""What is chosen for a request: who drafts, who judges, and who decides how far to draft."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from forerun.control import AdaptiveControl, Control, FixedControl
from forerun.drafters.base import Drafter, DrafterTraits
from forerun.drafters.grammar import GrammarDrafter
from forerun.drafters.hybrid import joint_traits
from forerun.drafters.per_request import PerRequestDrafter
from forerun.drafters.prediction import PredictionDrafter
from forerun.errors import CapabilityError, OptionError, UnknownNameError
from forerun.numerics.token_tree import Drawn
from forerun.pace import Pace
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


def checked_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, not {value!r}")
    return value


def choose_drafters(
    asked: str | None, drafters: PerRequestDrafter, *, predicted: bool, forced: bool
) -> tuple[str, ...]:
    """Names of those that draft for a request, from what its option `drafter` says.

    AUTO: all of the engine's; None or "none": nobody; else a name, or several joined by +. A
    request with a prediction of its own has that beside them, unless nobody is to draft; one with
    a grammar has the tokens that it forces, before all others, if anybody drafts.
    UnknownNameError for others, naming those the engine has; OptionError for what is no name.
    """
    own = (PredictionDrafter.name,) if predicted else ()
    if asked is None or asked == "none":
        return ()
    if not isinstance(asked, str):
        raise OptionError(f"a request's drafter is a name of the engine's, or None, not {asked!r}")
    first = (GrammarDrafter.name,) if forced else ()
    known = tuple(dict.fromkeys((*first, *own, *drafters.usual)))
    if asked == AUTO:
        return known if len(known) > len(first) else ()
    for name in (names := asked.split("+")):
        if name not in known:
            raise UnknownNameError.of("drafter", name, [*known, "none"])
    return tuple(name for name in known if name in {*first, *own, *names})


def check_verifier(name: str, drafters: Mapping[str, Drafter]) -> None:
    """Refuse a verifier that cannot judge the drafters' proposals, naming those that can."""
    if name == AUTO:
        return
    made = [part.traits for part in drafters.values()]
    if fits(verifier(name), made):
        return
    wrong = next(part for part in drafters.values() if not fits(verifier(name), [part.traits]))
    shape = "chains" if wrong.traits.chain else "trees"
    raise CapabilityError(
        f"verifier {name!r} cannot judge what {wrong.name!r} proposes, {shape} drawn "
        f"{wrong.traits.drawn.value}; for {'+'.join(drafters)!r} these can: "
        f"{', '.join(n for n in VERIFIERS if fits(verifier(n), made))}"
    )


def fits(one: Verifier, made: Iterable[DrafterTraits]) -> bool:
    """Whether its proof covers all that drafters of these traits propose."""
    return all(one.judges(traits.drawn, traits.chain) for traits in made)


def check_prediction(chosen: Verifier, params: SamplingParams) -> None:
    """Refuse a prediction where it may know the coins that judge it.

    An output of the same seed, predicted, is accepted more often than it should be: the draft's
    coins were those that chose it. (Not so where the target races: there the draft is compared with
    the target's own choice.)
    """
    if params.seed is not None and params.temperature > 0 and not chosen.races:
        raise OptionError(
            f"a prediction may stem from a run with the same seed, whose coins verifier "
            f"{chosen.name!r} tosses again: use verifier 'coupled' or 'auto', or no seed "
            f"(it is {params.seed})"
        )


def choose_verifier(name: str, params: SamplingParams, drafters: Mapping[str, Drafter]) -> Verifier:
    """Resolve `auto`: `coupled` for greedy and for seeded requests, whose text must not depend on
    timing, batch or γ. Else, of chains, `block` where all carry their laws, `rejection` where not;
    of trees, what goes with how they were drawn: `greedy_plus_one`, `traversal`, or `coupled` where
    they are functions of the prefix."""
    if name != AUTO:
        return verifier(name)
    if params.temperature == 0 or params.seed is not None:
        return verifier("coupled")
    made = [part.traits for part in drafters.values()]
    traits = joint_traits(drafters.values())
    if traits.chain:
        sampled = traits.laws and traits.drawn is Drawn.SAMPLED
        return verifier("block" if sampled else "rejection")
    if all(one.drawn is Drawn.DETERMINISTIC for one in made):
        return verifier("coupled")
    if any(one.drawn is Drawn.GREEDY_PLUS_ONE for one in made):
        own = verifier("greedy_plus_one")
        return own if fits(own, made) else verifier("traversal")
    return verifier("traversal")


def steady(chosen: Verifier, params: SamplingParams) -> bool:
    """Whether γ must not depend on times: a seed repeats a text under this verifier only with the
    same γ."""
    return params.seed is not None and not chosen.races


def choose_control(num_draft: int | None, pace: Pace | None) -> Control:
    """Of a fixed γ, or by what passes take where that is None."""
    if num_draft is not None:
        return FixedControl(num_draft)
    assert pace is not None
    return AdaptiveControl(pace)
