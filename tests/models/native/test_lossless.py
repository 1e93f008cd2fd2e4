"""The law and the seed on this backend: real decoding, with tiny random files as target and draft.

Laws are float32 here: a chain of a few of them is exact to some 1e-6, not to the 1e-12 of float64.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from forerun import Engine, clib
from forerun.certify.tiny_head import tiny_head
from forerun.drafters import (
    HeadDrafter,
    HeadSampledTreeDrafter,
    HeadTreeDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SampledTreeDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.models.base import Step
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.model import HeadModel
from forerun.models.native.model import NativeModel
from forerun.numerics.distribution import History, law
from forerun.sampling import SamplingParams
from models.native.small import PATHS
from models.tiny_gguf import write

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")

V = 7
SMALL = {"vocabulary": V, "heads": 2, "kv_heads": 1, "layers": 1, "types": "Q8_0", "size": 1.0}
REQUESTS = [
    ([0, 1, 2, 3, 4, 0, 1, 2], {"seed": 1, "max_tokens": 20}),
    ([2], {"seed": 2, "max_tokens": 9, "temperature": 0.6}),
    ([1, 1], {"seed": 1, "max_tokens": 14, "top_p": 0.8, "frequency_penalty": 0.4}),
    ([3, 0, 3, 0], {"seed": 7, "max_tokens": 17, "temperature": 0.0}),
    ([5], {"max_tokens": 30, "temperature": 0.0}),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A target, and a draft that is like it: the same embedding, and other layers."""
    folder = tmp_path_factory.mktemp("files")
    table = 0.2 * np.random.default_rng(5).standard_normal((V, 64)).astype(np.float32)
    shared = {"token_embd.weight": table}
    return (
        write(folder / "target.gguf", "qwen3", seed=1, tensors=shared, **SMALL),
        write(folder / "draft.gguf", "llama", seed=2, tensors=shared, **SMALL),
    )


def target(files, kernels=None) -> NativeModel:
    return NativeModel(files[0], threads=1, kernels=kernels)


def draft(files) -> NativeModel:
    return NativeModel(files[1], threads=1)


def head(files) -> HeadModel:
    config = HeadConfig(
        hidden=64, heads=2, kv_heads=1, head_width=32, feed_forward=64, taps=(1, 0), context=99,
        vocabulary=V, draft_vocabulary=5,
    )  # fmt: skip
    return HeadModel(tiny_head(config), target(files))


def drafters(files, text=()):
    return {
        "model": lambda: ModelDrafter(draft(files)),
        "ngram": NgramDrafter,
        "suffix": SuffixDrafter,
        "prediction": lambda: PredictionDrafter([*text[:7], 0, 0, *text[8:]]),
        "suffix-tree": SuffixTreeDrafter,
        "tree": lambda: LikeliestTreeDrafter(draft(files)),
        "sampled-tree": lambda: SampledTreeDrafter(draft(files)),
        "head": lambda: HeadDrafter(head(files)),
        "head-tree": lambda: HeadTreeDrafter(head(files)),
        "head-sampled-tree": lambda: HeadSampledTreeDrafter(head(files)),
    }


def texts(engine, requests, **options):
    done = engine.generate_batch(
        [prompt for prompt, _ in requests], [{**sampling, **options} for _, sampling in requests]
    )
    return [each.tokens for each in done]


@pytest.fixture(scope="module")
def plain(files):
    return [texts(Engine(target(files)), [request])[0] for request in REQUESTS]


DRAFTERS = [
    "model", "ngram", "suffix", "prediction", "suffix-tree", "tree", "sampled-tree",
    "head", "head-tree", "head-sampled-tree",
]  # fmt: skip


@pytest.mark.parametrize("name", DRAFTERS)
def test_seeded_and_greedy_texts_are_those_of_plain_decoding(name, files, plain):
    assert len(set(plain)) == len(REQUESTS)
    engine = Engine(target(files), drafters(files, plain[0])[name](), num_draft=3, max_batch=3)
    drafted = accepted = 0
    for order in itertools.islice(itertools.permutations(range(len(REQUESTS))), 0, 120, 11):
        assert texts(engine, [REQUESTS[i] for i in order]) == [plain[i] for i in order]
    for gamma in (0, 1, 2, 5, 9, 64):
        assert texts(engine, REQUESTS, num_draft=gamma) == plain
    for (prompt, sampling), expected in zip(REQUESTS, plain):
        done = engine.generate(prompt, verifier="coupled", **sampling)
        if "seed" in sampling or not sampling["temperature"]:
            assert done.tokens == expected
        drafted += done.stats.drafted
        accepted += done.stats.accepted
    assert 0 < accepted < drafted  # both kinds of rounds were there


