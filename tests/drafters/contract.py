"""What every drafter keeps, whatever it guesses by; subclassed for each in test_contract.py."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from forerun.certify.vocabularies import of_pieces, pieces
from forerun.drafters import Drafter, DraftRequest
from forerun.drafters.base import outlook, parts
from forerun.errors import OptionError
from forerun.models.tabular import TabularModel
from forerun.numerics.randomness import inverse_cdf
from forerun.numerics.token_tree import Drawn, Proposal
from forerun.sampling import SamplingParams

V = 4
END = 3


def peaked(salt: int, prefix: tuple[int, ...]) -> list[float]:
    """A law that depends on the whole prefix."""
    rng = random.Random(hash((salt, prefix)))
    w = [rng.random() ** 3 + 0.01 for _ in range(V)]
    return [x / sum(w) for x in w]


def shallow(prefix: tuple[int, ...], skipped: frozenset[int]) -> list[float]:
    """The law of what is left without those layers."""
    return peaked(100 + sum(1 << layer for layer in skipped), prefix)


def tabular(salt: int = 0, **options: Any) -> TabularModel:
    """A small model that can be pickled."""
    return TabularModel(partial(peaked, salt), V, END, **options)


def spoken() -> TabularModel:
    """A target with a tokenizer."""
    return tabular(1, tokenizer=of_pieces(pieces(V)))


def sample(q: Any, node: int, path: tuple[int, ...]) -> int:
    """A sampler that is a pure function of its arguments."""
    return inverse_cdf(q, random.Random(hash((node, path))).random())


def ask(
    slot: int, prompt: Sequence[int], output: Sequence[int], num_draft: int = 4, **sampling: Any
) -> DraftRequest:
    return DraftRequest(
        slot=slot,
        ids=[*prompt, *output],
        prompt_length=len(prompt),
        num_draft=num_draft,
        params=SamplingParams(**{"eos": frozenset({END}), **sampling}),
        sample=sample,
    )


def same(a: Proposal, b: Proposal) -> bool:
    """Equal tokens, drawn alike from equal laws."""
    return (
        a.tree == b.tree
        and a.drawn == b.drawn
        and all(x is y is None or np.array_equal(x, y) for x, y in zip(a.q, b.q, strict=True))
    )


def texts(count: int) -> list[tuple[list[int], list[int]]]:
    """Prompts and outputs over V tokens, some of them repetitive, the ends left out of most."""
    rng = random.Random(5)
    made = [([1], [1] * 9), ([0, 1], [0, 1] * 5), ([2], [])]
    while len(made) < count:
        length = rng.randrange(1, 12)
        made.append(
            (
                [rng.randrange(V) for _ in range(length)],
                [rng.randrange(V - 1) for _ in range(rng.randrange(14))],
            )
        )
    return made


class DrafterContract:
    """`make` gives a new drafter; `deterministic` says that its proposals are point masses (None:
    some of them)."""

    deterministic: bool | None = True
    chain = True
    cached = False  # a deterministic one has a model, whose cache is not the text alone

    def make(self) -> Drafter:
        raise NotImplementedError

    def proposal(
        self, drafter: Drafter, prompt: list[int], output: list[int], num_draft: int = 4
    ) -> Proposal:
        """What a fresh request with that text is offered."""
        drafter.begin(0, prompt)
        drafter.observe(0, output)
        (proposal,) = drafter.propose([ask(0, prompt, output, num_draft)])
        drafter.end(0)
        return proposal

    def test_is_a_drafter(self) -> None:
        drafter = self.make()
        assert isinstance(drafter, Drafter)
        drafter.check(spoken())
        assert drafter.traits.laws is not bool(self.deterministic)
        assert drafter.propose([]) == []

    @pytest.mark.parametrize("num_draft", [1, 2, 5])
    def test_proposals_are_well_formed(self, num_draft: int) -> None:
        drafter = self.make()
        drafter.check(spoken())
        drafted = 0
        for prompt, output in texts(40):
            proposal = self.proposal(drafter, prompt, output, num_draft)
            tokens = proposal.tree.tokens
            assert len(proposal) <= num_draft
            assert all(type(token) is int and 0 <= token < V for token in tokens)
            for node, parent in enumerate(proposal.tree.parents):
                assert parent < 0 or tokens[parent] != END, f"{node} follows an end"
            if proposal:
                assert proposal.tree.is_chain or not self.chain
                if self.deterministic is not None:
                    assert proposal.drawn is drafter.traits.drawn
            for q, token in zip(proposal.q, tokens, strict=True):
                if proposal.drawn is not Drawn.GREEDY_PLUS_ONE:
                    assert (q is None) is (proposal.drawn is Drawn.DETERMINISTIC)
                if q is not None:
                    assert q.shape == (V,)
                    assert q[token] > 0
                    assert abs(float(np.asarray(q).sum()) - 1) < 1e-6
            drafted += len(proposal)
        assert drafted > 20

    def test_the_outlook_bounds_the_proposal_and_changes_nothing(self) -> None:
        for prompt, output in texts(30):
            drafter = self.make()
            drafter.check(spoken())
            drafter.begin(0, prompt)
            drafter.observe(0, output)
            before = pickle.dumps(drafter)
            text = [*prompt, *output]
            for name, part in parts(drafter).items():
                said = outlook(part, 0, len(text), 5)
                assert pickle.dumps(drafter) == before
                assert 0 <= said.most <= 5
                assert 0 <= said.unread <= len(text)
                if said.chances is not None:
                    assert len(said.chances) == said.most
                    assert all(0 <= chance <= 1 for chance in said.chances)
                request = dataclasses.replace(ask(0, prompt, output, 5), drafter=name)
                (proposal,) = drafter.propose([request])
                assert len(proposal) <= said.most
                if END not in proposal.tree.tokens and proposal and self.chain:
                    assert len(proposal) == said.most
                    drafter.observe(0, [])
                if self.deterministic is not True:
                    break

    def test_proposes_the_same_twice(self) -> None:
        for prompt, output in texts(15):
            drafter = self.make()
            drafter.begin(0, prompt)
            drafter.observe(0, output)
            once, again = (drafter.propose([ask(0, prompt, output)])[0] for _ in range(2))
            assert same(once, again)

    def test_end_leaves_nothing_behind(self) -> None:
        drafter = self.make()
        before = pickle.dumps(drafter)
        for slot, (prompt, output) in enumerate(texts(6)):
            drafter.begin(slot, prompt)
            drafter.propose([ask(slot, prompt, [])])
            drafter.observe(slot, output)
            drafter.propose([ask(slot, prompt, output)])
        for slot in (3, 0, 5, 1, 2, 4):
            drafter.end(slot)
        assert pickle.dumps(drafter) == before

    def test_a_slot_is_reused(self) -> None:
        drafter = self.make()
        self.proposal(drafter, [0, 1, 2, 0, 1], [2, 0, 1, 1, 1, 1])
        for prompt, output in texts(10):
            assert same(
                self.proposal(drafter, prompt, output), self.proposal(self.make(), prompt, output)
            )

    def test_a_slot_that_is_in_use_is_refused(self) -> None:
        """Two engines count their slots on their own; the first one's request is not disturbed."""
        drafter = self.make()
        drafter.begin(0, [0, 1])
        expected = drafter.propose([ask(0, [0, 1], [])])[0]
        with pytest.raises(OptionError, match=r"slot 0 .*each engine needs its own drafter"):
            drafter.begin(0, [2])
        assert same(drafter.propose([ask(0, [0, 1], [])])[0], expected)
        drafter.end(0)
        drafter.begin(0, [2])

    def test_a_batch_equals_solo_runs(self) -> None:
        rng = random.Random(3)
        together, rows = self.make(), texts(12)
        alone = {slot: self.make() for slot in range(len(rows))}
        for slot, (prompt, _) in enumerate(rows):
            together.begin(slot, prompt)
            alone[slot].begin(slot, prompt)
        done = dict.fromkeys(alone, 0)
        for _ in range(6):
            asked = [slot for slot in rng.sample(sorted(alone), len(alone)) if rng.random() < 0.7]
            requests = [
                ask(slot, rows[slot][0], rows[slot][1][: done[slot]], rng.randrange(1, 5))
                for slot in asked
            ]
            for request, proposal in zip(requests, together.propose(requests), strict=True):
                assert same(proposal, alone[request.slot].propose([request])[0])
            for slot, (_, output) in enumerate(rows):
                committed = output[done[slot] : done[slot] + rng.randrange(1, 4)]
                done[slot] += len(committed)
                together.observe(slot, committed)
                alone[slot].observe(slot, committed)

    def test_a_pickle_goes_on_alike(self) -> None:
        for prompt, output in texts(10):
            drafter = self.make()
            drafter.begin(0, prompt)
            drafter.propose([ask(0, prompt, [])])
            drafter.observe(0, output)
            copy = pickle.loads(pickle.dumps(drafter))
            assert pickle.dumps(copy) == pickle.dumps(drafter)
            request = ask(0, prompt, output)
            assert same(copy.propose([request])[0], drafter.propose([request])[0])

    def test_rejected_drafts_leave_no_trace(self) -> None:
        """However the text was cut into rounds, and whatever was drafted in them."""
        rng = random.Random(11)
        for prompt, output in texts(30):
            plain, rounds = self.make(), self.make()
            for drafter in (plain, rounds):
                drafter.begin(0, prompt)
            for token in output:
                plain.observe(0, [token])
            done = 0
            while done < len(output):
                if rng.random() < 0.8:
                    rounds.propose([ask(0, prompt, output[:done], rng.randrange(1, 5))])
                committed = output[done : done + rng.randrange(1, 4)]
                rounds.observe(0, committed)
                done += len(committed)
            if self.deterministic and self.chain and not self.cached:
                assert pickle.dumps(rounds) == pickle.dumps(plain)
            request = ask(0, prompt, output)
            assert same(rounds.propose([request])[0], plain.propose([request])[0])

    def test_accepted_drafts_are_followed(self) -> None:
        """Rounds that take every draft and a bonus: as if the text had been read plainly."""
        for prompt, _ in texts(15):
            drafter, output = self.make(), list[int]()
            drafter.begin(0, prompt)
            for bonus in (1, 0, 2, 0):
                (proposal,) = drafter.propose([ask(0, prompt, output, 3)])
                fresh = self.proposal(self.make(), prompt, output, 3)
                assert same(proposal, fresh)
                committed = [*proposal.tree.tokens, bonus]
                drafter.observe(0, committed)
                output += committed

    def test_other_tenants_requests_change_nothing(self) -> None:
        """A request finds what it would find with no requests before it but its tenant's own."""
        rows = texts(20)
        for others in ("b", ""):
            drafter = self.make()
            for prompt, output in rows:
                drafter.begin(0, prompt, tenant=others)
                drafter.observe(0, output)
                drafter.end(0)
            for number, (prompt, output) in enumerate(rows):
                fresh = self.make()
                for one in (drafter, fresh):
                    one.begin(0, prompt, tenant=f"a{number}")
                    one.observe(0, output)
                request = ask(0, prompt, output)
                assert same(drafter.propose([request])[0], fresh.propose([request])[0])
                drafter.end(0)

    def test_without_recall(self) -> None:
        for prompt, output in texts(10):
            drafter = self.make()
            drafter.begin(0, prompt, recall=False)
            drafter.observe(0, output)
            (proposal,) = drafter.propose([ask(0, prompt, output)])
            assert same(proposal, self.proposal(self.make(), prompt, output))
