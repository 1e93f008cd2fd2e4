"""The server as `forerun certify` sees it: an endpoint like any other."""

from __future__ import annotations

from certify.cases import case_of
from forerun.certify import build
from forerun.certify.endpoint_case import endpoint_case
from forerun.certify.engines.endpoint import EndpointEngine
from forerun.certify.outcome import outcome
from forerun.certify.plan import Plan
from forerun.certify.run import certify
from server.fakes import MODEL, lively_model


def test_the_servers_texts_follow_the_models_law(lively):
    target = lively_model()
    engine = EndpointEngine(f"{lively.url}/v1", MODEL, end_ids=target.eos)
    prompts = [(104, 105, 106), (107, 104, 107, 104)]
    plan = Plan(minutes=1.0, tokens=300, seed=8)
    names = ["as it is", "γ = 8", "top-p", "min-tokens", "in company"]
    case = case_of(engine, target, samples=8, names=names, prompts=prompts)
    try:
        [run] = certify([case], plan)
    finally:
        engine.close()
    assert outcome(run, plan).word == "lossless within the bound"
    assert set(run.settings) == set(names)
    assert (run.bits.status, run.seeds.status) == ("same", "same")


def test_forerun_serve_by_its_own_logprobs(lively):
    plan = Plan(minutes=1.0, tokens=400, seed=4)
    wanted = build.Wanted(
        engine=f"{lively.url}/v1", model=MODEL, reference="endpoint",
        options={"top_logprobs": 6}, settings=("as it is", "γ = 8", "temperature 1.5"),
    )  # fmt: skip
    case = endpoint_case(wanted)
    assert case.models["how"] == "raw"
    try:
        [run] = certify([case], plan)
    finally:
        case.engine.close()
    assert outcome(run, plan).word == "lossless within the bound"
    assert (run.bits.status, run.seeds.status) == ("same", "same")
