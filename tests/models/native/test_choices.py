"""Choices and laws of a pass are what its logits would say: ties, bad numbers, padding included."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from forerun import Engine, clib, decode
from forerun.drafters import NgramDrafter
from forerun.errors import LawError
from forerun.models.base import Step
from forerun.models.native import plan
from forerun.models.native.model import NativeModel
from forerun.numerics import fused
from forerun.numerics.choice import Choice
from forerun.numerics.token_tree import NOTHING
from forerun.sampling import SamplingParams
from models.native.small import CASES, PATHS, TEXT, file, load

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")

GREEDY = SamplingParams(temperature=0)


def said(row) -> int | str:
    """The largest logit's id by the whole row, or why there is none."""
    try:
        return int(fused.law(row, GREEDY).ids[0])
    except LawError as error:
        return str(error)


def chosen(choice: Choice) -> int | str:
    try:
        return int(choice.law(GREEDY).ids[0])
    except LawError as error:
        return str(error)


def check(model: NativeModel, steps: list[list[Step]]) -> list[int | str]:
    """Each pass with and without choices, by slots of their own; returns what was chosen."""
    rows, choices = [], []
    for asked, into in ((False, rows), (True, choices)):
        slots = [model.open() for _ in range(3)]
        for together in steps:
            params = GREEDY if asked else None
            given = [replace(s, slot=slots[s.slot], params=params) for s in together]
            for found in model.extend(given):
                into += list(found)
        for slot in slots:
            model.close(slot)
    assert all(isinstance(each, Choice) and each.size == model.vocab_size for each in choices)
    found = [chosen(each) for each in choices]
    assert found == [said(row) for row in rows]
    return found


def passes() -> list[list[Step]]:
    """Prompts, widths from 1 to beyond a block, a tree, a ragged batch, more rows than one call."""
    tree = Step(slot=0, tokens=TEXT[:5], parents=(-1, 0, 0, 2, -1))
    return [
        [Step(slot=0, tokens=TEXT[:9], rows=1), Step(slot=2, tokens=TEXT[:70], rows=3)],
        *([Step(slot=0, tokens=TEXT[9 : 9 + n])] for n in (1, 2, 7, 8, 9, 16)),
        [tree, Step(slot=1, tokens=TEXT[:3]), Step(slot=2, tokens=TEXT[:4], rows=0)],
        [Step(slot=1, tokens=TEXT[:150])],
    ]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", CASES)
def test_every_row(case, path, threads, tmp_path):
    found = check(load(file(tmp_path, case), path, threads), passes())
    assert len(set(found)) > 3


@pytest.mark.parametrize("path", PATHS)
def test_of_equal_logits_the_first(path, tmp_path):
    """In one tile, in tiles of one thread, and in those of another."""
    rows = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]):
        table = rows[np.resize(order, 300)]
        changes = {"vocabulary": 300, "types": "F32", "tensors": {"token_embd.weight": table}}
        name = file(tmp_path, "mistral", **changes)
        for threads in (1, 2, 5):
            found = check(load(name, path, threads), passes())
            assert len(set(found)) > 1
            assert set(found) <= set(range(5))


@pytest.mark.parametrize("path", PATHS)
def test_bad_logits_are_said(path, tmp_path):
    head = np.random.default_rng(2).standard_normal((23, 64)).astype(np.float32)
    for place, bad in ((0, np.nan), (22, np.nan), (17, np.inf), (3, -np.inf)):
        changed = head.copy()
        changed[place, 5] = bad
        tensors = {"output.weight": changed}
        name = file(tmp_path, "mistral", types="F32", tied=False, tensors=tensors)
        found = check(load(name, path, 2), passes())
        assert fused.BAD_LOGITS in found
        assert np.isnan(bad) == (set(found) == {fused.BAD_LOGITS})
    nothing = np.zeros((23, 64), np.float32)
    nothing[:, 5] = -np.inf
    name = file(tmp_path, "mistral", types="F32", tied=False, tensors={"output.weight": nothing})
    assert set(check(load(name, path, 2), passes())) == {fused.BAD_LOGITS, fused.NO_TOKEN}