@pytest.mark.parametrize("kernels", PATHS)
def test_texts_are_the_same_on_all_paths(kernels, files, plain):
    engine = Engine(target(files, kernels), ModelDrafter(draft(files)), num_draft=4)
    assert texts(engine, REQUESTS) == plain


@pytest.mark.parametrize(
    "name", ["model", "suffix", "prediction", "suffix-tree", "tree", "head", "head-tree"]
)
def test_logprobs_are_those_of_plain_decoding_bit_for_bit(name, files, plain):
    """Of accepted, corrected and bonus tokens, in company; and of a prompt read in pieces."""
    asked = {"logprobs": 3, "prompt_logprobs": 2, "verifier": "coupled"}
    alone = [Engine(target(files)).generate(p, **s, **asked) for p, s in REQUESTS]
    assert [done.tokens for done in alone] == plain
    engine = Engine(target(files), drafters(files, plain[0])[name](), max_batch=3)
    for gamma in (1, 2, 5):
        found = engine.generate_batch(
            [prompt for prompt, _ in REQUESTS],
            [{**sampling, **asked, "num_draft": gamma} for _, sampling in REQUESTS],
        )
        assert [done.logprobs for done in found] == [done.logprobs for done in alone]
        assert [done.prompt_logprobs for done in found] == [d.prompt_logprobs for d in alone]


@pytest.mark.parametrize("name", ["model", "head"])
@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_other_verifiers_repeat_a_seed_in_any_company(verifier, name, files):
    options = {"verifier": verifier, "num_draft": 3}
    fresh = [
        texts(Engine(target(files), drafters(files)[name]()), [request], **options)[0]
        for request in REQUESTS
    ]
    engine = Engine(target(files), drafters(files)[name](), max_batch=3)
    for order in itertools.islice(itertools.permutations(range(len(REQUESTS))), 0, 120, 29):
        assert texts(engine, [REQUESTS[i] for i in order], **options) == [fresh[i] for i in order]


# ------------------------------------------------------------------ the law

PROMPT, HORIZON, RUNS = [2, 0, 5], 3, 1500
CUT = {"temperature": 0.7, "top_k": 3}


def expected_law(model: NativeModel) -> dict[tuple[int, ...], float]:
    """Π p over all texts of the horizon, from rows of one slot each."""
    params = SamplingParams(**CUT)
    found = {(): 1.0}
    for _ in range(HORIZON):
        longer = {}
        for text, mass in found.items():
            slot = model.open()
            ids = (*PROMPT, *text)
            row = model.extend([Step(slot=slot, tokens=ids, rows=1)])[0][0]
            model.close(slot)
            p = np.asarray(law(row, params, History(ids, len(PROMPT))))
            longer |= {(*text, int(i)): mass * float(p[i]) for i in np.flatnonzero(p)}
        found = longer
    return found


def chi_square(counts: Counter, expected: dict[tuple[int, ...], float]) -> tuple[float, int]:
    """Statistic and degrees of freedom; rare texts are one class."""
    runs = sum(counts.values())
    common = {text: mass for text, mass in expected.items() if mass * runs >= 5}
    rare = 1 - sum(common.values())
    pairs = [(counts[text], mass * runs) for text, mass in common.items()]
    pairs.append((runs - sum(counts[text] for text in common), max(rare * runs, 1e-9)))
    return sum((seen - wanted) ** 2 / wanted for seen, wanted in pairs), len(pairs) - 1


@pytest.mark.parametrize("verifier", ["plain", "rejection", "block", "coupled"])
def test_the_law_of_texts_is_the_targets(verifier, files):
    """Chi-square over seeds; fixed ones, so it passes or fails for good."""
    stats = pytest.importorskip("scipy.stats")
    expected = expected_law(target(files))
    assert sum(expected.values()) == pytest.approx(1, abs=1e-5)
    assert len(expected) == 27
    drafter = None if verifier == "plain" else ModelDrafter(draft(files))
    options = {} if verifier == "plain" else {"verifier": verifier, "num_draft": 2}
    engine = Engine(target(files), drafter, max_batch=16, **options)
    sampling = [{"seed": seed, "max_tokens": HORIZON, **CUT} for seed in range(RUNS)]
    counts = Counter(done.tokens for done in engine.generate_batch([PROMPT] * RUNS, sampling))
    assert set(counts) <= set(expected)
    statistic, freedom = chi_square(counts, expected)
    assert stats.chi2.sf(statistic, freedom) > 1e-3
    # the draft's law is far off
    statistic, freedom = chi_square(counts, expected_law(draft(files)))
    assert stats.chi2.sf(statistic, freedom) < 1e-20
