"""Under a grammar the loop's exact law is each position's p, masked and renormalised.

The masks of the expected law are found by trying every short string (`text/languages.py`), and the
laws multiplied here; nothing of it is the production code's.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

pytest.importorskip("llguidance")

import forerun.decode
from certify.tables import CHAIN_VERIFIERS, COSTS, table
from engine.fakes import Guessing
from forerun import Engine
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import (
    DrafterTraits,
    GreedyPlusOneTreeDrafter,
    HybridDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SampledTreeDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.errors import LawError
from forerun.models.tabular import TabularModel
from forerun.numerics.randomness import Purpose
from forerun.numerics.token_tree import Drawn, Proposal, TokenTree
from forerun.text.grammar import Grammar, Matcher
from forerun.verifiers import VERIFIERS, Verdict
from text.languages import LANGUAGES, pieces
from text.tiny import of_pieces

EXACT, FAR = 1e-12, 1e-3
PROMPT = (0, 3, 2, 3)
A, B, C, AB, BC, ABC, A2, EMPTY, CA, END = range(10)  # of PIECES


def target_of(name, ends=1):
    made = of_pieces(pieces(name), ends)
    model = TabularModel(table(made.vocab_size, 1), made.vocab_size, made.eos)
    model.tokenizer = made
    return model


def draft_of(V):
    return TabularModel(table(V, 2), V, name="draft")


class Heedless(ModelDrafter):
    """Knows nothing of the grammar: its drafts may be refused."""

    def propose(self, requests):
        return super().propose([dataclasses.replace(r, allowed=None) for r in requests])


class HeedlessTree(SampledTreeDrafter):
    """The same of trees."""

    def propose(self, requests):
        return super().propose([dataclasses.replace(r, allowed=None) for r in requests])


DRAFTERS = {
    "none": lambda V: None,
    "model": lambda V: ModelDrafter(draft_of(V)),
    "heedless model": lambda V: Heedless(draft_of(V)),
    "greedy model": lambda V: ModelDrafter(draft_of(V), sampling={"temperature": 0}),
    "ngram": lambda V: NgramDrafter(),
    "prediction": lambda V: PredictionDrafter([AB, BC, C, A, B, C] * 2),
    "past the end": lambda V: Guessing(lambda ids, count: [C, END, A, END][:count]),
    "suffix+model": lambda V: HybridDrafter([SuffixDrafter(), ModelDrafter(draft_of(V))]),
}
CHAINS = list(DRAFTERS)
TWIG = (-1, -1, 0)
DRAFTERS |= {
    "suffix-tree": lambda V: SuffixTreeDrafter(),
    "tree": lambda V: LikeliestTreeDrafter(draft_of(V)),
    "sampled-tree": lambda V: SampledTreeDrafter(draft_of(V), shape=TWIG),
    "heedless sampled-tree": lambda V: HeedlessTree(draft_of(V), shape=TWIG),
    "greedy-plus-one-tree": lambda V: GreedyPlusOneTreeDrafter(draft_of(V), shape=TWIG),
}
TREES = [name for name in DRAFTERS if name not in CHAINS]
TREE_VERIFIERS = [name for name in VERIFIERS if name not in ("rejection", "block")]


def oracle(name, model, prompt, horizon):
    """Π of masked, renormalised rows of the table."""
    made, found, going = model.tokenizer, {}, {(): 1.0}
    while going:
        ids, weight = going.popitem()
        text = b"".join(map(made.token_bytes, ids))
        p = np.array(model._next_law((*prompt, *ids)))
        p = p * LANGUAGES[name].allowed(made, made.eos, text)
        for token in np.flatnonzero(p):
            longer = (*ids, int(token))
            over = int(token) in made.eos or len(longer) == horizon
            (found if over else going)[longer] = weight * p[token] / p.sum()
    return found


def laws(name, drafter, verifier, num_draft, *, ends=1, horizon=3, **options):
    """The loop's law, plain decoding's, and the oracle's (of the table as it is)."""
    model = target_of(name, ends)
    guesser = DRAFTERS[drafter](model.vocab_size) if isinstance(drafter, str) else drafter
    common = {"prompt": PROMPT, "max_tokens": horizon, "grammar": LANGUAGES[name].grammar}
    loop = {k: options.pop(k) for k in ("company", "costs") if k in options}
    found = exact_law(
        model, guesser, verifier=verifier, num_draft=num_draft, **common, **loop, **options
    )
    return found, plain_law(model, **common, **options), oracle(name, model, PROMPT, horizon)


def check(name, drafter, verifier, num_draft, **options):
    found, plain, expected = laws(name, drafter, verifier, num_draft, **options)
    assert sum(found.values()) == pytest.approx(1, abs=EXACT)
    assert total_variation(found, plain) < EXACT
    assert total_variation(found, expected) < EXACT
    return found


