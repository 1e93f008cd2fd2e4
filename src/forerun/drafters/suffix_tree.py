"""Suffix trees: all that came after the text's last tokens before, the most counted first.

    … the cat sat … the cat sat … the cat ran … a cat slept … the cat

    root ── sat ── …       after "the cat" twice
         ├─ ran ── …       after "the cat" once
         └─ slept ── …     after "cat" alone

The last tokens stood in the text before, m of them, in one place or several. With a(m) the
probability that the text goes on as it did there (`after_match`),

    Pr(x comes next) ≈ a(m) · count(x) / Σ count      for the x that came there
                       (1 − a(m)) · as after the next shorter match that something else followed

and so on after each node, whose own match is one token longer. The `num_draft` nodes with the
largest products of these are the tree: a node has several children where the text went on in
several ways. No child is taken to be likelier than one before it, so that of the request's own
text the first children, one after another, are what the `suffix` drafter drafts. Where earlier
requests' texts are remembered, their matches stand among those of the text itself, by length.

(Oliaro et al. 2024, SuffixDecoding, arXiv 2411.04975, section 3, for trees by counts; Cleary &
Witten 1984, prediction by partial matching, for shorter matches behind longer ones.)

All of it is a function of the prefix: nothing is drawn, and the nodes are point masses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from forerun.drafters.base import DrafterTraits, DraftRequest, Outlook
from forerun.drafters.lookup import RememberingDrafter, after_match, probability, whole
from forerun.drafters.suffix import SuffixText
from forerun.drafters.text_memory import DEPTH, longest_match
from forerun.numerics.token_tree import ROOT, Drawn, Proposal, TokenTree

Node = tuple[int, int, float]
"""Token, parent, and the estimated probability that the text runs through it."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a node's last tokens stood before."""

    state: int  # of the automaton, in the request's own text
    length: int  # so many tokens
    places: Sequence[tuple[tuple[int, ...], int]]  # in remembered texts, and the index behind
    recalled: int  # so many tokens


@dataclass(frozen=True, slots=True)
class Branch:
    """A node, and its children from the next one on."""

    node: int
    score: float  # the node's
    match: Match  # the node's
    children: Iterator[tuple[int, float]]  # token, and its probability after the node


Coming = tuple[float, int, int, Branch]
"""A child that could be next: −its score, the order it came in, its token, where it hangs."""


class SuffixTreeReader(SuffixText[Node]):
    """All continuations that are likely enough."""

    def nodes(self, count: int) -> list[Node]:
        """At most `count` of them, parents first; fewer are the first of more."""
        if self._found[0] < count:
            self._found = (count, self._grown(count))
        return self._found[1][:count]

    def _grown(self, count: int) -> list[Node]:
        found: list[Node] = []
        coming: list[Coming] = []  # the best child of each node and the next sibling of each
        serial = 0

        def offer(branch: Branch, most: float) -> None:
            nonlocal serial
            token, share = next(branch.children, (0, 0.0))
            score = min(branch.score * share, most)
            if share > 0 and score >= self._least:
                serial += 1
                heappush(coming, (-score, serial, token, branch))

        offer(self._branch(ROOT, 1.0, self._match()), 1.0)
        while coming and len(found) < count:
            negative, _, token, branch = heappop(coming)
            score = -negative
            offer(self._branch(len(found), score, self._after(branch.match, token)), score)
            offer(branch, score)
            found.append((token, branch.node, score))
        return found

    def _branch(self, node: int, score: float, match: Match) -> Branch:
        return Branch(node, score, match, self._next(match))

    def _match(self) -> Match:
        """Of the text itself."""
        state, length = self._automaton.context()
        recalled, places = longest_match(self._texts, self.text[-DEPTH:])
        return Match(state, length, places, recalled)

    def _after(self, at: Match, token: int) -> Match:
        """The match of a child."""
        state, length = self._automaton.step(at.state, at.length, token)
        places = [(t, i + 1) for t, i in at.places if t[i] == token and i + 1 < len(t)]
        return Match(state, length, places, at.recalled + 1 if places else 0)

    def _next(self, at: Match) -> Iterator[tuple[int, float]]:
        """Tokens that may follow, and the probability of each: those of longer matches first."""
        left, seen = 1.0, set[int]()
        for length, tokens, total in self._counted(at):
            goes_on = after_match(length)
            for token, count in tokens:
                if token not in seen:
                    seen.add(token)
                    yield token, left * goes_on * count / total
            left *= 1 - goes_on

    def _counted(self, at: Match) -> Iterator[tuple[int, Iterator[tuple[int, int]], int]]:
        """For each match the number of tokens, what followed and how often, and how often in all;
        of two as long the one in the request's own text is first."""
        known, recalled = self._automaton, at.recalled
        for state, length in known.contexts(at.state, at.length):
            if recalled > length:
                yield recalled, _votes(at.places), len(at.places)
                recalled = 0
            yield length, known.followers(state), known.followed(state)
        if recalled:
            yield recalled, _votes(at.places), len(at.places)


def _votes(places: Sequence[tuple[tuple[int, ...], int]]) -> Iterator[tuple[int, int]]:
    """What follows in how many of the places, the most first; on a tie as they were found."""
    counts: dict[int, int] = {}
    for tokens, i in places:
        counts[tokens[i]] = counts.get(tokens[i], 0) + 1
    yield from sorted(counts.items(), key=lambda pair: -pair[1])


class SuffixTreeDrafter(RememberingDrafter[SuffixTreeReader]):
    """Trees of what followed the last tokens before, in prompt and output, and in earlier requests'
    texts if given memory. `num_draft` is the number of nodes.

        drafter = SuffixTreeDrafter()
        drafter.begin(0, [1, 2, 3, 1, 2, 4, 1, 2])
        drafter.propose([DraftRequest(slot=0, num_draft=3, ...)])   # 4 and 3; and 1 after the 4

    memory_bytes     limit of the memory of earlier requests, see `RememberingDrafter`; 0: none
    max_match        most last tokens that are matched
    min_probability  no nodes of a lower estimated probability

    Of tokens that followed as often the most recent is first. OptionError for values out of range.
    """

    name = "suffix-tree"
    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False, chain=False)

    def __init__(
        self, *, memory_bytes: int = 0, max_match: int = 32, min_probability: float = 0.02
    ) -> None:
        super().__init__(memory_bytes)
        self._max_match = whole("max_match", max_match, 1)
        self._least = probability("min_probability", min_probability)

    def reader(self, prompt: Sequence[int], recalled: str | None) -> SuffixTreeReader:
        reader = SuffixTreeReader(self.recalled(recalled), self._max_match, self._least)
        reader.read(prompt)
        return reader

    def nodes(self, slot: int, most: int) -> list[Node]:
        """Of a request's text as it is."""
        return self._readers[slot].nodes(most)

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        return Outlook(most=len(self.nodes(slot, most)))

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        return [self._tree(request) for request in requests]

    def _tree(self, request: DraftRequest) -> Proposal:
        """The nodes without those below an end of the text."""
        ends, new = request.params.end_ids, {ROOT: ROOT}
        tokens, parents = list[int](), list[int]()
        for node, (token, parent, _) in enumerate(self.nodes(request.slot, request.num_draft)):
            if parent in new and (parent == ROOT or tokens[new[parent]] not in ends):
                new[node] = len(tokens)
                tokens.append(token)
                parents.append(new[parent])
        return Proposal(tree=TokenTree(tuple(tokens), tuple(parents)), q=(None,) * len(tokens))
