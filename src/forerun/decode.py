"""THE round: propose -> extend (one target pass) -> verify -> commit -> keep.

`decode_round` is the only place where tokens are made, for a batch of requests; batch 1 is a batch,
and plain decoding is the same round with an empty proposal. A slot's cache always holds all ids but
the last, which is read together with the drafted tokens:

    ids      [ … cached … , last ]        pass   last  d0  d1  d2      (one slot's step)
                                          row    0     1   2   3       p[i] = law after i drafts

so that one pass over N + 1 tokens gives the N laws that judge the drafts and the one for the bonus.

What this module does not know: text, prompts' meaning, scheduling, where the randomness comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from forerun.clock import RoundClock
from forerun.company import learn_batch, plan_batch
from forerun.control import PLAIN, Plan, Seat
from forerun.drafters.base import Drafter, DraftRequest, check_proposals, parts
from forerun.errors import CapabilityError, LawError
from forerun.generation import Generation
from forerun.laws import Laws, emitted_logprobs, in_grammar, target_laws
from forerun.models.base import Model, Step
from forerun.numerics.acceptance import draft_mass
from forerun.numerics.choice import adjusts
from forerun.numerics.likeliest import head
from forerun.numerics.randomness import Purpose, fresh_sampler, racing_sampler
from forerun.numerics.token_tree import NOTHING, Proposal
from forerun.trace import Drafted, Kind, Round, Times
from forerun.verifiers.base import Verdict

HEAD = 8  # ids in a trace's head of a law


def decode_round(
    batch: Sequence[Generation], target: Model, drafter: Drafter | None
) -> list[Round]:
    """One round for every generation of the batch; returns one record for each that went well.

    A generation whose logits make no law ends with an error that names model, position and slot;
    the others go on.
    """
    clock = RoundClock(len(batch))
    drafts = propose(batch, target, drafter)
    clock.drafted([draft.seconds for draft in drafts])
    rows = target.extend([pass_step(g, draft.proposal) for g, draft in zip(batch, drafts)])
    clock.read()
    records = []
    for g, draft, logits in zip(batch, drafts, rows):
        proposal, p = target_laws(g, draft.proposal, logits, target.name)
        try:
            verdict = g.verifier.verify(proposal, p, g.draws)
            logprobs = emitted_logprobs(g, proposal, verdict, logits, target.name)
        except LawError as error:
            g.fail(error)
            continue
        start = len(g.ids)
        kinds = commit(g, proposal, verdict)
        g.found += logprobs[: len(kinds)]
        keep(g, target, verdict, start)
        if drafter is not None:
            drafter.observe(g.slot, g.ids[start:])
        times = clock.lap(draft.seconds)
        g.control.learn(draft.plan, proposal.tree, verdict.path)
        records.append(_record(g, draft.plan, proposal, p, verdict, kinds, start, times))
        clock.skip()
        g.round += 1
    learn(batch, drafts, clock.whole(), clock.planned)
    return records


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a round drafts for one request."""

    plan: Plan = PLAIN
    proposal: Proposal = NOTHING
    seconds: float = 0.0  # this request's share of what its drafter took


def propose(batch: Sequence[Generation], target: Model, drafter: Drafter | None) -> list[Draft]:
    """As control decides for all: who drafts for each, and how far; maybe nobody, or nothing."""
    for g in batch:
        g.draws.begin_round(g.round, len(g.ids))
    if drafter is None:
        return [Draft()] * len(batch)
    plans = plan_batch([_seat(g, drafter) for g in batch])
    drafts = [Draft(plan=plan) for plan in plans]
    for name in dict.fromkeys(plan.drafter for plan in plans if plan.drafter is not None):
        asked = [i for i, plan in enumerate(plans) if plan.drafter == name]
        requests = [_request(batch[i], plans[i]) for i in asked]
        start = perf_counter()
        proposals = drafter.propose(requests)
        seconds = (perf_counter() - start) / len(asked)
        check_proposals(requests, proposals, target.vocab_size)
        for i, proposal in zip(asked, proposals):
            _judgeable(batch[i], proposal)
            proposal = in_grammar(batch[i], proposal)
            drafts[i] = Draft(plan=plans[i], proposal=proposal, seconds=seconds)
    return drafts