@pytest.mark.parametrize("verifier", [*CHAIN_VERIFIERS, "auto"])
@pytest.mark.parametrize("drafter", CHAINS)
def test_all_drafters_and_verifiers(drafter, verifier):
    check("loop", drafter, verifier, 2)


@pytest.mark.parametrize("verifier", [*TREE_VERIFIERS, "auto"])
@pytest.mark.parametrize("drafter", TREES)
def test_drafters_of_trees(drafter, verifier):
    check("loop", drafter, verifier, 3)


@pytest.mark.parametrize("drafter", ["model", "heedless model", "suffix+model"])
@pytest.mark.parametrize("verifier", [name for name in TREE_VERIFIERS if name != "coupled"])
def test_verifiers_of_trees_judge_chains(verifier, drafter):
    check("finite", drafter, verifier, 2)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("drafter", ["model", "heedless model", "prediction"])
@pytest.mark.parametrize("name", [name for name in LANGUAGES if name != "any"])
def test_all_languages(name, drafter, verifier):
    """What ends with an end token is of the language."""
    found = check(name, drafter, verifier, 2, ends=2)
    made = of_pieces(pieces(name), 2)
    texts = [b"".join(map(made.token_bytes, y)).decode() for y in found if y[-1] in made.eos]
    assert all(map(LANGUAGES[name].contains, texts))
    assert texts or name in ("nested", "exact")


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("num_draft", [1, 2, 3])
@pytest.mark.parametrize("name", ["exact", "finite"])
def test_forced_tokens_before_those_of_another(name, num_draft, verifier):
    """Nothing is drafted but what the grammar forces, where the other has nothing."""
    nothing = Guessing(lambda ids, count: ())
    check(name, nothing, verifier, num_draft, horizon=4)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("num_draft", [1, 3, 4])
def test_draft_lengths(num_draft, verifier):
    check("list", "model", verifier, num_draft, horizon=4)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("drafter", ["model", "suffix+model"])
def test_draft_lengths_by_cost(drafter, verifier):
    check("finite", drafter, verifier, "auto", horizon=4, costs=COSTS)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_in_company_with_other_grammars(verifier):
    company = [
        (PROMPT[:2], {"max_tokens": 2, "grammar": Grammar.regex("c(a|b)"), "num_draft": 2}),
        (PROMPT[1:], {"max_tokens": 1}),
    ]
    check("finite", "prediction", verifier, 2, company=company)
    company[1:] = []
    check("exact", "model", verifier, 2, company=company)


CONTROLS = {
    "temperature": {"temperature": 0.6},
    "greedy": {"temperature": 0},
    "top-k": {"top_k": 2},
    "top-p": {"top_p": 0.6},
    "min-p": {"min_p": 0.4},
    "repetition penalty": {"repetition_penalty": 1.8},
    "frequency penalty": {"frequency_penalty": 0.8},
    "logit bias": {"logit_bias": {A: -1.5, END: 0.7}},
    "ban": {"banned": [AB, C]},
    "min-tokens": {"min_tokens": 2},
    "stop id": {"stop_ids": [B]},
}


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("drafter", ["model", "prediction"])
def test_with_all_else_that_shapes_a_law(drafter, control, verifier):
    found, plain, expected = laws("greedy", drafter, verifier, 2, **CONTROLS[control])
    assert total_variation(found, plain) < EXACT
    assert total_variation(found, expected) > FAR


@pytest.mark.parametrize(
    ("drafter", "verifier"),
    [
        ("suffix-tree", "coupled"),
        ("tree", "recursive"),
        ("heedless sampled-tree", "traversal"),
        ("greedy-plus-one-tree", "greedy_plus_one"),
    ],
)
@pytest.mark.parametrize("control", CONTROLS)
def test_trees_with_all_else_that_shapes_a_law(control, drafter, verifier):
    found, plain, expected = laws("greedy", drafter, verifier, 3, **CONTROLS[control])
    assert total_variation(found, plain) < EXACT
    assert total_variation(found, expected) > FAR


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_min_tokens_gives_way_to_a_text_that_can_only_end(verifier):
    """ "abc" of "abc|a|bca" cannot go on; "a" can, so that there the end is held back."""
    found, plain, _ = laws("finite", "model", verifier, 2, min_tokens=3)
    assert total_variation(found, plain) < EXACT
    assert (ABC, END) in found  # nothing else is left
    assert (A, END) not in found  # "bc" is
    assert (A, BC, END) in found


def test_bans_that_leave_nothing_are_an_error():
    with pytest.raises(LawError, match=r"position 4, slot 0: no token is left: .* or a grammar"):
        laws("exact", "model", "rejection", 2, banned=[A, AB, ABC, A2])


class Branching(Guessing):
    """Two branches, refused tokens in both, and what would follow them."""

    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False, chain=False)

    def __init__(self):
        super().__init__(None)

    def propose(self, requests):
        return [self._tree(request.num_draft) for request in requests]

    def _tree(self, nodes):
        tokens, parents = (AB, A, C, B, CA, A, END, C), (-1, -1, 0, 1, 1, 0, 2, 6)
        tree = TokenTree(tokens[:nodes], parents[:nodes])
        return Proposal(tree=tree, q=(None,) * len(tree))


