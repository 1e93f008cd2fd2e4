"""What the round needs of a drafter: guesses for each request, as a proposal with its laws.

    drafter.begin(slot, prompt)             a request was admitted
    drafter.propose([DraftRequest, ...])    one Proposal for each, of at most num_draft tokens
    drafter.observe(slot, committed)        what the round added to the text
    drafter.end(slot)                       the request is over

A drafter never chooses its randomness: it draws with `request.sample`, and reports as q the very
law it handed over. It decides how far to guess from the prefix alone, never from the token in
question. Where it cannot follow (its context is full, it has no match) it proposes less, or
nothing.

A drafter may also say what it could draft before it does: `outlook(slot, length, most) -> Outlook`,
a function of the prefix as well, by which `control` chooses how far to draft and by whom. One that
says nothing is taken to draft as far as it is asked to. A drafter of trees is told the shape as
well, unless γ is fixed. One that can draft in several ways, with passes that cost differently, has
`ways` in the place of `outlook`: an Outlook for each, which `passes` tells apart, the usual one
first; and `models`, that make those passes. It is told which.

The contract suite in tests/drafters/contract.py runs once for each drafter.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from forerun.errors import CapabilityError, OptionError
from forerun.models.base import Model
from forerun.numerics.randomness import Sampler
from forerun.numerics.token_tree import Drawn, Proposal
from forerun.numerics.tree_shape import MOST, Shape
from forerun.sampling import SamplingParams


@dataclass(frozen=True, kw_only=True)
class DraftRequest:
    """One request as a drafter sees it in a round."""

    slot: int
    ids: Sequence[int]  # prompt and output so far; not to be changed
    prompt_length: int
    num_draft: int  # at most so many tokens, at least 1
    params: SamplingParams  # of the request, for drafters with laws
    sample: Sampler  # (q[V], node, drafted tokens before it) -> token
    allowed: Callable[[tuple[int, ...]], Any] | None = None  # drafted tokens -> a grammar's mask
    drafter: str | None = None  # of several, who is asked; None: the first that has something
    shape: Shape | None = None  # of a tree, of `num_draft` nodes; None: as the drafter likes
    passes: str | None = None  # of the drafter's ways, that of this `Outlook.passes`; None: usual


@dataclass(frozen=True, kw_only=True)
class Trees:
    """Which trees a drafter can draft: part of one `shape`, or any as deep as `depth`."""

    shape: Shape | None = None
    depth: int = MOST


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a drafter could draft next. It depends on the prefix alone, as the draft's length must.

    `chances[i]` is the drafter's own estimate of Pr(token i is accepted | those before it were);
    None where it has none before it drafts. The length of `chances`, or else `most`, bounds the
    draft: tokens of a chain, nodes of a tree.
    """

    most: int
    chances: tuple[float, ...] | None = None
    unread: int = 0  # tokens of the text that a draft model would have to read first
    trees: Trees | None = None  # None: it drafts chains
    passes: str | None = None  # of several ways to draft, which; None: there is one

    def __post_init__(self) -> None:
        if self.chances is not None:
            object.__setattr__(self, "most", min(self.most, len(self.chances)))


@dataclass(frozen=True, kw_only=True)
class DrafterTraits:
    """How a drafter's proposals are made; the engine picks and checks verifiers by it."""

    drawn: Drawn
    laws: bool  # proposals carry full draft laws, not point masses
    chain: bool = True  # proposals have no branches


@runtime_checkable
class Drafter(Protocol):
    """A guesser. Slots are the target's."""

    @property
    def name(self) -> str: ...
    @property
    def traits(self) -> DrafterTraits: ...

    def check(self, target: Model) -> None:
        """Raise (VocabularyError, CapabilityError) if this drafter cannot serve the target."""
        ...

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        """A request was admitted. `recall` False: guess from this request alone, not from memory
        of earlier ones (a seeded request's own earlier text would know the coins that judge it).
        `tenant`: whose it is; memory of other tenants' requests is not looked into, for the time
        a draft saves would tell what they wrote. A drafter without memory may do without it.
        OptionError where the slot is in use: two engines share the drafter."""
        ...

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]: ...

    def observe(self, slot: int, committed: Sequence[int]) -> None: ...

    def end(self, slot: int) -> None: ...


