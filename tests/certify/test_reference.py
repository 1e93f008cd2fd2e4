"""The reference's laws, the edges of cuts, and where texts must end."""

from __future__ import annotations

import math

import numpy as np
import pytest

from certify.tables import table
from forerun.certify import endings
from forerun.certify.bits_verdict import bits_verdict
from forerun.certify.contexts import Contexts
from forerun.certify.engines.base import CONTROLS, Traits
from forerun.certify.engines.python import PythonEngine
from forerun.certify.prompts import TEXTS, prompts, random_prompts
from forerun.certify.reference import Reference
from forerun.certify.settings import matrix
from forerun.errors import OptionError, PromptError
from forerun.models.tabular import TabularModel
from forerun.numerics.distribution import History, law
from forerun.sampling import SamplingParams


def model(vocabulary=5, **more):
    return TabularModel(table(vocabulary, 3), vocabulary, **more)


def test_laws_are_those_of_each_place():
    target = model()
    reference = Reference(target)
    sampling = {"max_tokens": 3, "temperature": 0.6, "repetition_penalty": 1.7, "num_draft": 4}
    prompt, samples = (1, 2), [(3, 0, 3), (4,)]
    found = list(reference.places(prompt, samples, sampling))
    assert [len(places) for places in found] == [3, 1]
    params = SamplingParams(max_tokens=3, temperature=0.6, repetition_penalty=1.7)
    for places, tokens in zip(found, samples):
        for i, place in enumerate(places):
            prefix = (*prompt, *tokens[:i])
            expected = law(np.log(table(5, 3)(prefix)), params, History(prefix, 2))
            assert (place.prefix, place.token) == (prefix, tokens[i])
            np.testing.assert_allclose(place.p, expected, atol=1e-12)
    with pytest.raises(OptionError, match="top_p"):
        list(reference.places(prompt, samples, {"max_tokens": 3, "top_p": 7}))
    with pytest.raises(PromptError, match="at least one token"):
        list(reference.places((), samples, sampling))


def test_an_id_that_is_none_is_read_no_further():
    [[first]] = Reference(model()).places((1,), [(77, 2)], {"max_tokens": 2})
    assert (first.token, first.edge) == (77, False)


def test_cuts_before_the_temperature():
    target = TabularModel(lambda prefix: [0.5, 0.3, 0.2], 3)
    sampling = {"max_tokens": 1, "temperature": 2.0, "top_p": 0.79}
    [[first]] = Reference(target).places((0,), [(0,)], sampling)
    [[last]] = Reference(target, temperature_last=True).places((0,), [(0,)], sampling)
    assert (first.p > 0).sum() == 3  # flattened first, so that three are needed
    odds = math.sqrt(0.5 / 0.3)
    np.testing.assert_allclose(last.p, [odds / (1 + odds), 1 / (1 + odds), 0])


def test_a_token_on_the_edge_of_a_cut():
    target = TabularModel(lambda prefix: [0.4, 0.3, 0.29999, 0.00001], 4)
    sampling = {"max_tokens": 1, "top_k": 2}
    places = [p for [p] in Reference(target).places((0,), [(1,), (2,), (3,)], sampling)]
    assert [(place.p[place.token] > 0, place.edge) for place in places] == [
        (True, False), (False, True), (False, False),
    ]  # fmt: skip
    [[place]] = Reference(target, edge=0).places((0,), [(2,)], sampling)
    assert not place.edge
    [[place]] = Reference(target).places((0,), [(2,)], {"max_tokens": 1, "banned": [2]})
    assert not place.edge  # a ban is no cliff


def test_laws_under_the_controls_own_faults():
    [[first, second]] = Reference(model()).places(
        (1,), [(2, 3)], {"max_tokens": 2, "presence_penalty": 1.0}, faults=True
    )
    assert set(first.others) == {"controls not applied"}
    assert set(second.others) == {"controls not applied", "penalties with stale history"}
    np.testing.assert_allclose(second.others["controls not applied"], table(5, 3)((1, 2)))
    stale = second.others["penalties with stale history"]
    np.testing.assert_allclose(stale, table(5, 3)((1, 2)))  # no output yet, no penalty
    [[plain]] = Reference(model()).places((1,), [(2,)], {"max_tokens": 2}, faults=True)
    assert plain.others == {}


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ((1, 2, 3), None), ((1, 9), None), ((1, 2, 9), None),
        ((1, 9, 2), "1 tokens after the end token 9 at position 1"),
        ((1, 2, 3, 4), "4 tokens where 3 were the most"),
        ((1, 2), "2 of 3 tokens, and no end token at the end"),
        ((), "0 of 3 tokens"), ((1, 12, 3), "token 12 at position 1 is no id of the 10"),
    ],
)  # fmt: skip
def test_endings(tokens, said):
    found = endings.fault(tokens, max_tokens=3, end_ids={9}, vocab_size=10)
    assert found is None if said is None else said in found


