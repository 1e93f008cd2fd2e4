"""Draft models of other vocabularies: seed-exact on tables, bit-exact on the native backend, and
which drafter a draft model gets."""

from __future__ import annotations

import random

import pytest

import forerun
from certify.tables import table
from forerun import Engine
from forerun.certify.vocabularies import of_pieces, pieces
from forerun.drafters import (
    HybridDrafter,
    IntersectionDrafter,
    ModelDrafter,
    StringMatchDrafter,
    SuffixDrafter,
)
from forerun.errors import VocabularyError
from forerun.models.tabular import TabularModel
from models.native.small import file, load

from .fakes import V, cheap, says, target
from .test_coupled import check, requests
from .test_native import REQUESTS, same
from .test_native import V as NATIVE_V

OWN = of_pieces(pieces(V))
OTHER = [b"c", *pieces(V)[::-1], b"abab"]
KINDS = {"intersection": IntersectionDrafter, "string-match": StringMatchDrafter}


def foreign() -> TabularModel:
    return TabularModel(table(len(OTHER), 2), len(OTHER), tokenizer=of_pieces(OTHER))


@pytest.mark.parametrize("eos", [None, 4])
@pytest.mark.parametrize("lookup", [False, True], ids=["alone", "behind a lookup"])
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_equal_plain_decoding(kind, lookup, eos):
    def make():
        made = KINDS[kind](foreign())
        return HybridDrafter([SuffixDrafter(), made]) if lookup else made

    model = target(eos=eos, tokenizer=OWN)
    assert check(model, make, list(requests(V, 10, 24)), range(0, 6, 2)) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_bits_equal_plain_decoding(kind, tmp_path):
    """Greedy and coupled, in company, logprobs too."""
    first, second = file(tmp_path, "llama"), file(tmp_path, "mistral", seed=1)
    plain = Engine(load(first))
    alone = [plain.generate(prompt, **options) for prompt, options in REQUESTS]
    model, draft = load(first), load(second)
    model.tokenizer = of_pieces(pieces(NATIVE_V))
    draft.tokenizer = of_pieces(pieces(NATIVE_V)[::-1])
    engine = Engine(model, KINDS[kind](draft), num_draft=4)
    found = engine.generate_batch(*map(list, zip(*REQUESTS)))
    for done, expected in zip(found, alone, strict=True):
        same(done, expected)
    assert sum(done.stats.drafted for done in found) > 100


def test_a_draft_model_alone_gets_the_drafter_that_fits():
    model = target(tokenizer=OWN)
    same_ids = TabularModel(table(V, 2), V, tokenizer=OWN)
    assert isinstance(forerun.load(model, draft_model=same_ids).drafter, ModelDrafter)
    other = forerun.load(model, draft_model=foreign())
    assert other.drafter.name == "intersection"
    assert other.generate([0, 1], max_tokens=12, seed=1, num_draft=3).stats.drafted > 0
    with pytest.raises(VocabularyError, match="drafter 'intersection' or 'string-match'"):
        forerun.load(model, drafter="model", draft_model=foreign())
    several = forerun.load(model, drafter="suffix+string-match", draft_model=foreign())
    assert list(several.drafter.parts) == ["suffix", "string-match"]


LETTERS = [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize("kind", KINDS)
def test_joined_with_a_lookup_each_drafts_where_it_promises_most(kind):
    """New text first, which the draft model knows; then the same again, which the lookup finds."""
    dice = random.Random(2)
    new = [dice.randrange(V) for _ in range(40)]
    text = [*new, *new, *new]
    ids = [V - 1 - token for token in text]
    model = says(text, 1, tokenizer=of_pieces(LETTERS))
    draft = cheap(says(ids, 1, tokenizer=of_pieces(LETTERS[::-1])))
    engine = Engine(model, HybridDrafter([SuffixDrafter(), KINDS[kind](draft)]))
    done = engine.generate([0], max_tokens=len(text))
    assert done.tokens == tuple(text)
    assert set(done.stats.drafters) == {"suffix", kind}
    drafts = [r.drafter for r in done.trace if r.position < len(new) and r.drafted]
    assert drafts.count(kind) > len(drafts) / 2
    later = [r.drafter for r in done.trace if r.position > len(new) + 8 and r.drafted]
    assert later.count("suffix") > len(later) / 2
    assert done.stats.tokens_per_pass > 3