def begin(drafter: Drafter, slot: int, prompt: Sequence[int], *, recall: bool, tenant: str) -> None:
    """`drafter.begin`. One that does not take a `tenant` may remember but does not know whose
    texts, so that it is not to recall any for a named tenant."""
    takes = inspect.signature(drafter.begin).parameters.values()
    if any(one.name == "tenant" or one.kind is one.VAR_KEYWORD for one in takes):
        drafter.begin(slot, prompt, recall=recall, tenant=tenant)
    else:
        drafter.begin(slot, prompt, recall=recall and not tenant)


def outlook(drafter: Drafter, slot: int, length: int, most: int) -> Outlook:
    """What `drafter` says it could draft after a text of `length` tokens, `most` at most: in its
    usual way, where it has several."""
    return ways(drafter, slot, length, most)[0]


def ways(drafter: Drafter, slot: int, length: int, most: int) -> Sequence[Outlook]:
    """As `outlook`, for each way that it has to draft."""
    several = getattr(drafter, "ways", None)
    if several is not None:
        each: Sequence[Outlook] = several(slot, length, most)
        return each
    said = getattr(drafter, "outlook", None)
    found: Outlook = Outlook(most=most) if said is None else said(slot, length, most)
    if found.trees is None and not drafter.traits.chain:
        found = replace(found, trees=Trees())
    return [found]


def models(drafter: Drafter) -> dict[str, Model]:
    """What makes a drafter's passes: by `Outlook.passes`, or by its name where it has one way."""
    several: dict[str, Model] | None = getattr(drafter, "models", None)
    if several is not None:
        return several
    one: Model | None = getattr(drafter, "model", None)
    return {} if one is None else {drafter.name: one}


def parts(drafter: Drafter | None, slot: int | None = None) -> dict[str, Drafter]:
    """The drafters behind it, by name: those of a `HybridDrafter`, or itself. Of a slot: those that
    its request has."""
    if drafter is None:
        return {}
    if slot is not None and (of := getattr(drafter, "of", None)) is not None:
        chosen: dict[str, Drafter] = of(slot)
        return chosen
    several: dict[str, Drafter] | None = getattr(drafter, "parts", None)
    return {drafter.name: drafter} if several is None else several


def refuse_twice(slot: int, slots: Container[int]) -> None:
    """OptionError for a slot that began and did not end: slots of two engines would be mixed up."""
    if slot in slots:
        raise OptionError(
            f"this drafter serves slot {slot} of another engine; each engine needs its own drafter"
        )


def check_proposals(requests: Sequence[DraftRequest], proposals: Any, vocab_size: int) -> None:
    """Raise CapabilityError unless there is a Proposal for each request that keeps its bounds.

    Of a draft law only its size and the token's own mass are looked at: O(1) a token.
    """
    if not isinstance(proposals, Sequence) or len(proposals) != len(requests):
        raise CapabilityError(f"a drafter returned no list of {len(requests)} proposals")
    for request, proposal in zip(requests, proposals):
        if not isinstance(proposal, Proposal):
            raise CapabilityError(f"a drafter proposes a Proposal, not {proposal!r}")
        if len(proposal) > request.num_draft:
            raise CapabilityError(
                f"a proposal of {len(proposal)} tokens, where {request.num_draft} were allowed"
            )
        drafted: Any = zip(proposal.tree.tokens, proposal.q)
        for token, q in drafted:
            known = type(token) is int or isinstance(token, numbers.Integral)  # the first is quick
            if not known or not 0 <= int(token) < vocab_size:
                raise CapabilityError(f"drafted token id {token!r} is not in 0 to {vocab_size - 1}")
            if q is not None and (len(q) != vocab_size or not float(q[token]) > 0):  # NaN too
                raise CapabilityError(
                    f"the draft law of token {token} gives it no mass, or has {len(q)} entries "
                    f"where there are {vocab_size} tokens; it must be the law it was drawn from"
                )