def test_contexts_show_the_furthest_off():
    contexts = Contexts()
    law = np.array([0.5, 0.25, 0.25])
    for i in range(40):
        contexts.add(("fair", ""), (0,), (), i % 2 if i % 4 < 2 else 2 * (i % 2), law)
        contexts.add(("off", "top_k 2"), (0,), (1,), 2, law)
        contexts.add(("deep", ""), (0,), (1, 1, 1), 2, law)
    worst = contexts.worst()
    assert [each.setting for each in worst] == ["off", "fair"]
    assert worst[0].tokens[0] == (2, 0.25, 1.0)
    assert (worst[0].count, worst[0].sampling) == (40, "top_k 2")
    assert contexts.worst(settings=["fair"])[0].setting == "fair"


# ------------------------------------------------------------------ the matrix, and prompts


def test_the_matrix_is_cut_to_what_an_engine_can():
    reference = Reference(model(8, eos=7))
    asked = random_prompts(8, frozenset({7}))
    every = matrix(reference, asked, Traits(parallel=2))
    assert len(every) == 20
    used = set().union(*(each.sampling for each in every))
    assert used == CONTROLS - {"max_tokens"}
    assert {each.num_draft for each in every} == {None, 1, 2, 8}
    few = matrix(
        reference, asked, Traits(controls=frozenset({"max_tokens", "top_k"}), drafts=False)
    )
    assert [each.name for each in few] == ["as it is", "top-k", "ragged lengths"]
    end = next(each for each in every if each.name == "end token in a block")
    [[place]] = reference.places(asked[0], [(0,)], {**end.sampling, "max_tokens": 1})
    assert place.p[7] == pytest.approx(0.15, abs=1e-3)
    company = next(each for each in every if each.name == "in company")
    assert len({str(company.asked(i)) for i in range(15)}) == 12
    least = next(each for each in every if each.name == "min-tokens").asked(0)
    assert least["max_tokens"] >= least["min_tokens"]


def test_prompts():
    assert all(7 not in ids and max(ids) < 8 for ids in random_prompts(8, frozenset({7})))
    assert any(ids[: len(ids) // 2] * 2 == ids for ids in random_prompts(8))
    assert prompts(model(8, eos=7)) == random_prompts(8, frozenset({7}), len(TEXTS))


# ------------------------------------------------------------------ greedy text


def greedy(law, wrong=None, off=None):
    """An engine that writes the likeliest token; `wrong` in its place where speculation is on."""

    def sample(prompt_ids, n, sampling, seed):
        best = int(np.argmax(law))
        plain = best if off is None else off
        if sampling.get("num_draft") != 0 and wrong is not None:
            return [[best, wrong, best][: sampling["max_tokens"]]] * n
        return [[best, plain, best][: sampling["max_tokens"]]] * n

    sample.switches = True
    return PythonEngine(sample)


@pytest.mark.parametrize(
    ("law", "wrong", "off", "status"),
    [
        ([0.5, 0.3, 0.2], None, None, "same"),
        ([0.5, 0.3, 0.2], 1, None, "fault"),
        ([0.4, 0.39999, 0.20001], 1, None, "near-ties"),
        ([0.4, 0.39999, 0.20001], 2, None, "fault"),
        ([0.5, 0.3, 0.2], 0, 1, "undecided"),
    ],
)
def test_greedy_text_on_and_off(law, wrong, off, status):
    reference = Reference(TabularModel(lambda prefix: law, 3))
    engine = greedy(law, wrong, off)
    verdict = bits_verdict(engine, reference, [(0,), (1,)], max_tokens=3)
    assert verdict.status == status
    assert len(verdict.partings) == (0 if status == "same" else 2)
    if verdict.partings:
        first = verdict.partings[0]
        assert first.position == 1
        assert first.best == 0
        assert first.gap == pytest.approx(math.log(law[0] / law[1]))
    assert verdict.sentence


def test_greedy_text_that_ends_elsewhere_is_no_near_tie():
    def sample(prompt_ids, n, sampling, seed):
        return [[0, 0] if sampling.get("num_draft") == 0 else [0]] * n

    sample.switches = True
    reference = Reference(TabularModel(lambda prefix: [0.5, 0.5], 2))
    verdict = bits_verdict(PythonEngine(sample), reference, [(0,)], max_tokens=2)
    assert verdict.status == "fault"
    assert (verdict.partings[0].on, verdict.partings[0].off) == (None, 0)