SAMPLED = [
    SamplingParams(**given)
    for given in (
        {},
        {"temperature": 0.3},
        {"top_k": 5},
        {"top_p": 0.7, "min_p": 0.01},
        {"min_p": 0.2},
    )
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_laws_are_those_of_the_rows(case, threads, tmp_path):
    """Bit by bit; each step of a pass by its own parameters, greedy ones among them."""
    model = load(file(tmp_path, case), None, threads)
    every = [*SAMPLED, GREEDY]
    for number, together in enumerate(passes()):
        rows, laws = [], []
        for asked, into in ((False, rows), (True, laws)):
            slots = [model.open() for _ in range(3)]
            for i, step in enumerate(together):
                own = every[(number + i) % len(every)]
                given = replace(step, slot=slots[step.slot], params=own if asked else None)
                into += [(own, row) for row in model.extend([given])[0]]
            for slot in slots:
                model.close(slot)
        for (own, row), (_, made) in zip(rows, laws, strict=True):
            wanted, found = fused.law(row, own), made.law(own)
            assert type(found) is type(wanted)
            assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()


def test_laws_of_one_pass_by_different_parameters(tmp_path):
    model = load(file(tmp_path, "mistral"), None, 2)
    every = [*SAMPLED, GREEDY, SAMPLED[0]]
    steps = [
        Step(slot=model.open(), tokens=TEXT[: 20 * (i + 1)], rows=i % 3 + 1)
        for i in range(len(every))
    ]
    rows = model.extend(steps)
    for step in steps:
        model.keep(step.slot, 0)
    made = model.extend([replace(step, params=own) for step, own in zip(steps, every)])
    for step, own, logits, laws in zip(steps, every, rows, made, strict=True):
        assert len(logits) == len(laws) == step.wanted
        for row, one in zip(logits, laws):
            wanted = np.asarray(fused.law(row, own))
            assert np.asarray(one.law(own)).tobytes() == wanted.tobytes()


class Tokens:
    """A tokenizer of fewer ids than the embedding has."""

    vocab_size = 17
    eos = frozenset({16})


def test_padding_is_never_chosen(tmp_path):
    path = file(tmp_path, "mistral")
    whole = set(check(load(path), passes()))
    part = set(check(load(path, tokenizer=Tokens()), passes()))
    assert max(part) < 17 <= max(whole)


def test_who_wants_logits_gets_them(tmp_path):
    """Where one step of a pass asks for them, all may have them."""
    model = load(file(tmp_path, "mistral"))
    a, b = model.open(), model.open()
    steps = [Step(slot=a, tokens=(1, 2), params=GREEDY), Step(slot=b, tokens=(3,))]
    assert [found.shape for found in model.extend(steps)] == [(2, 23), (1, 23)]
    prompt = [Step(slot=a, tokens=(1, 2), params=GREEDY), Step(slot=b, tokens=(3,), rows=0)]
    assert [len(found) for found in model.extend(prompt)] == [2, 0]


def test_who_needs_no_logits_asks_for_laws(tmp_path, monkeypatch):
    asked: list[bool] = []
    extend = NativeModel.extend

    def recorded(self, steps):
        asked.extend(step.params is not None for step in steps if step.wanted)
        return extend(self, steps)

    monkeypatch.setattr(NativeModel, "extend", recorded)
    path = file(tmp_path, "qwen3")

    def text(**options):
        asked.clear()
        engine = Engine(load(path), NgramDrafter(), num_draft=3)
        return engine.generate([1, 2, 3, 1, 2], max_tokens=24, **options).tokens

    greedy = text(temperature=0)
    assert all(asked)
    assert text(temperature=0, logprobs=1) == greedy
    assert not any(asked)
    text(temperature=0, min_tokens=6)
    assert set(asked) == {False, True}
    for sampled in ({}, {"temperature": 0.5}, {"top_k": 1}, {"top_p": 0.5}, {"min_p": 0.1}):
        text(**sampled)
        assert all(asked)
    for other in ({"logit_bias": {3: 0.5}}, {"banned": [4]}, {"presence_penalty": 0.1}):
        text(temperature=0, **other)
        assert not any(asked)


@pytest.mark.parametrize(
    ("change", "asked"), [({}, True), ({"grammar": object()}, False), ({"logprobs": 0}, False)]
)
def test_what_needs_the_logits_asks_for_them(change, asked):
    request = {"grammar": None, "logprobs": None, "params": GREEDY, "slot": 0} | change
    g: Any = SimpleNamespace(ids=[1, 2, 3], prompt_length=2, **request)
    assert (decode.pass_step(g, NOTHING).params is GREEDY) == asked


def test_a_wrong_choice_is_found(tmp_path, monkeypatch):
    choose = plan.Plan.choose
    monkeypatch.setattr(
        plan.Plan, "choose", lambda self, rows, size: (choose(self, rows, size) + 1) % size
    )
    with pytest.raises(AssertionError):
        check(load(file(tmp_path, "mistral")), passes())
