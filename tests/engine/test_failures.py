"""What goes wrong in one request stays in it: NaN, processors that fail, memory that is short."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from certify.tables import table
from forerun import Engine
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import ModelDrafter, NgramDrafter
from forerun.drafters.base import DrafterTraits
from forerun.errors import CacheError, CapabilityError, LawError
from forerun.models.tabular import TabularModel
from forerun.numerics.token_tree import Drawn, Proposal, TokenTree
from forerun.verifiers import VERIFIERS

from .fakes import (
    NONE_OPEN,
    Guessing,
    V,
    consistent,
    draft,
    follows,
    open_slots,
    says,
    target,
    within,
)

each_verifier = pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
SICK = 4  # a prompt that begins with it is never well
OPTIONS = {"seed": 3, "max_tokens": 12}


def sickly(at):
    """A model whose numbers are NaN from position `at` on, where the prompt begins with SICK."""
    sound = table(V, 1)

    def next_law(prefix):
        return [np.nan] * V if prefix[0] == SICK and len(prefix) >= at else sound(prefix)

    return TabularModel(next_law, V)


def helpers():
    return {
        "none": lambda: None,
        "model": lambda: ModelDrafter(draft()),
        "its own model": lambda: ModelDrafter(draft(1)),
        "a sick model": lambda: ModelDrafter(sickly(4)),
        "ngram": lambda: NgramDrafter(),
    }


@each_verifier
@pytest.mark.parametrize("at", [3, 5, 8])
@pytest.mark.parametrize("helper", helpers())
def test_nan_ends_its_own_request_alone(helper, at, verifier):
    prompts = [[0, 1, 2], [SICK, 1, 2], [1], [2, 2, 2, 0]]
    engine = Engine(sickly(at), helpers()[helper](), verifier=verifier, num_draft=3, max_batch=3)
    batch = engine.generate_batch(prompts, OPTIONS)
    assert open_slots(engine) == NONE_OPEN
    for prompt, done in zip(prompts, batch, strict=True):
        if prompt[0] == SICK:
            assert done.finish_reason == "error"
            assert isinstance(done.error, LawError)
            assert "the logits hold NaN" in str(done.error)
            assert "slot 1" in str(done.error)
            assert len(done.tokens) <= at - 3
        else:
            alone = Engine(target(), helpers()[helper](), verifier=verifier, num_draft=3)
            assert done.tokens == alone.generate(prompt, **OPTIONS).tokens
            assert (done.finish_reason, done.error) == ("length", None)
        consistent(done)


@pytest.mark.parametrize("helper", helpers())
def test_the_error_names_model_position_and_slot(helper):
    engine = Engine(sickly(3), helpers()[helper]())
    with pytest.raises(LawError, match="tabular, position 3, slot 0: the logits hold NaN"):
        engine.generate([SICK, 1, 2], **OPTIONS)
    assert open_slots(engine) == NONE_OPEN
    assert engine.generate([1, 1], **OPTIONS).tokens  # the slot is as good as new


def test_the_position_is_that_of_the_token_that_could_not_be_made():
    """Two drafts accepted; the law after them is no law: position 4, not where the round began."""
    text = [1, 2, 3]
    model = says(text, 2)
    sound = model._next_law
    model._next_law = lambda prefix: [np.nan] * V if len(prefix) >= 4 else sound(prefix)
    for drafter in (None, follows(text, 2)):
        with pytest.raises(LawError, match="position 4, slot 0"):
            Engine(model, drafter).generate([0, 0], max_tokens=3)


@each_verifier
def test_a_stream_raises_after_the_good_pieces(verifier):
    engine = Engine(sickly(6), NgramDrafter(), verifier=verifier)
    stream = engine.stream([SICK, 1, 2], **OPTIONS)
    pieces = []
    with pytest.raises(LawError, match="NaN"):
        pieces.extend(stream)
    assert stream.done.finish_reason == "error"
    assert stream.done.tokens == tuple(t for piece in pieces for t in piece.tokens)
    assert isinstance(stream.done.error, LawError)
    assert list(stream) == []
    assert open_slots(engine) == NONE_OPEN


def failing(ids, logits):
    if ids[0] == SICK and len(ids) >= 5:
        raise KeyError("no such state")
    return logits


def nothing(ids, logits):
    return None if ids[0] == SICK else logits


def short(ids, logits):
    return logits[:-1] if ids[0] == SICK else logits


def nan(ids, logits):
    return logits * np.nan if ids[0] == SICK else logits


def banning(ids, logits):
    return logits - np.inf if ids[0] == SICK else logits


@each_verifier
@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (failing, "a processor failed: KeyError: 'no such state'"),
        (nothing, "a processor must return the logits, not NoneType"),
        (short, "a processor returned shape"),
        (nan, "NaN"),
        (banning, "no token is left"),
    ],
)
@pytest.mark.parametrize("helper", ["none", "model", "ngram"])
def test_a_processor_that_fails_ends_its_own_request_alone(helper, processor, message, verifier):
    prompts = [[0, 1, 2], [SICK, 1, 2], [1]]
    options = {**OPTIONS, "processors": [processor]}
    engine = Engine(target(), helpers()[helper](), verifier=verifier)
    batch = engine.generate_batch(prompts, options)
    alone = Engine(target(), helpers()[helper](), verifier=verifier)
    for prompt, done in zip(prompts, batch, strict=True):
        if prompt[0] == SICK:
            assert isinstance(done.error, LawError)
            assert message in str(done.error)
            assert "slot 1" in str(done.error)
        else:
            assert done.tokens == alone.generate(prompt, **options).tokens
    assert open_slots(engine) == open_slots(alone) == NONE_OPEN


def test_bans_that_leave_nothing():
    engine = Engine(target(), NgramDrafter())
    with pytest.raises(LawError, match="position 1, slot 0: no token is left: bans, bias, proc"):
        engine.generate([0], banned=range(V))
    assert open_slots(engine) == NONE_OPEN


# ------------------------------------------------------------------ laws where the text never goes


@each_verifier
def test_a_law_that_fails_after_a_rejected_draft_does_no_harm(verifier):
    """Plain decoding never reads what follows a wrong guess, so it must not matter."""
    text = [1, 2, 3, 1, 2, 3]
    right = says(text, 1)._next_law
    model = TabularModel(lambda prefix: [np.nan] * V if 4 in prefix else right(prefix), V)
    wrong = Guessing(lambda ids, count: [*text[len(ids) - 1 :][:1], 4, 4, 4][:count])
    done = Engine(model, wrong, num_draft=3).generate([0], max_tokens=6, verifier=verifier)
    assert list(done.tokens) == text
    consistent(done)


@each_verifier
def test_a_processor_that_refuses_a_rejected_draft_does_no_harm(verifier):
    """As a grammar does, whose state machine knows no way on after a token it has masked."""

    def alternating(ids, logits):
        if any(a == b for a, b in pairwise(ids)):
            raise ValueError("not in the language")
        logits[ids[-1]] = -np.inf
        return logits

    options = {"max_tokens": 20, "seed": 2, "verifier": verifier, "processors": [alternating]}
    repeating = Guessing(lambda ids, count: [ids[-1]] * count)
    done = Engine(target(), repeating, num_draft=3).generate([0], **options)
    assert all(a != b for a, b in pairwise(done.tokens))
    consistent(done)


@each_verifier
def test_the_law_is_exact_where_drafts_leave_the_language(verifier):
    """Blocks are cut short behind drafts without a law; that must not bend the law of the rest."""
    sound = table(3, 1)

    def next_law(prefix):
        if 2 in prefix:
            return [np.nan] * 3
        a, b, _ = sound(prefix)
        return [a / (a + b), b / (a + b), 0.0]

    model = TabularModel(next_law, 3)
    helper = ModelDrafter(TabularModel(table(3, 2), 3, name="draft"))
    common = {"prompt": [0], "max_tokens": 4}
    found = exact_law(model, helper, verifier=verifier, num_draft=3, **common)
    assert total_variation(found, plain_law(model, **common)) < 1e-12


def test_a_law_that_fails_in_an_untaken_branch_does_no_harm():
    class Bushy(Guessing):
        """The right token, and beside it the wrong one with two more after it."""

        traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False, chain=False)

        def propose(self, requests):
            tree = [(4, text[len(r.ids) - 1], 4, 4) for r in requests if r.num_draft > 3]
            found = [Proposal(tree=TokenTree(t, (-1, -1, 0, 2)), q=(None,) * 4) for t in tree]
            return found + [Proposal()] * (len(requests) - len(found))

    text = [1, 2, 3, 1, 2, 3, 1, 2]
    right = says(text, 1)._next_law
    model = TabularModel(lambda prefix: [np.nan] * V if 4 in prefix else right(prefix), V)
    done = Engine(model, Bushy(None), num_draft=4).generate([0], max_tokens=8)
    assert list(done.tokens) == text
    assert done.stats.accepted == 2
    assert done.stats.rounds == 6
    assert all(d.p == (d.parent == -1 and d.token != 4) for r in done.trace for d in r.drafted)


@each_verifier
def test_no_law_is_needed_after_the_end(verifier):
    """A model need not know what follows its end token."""
    text = [1, 2, 4]
    right = says(text, 1)._next_law
    model = TabularModel(lambda prefix: [np.nan] * V if 4 in prefix else right(prefix), V, 4)
    for beyond in ([], [1, 1, 1]):
        engine = Engine(model, follows([*text, *beyond], 1), num_draft=5)
        done = engine.generate([0], max_tokens=9, verifier=verifier)
        assert (list(done.tokens), done.finish_reason) == (text, "stop")
        consistent(done)


# ------------------------------------------------------------------ memory


class Cramped(TabularModel):
    """Room for two slots, and for prompts of up to `most` tokens."""

    def __init__(self, slots=2, most=10**9):
        super().__init__(table(V, 1), V)
        self.slots, self.most = slots, most
        self.seen = 0

    def open(self):
        if len(self._cached) >= self.slots:
            raise CacheError(f"{self.slots} slots are open; there is memory for no more")
        self.seen = max(self.seen, len(self._cached) + 1)
        return super().open()

    def extend(self, steps):
        for step in steps:
            if self.length(step.slot) + len(step.tokens) > self.most:
                raise CacheError(f"slot {step.slot} would hold more than {self.most} tokens")
        return super().extend(steps)


def many(count):
    return [[i % V, 1] for i in range(count)], [
        {"seed": i, "max_tokens": 3 + (5 * i) % 7} for i in range(count)
    ]


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_more_requests_than_share_a_round(most):
    prompts, params = many(9)
    model = Cramped(slots=99)
    engine = Engine(model, ModelDrafter(draft()), max_batch=most)
    batch = engine.generate_batch(prompts, params)
    for prompt, sampling, done in zip(prompts, params, batch, strict=True):
        assert done.tokens == Engine(target()).generate(prompt, **sampling).tokens
    assert model.seen == most  # all that may, and no more
    assert open_slots(engine) == NONE_OPEN


@each_verifier
def test_where_memory_is_short_requests_wait_for_each_other(verifier):
    prompts, params = many(7)
    model = Cramped()
    engine = Engine(model, ModelDrafter(draft()), verifier=verifier)
    batch = engine.generate_batch(prompts, params)
    alone = Engine(target(), ModelDrafter(draft()), verifier=verifier)
    for prompt, sampling, done in zip(prompts, params, batch, strict=True):
        assert done.error is None
        assert done.tokens == alone.generate(prompt, **sampling).tokens
    assert model.seen == 2
    assert open_slots(engine) == NONE_OPEN


def test_a_draft_without_memory_leaves_plain_decoding():
    small = Cramped(slots=1)
    engine = Engine(target(), ModelDrafter(small))
    prompts, params = many(4)
    batch = engine.generate_batch(prompts, params)
    for prompt, sampling, done in zip(prompts, params, batch, strict=True):
        assert done.tokens == Engine(target()).generate(prompt, **sampling).tokens
    assert open_slots(engine) == NONE_OPEN


def test_alone_a_request_without_memory_is_an_error():
    engine = Engine(Cramped(slots=0), NgramDrafter())
    with pytest.raises(CacheError, match="memory for no more"):
        engine.generate([0], max_tokens=3)
    with pytest.raises(CacheError, match="memory for no more"):
        next(engine.stream([0], max_tokens=3))
    engine = Engine(Cramped(most=4), NgramDrafter())
    with pytest.raises(CacheError, match="more than 4 tokens"):
        engine.generate([0] * 9, max_tokens=3)
    assert open_slots(engine) == NONE_OPEN
    assert engine.generate([0], max_tokens=2, num_draft=0).tokens


def test_a_prompt_that_never_fits_ends_alone():
    engine = Engine(Cramped(most=12), NgramDrafter(), num_draft=1)
    batch = engine.generate_batch([[0], [1] * 20, [2]], {"max_tokens": 4, "seed": 1})
    assert [done.finish_reason for done in batch] == ["length", "error", "length"]
    assert isinstance(batch[1].error, CacheError)
    assert batch[0].tokens == Engine(target()).generate([0], max_tokens=4, seed=1).tokens
    assert open_slots(engine) == NONE_OPEN


def test_a_pass_that_fails_ends_those_who_shared_it():
    """Nobody knows whose fault it was; each says so, nothing stays open, the engine goes on."""
    engine = Engine(Cramped(most=6), ModelDrafter(draft()), max_batch=2)
    batch = engine.generate_batch([[0], [1], [2]], [{"max_tokens": n} for n in (30, 30, 2)])
    assert [done.finish_reason for done in batch] == ["error", "error", "length"]
    assert all(isinstance(done.error, CacheError) for done in batch[:2])
    assert open_slots(engine) == NONE_OPEN
    assert len(engine.generate([0], max_tokens=2).tokens) == 2


@pytest.mark.parametrize("method", ["begin", "propose", "observe"])
def test_a_drafter_that_breaks_leaves_no_slot_open(method):
    class Broken(NgramDrafter):
        pass

    def broken(self, *args, **options):
        raise ZeroDivisionError("a bug")

    setattr(Broken, method, broken)
    engine = Engine(target(), Broken())
    with pytest.raises(ZeroDivisionError):
        engine.generate_batch([[0], [1]], {"max_tokens": 9})
    assert len(engine.target._cached) == 0
    if method != "begin":
        assert open_slots(engine) == NONE_OPEN


def test_a_request_that_waits_for_memory_reads_its_prompt_once():
    class Pool(TabularModel):
        """Memory for 60 tokens in all slots together."""

        def __init__(self):
            super().__init__(table(V, 1), V)
            self.read = 0

        def extend(self, steps):
            held = sum(map(len, self._cached.values())) + sum(len(step.tokens) for step in steps)
            if held > 60:
                raise CacheError(f"{held} tokens, 60 fit")
            self.read += sum(len(step.tokens) for step in steps)
            return super().extend(steps)

    model = Pool()
    prompts = [[0] * 40, [1] * 40, [2] * 40]
    batch = Engine(model).generate_batch(prompts, {"max_tokens": 15, "seed": 1})
    assert [done.finish_reason for done in batch] == ["length"] * 3
    assert model.read == 3 * (40 - 1 + 15)


FULL = np.full(V, 1 / V)
NAN = np.full(V, np.nan)


@pytest.mark.parametrize(
    ("proposals", "message"),
    [
        (lambda n: [Proposal.point_mass([V])] * n, f"id {V} is not in 0 to {V - 1}"),
        (lambda n: [Proposal.point_mass([-1])] * n, f"id -1 is not in 0 to {V - 1}"),
        (lambda n: [Proposal.point_mass([0.0])] * n, "id 0.0 is not in"),
        (
            lambda n: [Proposal(tree=TokenTree((0,) * 65, (-1,) * 65), q=(None,) * 65)] * n,
            r"a proposal of 65 tokens, where \d+ were allowed",
        ),
        (lambda n: [], "no list of 1 proposals"),
        (lambda n: None, "no list of 1 proposals"),
        (lambda n: [None] * n, "proposes a Proposal, not None"),
        (lambda n: [Proposal(tree=TokenTree.chain([0]), q=(NAN,))] * n, "gives it no mass"),
        (lambda n: [Proposal(tree=TokenTree.chain([0]), q=(FULL[:-1],))] * n, f"has {V - 1} entr"),
    ],
)
def test_a_drafter_that_breaks_its_bounds_is_told_so(proposals, message):
    class Wild(NgramDrafter):
        def propose(self, requests):
            return proposals(len(requests))

    engine = Engine(target(), Wild())
    with pytest.raises(CapabilityError, match=message):
        engine.generate([0])
    assert open_slots(engine) == NONE_OPEN


def test_numpy_ids_of_a_drafter_become_plain_ones():
    class Numpy(NgramDrafter):
        def propose(self, requests):
            return [Proposal.point_mass([np.int64(1)]) for _ in requests]

    done = Engine(target(), Numpy()).generate([0], max_tokens=20, seed=1)
    assert done.stats.accepted
    assert {type(token) for token in done.tokens} == {int}


def test_an_engine_cannot_be_called_from_its_own_round():
    engine = Engine(target(), NgramDrafter())

    def processor(ids, logits):
        engine.generate([0], max_tokens=1)
        return logits

    with pytest.raises(LawError, match="cannot call the engine it runs in"):
        within(10, lambda: engine.generate([0], processors=[processor]))
    assert engine.generate([0], max_tokens=2, seed=1).finish_reason == "length"