def learn(
    batch: Sequence[Generation], drafts: Sequence[Draft], times: Times, planned: float
) -> None:
    """Tell control what the round took, and its planning for each."""
    learn_batch(
        [g.control for g in batch],
        [draft.plan for draft in drafts],
        [draft.proposal.tree for draft in drafts],
        [draft.seconds for draft in drafts],
        times,
        planned,
    )


def _seat(g: Generation, drafter: Drafter) -> Seat:
    return Seat(
        control=g.control,
        drafters=parts(drafter, g.slot),
        slot=g.slot,
        length=len(g.ids),
        room=g.room,
    )


def _request(g: Generation, plan: Plan) -> DraftRequest:
    return DraftRequest(
        slot=g.slot,
        ids=g.ids,
        prompt_length=g.prompt_length,
        num_draft=plan.num_draft,
        params=g.params,
        sample=racing_sampler(g.draws) if g.verifier.races else fresh_sampler(g.draws),
        allowed=None if g.grammar is None else g.grammar.allowed,
        drafter=plan.drafter,
        shape=plan.shape,
        passes=plan.outlook.passes,
    )


def commit(g: Generation, proposal: Proposal, verdict: Verdict) -> list[Kind]:
    """Append the accepted tokens and the next one, up to the first that ends the text."""
    accepted = [int(proposal.tree.tokens[node]) for node in verdict.path]
    kinds: list[Kind] = []
    for token in [*accepted, verdict.token]:
        kinds.append("accepted" if len(kinds) < len(accepted) else verdict.kind)
        g.push(token)
        if g.finish_reason is not None:
            break
    return kinds


def keep(g: Generation, target: Model, verdict: Verdict, start: int) -> None:
    """Of the pass, the cache keeps what was committed, all but the last id; drops the rest."""
    committed = len(g.ids) - start
    nodes = verdict.path[: committed - 1]
    target.keep(g.slot, len(g.ids) - 1, path=(0, *(node + 1 for node in nodes)))


def pass_step(g: Generation, proposal: Proposal) -> Step:
    """The last id, then the drafts: node i is token i + 1 of the step."""
    tree = proposal.tree
    parents = None if tree.is_chain else (-1, *(parent + 1 for parent in tree.parents))
    raw = g.grammar is None and g.logprobs is None
    laws = raw and not adjusts(g.params, len(g.ids) - g.prompt_length)
    tokens = (g.ids[-1], *tree.tokens)
    params = g.params if laws else None
    return Step(slot=g.slot, tokens=tokens, parents=parents, rows=len(tokens), params=params)


def _judgeable(g: Generation, proposal: Proposal) -> None:
    if not g.verifier.judges(proposal.drawn, proposal.tree.is_chain):
        shape = "chain" if proposal.tree.is_chain else "tree"
        raise CapabilityError(
            f"verifier {g.verifier.name!r} cannot judge a {shape} drawn {proposal.drawn.value}"
        )


def _record(
    g: Generation,
    plan: Plan,
    proposal: Proposal,
    p: Laws,
    verdict: Verdict,
    kinds: Sequence[Kind],
    start: int,
    times: Times,
) -> Round:
    delivered = verdict.path[: len(kinds)]
    tree = proposal.tree
    drafted = tuple(
        Drafted(
            token=token,
            parent=parent,
            p=p.mass(parent + 1, token),
            q=draft_mass(q, token),
            acceptance=verdict.acceptance[node],
            coin=g.draws.coin((node, Purpose.ACCEPT)),
            accepted=node in delivered,
            p_head=head(p[parent + 1], HEAD) if g.heads and p.made(parent + 1) else None,
            q_head=head(q, HEAD) if g.heads and q is not None else None,
        )
        for node, (token, parent, q) in enumerate(zip(tree.tokens, tree.parents, proposal.q))
    )
    return Round(
        request=g.request,
        index=g.round,
        position=start,
        verifier=g.verifier.name,
        drafter=plan.drafter if drafted else None,
        drafted=drafted,
        tokens=tuple(g.ids[start:]),
        kinds=tuple(kinds),
        head=head(verdict.law, HEAD) if g.heads else None,
        logprobs=None if g.logprobs is None else tuple(g.found[len(g.found) - len(kinds) :]),
        expected=plan.expected,
        times=times,
    )
