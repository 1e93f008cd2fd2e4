"""A real model: SmolLM2 with suffix drafts, held against its own laws."""

from __future__ import annotations

import pytest

from forerun.certify import build
from forerun.certify.plan import Plan
from forerun.certify.run import certify

pytestmark = pytest.mark.model


def test_smollm2_with_suffix_drafts(smollm2_path):
    wanted = build.Wanted(
        engine="forerun", model=str(smollm2_path), drafter="suffix", verifier="rejection",
        threads=1, settings=["as it is", "top-p", "stop id in a block"],
    )  # fmt: skip
    plan = Plan(minutes=5, seed=6, tokens=150)  # ends by its tokens, on a slow machine too
    case = build.own(wanted)
    try:
        [run] = certify([case], plan)
    finally:
        case.engine.close()
    assert not run.fault
    assert run.bits.status == "same"
    assert set(run.tally.parts) == set(wanted.settings)
    assert all(part.test.tokens >= 150 for part in run.tally.parts.values())
    assert run.tally.whole.edges == 0  # the engine and the reference compute the same numbers
