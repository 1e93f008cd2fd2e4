"""Self-speculation through the engine: by cost the sets that pay, and none where none does."""

from __future__ import annotations

import numpy as np
import pytest

from certify.tables import table
from forerun import Engine, load
from forerun.drafters import HybridDrafter, LayerSkipDrafter, SuffixDrafter
from forerun.errors import CapabilityError
from forerun.models.tabular import TOKEN_BYTES, LayeredTabularModel, TabularModel
from forerun.pace import Costs

from .fakes import NONE_OPEN, V, consistent, open_slots, says, target

SETS = FIRST, LONGEST, *OTHERS = [f"layer-skip {layers}" for layers in ("1-3", "1-4", "1-2", "2-3")]


def costs(**shares: float) -> Costs:
    """A target's passes of one second; those of each set as much of that."""
    draft = dict.fromkeys(SETS, 0.9) | shares
    return Costs(
        target=tuple(1 + 0.01 * i for i in range(16)),
        draft={name: (share,) for name, share in draft.items()},
        fixed=True,
    )


def layered(good, **options):
    """A target whose rest guesses as `good(skipped)` says: 1, as it does itself; 0, never."""

    def law(prefix):
        return np.eye(V)[sum(prefix) * len(prefix) % V]

    def rest(prefix, skipped):
        right = law(prefix)
        return right if good(skipped) else np.roll(right, 1)

    return LayeredTabularModel(law, rest, 8, V, **options)


def sets_used(engine):
    """Which sets were asked for, round by round, from here on."""
    used = []
    for name, one in engine.drafter._of_sets.items():

        def propose(requests, name=name, real=one.propose):
            used.extend([name] * len(requests))
            return real(requests)

        one.propose = propose
    return used


def test_sets_of_eight_layers():
    made = LayerSkipDrafter()
    made.check(target())
    assert list(made.models) == SETS


