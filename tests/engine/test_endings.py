"""Where a text ends: end tokens at every slot of a block, budgets, contexts; and the counts."""

from __future__ import annotations

import numpy as np
import pytest

from certify.tables import table
from forerun import Engine
from forerun.drafters import ModelDrafter, NgramDrafter
from forerun.models.tabular import TabularModel
from forerun.verifiers import VERIFIERS

from .fakes import NONE_OPEN, Guessing, V, consistent, draft, follows, open_slots, says, target

EOS = 4
PROMPT = [0, 1]
each_verifier = pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])


def ended(engine, **options):
    """A completion, checked for what every completion keeps."""
    done = engine.generate(PROMPT, **options)
    consistent(done)
    assert open_slots(engine) == NONE_OPEN
    pieces = list(engine.stream(PROMPT, **options))
    if options.get("seed") is not None:
        assert tuple(t for piece in pieces for t in piece.tokens) == done.tokens
    return done


@each_verifier
@pytest.mark.parametrize("right", [True, False], ids=["drafted", "not drafted"])
@pytest.mark.parametrize("place", range(7))
def test_an_end_token_at_every_slot_of_a_block(place, right, verifier):
    """γ = 4: places 0 to 3 are drafts, 4 is the bonus, 5 and 6 lie in the next round.

    The drafter goes on past the end; nothing of that is emitted, counted or traced.
    """
    text = [*([1, 2, 3, 0, 1, 2][:place]), EOS]
    beyond = [*text, 1, 1, 1, 1, 1, 1]
    guess = beyond if right else [*text[:-1], 3, *beyond[place + 1 :]]
    engine = Engine(says(beyond, 2, EOS), follows(guess, 2), num_draft=4)
    done = ended(engine, max_tokens=20, verifier=verifier, seed=1)
    assert list(done.tokens) == text
    assert done.finish_reason == "stop"
    accepted, last = divmod(place, 5)
    kind = "bonus" if last == 4 else "accepted" if right else "residual"
    assert done.trace[-1].kinds[-1] == kind
    assert done.stats.accepted == 4 * accepted + last + (kind == "accepted")
    assert done.stats.rounds == accepted + 1


@each_verifier
@pytest.mark.parametrize("place", range(6))
def test_a_stop_id_ends_the_text_as_an_end_token_does(place, verifier):
    text = [*([1, 2, 3, 0, 1][:place]), EOS]
    engine = Engine(says([*text, 1, 1, 1, 1], 2), follows([*text, 1, 1, 1, 1], 2), num_draft=4)
    done = ended(engine, max_tokens=20, verifier=verifier, stop_ids=[EOS], seed=1)
    assert (list(done.tokens), done.finish_reason) == (text, "stop")


