"""num_draft="auto" through the engine: the same texts, and γ by what passes cost."""

from __future__ import annotations

import pytest

from forerun import Engine, load
from forerun.drafters import HybridDrafter, ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.errors import CapabilityError, OptionError
from forerun.models.tabular import TabularModel
from forerun.numerics.token_tree import Drawn
from forerun.pace import Costs

from .fakes import Guessing, V, consistent, draft, drafters, follows, says, target

DEAR = tuple(range(1, 17))  # every row as much as a pass
FLAT = (1.0,) * 16
TEXT = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4] * 6


def drafted(done):
    return [len(record.drafted) for record in done.trace]


class Unstated(TabularModel):
    """Has to be measured; `pass_seconds` None stands for a model that states nothing."""

    pass_seconds = None
    passes = 0

    def extend(self, steps):
        self.passes += 1
        return super().extend(steps)


def unstated():
    return Unstated(lambda prefix: (0.5, 0.3, 0.2), 3)


# ------------------------------------------------------------------ texts


@pytest.mark.parametrize("costs", [None, DEAR, FLAT, [1.0]])
@pytest.mark.parametrize("name", drafters())
def test_greedy_and_seeded_texts_are_plain_decodings(name, costs):
    plain, engine = Engine(target()), Engine(target(), drafters()[name](), costs=costs)
    for options in ({"seed": 1}, {"temperature": 0.0}, {"seed": 2, "top_p": 0.8}):
        done = engine.generate([0, 1, 0, 1], max_tokens=40, **options)
        consistent(done)
        assert done.tokens == plain.generate([0, 1, 0, 1], max_tokens=40, **options).tokens


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_where_a_text_depends_on_it_a_seeded_request_has_four(verifier):
    def run(costs, **options):
        engine = Engine(target(), ModelDrafter(draft(1)), verifier=verifier, costs=costs)
        return engine.generate([0], max_tokens=40, **options)

    slow, quick = run(DEAR, seed=5), run(FLAT, seed=5)
    assert slow.tokens == quick.tokens
    assert drafted(slow) == drafted(quick)
    assert set(drafted(slow)[:-4]) == {4}
    assert all(record.expected is None for record in slow.trace)
    assert sum(drafted(run(DEAR))) < 12 < sum(drafted(run(FLAT)))


def test_several_drafters_are_as_good_as_each():
    engine = Engine(says(TEXT, 2), HybridDrafter([SuffixDrafter(), ModelDrafter(draft())]))
    done = engine.generate([0, 0], max_tokens=50)
    consistent(done)
    assert done.tokens == tuple(TEXT[:50])
    used = {record.drafter for record in done.trace}
    assert used == {"suffix", "model", None} or used == {"suffix", "model"}
    assert set(done.stats.drafters) == {"suffix", "model"}
    assert sum(d.drafted for d in done.stats.drafters.values()) == done.stats.drafted


def test_several_with_a_fixed_number_take_the_first_that_has_something():
    helper = HybridDrafter([NgramDrafter(), ModelDrafter(draft())])
    done = Engine(says(TEXT, 1), helper, num_draft=3).generate([4], max_tokens=30)
    names = [record.drafter for record in done.trace if record.drafted]
    assert names[0] == "model"
    assert names.index("ngram") == len(names) - names.count("ngram"), "once it repeats itself"


def test_a_verifier_must_fit_each_of_several():
    class Replaced(NgramDrafter):
        name = "replaced"
        traits = type(NgramDrafter.traits)(drawn=Drawn.WITHOUT_REPLACEMENT, laws=False)

    helper = HybridDrafter([ModelDrafter(draft()), Replaced()])
    with pytest.raises(CapabilityError, match="these can: coupled"):
        Engine(target(), helper, verifier="block")
    both = HybridDrafter([SuffixDrafter(), ModelDrafter(draft())])
    assert Engine(target(), both).generate([0], max_tokens=2).verifier == "block"
    lookups = HybridDrafter([SuffixDrafter(), NgramDrafter()])
    assert Engine(target(), lookups).generate([0], max_tokens=2).verifier == "rejection"


# ------------------------------------------------------------------ γ


def test_what_pays_is_drafted_and_what_does_not_is_not():
    def run(guess, costs):
        engine = Engine(says(TEXT, 1), guess, costs=costs)
        return drafted(engine.generate([0], max_tokens=60))

    right, wrong = follows(TEXT, 1), Guessing(lambda ids, count: [(ids[-1] + 2) % V] * count)
    assert sum(run(right, FLAT)) > 45
    assert len(run(right, FLAT)) < 12
    assert sum(run(right, DEAR)) < 8
    assert sum(run(wrong, [1 + 0.05 * i for i in range(16)])) < 30
    assert max(run(right, FLAT)) == 15
    assert max(run(right, [1.0, 1.0, 1.0])) == 2
    assert max(run(right, [1.0])) == 0


