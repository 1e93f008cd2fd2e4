"""Laws in float32, as language models have them: made in C if that is there, sparse where cut."""

from __future__ import annotations

import numpy as np
import pytest

from certify.tables import table
from forerun import Engine, TabularModel
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import ModelDrafter, NgramDrafter
from forerun.numerics import fused
from forerun.numerics.sparse_law import SparseLaw
from forerun.verifiers import VERIFIERS

V = 5
CUTS = [
    {"temperature": 0.0},
    {"temperature": 0.7},
    {"top_p": 0.8},
    {"top_k": 2, "temperature": 1.5},
    {"min_p": 0.3, "repetition_penalty": 1.3},
]


class Single(TabularModel):
    """A model whose logits are float32."""

    def extend(self, steps):
        return [rows.astype(np.float32) for rows in super().extend(steps)]


def target():
    return Single(table(V, 1), V, eos=4)


def drafter(name):
    return NgramDrafter() if name == "ngram" else ModelDrafter(Single(table(V, 2), V, name="draft"))


@pytest.fixture(params=["C", "NumPy"])
def how(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(fused, "functions", lambda: None)
    elif fused.functions() is None:
        pytest.skip("the C library was not built")
    return request.param


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("drafted", ["ngram", "model"])
@pytest.mark.parametrize("name", VERIFIERS)
def test_the_law_is_the_targets_but_for_rounding(how, name, drafted, cut):
    text = {"prompt": (0, 1, 0), "max_tokens": 3, **cut}
    found = exact_law(target(), drafter(drafted), verifier=name, num_draft=2, **text)
    plain = plain_law(TabularModel(table(V, 1), V, eos=4), **text)
    assert set(found) == set(plain)
    assert total_variation(found, plain) < 1e-6


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("drafted", ["ngram", "model"])
def test_a_seed_gives_the_same_text_in_c_and_numpy_drafted_or_not(monkeypatch, drafted, cut):
    def texts(num_draft):
        prompts = [[0, 1, 0], [3, 2], [1]]
        options = [{"seed": seed, "max_tokens": 12, **cut} for seed in range(20)]
        with Engine(target(), drafter(drafted), verifier="coupled", num_draft=num_draft) as engine:
            alone = [engine.generate([0, 1, 0], **one).tokens for one in options]
            together = engine.generate_batch(prompts * 2, options[:6])
        assert together[0].tokens == alone[0]
        return alone, [done.tokens for done in together]

    plain = texts(0)
    assert texts(1) == texts(3) == plain
    monkeypatch.setattr(fused, "functions", lambda: None)
    assert texts(2) == plain


def test_laws_that_are_cut_are_sparse(monkeypatch):
    if fused.functions() is None:
        pytest.skip("the C library was not built")
    seen = []
    coupled = VERIFIERS["coupled"]
    verify = coupled.verify

    def watched(self, proposal, p, draws):
        seen.extend(type(law) for law in p)
        return verify(self, proposal, p, draws)

    monkeypatch.setattr(coupled, "verify", watched)
    with Engine(target(), NgramDrafter(), num_draft=2) as engine:
        engine.generate([0, 1, 0], max_tokens=5, temperature=0)
        assert set(seen) == {SparseLaw}
        seen.clear()
        engine.generate([0, 1, 0], max_tokens=5, seed=1)
        assert set(seen) == {np.ndarray}
