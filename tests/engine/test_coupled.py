"""`coupled`: token for token what plain decoding writes with the same seed; and its law.

On a tabular model, whose rows are exact, and on small transformers modules in float64, whose passes
over different numbers of rows differ in the last bits only.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from certify.tables import table
from forerun import Engine
from forerun.certify import plain_law
from forerun.drafters import ModelDrafter, NgramDrafter, PredictionDrafter, SuffixDrafter
from forerun.models.tabular import TabularModel
from forerun.numerics.randomness import KeyedDraws, Purpose
from forerun.numerics.token_tree import Drawn, Proposal, TokenTree
from forerun.verifiers import CoupledVerifier

from .fakes import NONE_OPEN, V, consistent, draft, drafters, open_slots, target

CONTROLS = [
    {},
    {"temperature": 0.6},
    {"temperature": 0.0},
    {"top_p": 0.7, "repetition_penalty": 1.3},
    {"frequency_penalty": -0.5, "min_tokens": 8},
]


def requests(vocabulary, count, max_tokens):
    rng = np.random.default_rng(1)
    for i in range(count):
        prompt = [int(x) for x in rng.integers(vocabulary, size=rng.integers(1, 9))]
        own = {"seed": i % 3, "max_tokens": max_tokens - 3 * (i % 4)}
        yield prompt, {**own, **CONTROLS[i % len(CONTROLS)]}


def check(model, make_drafter, asked, gammas):
    """Alone, in batches of several sizes and orders, at every γ."""
    plain = [Engine(model).generate(p, **o, verifier="coupled").tokens for p, o in asked]
    engine = Engine(model, make_drafter(), verifier="coupled", max_batch=3)
    drafted = 0
    for gamma in gammas:
        order = np.random.default_rng(gamma).permutation(len(asked))
        batch = engine.generate_batch(
            [asked[i][0] for i in order], [{**asked[i][1], "num_draft": gamma} for i in order]
        )
        for i, done in zip(order, batch, strict=True):
            assert done.tokens == plain[i], (gamma, asked[i])
            consistent(done)
            drafted += done.stats.drafted
    assert open_slots(engine)[1] == 0
    return drafted


@pytest.mark.parametrize("eos", [None, 4])
@pytest.mark.parametrize("name", drafters())
def test_tokens_equal_plain_decoding(name, eos):
    model = target(eos=eos)
    drafted = check(model, drafters()[name], list(requests(V, 10, 24)), range(6))
    assert bool(drafted) == (name != "none")
    assert open_slots(Engine(model)) == NONE_OPEN


def test_a_racing_drafter_guesses_the_targets_luck():
    """The same law and the same exponentials: everything accepted, at T > 0."""
    close = TabularModel(lambda prefix: np.array(table(V, 1)(prefix)) * 0.9 + 0.1 / V, V)
    rates = {}
    for verifier in ("coupled", "rejection"):
        engine = Engine(target(), ModelDrafter(close), num_draft=3, verifier=verifier)
        batch = engine.generate_batch([[i % V] for i in range(20)], {"max_tokens": 40, "seed": 1})
        rates[verifier] = sum(d.stats.accepted for d in batch) / sum(d.stats.drafted for d in batch)
    assert rates["coupled"] > 0.75
    assert rates["rejection"] > 0.75
    greedy = Engine(target(), ModelDrafter(draft(1), sampling={"temperature": 0}), num_draft=3)
    done = greedy.generate([0], max_tokens=200, seed=1)
    assert done.stats.acceptance_rate < rates["coupled"] - 0.1


# ------------------------------------------------------------------ transformers


@pytest.fixture(scope="module")
def hf():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from forerun.models.hf import HFModel
    from models.hf_modules import ARCHITECTURES, module, module_of

    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def small(name="llama", **changes):
        kind, options, attention = ARCHITECTURES[name]
        return HFModel(module_of(kind(**{**options, **changes}), attention))

    yield lambda name, **changes: small(name, **changes) if changes else HFModel(module(name))
    torch.set_num_threads(threads)


HF_V = 61
HF_DRAFTERS = {
    "model": lambda hf: ModelDrafter(hf("llama", num_hidden_layers=1)),
    "its own model": lambda hf: ModelDrafter(hf("llama")),
    "ngram": lambda hf: NgramDrafter(),
    "suffix": lambda hf: SuffixDrafter(memory_bytes=1 << 20),
    "prediction": lambda hf: PredictionDrafter([i * 7 % HF_V for i in range(40)]),
}


@pytest.mark.parametrize("name", HF_DRAFTERS)
def test_tokens_equal_plain_decoding_on_a_transformer(name, hf):
    asked = list(requests(HF_V, 5, 16))
    check(hf("llama"), lambda: HF_DRAFTERS[name](hf), asked, (1, 2, 5))


@pytest.mark.parametrize("architecture", ["gemma3", "gpt2"])
def test_tokens_equal_plain_decoding_on_other_architectures(architecture, hf):
    """Windows to roll back across, and learned positions; the draft is the model itself."""
    asked = list(requests(HF_V, 5, 16))
    check(hf(architecture), lambda: ModelDrafter(hf(architecture)), asked, (3,))


def test_a_transformer_that_drafts_for_itself_is_right_and_judged_right(hf):
    """Rows of different passes differ in the last bits: no verifier may stumble over that."""
    for verifier in ("rejection", "coupled"):
        engine = Engine(hf("llama"), ModelDrafter(hf("llama")), num_draft=3, verifier=verifier)
        done = engine.generate([1, 2, 3], max_tokens=41, seed=1)
        consistent(done)
        assert done.stats.acceptance_rate == 1


def test_a_transformer_that_drafts_for_itself_under_block(hf):
    engine = Engine(hf("llama"), ModelDrafter(hf("llama")), num_draft=3, verifier="block")
    for seed in range(3):
        done = engine.generate([1, 2, 3], max_tokens=41, seed=seed)
        assert done.stats.acceptance_rate == 1


# ------------------------------------------------------------------ its law


DRAWS = 200_000
LAWS = np.array(
    [[0.4, 0.3, 0.0, 0.2, 0.1], [0.05, 0.05, 0.6, 0.3, 0.0], [0.2] * 5, [0, 0, 0, 0.5, 0.5],
     [0.01, 0.01, 0.01, 0.01, 0.96]]
)  # fmt: skip
"""The law after each token."""


def p_value(counts, expected):
    cells = sorted(cell for cell, w in expected.items() if w > 0)
    assert set(counts) <= set(cells), "a token with p = 0 was emitted"
    total = sum(counts.values())
    return stats.chisquare([counts[c] for c in cells], [expected[c] * total for c in cells]).pvalue


def test_the_law_over_seeds():
    """200,000 draws by the production verifier, a token drafted by racing: singles and pairs."""
    q = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
    judge = CoupledVerifier()
    pairs = Counter()
    for seed in range(DRAWS // 2):
        draws = KeyedDraws(seed)
        draws.begin_round(0, 7)
        guess = draws.race(q, (), Purpose.DRAFT)
        proposal = Proposal(tree=TokenTree.chain([guess]), q=(q,), drawn=Drawn.SAMPLED)
        verdict = judge.verify(proposal, [LAWS[0], LAWS[guess]], draws)
        if verdict.path:
            pairs[guess, verdict.token] += 1
        else:
            draws.begin_round(1, 8)
            second = judge.verify(Proposal(), [LAWS[verdict.token]], draws).token
            pairs[verdict.token, second] += 1
    expected = {(a, b): LAWS[0][a] * LAWS[a][b] for a in range(V) for b in range(V)}
    assert p_value(pairs, expected) > 1e-6
    for place in range(2):
        counts, wanted = Counter(), Counter()
        for pair, n in pairs.items():
            counts[pair[place]] += n
        for pair, w in expected.items():
            wanted[pair[place]] += w
        assert p_value(counts, wanted) > 1e-6


def test_the_law_along_one_text():
    """One seed, one long text: positions are independent of each other, transitions follow p."""
    model = TabularModel(lambda prefix: LAWS[prefix[-1]], V)
    engine = Engine(model, NgramDrafter(), verifier="coupled", num_draft=2)
    transitions = Counter()
    for seed in range(40):
        text = (0, *engine.generate([0], max_tokens=250, seed=seed).tokens)
        transitions.update(itertools.pairwise(text))
    for a in range(V):
        counts = Counter({b: n for (x, b), n in transitions.items() if x == a})
        assert p_value(counts, dict(enumerate(LAWS[a]))) > 1e-6


def test_the_law_of_the_whole_loop():
    model = target(eos=4)
    engine = Engine(model, ModelDrafter(draft()), verifier="coupled", num_draft=2)
    expected = plain_law(model, prompt=[0], max_tokens=3)
    found = Counter(engine.generate([0], max_tokens=3, seed=seed).tokens for seed in range(6000))
    rare = {y for y, w in expected.items() if 0 < w * 6000 < 5}
    pooled, wanted = Counter(), Counter()
    for y, n in found.items():
        pooled["rare" if y in rare else y] += n
    for y, w in expected.items():
        wanted["rare" if y in rare else y] += w
    assert p_value_by_name(pooled, wanted) > 1e-6


def p_value_by_name(counts, expected):
    return p_value(
        Counter({str(y): n for y, n in counts.items()}), {str(y): w for y, w in expected.items()}
    )
