"""Several completions of one prompt: one seed, one reading of the prompt."""

from __future__ import annotations

import pytest

from certify.tables import table
from forerun import Engine
from forerun.drafters import ModelDrafter
from forerun.errors import CacheError, OptionError, OverloadedError, PromptError
from forerun.models.base import Abilities
from forerun.models.tabular import TabularModel
from forerun.verifiers import VERIFIERS

from .fakes import NONE_OPEN, V, consistent, draft, drafters, open_slots, target

OPTIONS = {"seed": 5, "max_tokens": 30}
LONG = [i * i % V for i in range(1200)]


class Watched(TabularModel):
    """Counts the tokens of prompts that are read."""

    def __init__(self, **options):
        super().__init__(table(V, 1), V, **options)
        self.read = 0

    def extend(self, steps):
        rows = super().extend(steps)
        self.read += sum(len(step.tokens) for step in steps if not step.rows)
        return rows


def tokens(found):
    return [done.tokens for done in found]


@pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
@pytest.mark.parametrize("name", drafters())
def test_they_are_completions_of_one_seed(name, verifier):
    """Choice 0 is the solo run, and each is the same however many there are."""
    engine = Engine(target(), drafters()[name](), verifier=verifier, num_draft=3, max_batch=3)
    found = engine.generate_choices([0, 1, 2], 5, **OPTIONS)
    assert found[0].tokens == engine.generate([0, 1, 2], **OPTIONS).tokens
    assert [done.choice for done in found] == [0, 1, 2, 3, 4]
    assert {done.seed for done in found} == {5}
    assert len(set(tokens(found))) == 5
    assert tokens(engine.generate_choices([0, 1, 2], 2, **OPTIONS)) == tokens(found)[:2]
    for done in found:
        consistent(done)
    assert open_slots(engine) == NONE_OPEN


def test_without_a_seed_they_share_a_fresh_one():
    engine = Engine(target(), ModelDrafter(draft()))
    found, again = (engine.generate_choices([0], 3, max_tokens=40) for _ in range(2))
    assert len({done.seed for done in found}) == 1
    assert found[0].seed != again[0].seed
    assert len(set(tokens([*found, *again]))) == 6


def test_greedy_ones_are_alike():
    found = Engine(target()).generate_choices([0], 3, temperature=0, max_tokens=20)
    assert len(set(tokens(found))) == 1


@pytest.mark.parametrize("max_batch", [1, 2, 4, 8])
@pytest.mark.parametrize("pages", [True, False])
def test_the_prompt_is_read_once(pages, max_batch):
    """Where the model can copy what it cached; else by each."""
    model = Watched()
    model.abilities = Abilities(pages=pages)
    engine = Engine(model, max_batch=max_batch)
    found = engine.generate_choices(LONG, 4, **OPTIONS)
    assert model.read == (1199 if pages else 4 * 1199)
    assert found[0].tokens == Engine(target()).generate(LONG, **OPTIONS).tokens
    assert tokens(found) == tokens(Engine(target()).generate_choices(LONG, 4, **OPTIONS))
    assert open_slots(engine) == NONE_OPEN


def test_where_the_reader_leaves_another_takes_its_place():
    """Half the prompt is read anew; the others still get theirs from one reading."""
    model = Watched()
    engine = Engine(model)
    streams = engine.submit_choices(LONG, 3, **OPTIONS)
    engine.turn()
    assert model.read == 512
    streams[0].cancel()
    while engine.turn():
        pass
    assert model.read == 512 + 1199
    expected = tokens(Engine(target()).generate_choices(LONG, 3, **OPTIONS))
    assert [stream.done.tokens for stream in streams] == [(), *expected[1:]]
    assert open_slots(engine) == NONE_OPEN


def test_no_copy_is_kept_once_all_have_it():
    engine = Engine(Watched(), max_batch=2)
    streams = engine.submit_choices(LONG, 3, **OPTIONS)
    shared = streams[0]._job.shared
    while streams[0].done is None:
        engine.turn()
        if streams[0].take():
            assert shared._pages is not None
    assert shared._pages is not None  # for the third
    streams[2].cancel()
    assert shared._pages is None


def test_without_memory_for_a_copy_each_reads_for_itself():
    class Lean(Watched):
        def save(self, slot, start, stop):
            raise CacheError("no memory for a copy")

    model = Lean()
    found = Engine(model).generate_choices(LONG, 3, **OPTIONS)
    assert model.read == 3 * 1199
    assert tokens(found) == tokens(Engine(target()).generate_choices(LONG, 3, **OPTIONS))


def test_each_has_the_prompts_logprobs():
    engine = Engine(Watched())
    found = engine.generate_choices(LONG[:90], 3, prompt_logprobs=2, logprobs=1, **OPTIONS)
    alone = Engine(target()).generate(LONG[:90], prompt_logprobs=2, logprobs=1, **OPTIONS)
    assert {done.prompt_logprobs for done in found} == {alone.prompt_logprobs}
    assert found[0].logprobs == alone.logprobs
    assert len({done.logprobs for done in found}) == 3


@pytest.mark.parametrize("n", [0, -1, 1.5, True, None])
def test_a_number_that_is_none(n):
    with pytest.raises(OptionError, match="n must be a whole number of at least 1, not"):
        Engine(target()).submit_choices([0], n)


def test_several_prompts_at_once():
    """Prompt by prompt, each as alone; without a seed each has its own."""
    prompts = [[0, 1, 2], [3], [0, 1, 2]]
    engine = Engine(target())
    streams = engine.submit_batch(prompts, 2, **OPTIONS)
    assert all(stream.wait() for stream in streams)
    found = [stream.done for stream in streams]
    assert [done.choice for done in found] == [0, 1] * 3
    for i, prompt in enumerate(prompts):
        alone = Engine(target()).generate_choices(prompt, 2, **OPTIONS)
        assert tokens(found[2 * i : 2 * i + 2]) == tokens(alone)
    unseeded = engine.submit_batch([[0], [0]], max_tokens=1)
    assert all(stream.wait() for stream in unseeded)
    assert len({stream.done.seed for stream in unseeded}) == 2
    assert engine.submit_batch([]) == []


def test_of_several_prompts_all_are_queued_or_none():
    engine = Engine(target(), max_batch=1, max_waiting=4)
    with pytest.raises(PromptError):
        engine.submit_batch([[0], [1], [V]], **OPTIONS)
    with pytest.raises(OptionError, match="6 requests at once: this engine takes 5 at most"):
        engine.submit_batch([[0], [V], [0]], 2, **OPTIONS)  # before any of them is read
    held = engine.submit_batch([[0], [1]], **OPTIONS)
    with pytest.raises(OverloadedError):
        engine.submit_batch([[0], [1]], 2, **OPTIONS)
    assert engine.status().waiting == 2
    assert all(stream.wait() for stream in held)
    with pytest.raises(OptionError, match="takes a list of prompts"):
        engine.submit_batch("text")


def test_a_deadline_counts_from_the_call():
    """What reading a prompt takes is taken from it."""
    now = [100.0]
    engine = Engine(target())
    engine._scheduler.clock = lambda: now[0]
    check = engine._scheduler.refusal

    def slow(request):
        now[0] += 5
        return check(request)

    engine._scheduler.refusal = slow
    (stream,) = engine.submit_batch([[0]], deadline=4.0, **OPTIONS)
    assert stream.wait()
    assert stream.done.finish_reason == "cancelled"
    assert stream.done.tokens == ()
