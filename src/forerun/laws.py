"""What a pass says of each position: the target's laws, and logprobs.

    row      0        1           2             laws[i + 1] is that after node i, with the history,
    law   prefix   after d0   after d0 d1       the grammar and the end of its own path

What this module does not know: who drafted, and what becomes of a draft (`decode.py`, verifiers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.errors import LawError
from forerun.generation import Generation
from forerun.numerics.acceptance import mass
from forerun.numerics.distribution import History, law, point_mass
from forerun.numerics.logprobs import TokenLogprob, token_logprob
from forerun.numerics.token_tree import ROOT, Proposal
from forerun.verifiers.base import Verdict


class Laws(Sequence[Any]):
    """Laws by row; one that could not be made raises where it is asked for."""

    def __init__(self, laws: Sequence[Any]) -> None:
        self._laws = laws

    def __len__(self) -> int:
        return len(self._laws)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[row] for row in range(*i.indices(len(self)))]
        if isinstance(found := self._laws[i], LawError):
            raise found
        return found

    def made(self, row: int) -> bool:
        """Whether there is a law."""
        return not isinstance(self._laws[row], LawError)

    def mass(self, row: int, token: int) -> float:
        """Probability of `token`; 0 where there is no law, for then it cannot be said."""
        found = self._laws[row]
        return 0.0 if isinstance(found, LawError) else mass(found, token)


def in_grammar(g: Generation, proposal: Proposal) -> Proposal:
    """A chain up to the first token that the grammar refuses: what follows is of no use.

    That token has p = 0. One that depends on the prefix alone is left out; a sampled one stays, for
    whether it is judged must not depend on what it is.
    """
    if g.grammar is None or not proposal.tree.is_chain:
        return proposal
    for i, token in enumerate(proposal.tree.tokens):
        try:
            fits = g.grammar.allowed(proposal.tree.tokens[:i])[token]
        except LawError:  # after an end, or beyond what can be followed
            return proposal.first(i)
        if not fits:
            return proposal.first(i + (proposal.q[i] is not None))
    return proposal


def target_laws(g: Generation, proposal: Proposal, logits: Any, name: str) -> tuple[Proposal, Laws]:
    """The target's laws p: after the prefix, then after each node, with that position's history.

    What plain decoding would never look at does no harm: a law that cannot be made raises only
    where a verifier asks for it, and a chain is cut behind a draft that has none (as far as the
    block verifier looks ahead) or that ends the text. After an end comes that end, for ever.
    """
    tree, end_ids = proposal.tree, g.params.end_ids
    laws: list[Any] = []
    for node, row in zip(range(ROOT, len(tree)), logits, strict=True):
        path = tree.path_tokens(node)
        ended = bool(path) and path[-1] in end_ids
        try:
            history = History(g.ids, g.prompt_length, path)
            allowed = None if g.grammar is None or ended else g.grammar.allowed(path)
            known = point_mass(path[-1], row) if ended else law(row, g.params, history, allowed)
            laws.append(known)
        except LawError as error:
            laws.append(located(error, name, g.slot, len(g.ids) + len(path)))
        if tree.is_chain and (ended or isinstance(laws[-1], LawError)):
            return proposal.first(node + 1), Laws(laws)
    return proposal, Laws(laws)


def located(error: LawError, name: str, slot: int, position: int) -> LawError:
    """The error, of its class, saying where."""
    return type(error)(f"{name}, position {position}, slot {slot}: {error}")


def emitted_logprobs(
    g: Generation, proposal: Proposal, verdict: Verdict, logits: Any, name: str
) -> list[TokenLogprob]:
    """Of the accepted tokens and the next one, by the raw logits of their positions; [] where
    nobody asked."""
    if g.logprobs is None:
        return []
    nodes = (ROOT, *verdict.path)
    tokens = (*(proposal.tree.tokens[node] for node in verdict.path), verdict.token)
    found: list[TokenLogprob] = []
    for node, token in zip(nodes, tokens, strict=True):
        try:
            found.append(token_logprob(logits[node + 1], int(token), g.logprobs))
        except LawError as error:
            raise located(error, name, g.slot, len(g.ids) + len(found)) from None
    return found