@pytest.mark.parametrize("name", ["loop", "finite"])
def test_trees(name):
    check(name, Branching(), "coupled", 8, horizon=4)


# ------------------------------------------------------------------ known faults


def caught(drafter, verifier, **options):
    """Whether it shows: in the law, or in a text that the grammar refuses."""
    try:
        found, _, expected = laws("greedy", drafter, verifier, 2, **options)
    except LawError:
        return True
    return total_variation(found, expected) > FAR


FAULTS = [
    *itertools.product(["model", "heedless model", "prediction"], CHAIN_VERIFIERS),
    *itertools.product(["tree", "sampled-tree", "heedless sampled-tree"], TREE_VERIFIERS),
]


@pytest.mark.parametrize(("drafter", "verifier"), FAULTS)
def test_the_right_code_is_not_caught(drafter, verifier):
    assert not caught(drafter, verifier)


@pytest.mark.parametrize(("drafter", "verifier"), FAULTS)
def test_the_mask_of_the_position_before(drafter, verifier, monkeypatch):
    allowed = Matcher.allowed
    monkeypatch.setattr(Matcher, "allowed", lambda self, path: allowed(self, path[:-1]))
    assert caught(drafter, verifier)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_an_end_token_that_is_always_allowed(verifier, monkeypatch):
    mask = Matcher._mask

    def ending(self):
        found = mask(self)
        found[list(self.end_ids)] = True
        return found

    monkeypatch.setattr(Matcher, "_mask", ending)
    assert caught("model", verifier)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_forced_tokens_that_are_not_verified(verifier, monkeypatch):
    """Of a model's drafts only those that the grammar forces are point masses."""
    kind = VERIFIERS[verifier]
    verify = kind.verify

    def trusting(self, proposal, p, draws):
        if not len(proposal) or proposal.q[0] is not None:
            return verify(self, proposal, p, draws)
        path, tokens = tuple(range(len(proposal))), proposal.tree.tokens
        key = (len(proposal) - 1, Purpose.NEXT)
        race = self.races
        token = draws.race(p[-1], tokens, Purpose.NEXT) if race else draws.draw(p[-1], key)
        return Verdict(
            path=path, token=token, kind="bonus", law=p[-1], acceptance=(1.0,) * len(proposal)
        )

    found, _, expected = laws("exact", "model", verifier, 2)
    assert total_variation(found, expected) < EXACT
    monkeypatch.setattr(kind, "verify", trusting)
    found, _, expected = laws("exact", "model", verifier, 2)
    assert total_variation(found, expected) > FAR


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_sampled_draft_that_is_cut_before_a_refused_token(verifier, monkeypatch):
    """Whether a token is judged would depend on what it is."""

    real = forerun.decode.in_grammar

    def planted(g, proposal):
        kept = real(g, proposal)
        tokens = kept.tree.tokens
        refused = len(kept) and not g.grammar.allowed(tokens[:-1])[tokens[-1]]
        return kept.first(len(kept) - bool(refused))

    monkeypatch.setattr(forerun.decode, "in_grammar", planted)
    assert caught("heedless model", verifier)


# A round's end is where enumeration takes states apart, and a matcher's is its tokens: what it
# wrongly remembers shows in the production loop alone.


def strays(drafter):
    """How many of 40 seeded texts are not those of plain decoding, or fail."""
    model = target_of("greedy")
    engine = Engine(model, DRAFTERS[drafter](model.vocab_size), num_draft=3)
    differ = 0
    for seed in range(40):
        options = {"seed": seed, "grammar": LANGUAGES["greedy"].grammar, "max_tokens": 8}
        done, plain = (
            engine.generate_batch([PROMPT], options | {"num_draft": n})[0] for n in (3, 0)
        )
        differ += plain.error is not None or done.tokens != plain.tokens
    return differ


@pytest.mark.parametrize("drafter", ["model", "heedless model", "prediction"])
def test_no_text_strays(drafter):
    assert strays(drafter) == 0


@pytest.mark.parametrize("drafter", ["model", "heedless model"])
def test_no_rollback_after_a_rejection(drafter, monkeypatch):
    """The library's matcher stays behind the drafts; what was pushed is taken for granted."""

    def push(self, token):
        if token not in self.end_ids:
            self.tokens.append(token)
            self._ahead.clear()
            self._masks.clear()

    monkeypatch.setattr(Matcher, "push", push)
    assert strays(drafter) > 0


def test_masks_that_outlive_a_commit(monkeypatch):
    push = Matcher.push

    def keeping(self, token):
        masks = dict(self._masks)
        push(self, token)
        self._masks |= masks

    monkeypatch.setattr(Matcher, "push", keeping)
    assert strays("model") > 0