@each_verifier
@pytest.mark.parametrize("shift", [0, 1], ids=["all right", "all wrong"])
@pytest.mark.parametrize("gamma", [1, 3])
def test_budgets_from_one_to_beyond_a_block(gamma, shift, verifier):
    text = [1, 2, 3, 0, 1, 2, 3, 0]
    guess = [(token + shift) % V for token in text]
    for budget in range(1, gamma + 3):
        engine = Engine(says(text, 2), follows(guess, 2), num_draft=gamma)
        done = ended(engine, max_tokens=budget, verifier=verifier, seed=1)
        assert list(done.tokens) == text[:budget]
        assert done.finish_reason == "length"
        assert done.usage["completion_tokens"] == budget
        assert done.stats.rounds == (budget if shift else -(-budget // (gamma + 1)))
        # never more drafted than the budget leaves room for beside the round's own token
        spent = 0
        for record in done.trace:
            assert len(record.drafted) == min(gamma, budget - spent - 1)
            spent += len(record.tokens)


def test_an_end_token_on_the_last_place_of_the_budget_is_a_stop():
    engine = Engine(says([1, 2, EOS], 2, EOS), follows([1, 2, EOS], 2))
    assert ended(engine, max_tokens=3, seed=1).finish_reason == "stop"
    assert ended(engine, max_tokens=2, seed=1).finish_reason == "length"


@each_verifier
def test_min_tokens_hold_back_every_end(verifier):
    model = TabularModel(lambda prefix: [0.1, 0.1, 0.0, 0.4, 0.4], V, [3, 4])
    engine = Engine(model, Guessing(lambda ids, count: [3, 4, 3, 4][:count]), num_draft=4)
    for seed in range(20):
        done = ended(engine, max_tokens=9, min_tokens=5, seed=seed, verifier=verifier)
        assert len(done.tokens) >= 6 or done.finish_reason == "length"
        assert not {3, 4} & set(done.tokens[:5])
    done = ended(engine, max_tokens=9, min_tokens=9, stop_ids=[0], seed=1, verifier=verifier)
    assert done.tokens == (1,) * 9


@each_verifier
def test_crossing_the_drafts_context_then_the_targets(verifier):
    model = target(context=14)
    for context in range(1, 15):
        engine = Engine(model, ModelDrafter(draft(1, context=context)), num_draft=3)
        done = ended(engine, max_tokens=50, verifier=verifier, seed=4)
        assert (len(done.tokens), done.finish_reason) == (12, "length")
        for record in done.trace:  # a drafted token is read, but for the last
            assert record.position + len(record.drafted) <= max(context, record.position)
        if verifier in ("coupled", "auto"):
            plain = Engine(model).generate(PROMPT, max_tokens=50, seed=4)
            assert done.tokens == plain.tokens
        if context > 3:
            assert done.stats.drafted > 0


def test_a_prompt_that_leaves_room_for_one_token():
    engine = Engine(target(context=5), NgramDrafter())
    done = engine.generate([0, 0, 0, 0], max_tokens=9, seed=1)
    assert (len(done.tokens), done.finish_reason, done.stats.drafted) == (1, "length", 0)


@each_verifier
def test_sums_agree_with_ends_in_mid_block_and_without_drafts(verifier):
    """Random texts with end tokens; drafters that guess much, little, and nothing."""
    model = TabularModel(table(V, 3), V, EOS)
    rng = np.random.default_rng(0)
    guessers = [
        Guessing(lambda ids, count: [int(x) for x in rng.integers(V, size=count)]),
        Guessing(lambda ids, count: []),
        Guessing(lambda ids, count: [1][: len(ids) % 2]),
        ModelDrafter(draft(3)),
        None,
    ]
    stops = 0
    for guesser in guessers:
        engine = Engine(model, guesser, num_draft=4)
        for seed in range(15):
            done = engine.generate(PROMPT, max_tokens=12, seed=seed, verifier=verifier)
            consistent(done)
            stops += done.finish_reason == "stop"
            assert EOS not in done.tokens[:-1]
    assert stops > 20


def test_plain_decoding_counts_every_token_as_the_targets_own():
    for engine in (Engine(target()), Engine(target(), NgramDrafter(), num_draft=0)):
        done = engine.generate(PROMPT, max_tokens=9, seed=1)
        stats = done.stats
        assert (stats.rounds, stats.bonus, stats.drafted, stats.acceptance_rate) == (9, 9, 0, 0)
        assert stats.tokens_per_pass == 1


def test_a_drafter_that_proposes_more_than_it_may_is_refused():
    engine = Engine(target(), Guessing(lambda ids, count: [0] * (count + 1)), num_draft=2)
    with pytest.raises(Exception, match="proposal of 3 tokens, where 2 were allowed"):
        engine.generate(PROMPT, max_tokens=8)
    assert open_slots(engine) == NONE_OPEN


def test_a_long_prompt_is_read_in_pieces_and_all_of_it():
    """Longer than one pass; the first token's law has seen every id, in order."""
    prompt = [int(x) for x in np.random.default_rng(0).integers(V, size=1300)]
    passes, seen = [], []

    class Watched(TabularModel):
        def extend(self, steps):
            passes.append([(len(step.tokens), step.wanted) for step in steps])
            return super().extend(steps)

    def next_law(prefix):
        seen.append(prefix)
        return [1 / V] * V

    Engine(Watched(next_law, V)).generate(prompt, max_tokens=2)
    assert passes == [[(512, 0)], [(512, 0)], [(275, 0)], [(1, 1)], [(1, 1)]]
    assert seen[0] == tuple(prompt)
