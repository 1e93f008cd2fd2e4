"""The exact law of a request in company: others arrive in mid-course, their prompts are read in
chunks between its rounds, and memory runs out for some of them; or for itself."""

from __future__ import annotations

import pytest

from forerun.certify import exact_law, plain_law, total_variation
from forerun.certify.suite import CHAIN_VERIFIERS, VARIANTS, draft_model, table
from forerun.drafters import HybridDrafter, ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.engine import scheduler
from forerun.errors import CacheError, KeyReuseError
from forerun.models.tabular import TOKEN_BYTES, TabularModel
from forerun.verifiers import verifier

PROMPT = (0, 1, 1, 0)
LATE = (1, 0, 0, 1, 1, 0, 1)  # two chunks, and a last id
DRAFTERS = {
    "none": lambda: None,
    "model": lambda: ModelDrafter(draft_model(2)),
    "ngram": lambda: NgramDrafter(),
    "suffix+model": lambda: HybridDrafter([SuffixDrafter(), ModelDrafter(draft_model(2))]),
}
TREES = [("suffix-tree", "coupled"), ("tree", "recursive"), ("sampled-tree", "traversal"),
         ("greedy-plus-one-tree", "greedy_plus_one")]  # fmt: skip
PAIRS = [(name, judge) for name in DRAFTERS for judge in CHAIN_VERIFIERS] + TREES
DRAFTERS |= {name: lambda name=name: VARIANTS[name][""](2) for name, _ in TREES}
each_pair = pytest.mark.parametrize(("name", "judge"), PAIRS)


class Surprised(TabularModel):
    """Says that all fits, and finds out in the pass."""

    def fits(self, lengths):
        return True


def check(name, judge, model=None, *, arrives=0, company=(), **options):
    model = model or TabularModel(table(2, 1), 2)
    options = {"max_tokens": 4, "prompt": PROMPT, **options}
    settings = {"verifier": judge, "num_draft": 2, "company": company, "arrives": arrives}
    found = exact_law(model, DRAFTERS[name](), **settings, **options)
    assert total_variation(found, plain_law(model, **options)) < 1e-12


def test_all_pairs_can_be_judged():
    for name, judge in PAIRS:
        if (drafter := DRAFTERS[name]()) is not None:
            assert verifier(judge).judges(drafter.traits.drawn, drafter.traits.chain)


@each_pair
@pytest.mark.parametrize("arrives", [0, 1, 2])
def test_a_second_request_arrives_in_mid_course(arrives, name, judge):
    late = (LATE, {"arrives": arrives, "max_tokens": 2, "num_draft": 1, "temperature": 1.3})
    check(name, judge, company=[late])


@each_pair
def test_its_own_prompt_is_read_between_the_rounds_of_another(name, judge):
    first = ((0, 1), {"max_tokens": 5, "num_draft": 1})
    check(name, judge, prompt=LATE, company=[first], max_tokens=3)


@pytest.fixture
def preempted(monkeypatch):
    """Lets requests in that will outgrow memory, and counts who gives way."""
    monkeypatch.setattr(scheduler, "AHEAD", 0)
    found, preempt = [], scheduler.Scheduler._preempt

    def counted(self, job):
        found.append((job.request.index, job.length - len(job.request.prompt)))
        preempt(self, job)

    monkeypatch.setattr(scheduler.Scheduler, "_preempt", counted)
    return found


@each_pair
@pytest.mark.parametrize("kind", [TabularModel, Surprised])
def test_memory_runs_out_for_the_younger(kind, name, judge, preempted):
    """Foreseen, and in the pass: then the round breaks off, and what it drew is not used again."""
    model = kind(table(2, 1), 2, max_memory=9 * TOKEN_BYTES)
    check(name, judge, model, company=[((1, 0), {"max_tokens": 4, "num_draft": 1})])
    assert {index for index, _ in preempted} == {1}
    assert any(written for _, written in preempted)


@each_pair
@pytest.mark.parametrize("kind", [TabularModel, Surprised])
def test_memory_runs_out_for_itself(kind, name, judge, preempted):
    """It gives way to an older one, and goes on where it was."""
    model = kind(table(2, 1), 2, max_memory=12 * TOKEN_BYTES)
    older = ((1, 0, 1), {"max_tokens": 5, "num_draft": 1})
    check(name, judge, model, arrives=1, company=[older])
    assert {index for index, _ in preempted} == {0}
    assert any(written for _, written in preempted)


# ------------------------------------------------------------------ planted faults


def test_a_request_that_begins_before_its_text_is_read_is_caught(monkeypatch):
    right = scheduler.unread
    monkeypatch.setattr(scheduler, "unread", lambda g, model: max(right(g, model) - 3, 0))
    first = ((0, 1), {"max_tokens": 5})
    with pytest.raises((AssertionError, CacheError)):
        check("none", "rejection", company=[first], arrives=1, prompt=LATE)


def test_randomness_of_a_round_that_broke_off_is_not_used_again(monkeypatch, preempted):
    monkeypatch.setattr(scheduler, "broke_off", lambda batch: None)
    model = Surprised(table(2, 1), 2, max_memory=9 * TOKEN_BYTES)
    with pytest.raises(KeyReuseError):
        check("ngram", "rejection", model, company=[((1, 0), {"max_tokens": 4, "num_draft": 1})])