@pytest.mark.parametrize(
    ("good", "name"), [({1, 2, 3}, SETS[0]), ({1, 2, 3, 4}, SETS[1]), ({2, 3}, SETS[3])]
)
def test_the_set_that_pays_is_found(good, name):
    """Whichever it is, by what came true of each set's drafts and what its passes cost."""
    engine = Engine(
        layered(lambda skipped: skipped == good), LayerSkipDrafter(), costs=costs(**{name: 0.3})
    )
    used = sets_used(engine)
    done = engine.generate([0, 1], max_tokens=200)
    consistent(done)
    late = used[len(used) // 2 :]
    assert late.count(name) > 0.9 * len(late)
    assert done.stats.tokens_per_pass > 2


def test_of_sets_as_good_the_cheaper_one():
    for cheap in (FIRST, LONGEST):
        engine = Engine(
            layered(lambda skipped: True), LayerSkipDrafter(), costs=costs(**{cheap: 0.2})
        )
        used = sets_used(engine)
        engine.generate([0, 1], max_tokens=100)
        assert used[-1] == cheap


def test_where_no_set_pays_it_ends():
    """By the accounts' bound: 1.02 n + 1 passes for n tokens, drafting included."""
    for good in (False, True):
        given = costs(**dict.fromkeys(SETS, 0.99))
        engine = Engine(layered(lambda skipped, good=good: good), LayerSkipDrafter(), costs=given)
        done = engine.generate([0, 1], max_tokens=300)
        spent = sum(given.target[len(r.drafted)] + 0.99 * len(r.drafted) for r in done.trace)
        assert spent <= 1.02 * 300 + 1
        assert 0 < sum(len(r.drafted) > 0 for r in done.trace) < 60


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_where_a_seeded_text_depends_on_it_the_set_is_fixed(verifier):
    """Whatever passes cost, what others showed, and whoever shares the rounds."""

    def run(company, **shares):
        engine = Engine(target(), LayerSkipDrafter(), verifier=verifier, costs=costs(**shares))
        used = sets_used(engine)
        for seed in range(4 if company else 0):
            engine.generate([seed], max_tokens=30)  # unseeded: teaches what drafts are worth
        del used[:]
        asked = [{"seed": 5, "max_tokens": 40}] + [{"max_tokens": 30}] * company
        done = engine.generate_batch([[0, 1]] * len(asked), asked)[0]
        return done.tokens, [r.tokens for r in done.trace], used

    alone = run(0)
    assert set(alone[2]) == {FIRST}
    for company, shares in ((0, {LONGEST: 0.01}), (2, {LONGEST: 0.01}), (2, {FIRST: 0.99})):
        assert run(company, **shares)[:2] == alone[:2]


@pytest.mark.parametrize("num_draft", [1, 3, "auto"])
@pytest.mark.parametrize("verifier", ["coupled", "auto"])
def test_seeded_and_greedy_texts_are_plain_decodings_in_company(verifier, num_draft):
    asked = [{"seed": 1}, {"seed": 2, "top_p": 0.7}, {"temperature": 0.0}, {"seed": 3}]
    prompts = [[0], [1, 2, 3], [0, 4], [2] * 9]
    plain = [
        Engine(target()).generate(p, max_tokens=25, **o).tokens for p, o in zip(prompts, asked)
    ]
    for helper in (LayerSkipDrafter(), HybridDrafter([SuffixDrafter(), LayerSkipDrafter(1)])):
        engine = Engine(target(), helper, num_draft=num_draft, verifier=verifier, max_batch=3)
        found = engine.generate_batch(prompts, [{**o, "max_tokens": 25} for o in asked])
        assert [done.tokens for done in found] == plain
        for done in found:
            consistent(done)
    assert open_slots(Engine(target(), LayerSkipDrafter())) == NONE_OPEN


@pytest.mark.parametrize("limit", [40, 41, 45, 60, 90])
def test_with_little_memory_texts_are_the_same(limit):
    """One that waits for room is read again; drafted tokens never take more than the pass does."""

    def small(kind=LayeredTabularModel):
        whole = target()
        return kind(whole._next_law, whole._shallow_law, 8, V, max_memory=limit * TOKEN_BYTES)

    class Surprised(LayeredTabularModel):
        """Says that all fits, and finds out in the pass, or while it drafts."""

        def fits(self, lengths):
            return True

    asked = [{"seed": i, "max_tokens": 25 + i} for i in range(3)]
    prompts = [[i] * (3 + i) for i in range(3)]
    plain = [Engine(target()).generate(p, **o).tokens for p, o in zip(prompts, asked)]
    for kind in (LayeredTabularModel, Surprised):
        for num_draft in (3, "auto"):
            engine = Engine(small(kind), LayerSkipDrafter(), num_draft=num_draft)
            found = engine.generate_batch(prompts, asked)
            assert [done.tokens for done in found] == plain
            assert open_slots(engine) == NONE_OPEN


def test_up_to_the_end_of_the_context():
    for context in (9, 10, 11, 12):
        whole = target()
        model = LayeredTabularModel(whole._next_law, whole._shallow_law, 8, V, context=context)
        done = Engine(model, LayerSkipDrafter(), num_draft=4).generate(
            [0] * 4, seed=1, max_tokens=99
        )
        assert len(done.tokens) == context - 4
        assert done.tokens == Engine(whole).generate([0] * 4, seed=1, max_tokens=context - 4).tokens


def test_a_part_that_computes_no_numbers_costs_speed_alone():
    whole = target()
    sick = LayeredTabularModel(whole._next_law, lambda prefix, skipped: [np.nan] * V, 8, V)
    done = Engine(sick, LayerSkipDrafter(), num_draft=3).generate([0], seed=1, max_tokens=20)
    assert done.stats.drafted == 0
    assert done.tokens == Engine(whole).generate([0], seed=1, max_tokens=20).tokens


def test_what_is_remembered_of_a_text_is_the_whole_models():
    """Prefixes are kept of slots that drafts were written to, and serve other requests."""
    engine = Engine(target(), LayerSkipDrafter(), num_draft=3, prefix_memory=1 << 20)
    prompt = [i * i % V for i in range(70)]
    first = engine.generate(prompt, seed=1, max_tokens=80)
    longer = [*prompt, *first.tokens, 1]
    again = engine.generate(longer, seed=2, max_tokens=20)
    assert engine.status().prefix_hit_tokens >= 128
    assert again.tokens == Engine(target()).generate(longer, seed=2, max_tokens=20).tokens


def test_the_trace_names_it():
    done = Engine(target(), LayerSkipDrafter(), num_draft=2).generate([0], max_tokens=9)
    assert {record.drafter for record in done.trace if record.drafted} == {"layer-skip"}
    assert set(done.stats.drafters) == {"layer-skip"}


def test_a_request_may_choose_it():
    helper = HybridDrafter([SuffixDrafter(), LayerSkipDrafter()])
    engine = Engine(target(), helper, num_draft=2)
    done = engine.generate([0], max_tokens=20, drafter="layer-skip")
    assert set(done.stats.drafters) == {"layer-skip"}


def test_by_name():
    engine = load(target(), "layer-skip")
    assert engine.generate([0], seed=1, max_tokens=9).tokens
    assert list(engine.costs().draft) == SETS


def test_a_target_that_cannot():
    with pytest.raises(
        CapabilityError, match="tabular cannot leave layers out: the native backend"
    ):
        Engine(TabularModel(table(V, 1), V), "layer-skip")
    assert says([1], 0)  # the fakes' other models have no layers
