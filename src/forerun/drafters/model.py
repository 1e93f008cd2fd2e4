"""A smaller model drafts a chain, one token after another, with the laws it drew them from.

    depth 0   one pass over what each slot has not read yet        law q_0 -> x_0
    depth 1   one pass over x_0 of every slot still drafting       law q_1 -> x_1   ...

All requests share each pass. q is made from the draft's logits as the target's p is made from its
own: the request's sampling parameters (some overridden by `sampling`), its grammar and history,
drafted tokens included. The token is drawn by the request's sampler from that very law. The last
drafted token is not run through the model until a later round needs it. (Leviathan et al. 2023,
algorithm 1.)

Its cache follows the text, and may begin with what is kept of earlier texts. Of a slot it knows how
many tokens of the text are cached and which drafted ones after them; what the text did not take is
dropped with `keep`, what it lacks is fed.

V is the target's vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from array_api_compat import array_namespace, device

from forerun.drafters.base import DrafterTraits, DraftRequest, Outlook, refuse_twice
from forerun.errors import CacheError, CapabilityError, OptionError, VocabularyError
from forerun.models.base import Model, Step
from forerun.models.prefix_cache import PrefixCache, shared
from forerun.numerics.distribution import History, law
from forerun.numerics.token_tree import NOTHING, Drawn, Proposal, TokenTree
from forerun.sampling import SamplingParams

CHUNK = 512  # most tokens of a slot in one pass, while it catches up with a long text

OF_THE_LAW = (
    "temperature", "top_k", "top_p", "min_p",
    "repetition_penalty", "presence_penalty", "frequency_penalty",
    "logit_bias", "banned", "processors",
)  # fmt: skip
"""What `sampling` may override: the parameters that shape a law at any position."""


@dataclass
class DraftSlot:
    """The draft model's side of a request: `cached` tokens of the text, then `ahead` of it."""

    tenant: str = ""
    slot: int | None = None  # on the draft model; None until there was room
    text: list[int] = field(default_factory=list)  # where pages are kept of it
    known: int = 0  # tokens that will come from pages, while there is no slot
    cached: int = 0
    ahead: list[int] = field(default_factory=list)
    shaped: tuple[SamplingParams, SamplingParams] | None = None  # the request's, and the draft's

    def __getstate__(self) -> dict[str, Any]:
        """A copy's requests have parameters of their own."""
        return vars(self) | {"shaped": None}


@dataclass(eq=False)
class Chain:
    """One request's draft in the making."""

    request: DraftRequest
    params: SamplingParams
    state: DraftSlot
    most: int  # tokens that fit
    tokens: list[int] = field(default_factory=list)
    q: list[Any] = field(default_factory=list)

    @property
    def slot(self) -> int:
        assert self.state.slot is not None
        return self.state.slot