def test_it_is_the_default_and_can_be_said_by_request():
    def engine(**options):  # a new one each time: what became of drafts is remembered
        return Engine(says(TEXT, 1), follows(TEXT, 1), costs=FLAT, **options)

    assert engine().num_draft == load(says(TEXT, 1), follows(TEXT, 1)).num_draft == "auto"
    default = drafted(engine().generate([0], max_tokens=40))
    assert max(default) > 5
    assert drafted(engine().generate([0], max_tokens=40, num_draft="auto")) == default
    assert set(drafted(engine().generate([0], max_tokens=40, num_draft=2))[:-1]) == {2}
    assert drafted(engine(num_draft=2).generate([0], max_tokens=40, num_draft="auto")) == default


def test_each_request_of_a_batch_decides_for_itself():
    def guess(ids, count):
        right = TEXT[len(ids) - 1 :][:count]
        return right if ids[0] == 0 else [(token + 1) % V for token in right]

    engine = Engine(says(TEXT, 1), Guessing(guess), costs=FLAT)
    good, bad = engine.generate_batch([[0], [1]], {"max_tokens": 50})
    assert good.tokens == bad.tokens == tuple(TEXT[:50])
    assert sum(drafted(good)) > 40
    assert max(drafted(bad)[20:]) <= 1  # though rows cost nothing here, and the other's are right
    assert len(bad.trace) == 50


def test_traces_hold_what_was_expected():
    engine = Engine(says(TEXT, 1), follows(TEXT, 1), costs=FLAT)
    done = engine.generate([0], max_tokens=50)
    for record in done.trace:
        assert record.drafter == ("guessing" if record.drafted else None)
        assert 1 <= record.expected.tokens <= 1 + len(record.drafted)
        assert record.expected.seconds == 1.0
    assert done.trace[-2].expected.tokens > 10
    fixed = engine.generate([0], max_tokens=50, num_draft=3)
    assert all(record.expected is None for record in fixed.trace)
    assert fixed.trace[0].drafter == "guessing"


def test_no_drafter_no_plan():
    (first, *_) = Engine(target()).generate([0], max_tokens=3).trace
    assert (first.drafter, first.expected) == (None, None)


# ------------------------------------------------------------------ costs


def test_costs_are_measured_once_and_only_where_they_are_needed(tmp_path):
    model = unstated()
    engine = Engine(model, NgramDrafter(), cache=tmp_path)
    engine.generate([0, 1], max_tokens=2, num_draft=3)
    engine.generate([0, 1], max_tokens=2, seed=1, verifier="rejection")
    assert model.passes < 9
    engine.generate([0, 1], max_tokens=2)
    before = model.passes
    assert before > 40
    engine.generate([0, 1], max_tokens=2)
    assert model.passes <= before + 3
    assert engine.costs().target == engine.costs().target
    assert not engine.costs().fixed
    assert model._cached == {}
    assert list(tmp_path.iterdir()) == []
    plain = unstated()
    Engine(plain).generate([0, 1], max_tokens=5)
    assert plain.passes < 9


def test_costs_that_are_given_are_not_measured():
    model = unstated()
    engine = Engine(model, NgramDrafter(), costs=FLAT)
    engine.generate([0, 1], max_tokens=2)
    assert model.passes < 5
    assert engine.costs() == Costs(target=FLAT, fixed=True)


def test_a_draft_model_is_measured_too():
    small = unstated()
    assert set(Engine(unstated(), ModelDrafter(small)).costs().draft) == {"model"}
    assert small.passes > 40


def test_where_there_is_memory_for_nothing_else_the_request_still_runs():
    class Cramped(Unstated):
        def open(self):
            if self._cached or self.passes == 0:
                raise __import__("forerun").errors.CacheError("full")
            return super().open()

    model = Cramped(lambda prefix: (0.5, 0.3, 0.2), 3)
    model.passes = 0
    engine = Engine(model, NgramDrafter())
    assert engine.costs().target == (1.0,)
    model.passes = 1
    done = engine.generate([0, 1, 0], max_tokens=5)
    assert len(done.tokens) == 5
    assert drafted(done) == [0] * 5


@pytest.mark.parametrize("num_draft", ["Auto", "4", "", None])
def test_what_is_neither_a_number_nor_auto(num_draft):
    with pytest.raises(OptionError, match="64, or 'auto', not"):
        Engine(target(), num_draft=num_draft)


def test_costs_that_are_none():
    with pytest.raises(OptionError, match="costs are seconds above 0, not -1"):
        Engine(target(), costs=[1, -1])


def test_load_takes_several_drafters():
    engine = load(target(), "suffix+model", draft_model=draft())
    assert engine.drafter.name == "suffix+model"
    assert load(target(), draft_model=draft()).drafter.name == "model"
    with pytest.raises(OptionError, match=r"drafter 'suffix\+model' needs draft_model"):
        load(target(), "suffix+model")
    with pytest.raises(OptionError, match=r"goes with drafter 'model', not with 'suffix\+ngram'"):
        load(target(), "suffix+ngram", draft_model=draft())
