"""forerun as an engine under test: what its traces tell of each token."""

from __future__ import annotations

import json

import numpy as np

from certify.cases import case_of
from forerun.certify import check, report
from forerun.certify.engines.own import OwnEngine, told
from forerun.certify.plan import Plan
from forerun.certify.reference import Reference
from forerun.certify.run import certify
from forerun.certify.tiny import random_pair
from forerun.drafters import LikeliestTreeDrafter, ModelDrafter, SuffixDrafter
from forerun.trace import Drafted, Round, Times
from forerun.verifiers import VERIFIERS, RejectionVerifier

PROMPT = (1, 2, 3, 4, 1, 2, 3)
PAIR = random_pair(vocabulary=8, seed=2, eos=7)


def engine_of(drafter, verifier="rejection"):
    return OwnEngine(PAIR.target(), drafter, verifier=verifier, num_draft=3, costs=[1.0, 1.1])


def draft(token, parent, q):
    return Drafted(token=token, parent=parent, p=0.5, q=q, accepted=False)


def record(drafted, tokens):
    return Round(
        request=0, index=0, position=0, verifier="rejection", drafted=drafted, tokens=tokens,
        kinds=("accepted",) * (len(tokens) - 1) + ("bonus",),
        times=Times(draft=0, target=0, verify=0),
    )  # fmt: skip


def test_depths_and_guesses_of_a_trace():
    lookup = record((draft(5, -1, 1.0), draft(6, 0, 1.0)), (5, 6, 2))
    sampled = record((draft(5, -1, 0.4), draft(6, 0, 1.0)), (5, 3))
    tree = record((draft(5, -1, 1.0), draft(6, -1, 1.0)), (6, 1))
    found = told([lookup, sampled, tree, record((), (4,))])
    assert found.depths == (0, 1, 2, 0, 1, 0, 1, 0)
    assert found.guesses == (5, 6, -1, -1, 6, -1, -1, -1)


def test_what_is_told_fits_the_samples():
    made = {"suffix": SuffixDrafter(), "model": ModelDrafter(PAIR.draft()),
            "tree": LikeliestTreeDrafter(PAIR.draft())}  # fmt: skip
    guessed = {}
    for name, drafter in made.items():
        verifier = "recursive" if name == "tree" else "rejection"
        for tokens, said in engine_of(drafter, verifier).tell(PROMPT, 6, {"max_tokens": 12}, 5):
            assert len(said.depths) == len(said.guesses) == len(tokens)
            assert said.depths[0] == 0
            steps = np.diff(said.depths)
            assert ((steps == 1) | (np.array(said.depths[1:]) == 0)).all()
            guessed[name] = guessed.get(name, 0) + sum(guess >= 0 for guess in said.guesses)
    assert guessed["suffix"] > 0
    assert guessed["model"] == 0


class Lenient(RejectionVerifier):
    name = "lenient"

    def verify(self, proposal, p, draws):
        class Draws:
            def accept(self, probability, key):
                return draws.accept(min(1.0, probability * 1.5), key)

            def __getattr__(self, name):
                return getattr(draws, name)

        return super().verify(proposal, p, Draws())


PLAN = Plan(minutes=1.0, level=1e-4, seed=5, tokens=3000)


def run(verifier):
    case = case_of(engine_of(SuffixDrafter(), verifier), PAIR.target(), samples=8,
                   names=["as it is"], prompts=[PROMPT], eos=frozenset({7}))  # fmt: skip
    return certify([case], PLAN)


def test_faults_of_lookups_are_named_by_what_the_trace_tells(monkeypatch):
    monkeypatch.setitem(VERIFIERS, "lenient", Lenient)
    [faulty] = run("lenient")
    assert faulty.fault
    verdict = faulty.tally.parts["as it is"].test.verdict()
    found = {each.name: each.log_e for each in verdict.alternatives}
    assert found["draft mixture"] > 9  # e^9 is above 1/level: this bet alone would do
    assert found["lenience 0.95"] > 9


def test_a_sound_run_and_its_report_from_what_was_told():
    runs = run("rejection")
    assert not runs[0].fault
    made = json.loads(json.dumps(report.as_dict(runs, PLAN)))
    assert made["cases"][0]["records"][0]["told"][0]["depths"][0] == 0
    [at] = made["cases"][0]["diagnostics"]
    assert at["tokens"] == 1000
    assert min(at["chi_square_p"], at["anderson_darling_p"]) > 1e-6
    assert check.mismatches(made, lambda models, last: (Reference(PAIR.target()), None)) == []
    made["cases"][0]["records"][0]["told"][0]["depths"][0] = 3
    assert check.mismatches(made, lambda models, last: (Reference(PAIR.target()), None)) != []