class ModelDrafter:
    """Drafts with any `Model` that numbers its tokens as the target does.

        drafter = ModelDrafter(small, sampling={"temperature": 0}, prefix_memory=64 << 20)

    sampling       parameters of the draft's law that are not the request's
    prefix_memory  bytes of what the draft model cached of earlier texts, kept for those that begin
                   alike (`models/prefix_cache.py`); 0: nothing is kept

    A vocabulary padded to another size is no hindrance: the draft's logits are cut to, or padded
    with −inf up to, the target's V before they become a law, so q always has V entries. Nothing is
    drafted where the text does not fit the draft's context or cache, or holds ids that the draft
    does not have; generation goes on plainly. A draft ends where the draft's logits make no law.

    Raises OptionError for a model that is none, OptionError or TypeError for a `sampling` that is
    none; see `check` for the rest.
    """

    name = "model"
    traits = DrafterTraits(drawn=Drawn.SAMPLED, laws=True)

    def __init__(
        self, model: Model, *, sampling: Mapping[str, Any] | None = None, prefix_memory: int = 0
    ) -> None:
        if not isinstance(model, Model):
            raise OptionError(f"a draft model is a Model, not {model!r}; load_model makes one")
        if sampling is not None and not isinstance(sampling, Mapping):
            raise OptionError(f"sampling takes parameter -> value, not {sampling!r}")
        self.model = model
        self._sampling = dict(sampling or {})
        SamplingParams.of(self._sampling)
        if wrong := [name for name in self._sampling if name not in OF_THE_LAW]:
            raise OptionError(
                f"a drafter's sampling cannot set {wrong[0]!r}; it shapes the law with any of"
                f" {', '.join(OF_THE_LAW)}"
            )
        self._prefixes = PrefixCache(model, prefix_memory) if prefix_memory else None
        self._vocab_size = model.vocab_size  # the target's, once `check` has seen it
        self._slots: dict[int, DraftSlot] = {}

    def check(self, target: Model) -> None:
        """CapabilityError where the draft's cache cannot roll back, VocabularyError where the two
        models do not number their tokens alike."""
        if not self.model.abilities.rollback:
            raise CapabilityError(
                f"{self.model.name} cannot draft: its cache cannot roll back rejected tokens"
            )
        self._check_vocabularies(target)
        self._vocab_size = target.vocab_size

    def _check_vocabularies(self, target: Model) -> None:
        draft = self.model
        if draft.tokenizer is not None and target.tokenizer is not None:
            from forerun.text.vocabulary import check_shared

            check_shared(target.tokenizer, draft.tokenizer)
        elif draft.vocab_size != target.vocab_size:
            raise VocabularyError(
                f"{target.name} has {target.vocab_size} tokens, {draft.name} has"
                f" {draft.vocab_size}, and without both tokenizers nothing says which they share"
            )

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        refuse_twice(slot, self._slots)
        state = self._slots[slot] = DraftSlot(tenant)
        if self._prefixes is not None:
            state.text += prompt
            state.known = self._prefixes.known(tenant, prompt)

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        """As far as the draft's context reaches, once it has read what it lacks."""
        state = self._slots[slot]
        return Outlook(
            most=self.reach(length, most), unread=length - max(state.cached, state.known)
        )

    def reach(self, length: int, most: int) -> int:
        """How many of `most` tokens can be drafted after so many: what the context has room for."""
        context = self.model.context
        return most if context is None else max(min(most, context - length), 0)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        chains = [self._chain(request) for request in requests]
        rows = self._catch_up([chain for chain in chains if chain is not None])
        while rows:
            going = [chain for chain, logits in rows if self._draft(chain, logits)]
            rows = self._pass([(chain, self._drafted(chain)) for chain in going])
            for chain, _ in rows:
                chain.state.ahead.append(chain.tokens[-1])
        return [NOTHING if chain is None else self._proposal(chain) for chain in chains]

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        state = self._slots[slot]
        self._agree(state, committed, state.cached + len(committed))
        if self._prefixes is not None:
            state.text += committed

    def end(self, slot: int) -> None:
        state = self._slots.pop(slot)
        if state.slot is None:
            return
        if self._prefixes is not None:
            self._cut(state)
            self._prefixes.store(state.tenant, state.text, state.slot)
        self.model.close(state.slot)

    def _chain(self, request: DraftRequest) -> Chain | None:
        """An empty draft, over a slot that holds part of the text; None where it cannot follow."""
        state, ids = self._slots[request.slot], request.ids
        most = self.reach(len(ids), request.num_draft)
        if most < 1:
            return None
        if state.slot is None:
            try:
                state.slot = self.model.open()
            except CacheError:
                return None  # no room beside the other requests; there may be later
            self._restore(state, state.slot, ids)
        if state.ahead or state.cached >= len(ids):  # proposed before and not observed
            self._agree(state, ids[state.cached :], len(ids) - 1)
        if max(ids[state.cached :]) >= self._readable:
            return None
        return self._begun(request, state, most)

    def _begun(self, request: DraftRequest, state: DraftSlot, most: int) -> Chain:
        if state.shaped is None or state.shaped[0] is not request.params:
            state.shaped = request.params, self._shaped(request.params)
        return Chain(request=request, params=state.shaped[1], state=state, most=most)

    def _shaped(self, params: SamplingParams) -> SamplingParams:
        """Parameters of the draft's law, for a request of these."""
        return params.replace(**self._sampling) if self._sampling else params

    def _restore(self, state: DraftSlot, slot: int, ids: Sequence[int]) -> None:
        """What is known of the text needs no pass, as far as there is room."""
        if self._prefixes is not None:
            with suppress(CacheError):
                self._prefixes.fetch(state.tenant, ids, slot)
            state.cached, state.known = self.model.length(slot), 0

    def _agree(self, state: DraftSlot, text: Sequence[int], most: int) -> None:
        """Drop cached drafts that are not the `text` after `cached`, and all beyond `most`."""
        if state.slot is None:
            return
        state.cached = min(state.cached + shared(state.ahead, text), most)
        state.ahead.clear()
        self._cut(state)

    # ------------------------------------------------------- what the model reads, and how

    @property
    def _readable(self) -> int:
        """Ids below this can be read."""
        return self.model.vocab_size

    def _cut(self, state: DraftSlot) -> None:
        """Of the text's cached tokens the model's slot holds all, and nothing else."""
        assert state.slot is not None
        self.model.keep(state.slot, state.cached)

    def _text(self, chain: Chain, count: int, rows: int) -> Step:
        """The next `count` tokens of the text."""
        start = chain.state.cached
        return Step(
            slot=chain.slot, tokens=tuple(chain.request.ids[start : start + count]), rows=rows
        )

    def _drafted(self, chain: Chain) -> Step:
        """The last drafted token."""
        return Step(slot=chain.slot, tokens=tuple(chain.tokens[-1:]), rows=1)

    def _law(self, logits: Any, params: SamplingParams, history: History, allowed: Any) -> Any:
        """q [V] of the target's ids. LawError where there is none."""
        return law(fitted(logits, self._vocab_size), params, history, allowed)

    def _catch_up(self, chains: Sequence[Chain]) -> list[tuple[Chain, Any]]:
        """Feed every slot the text it lacks, in chunks; the logits after its last token."""
        while behind := [c for c in chains if len(c.request.ids) - c.state.cached > CHUNK]:
            steps = [(c, self._text(c, CHUNK, rows=0)) for c in behind]
            fed = [chain for chain, _ in self._pass(steps)]
            for chain in fed:
                chain.state.cached += CHUNK
            chains = [c for c in chains if c in fed or c not in behind]
        rows = self._pass([(c, self._text(c, CHUNK, rows=1)) for c in chains])
        for chain, _ in rows:
            chain.state.cached = len(chain.request.ids)
        return rows

    def _pass(self, steps: Sequence[tuple[Chain, Step]]) -> list[tuple[Chain, Any]]:
        """One forward pass; chains whose slots have no room are left out of what comes back."""
        if not steps:
            return []
        try:
            logits = self.model.extend([step for _, step in steps])
        except CacheError:  # nothing changed
            if len(steps) == 1:
                return []
            return [row for one in steps for row in self._pass([one])]
        return [(chain, rows) for (chain, _), rows in zip(steps, logits)]

    def _draft(self, chain: Chain, logits: Any) -> bool:
        """Draw the next token of the chain; whether another is to follow it.

        A failure to make a law ends the chain before the token, so that it depends on the prefix
        alone; it is not raised, for the target's own law decides what becomes of the request.
        """
        request, path = chain.request, tuple(chain.tokens)
        try:
            history = History(request.ids, request.prompt_length, path)
            allowed = None if request.allowed is None else request.allowed(path)
            q = self._law(logits[0], chain.params, history, allowed)
        except Exception:  # NaN, an empty support, or anything a user's processor may raise
            return False
        token = int(request.sample(q, len(path), path))
        chain.tokens.append(token)
        chain.q.append(q)
        ended = token in request.params.end_ids or token >= self._readable
        return len(chain.tokens) < chain.most and not ended

    def _proposal(self, chain: Chain) -> Proposal:
        return Proposal(tree=TokenTree.chain(chain.tokens), q=tuple(chain.q), drawn=Drawn.SAMPLED)


def fitted(logits: Any, vocab_size: int) -> Any:
    """Logits [V_draft] cut to V, or padded with −inf up to V; same library, device and type."""
    missing = vocab_size - logits.shape[0]
    if missing <= 0:
        return logits[:vocab_size]
    xp = array_namespace(logits)
    pad = xp.full((missing,), -xp.inf, dtype=logits.dtype, device=device(logits))
    return xp.concat([logits, pad])
