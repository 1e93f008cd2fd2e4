"""Whole runs: a sound engine passes, faulty ones are found, and speculation is not blamed for what
plain decoding does as well."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from certify.cases import case_of
from certify.faulty import Sampler
from forerun.certify import build, check, report, tiny_cases
from forerun.certify.engines.own import OwnEngine
from forerun.certify.engines.python import PythonEngine
from forerun.certify.outcome import of_all, outcome
from forerun.certify.plan import Plan
from forerun.certify.reference import Reference
from forerun.certify.run import certify
from forerun.certify.tiny import random_pair
from forerun.drafters import ModelDrafter
from forerun.errors import PeerError
from forerun.models.tabular import TabularModel
from forerun.verifiers import VERIFIERS, RejectionVerifier

PLAN = Plan(minutes=1.0, tokens=3000, seed=11, level=1e-4)
ONE = ["as it is"]


def of_sampler(sampler, **more):
    return case_of(PythonEngine(sampler), sampler.target, sampler.draft, **more)


def run(case, plan=PLAN):
    [found] = certify([case], plan)
    return found, outcome(found, plan)


def test_a_sound_engine_is_lossless_within_a_bound():
    found, verdict = run(of_sampler(Sampler("lossless"), names=["as it is", "ragged lengths"]))
    assert verdict.word == "lossless within the bound"
    assert "excluded at 5e-05" in verdict.why
    assert "draft mixture" in verdict.why
    assert {each.ended for each in found.settings.values()} == {"as many tokens as asked for"}
    assert found.bits.status == "not tested"  # it has no temperature
    assert found.off is None


def test_a_faulty_engine_is_not_and_the_plain_one_is_asked_too():
    found, verdict = run(of_sampler(Sampler("lenience 0.8"), names=["as it is", "γ = 8"]))
    assert verdict.word == "not lossless"
    assert "with speculation off the same settings hold" in verdict.why
    assert verdict.blamed
    off = found.off.whole.test
    assert off.tokens >= 2 * min(found.tally.parts[n].test.tokens for n in verdict.blamed)
    assert not off.fault


@pytest.mark.parametrize("name", ["resample from p", "argmax draft scored as sampled"])
def test_faults_by_name(name):
    _, verdict = run(of_sampler(Sampler(name), names=ONE))
    assert verdict.word == "not lossless"


def test_a_reference_that_differs_decides_nothing():
    sampler = Sampler("lossless")
    other = random_pair(vocabulary=8, seed=5)  # what the engine really computes
    sampler.pair = other
    _, verdict = run(of_sampler(sampler, names=ONE))
    assert verdict.word == "undecided"
    assert "the reference differs" in verdict.why


def test_without_speculation_off_nothing_is_decided_unless_the_reference_is_trusted():
    sampler = Sampler("lenience 0.8")
    sampler.switches = False
    _, verdict = run(of_sampler(sampler, names=ONE))
    assert verdict.word == "undecided"
    assert "--trust-reference" in verdict.why
    _, verdict = run(
        of_sampler(sampler, names=ONE), dataclasses.replace(PLAN, trust_reference=True)
    )
    assert verdict.word == "not lossless"


def test_a_token_of_p_zero_is_a_failure_by_itself():
    law = [0.5, 0.5, 0.0]
    target = TabularModel(lambda prefix: law, 3)

    def sample(prompt_ids, n, sampling, seed):
        dice = np.random.default_rng(seed)
        found = dice.integers(2, size=(n, sampling["max_tokens"]))
        if sampling.get("num_draft") != 0 and seed % 3 == 0:
            found[0, 2] = 2
        return found.tolist()

    sample.controls, sample.switches = {"max_tokens"}, True
    found, verdict = run(case_of(PythonEngine(sample), target, names=ONE, samples=4))
    assert verdict.word == "not lossless"
    assert "token 2 at position 2 has probability 0" in verdict.why
    assert found.failing == ["as it is"]


def test_tokens_after_the_end_are_a_failure():
    target = TabularModel(lambda prefix: [0.4, 0.4, 0.2], 3, eos=2)

    def sample(prompt_ids, n, sampling, seed):
        dice = np.random.default_rng(seed)
        rows = dice.choice(3, p=[0.4, 0.4, 0.2], size=(n, sampling["max_tokens"])).tolist()
        if sampling.get("num_draft") == 0:
            rows = [row[: row.index(2) + 1] if 2 in row else row for row in rows]
        return rows

    sample.controls, sample.switches = {"max_tokens"}, True
    _, verdict = run(case_of(PythonEngine(sample), target, names=ONE, samples=8))
    assert verdict.word == "not lossless"
    assert "after the end token" in verdict.why


def test_an_engine_that_keeps_failing_decides_nothing_and_is_counted():
    def sample(prompt_ids, n, sampling, seed):
        raise RuntimeError("out of luck")

    sample.controls = {"max_tokens"}
    target = random_pair(vocabulary=8, seed=4).target()
    found, verdict = run(case_of(PythonEngine(sample), target, names=ONE))
    assert verdict.word == "undecided"
    assert "out of luck" in verdict.why
    assert found.settings["as it is"].failures == 3


def test_a_failure_in_mid_course_ends_the_case():
    """What fails may depend on what was drawn: nothing behind it counts."""
    sound, calls = Sampler("lossless"), itertools.count()

    def sample(prompt_ids, n, sampling, seed):
        if next(calls) >= 8:
            raise PeerError("gone")
        return sound(prompt_ids, n, sampling, seed)

    sample.controls = {"max_tokens"}
    found, _ = run(case_of(PythonEngine(sample), sound.target, samples=16))
    assert found.ended is not None
    assert "gone" in found.ended
    asked = [each.asked for each in found.settings.values()]
    assert sum(asked) <= 9


def test_a_run_is_repeated_by_its_seed_and_its_report_holds():
    sampler = Sampler("lossless")
    case = of_sampler(sampler, samples=32, names=["γ = 1", "ragged lengths"])
    plan = dataclasses.replace(PLAN, tokens=300)
    first = report.as_dict(certify([case], plan), plan)
    second = report.as_dict(certify([case], plan), plan)
    assert first["cases"][0]["records"] == second["cases"][0]["records"]
    assert first["cases"][0]["peak_log_e"] == second["cases"][0]["peak_log_e"]
    other = dataclasses.replace(plan, seed=12)
    assert (
        report.as_dict(certify([case], other), other)["cases"][0]["records"]
        != first["cases"][0]["records"]
    )
    seeds = [record["seed"] for record in first["cases"][0]["records"]]
    assert len(set(seeds)) == len(seeds)


def test_check_finds_what_was_altered():
    sampler = Sampler("lenience 0.8")
    case = of_sampler(sampler, samples=64, names=["γ = 1", "γ = 8"])
    plan = dataclasses.replace(PLAN, tokens=700, level=0.1)
    made = report.as_dict(certify([case], plan), plan)

    def references(models, last):
        return Reference(sampler.target), Reference(sampler.draft)

    assert check.mismatches(made, references) == []
    made["cases"][0]["records"][0]["samples"][0][0] ^= 1
    assert any("log_e" in line for line in check.mismatches(made, references))
    made["schema"] = 0
    with pytest.raises(ValueError, match="schema"):
        check.mismatches(made, references)


# ------------------------------------------------------------------ forerun itself


class Lenient(RejectionVerifier):
    """Accepts a little more than it may."""

    name = "lenient"

    def verify(self, proposal, p, draws):
        class Draws:
            def accept(self, probability, key):
                return draws.accept(min(1.0, probability * 2), key)

            def __getattr__(self, name):
                return getattr(draws, name)

        return super().verify(proposal, p, Draws())


def own(verifier, **more):
    pair = random_pair(vocabulary=8, seed=2, eos=7)
    engine = OwnEngine(
        pair.target(), ModelDrafter(pair.draft()), verifier=verifier, num_draft=4, costs=[1.0, 1.1]
    )
    return case_of(engine, pair.target(), pair.draft(), samples=8, eos=frozenset({7}), **more)


def test_a_lenient_verifier_in_the_real_loop_is_found(monkeypatch):
    monkeypatch.setitem(VERIFIERS, "lenient", Lenient)
    found, verdict = run(
        own("lenient", names=["γ = 8"]), dataclasses.replace(PLAN, tokens=3000, level=1e-2)
    )
    assert verdict.word == "not lossless"
    assert found.seeds.status == "not promised"


def test_the_real_loop_is_lossless_under_every_setting():
    found, verdict = run(own("coupled"), dataclasses.replace(PLAN, tokens=60))
    assert verdict.word == "lossless within the bound"
    assert len(found.settings) == 20
    assert all(part.test.tokens >= 60 for part in found.tally.parts.values())
    assert (found.bits.status, found.seeds.status) == ("same", "same")


def test_a_broken_promise_about_seeds():
    case = own("rejection", names=ONE)
    case.engine.traits = dataclasses.replace(case.engine.traits, seeds=True)
    found, verdict = run(case, dataclasses.replace(PLAN, tokens=1100))
    assert found.seeds.status == "broken"
    assert verdict.word == "not lossless"
    assert "promised and broken" in verdict.why


def test_it_stops_when_told_to_with_what_there_is():
    case = of_sampler(Sampler("lossless"), samples=128)
    looks = itertools.count()
    [found] = certify([case], PLAN, stop=lambda: next(looks) > 4)
    tokens = found.tally.whole.test.verdict().tokens
    assert 0 < tokens < 20_000
    assert outcome(found, PLAN).word in ("undecided", "lossless within the bound")


def test_of_all():
    words = [
        outcome_of(word) for word in ("lossless within the bound", "undecided", "not lossless")
    ]
    assert of_all(words[:1]) == "lossless within the bound"
    assert of_all(words[:2]) == "undecided"
    assert of_all(words) == "not lossless"
    assert of_all([]) == "undecided"


def outcome_of(word):
    from forerun.certify.outcome import Outcome

    return Outcome(word=word, why="")


def test_every_pair_of_drafter_and_verifier_has_a_tiny_case(tmp_path):
    cases = tiny_cases.tiny(build.Wanted(engine="forerun"), tmp_path)
    names = {case.name for case in cases}
    assert len(names) == len(cases)
    for judge in VERIFIERS:
        assert any(f", {judge})" in name for name in names)
