"""`law` against an independent, hand-written reference in plain Python."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.errors import GrammarError, LawError
from forerun.numerics.distribution import History, law
from forerun.sampling import SamplingParams

NONE = History((), 0)


def held_back(params, history, allowed):
    """End tokens that min-tokens forbids: none where the grammar leaves nothing else."""
    ends = params.end_ids if history.output_length < params.min_tokens else frozenset()
    return ends if set(np.flatnonzero(allowed)) - ends else frozenset()


def reference(logits, params, history, allowed):
    """The order of DESIGN, one token at a time, in Python floats."""
    l = [float(x) for x in logits]
    ids = [*history.ids, *history.path]
    output = ids[history.prompt_length :]
    for i in set(ids):
        r = params.repetition_penalty
        l[i] = l[i] / r if l[i] > 0 else l[i] * r
    for i, n in Counter(output).items():
        l[i] -= params.presence_penalty
        l[i] -= params.frequency_penalty * n
    for i, bias in params.logit_bias.items():
        l[i] += bias
    for i in params.banned | held_back(params, history, allowed):
        l[i] = -math.inf
    l = [x if able else -math.inf for x, able in zip(l, allowed, strict=True)]
    if params.temperature == 0:
        best = max(range(len(l)), key=lambda i: (l[i], -i))
        return [float(i == best) for i in range(len(l))]
    weights = [math.exp((x - max(l)) / params.temperature) for x in l]
    order = sorted(range(len(l)), key=lambda i: (-weights[i], i))

    def keep(chosen):
        total = sum(weights[i] for i in chosen)
        return [weights[i] / total if i in chosen else 0.0 for i in range(len(l))]

    chosen = set(order[: params.top_k or len(order)])
    p = keep(chosen)
    if params.top_p < 1:
        total, chosen = 0.0, set()
        for i in order:
            if total >= params.top_p:
                break
            chosen.add(i)
            total += p[i]
        p = keep(chosen)
    least = params.min_p * max(p)
    return keep({i for i in range(len(l)) if p[i] >= least and p[i] > 0})


@st.composite
def cases(draw):
    size = draw(st.integers(2, 12))
    number = st.floats(-8, 8, allow_nan=False, width=32)
    logits = draw(st.lists(number, min_size=size, max_size=size, unique=True))
    ids = st.integers(0, size - 1)
    history = draw(st.lists(ids, max_size=6))
    params = SamplingParams(
        temperature=draw(st.sampled_from([0.0, 0.3, 0.7, 1.0, 2.5])),
        top_k=draw(st.integers(0, size)),
        top_p=draw(st.sampled_from([1.0, 0.95, 0.61, 0.1])),
        min_p=draw(st.sampled_from([0.0, 0.013, 0.37])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.7, 0.6])),
        presence_penalty=draw(st.sampled_from([0.0, 0.9, -0.9])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.4, -0.4])),
        logit_bias=draw(st.dictionaries(ids, st.sampled_from([-100.0, -1.0, 2.5]), max_size=2)),
        banned=draw(st.lists(ids, max_size=size - 1, unique=True)),
        min_tokens=draw(st.integers(0, 4)),
        eos={draw(ids)} if draw(st.booleans()) else set(),
    )
    split = draw(st.integers(0, len(history)))
    drafted = draw(st.integers(split, len(history)))
    history = History(tuple(history[:drafted]), split, tuple(history[drafted:]))
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    return logits, params, history, None if allowed is None else np.array(allowed)


@settings(max_examples=600, deadline=None)
@given(cases())
def test_law_is_the_reference(case):
    logits, params, history, mask = case
    able = np.full(len(logits), True) if mask is None else mask
    if not set(np.flatnonzero(able)) - params.banned - held_back(params, history, able):
        with pytest.raises(LawError, match="empty support"):
            law(np.array(logits), params, history, mask)
        return
    expected = reference(logits, params, history, able)
    for array in (np.array(logits), torch.tensor(logits, dtype=torch.float64)):
        found = law(array, params, history, mask)
        assert np.asarray(found) == pytest.approx(expected, abs=1e-12)
        # not only close: the supports are the same
        assert (np.asarray(found) > 0).tolist() == [x > 0 for x in expected]


@settings(max_examples=100, deadline=None)
@given(cases())
def test_numpy_and_torch_agree_in_float32(case):
    logits, params, history, mask = case
    try:
        a = law(np.array(logits, np.float32), params, history, mask)
    except LawError:
        return
    b = law(torch.tensor(logits, dtype=torch.float32), params, history, mask)
    a = np.asarray(a)
    assert a.dtype == np.float32
    assert b.dtype == torch.float32
    assert np.asarray(b) == pytest.approx(a, abs=2e-6)


def test_logits_are_not_changed():
    logits = np.array([1.0, 2.0, 3.0], np.float32)
    before = logits.copy()
    params = SamplingParams(logit_bias={0: 5}, banned=[2], repetition_penalty=2)
    law(logits, params, History((1,), 1))
    assert (logits == before).all()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_ties_go_to_the_lower_id(temperature):
    logits = np.array([1.0, 3.0, 3.0, 3.0, 3.0], np.float32)
    one = np.asarray(law(logits, SamplingParams(temperature=temperature, top_k=1), NONE))
    assert one.tolist() == [0, 1, 0, 0, 0]
    if temperature:
        two = np.asarray(law(logits, SamplingParams(top_k=2), NONE))
        assert two.tolist() == [0, 0.5, 0.5, 0, 0]
        half = law(np.array([0.0, 0.0, 0.0, 0.0]), SamplingParams(top_p=0.5), NONE)
        assert half.tolist() == [0.5, 0.5, 0, 0]


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.125]))
    kept = {
        t: int((law(logits, SamplingParams(top_p=t), NONE) > 0).sum())
        for t in (0.4, 0.5, 0.51, 0.75, 0.76, 0.9)
    }
    assert kept == {0.4: 1, 0.5: 1, 0.51: 2, 0.75: 2, 0.76: 3, 0.9: 4}


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("top_p", [0.2, 0.95, 0.9999])
def test_the_cut_before_the_sort_changes_nothing(scale, top_p):
    logits = np.random.default_rng(3).normal(size=50_000).astype(np.float32) * scale
    w = np.exp(logits - logits.max())
    order = np.argsort(-w, kind="stable")
    k = int(np.argmax(np.cumsum(w[order], dtype=np.float64) >= top_p * w.sum(dtype=np.float64))) + 1
    found = law(logits, SamplingParams(top_p=top_p), NONE)
    assert sorted(np.flatnonzero(found)) == sorted(order[:k])
    assert sorted(np.flatnonzero(law(logits, SamplingParams(top_k=k), NONE))) == sorted(order[:k])


def test_a_grammars_mask_comes_after_processors_and_bias_and_before_top_k():
    def processor(ids, logits):
        logits[0] += 100
        return logits

    params = SamplingParams(processors=[processor], logit_bias={1: 100.0}, top_k=1)
    for zeros in (np.zeros(4), torch.zeros(4)):
        p = law(zeros, params, NONE, np.array([False, False, True, True]))
        assert np.asarray(p).tolist() == [0, 0, 1, 0]


def test_a_row_is_bitwise_the_same_alone_and_in_a_batch():
    rows = np.random.default_rng(0).normal(size=(4, 1003)).astype(np.float32) * 4
    params = SamplingParams(temperature=0.8, top_p=0.9)
    for row in rows:
        alone, beside = law(row.copy(), params, NONE), law(row, params, NONE)
        assert np.asarray(alone).tobytes() == np.asarray(beside).tobytes()


def test_processors_see_prompt_output_and_drafts_and_act_before_masks():
    seen = []

    def processor(ids, logits):
        seen.append(list(ids))
        logits[0] += 100
        return logits

    params = SamplingParams(processors=[processor], banned=[0])
    p = law(np.zeros(3), params, History((7, 8), 1, (2,)))
    assert seen == [[7, 8, 2]]
    assert p.tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([0.0, math.nan], "NaN or"),
        ([0.0, math.inf], "NaN or"),
        ([-math.inf, -math.inf], "empty support"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_makes_no_law(logits, message, temperature):
    for array in (np.array(logits, np.float32), torch.tensor(logits)):
        with pytest.raises(LawError, match=message):
            law(array, SamplingParams(temperature=temperature), NONE)


def test_a_failing_processor_is_a_law_error():
    def broken(ids, logits):
        raise RuntimeError("oh")

    with pytest.raises(LawError, match="RuntimeError: oh"):
        law(np.zeros(2), SamplingParams(processors=[broken]), NONE)
    with pytest.raises(LawError, match="returned int64, where logits are float64"):
        law(np.zeros(2), SamplingParams(processors=[lambda ids, l: l.astype(int)]), NONE)
    wide = law(
        np.zeros(2, np.float32), SamplingParams(processors=[lambda ids, l: l + np.zeros(2)]), NONE
    )
    assert wide.dtype == np.float32
    with pytest.raises(LawError, match="shape"):
        law(np.zeros(2), SamplingParams(processors=[lambda ids, l: l[:1]]), NONE)


def test_bfloat16_logits_become_float32_laws():
    p = law(torch.tensor([1.0, 2.0], dtype=torch.bfloat16), SamplingParams(), NONE)
    assert p.dtype == torch.float32
    assert float(p.sum()) == pytest.approx(1, abs=1e-6)


def test_what_underflows_stays_out():
    p = law(np.array([0.0, -200.0], np.float32), SamplingParams(), NONE)
    assert p.tolist() == [1, 0]


def test_masks_at_the_edge_of_float32_do_not_overflow():
    """Processors often mask with the smallest float32 instead of −inf."""
    edge = np.finfo(np.float32).min
    p = law(np.array([edge, 1.0, 2.0], np.float32), SamplingParams(temperature=1e-6), NONE)
    assert p.tolist() == [0, 0, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_biases_are_added_as_they_would_be_one_by_one(dtype):
    """Bitwise; and the arrays are made once for all laws."""
    rng = np.random.default_rng(0)
    V = 500
    logits = rng.normal(size=V).astype(dtype)
    bias = {int(i): float(b) for i, b in zip(rng.permutation(V)[:300], rng.normal(size=300))}
    params = SamplingParams(logit_bias=bias)
    made = params.biases
    found = law(logits, params, History([1], 1))
    for i, b in bias.items():
        logits[i] += b
    expected = law(logits, SamplingParams(), History([1], 1))
    assert np.array_equal(np.asarray(found), np.asarray(expected))
    assert params.biases is made
    assert params.replace(logit_bias={}).biases[0].size == 0


def test_a_law_that_a_grammar_leaves_empty_is_its_own_error():
    logits = np.array([0.0, -np.inf, 1.0], np.float32)
    bans = SamplingParams(banned=[2])
    for params, allowed in ((SamplingParams(), [1]), (bans, [1, 2]), (SamplingParams(), [])):
        mask = np.isin(np.arange(3), allowed)
        with pytest.raises(GrammarError, match="no token is left"):
            law(logits, params, History([0], 1), mask)
    with pytest.raises(LawError) as plain:
        law(logits, SamplingParams(banned=[0, 2]), History([0], 1))
    assert not isinstance(plain.value, GrammarError)
    with pytest.raises(LawError) as faulty:
        law(np.array([np.nan, 0, 0]), SamplingParams(), History([0], 1), mask | True)
    assert not isinstance(faulty.value, GrammarError)
