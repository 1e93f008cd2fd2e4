"""SmolLM2's law under speculation in company: texts of many seeds against probabilities."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from forerun import Engine
from forerun.drafters import ModelDrafter
from forerun.models.base import Step
from forerun.models.load import load_model
from forerun.numerics.distribution import History, law
from forerun.sampling import SamplingParams

pytestmark = [pytest.mark.model, pytest.mark.long]

RUNS = 1000
LENGTH = 2
REQUESTS = {  # different prompts and parameters, each pair in one round
    "She opened the door and": {"top_k": 3},
    "The best thing about summer is": {"top_k": 4, "temperature": 0.8, "frequency_penalty": 0.5},
}
HOTTER = {
    "temperature": 2.5,
    "top_k": 6,
}  # the draft's: far off, and with tokens the target has not


def expected_law(model, ids, params):
    """Probability of each text of LENGTH tokens, end tokens apart: they end it."""
    found = {(): 1.0}
    for _ in range(LENGTH):
        longer = {}
        for text, mass in found.items():
            if text and text[-1] in model.eos:
                longer[text] = mass
                continue
            slot, read = model.open(), (*ids, *text)
            row = model.extend([Step(slot=slot, tokens=read, rows=1)])[0][0]
            model.close(slot)
            p = np.asarray(law(row, params, History(read, len(ids))), np.float64)
            longer |= {(*text, int(i)): mass * float(p[i]) for i in np.flatnonzero(p)}
        found = longer
    return found


def fit(counts, expected):
    """p-value of the counts; rare texts are one class."""
    stats = pytest.importorskip("scipy.stats")
    common = {text: mass for text, mass in expected.items() if mass * RUNS >= 5}
    seen = [counts[text] for text in common]
    wanted = [mass * RUNS for mass in common.values()]
    if (rare := RUNS - sum(wanted)) > 1:
        seen.append(RUNS - sum(seen))
        wanted.append(rare)
    statistic = sum((s - w) ** 2 / w for s, w in zip(seen, wanted, strict=True))
    return stats.chi2.sf(statistic, len(seen) - 1)


def test_two_requests_in_company_keep_their_laws_under_rejection(smollm2_path):
    """Chi-square over seeds; fixed ones, so it passes or fails for good."""
    model, draft = (load_model(smollm2_path) for _ in range(2))
    drafter = ModelDrafter(draft, sampling=HOTTER)
    engine = Engine(model, drafter, verifier="rejection", num_draft=1, max_batch=2)
    prompts, sampling = [], []
    for seed in range(RUNS):
        for prompt, options in REQUESTS.items():
            prompts.append(prompt)
            sampling.append({"seed": seed, "max_tokens": LENGTH, **options})
    done = engine.generate_batch(prompts, sampling)
    drafted = sum(d.stats.drafters["model"].drafted for d in done)
    accepted = sum(d.stats.drafters["model"].accepted for d in done)
    assert drafted >= len(done) * 0.9
    assert 0.2 < accepted / drafted < 0.9  # both ways of the rule are walked
    for i, options in enumerate(REQUESTS.values()):
        params = SamplingParams(eos=model.eos, **options)
        texts = Counter(d.tokens for d in done[i :: len(REQUESTS)])
        expected = expected_law(model, done[i].prompt, params)
        assert sum(expected.values()) == pytest.approx(1, abs=1e-5)
        assert set(texts) <= set(expected)
        assert fit(texts, expected) > 1e-3
        hotter = expected_law(model, done[i].prompt, params.replace(**HOTTER))
        assert fit(texts, hotter) < 1e-20  # the draft's law is refused
