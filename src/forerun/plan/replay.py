"""What a drafter proposes all along a text, what of it a verifier would keep, and what it takes.

    text            a  b  c  d  e  f  …            the target's own
    moment 2        proposed after b:  c d x       kept: c, d with certainty; x is not the text's
    moment 3        proposed after c:  d x y

A text says all there is to know of a round, whoever wrote it: given that it came out, drafted
tokens that are not its own were rejected, and its own were accepted

    with certainty                               under `coupled`, and point masses under any other
    Pr(at least i) = Π_{j≤i} min(1, q_j/p_j)     of sampled chains, `rejection`
    Pr(at least i) = P_i · Π_{j≤i} q_j/p_j       `block`, with its P_i = min(P_{i−1} · p_i/q_i, 1)

since Pr(x is drafted and accepted) = q(x) · min(1, p(x)/q(x)), of p(x) in all. So a drafter that
draws is made to draw the text's tokens, as long as its law allows, and p comes from one reading of
the text. Trees that are drawn, under verifiers that toss coins, are judged as they come instead, by
the target's laws of their nodes: that takes a pass of the target for each moment.

Where time is short, not every place of a text is looked at.

What this module does not know: how far a round drafts, and what it costs beside the drafting.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from time import perf_counter
from typing import Any

from forerun.decode import pass_step
from forerun.drafters.base import Drafter, DraftRequest, Outlook, begin, models, outlook
from forerun.drafters.head import ReadsFeatures
from forerun.drafters.lookup import ReadingDrafter
from forerun.drafters.model import ModelDrafter
from forerun.engine.request import new_generation
from forerun.generation import Generation
from forerun.laws import target_laws
from forerun.models.base import Model, Step
from forerun.numerics.acceptance import mass
from forerun.numerics.distribution import History, law
from forerun.numerics.randomness import KeyedDraws, Sampler, fresh_sampler, racing_sampler
from forerun.numerics.token_tree import ROOT, Drawn, Proposal, TokenTree
from forerun.plan.texts import Clock, Text
from forerun.reading import read_prompt
from forerun.verifiers import Verifier

ROWS = 64  # of a text that are read in one pass
NEAR = 16  # moments that may stand for one


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One place of a text: what was proposed there."""

    outlook: Outlook
    tree: TokenTree
    path: tuple[int, ...]  # the nodes that are the text's
    survival: tuple[float, ...]  # for each of them, Pr(it is accepted): they do not rise
    seconds: tuple[float, ...]  # that a draft of 1, 2, … tokens took; of a lookup or tree, all

    def accepted(self, nodes: int, coin: float) -> tuple[int, ...]:
        """Those of the first so many nodes that are accepted where chances above `coin` are."""
        return tuple(n for n, s in zip(self.path, self.survival) if n < nodes and s > coin)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A drafter along a text."""

    moments: dict[int, Moment]  # by tokens of output before it
    stride: int  # between them
    following: float  # seconds a round of following the text
    looking: float  # seconds of saying what could be drafted, where control asks

    def near(self, position: int, dice: random.Random) -> Moment:
        """The moment there; where not every place was looked at, one of the NEAR around it, another
        each time. (If it were the last before it, a moment that brings little would serve for many
        rounds, one that brings much for few, and all of them would seem to bring less.)"""
        if self.stride == 1:
            return self.moments[position]
        first = position // self.stride - NEAR // 2
        first = max(min(first, len(self.moments) - NEAR), 0)
        last = min(first + NEAR, len(self.moments))
        return self.moments[self.stride * dice.randrange(first, last)]


def replay(
    target: Model,
    drafter: Drafter,
    verifier: Verifier,
    text: Text,
    p: Sequence[float],
    size: int,
    *,
    stride: int = 1,
    most: int | None = None,
    clock: Clock = perf_counter,
) -> Replay:
    """Ask for `size` tokens at every `stride`-th place of the text, `most` of them at most.

    `p` are the target's probabilities of the text's tokens; see `chances`.
    """
    g = in_slot(target, text, verifier.name)
    try:
        begin(drafter, g.slot, text.request.prompt, recall=False, tenant="")
        try:
            along = Along(target, drafter, g, text, p, size, stride, clock)
            places = range(0, len(text.output), stride)[:most]
            moments = {at: along.moment(at) for at in places}
        finally:
            drafter.end(g.slot)
    finally:
        target.close(g.slot)
    return Replay(
        moments=moments,
        stride=stride,
        following=statistics.median(along.following),
        looking=statistics.median(along.looking),
    )


def chances(target: Model, text: Text) -> list[float]:
    """p of each token of the output, by the laws that the request has."""
    request, ids = text.request, [*text.request.prompt, *text.output]
    if request.params.temperature == 0:
        return [1.0] * len(text.output)
    g, found = in_slot(target, text, request.verifier), list[float]()
    try:
        read_prompt(g, target)
        for start in range(len(request.prompt) - 1, len(ids) - 1, ROWS):
            chunk = ids[start : min(start + ROWS, len(ids) - 1)]
            (rows,) = target.extend([Step(slot=g.slot, tokens=chunk, rows=len(chunk))])
            target.keep(g.slot, start + len(chunk))
            for i, row in enumerate(rows, start + 1):
                history = History(ids[:i], len(request.prompt), ())
                found.append(mass(law(row, request.params, history, None), ids[i]))
    finally:
        target.close(g.slot)
    return found


def survival(verifier: str, p: Sequence[float], q: Sequence[float]) -> tuple[float, ...]:
    """Pr(at least i drafted tokens were accepted), given that they are the text's and were drafted
    with probabilities q: see the module's docstring."""
    ratios = [draft / target if target > 0 else 0.0 for target, draft in zip(p, q)]
    if verifier != "block":
        return tuple(accumulate((min(ratio, 1.0) for ratio in ratios), lambda a, b: a * b))
    whole, kept, found = 1.0, 1.0, list[float]()
    for ratio in ratios:
        whole *= ratio
        kept = min(kept / ratio, 1.0) if ratio > 0 else 0.0
        found.append(whole * kept)
    return tuple(found)


def _follows_text_alone(drafter: Drafter) -> bool:
    """Not what the target computed of it, as heads do: those need it to be read on the way."""
    own = isinstance(drafter, ModelDrafter) and not isinstance(drafter, ReadsFeatures)
    return own or isinstance(drafter, ReadingDrafter)


def in_slot(target: Model, text: Text, verifier: str) -> Generation:
    """The text's request at its beginning, in a slot of the target."""
    request = replace(text.request, verifier=verifier, num_draft=0)
    g = new_generation(target, request, KeyedDraws(request.seed))
    g.slot = target.open()
    return g


class Along:
    """The way along one text: it has its tokens up to the moment, and so has the drafter."""

    def __init__(
        self,
        target: Model,
        drafter: Drafter,
        g: Generation,
        text: Text,
        p: Sequence[float],
        size: int,
        stride: int,
        clock: Clock,
    ) -> None:
        traits = drafter.traits
        self._target, self._drafter, self._g = target, drafter, g
        self._text, self._p, self._size = text.output, p, size
        self._stride, self._clock = stride, clock
        self._forced = traits.chain and traits.drawn is Drawn.SAMPLED
        drawn_tree = not traits.chain and traits.drawn is not Drawn.DETERMINISTIC
        self._judged = drawn_tree and not g.verifier.races
        self._reading = self._judged or not _follows_text_alone(drafter)
        self.following, self.looking = list[float](), list[float]()

    def moment(self, at: int) -> Moment:
        """What is proposed behind so many tokens of output; they only rise."""
        g, marks = self._g, list[float]()
        self.following.append(self._follow(at))
        start = self._clock()
        said = replace(outlook(self._drafter, g.slot, len(g.ids), self._size), passes=None)
        self.looking.append(self._clock() - start)
        g.round += 1
        g.draws.begin_round(g.round, len(g.ids))
        if self._stride > 1:  # catch up with the text, which a round has less of to do
            self._drafter.propose([self._request(1, self._sampler(at, []))])
            g.round += 1
            g.draws.begin_round(g.round, len(g.ids))
        if models(self._drafter) and (self._stride > 1 or not self._reading):
            self._pass()
        start = self._clock()
        (proposal,) = self._drafter.propose([self._request(self._size, self._sampler(at, marks))])
        end = self._clock()
        path, chances = self._judge(proposal, at)
        timed = [*marks[: len(proposal) - 1], end] if self._forced else [end] * len(proposal)
        return Moment(
            outlook=said,
            tree=proposal.tree,
            path=path,
            survival=chances,
            seconds=tuple(mark - start for mark in timed),
        )

    def _follow(self, at: int) -> float:
        """Read the text up to there; seconds a token that the drafter took."""
        g, target = self._g, self._target
        new = self._text[len(g.output) : at]
        g.ids += new
        if self._reading:
            read_prompt(g, target)
        if not new:
            return 0.0
        start = self._clock()
        self._drafter.observe(g.slot, new)
        return (self._clock() - start) / len(new)

    def _pass(self) -> None:
        """The target's, which in a round stands before every draft: its weights take the place of
        the drafter's in the caches."""
        g, target = self._g, self._target
        read = target.length(g.slot)
        target.extend([Step(slot=g.slot, tokens=(g.ids[0],), rows=0)])
        target.keep(g.slot, read)

    def _request(self, size: int, sample: Sampler) -> DraftRequest:
        g = self._g
        return DraftRequest(
            slot=g.slot,
            ids=g.ids,
            prompt_length=g.prompt_length,
            num_draft=size,
            params=g.params,
            sample=sample,
        )

    def _sampler(self, at: int, marks: list[float]) -> Sampler:
        """Draws as in a round; of a chain the text's own token, where it has any chance."""
        g = self._g
        usual = racing_sampler(g.draws) if g.verifier.races else fresh_sampler(g.draws)

        def drawn(q: Any, node: int, path: tuple[int, ...]) -> int:
            marks.append(self._clock())
            token, i = usual(q, node, path), at + len(path)
            forced = self._forced and i < len(self._text) and mass(q, self._text[i]) > 0
            return self._text[i] if forced else token

        return drawn

    def _judge(self, proposal: Proposal, at: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The nodes that may be accepted, one below the other, and the chance of each."""
        g, target, tree = self._g, self._target, proposal.tree
        if self._judged:
            (rows,) = target.extend([pass_step(g, proposal)])
            proposal, p = target_laws(g, proposal, rows, target.name)
            verdict = g.verifier.verify(proposal, p, g.draws)
            target.keep(g.slot, len(g.ids) - 1)
            return verdict.path, (1.0,) * len(verdict.path)
        path, node = list[int](), ROOT
        for token in self._text[at:]:
            below = [child for child in tree.children_of(node) if tree.tokens[child] == token]
            if not below:
                break
            node = below[0]
            path.append(node)
        if not self._forced:
            return tuple(path), (1.0,) * len(path)
        q = [mass(proposal.q[node], tree.tokens[node]) for node in path]
        return tuple(path), survival(g.verifier.name, self._p[at:], q)
