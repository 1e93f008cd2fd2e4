"""An endpoint as its own reference: a server of this file, of every kind that there is."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from forerun.certify import build, check, report
from forerun.certify.endpoint_case import endpoint_case
from forerun.certify.endpoint_reference import EndpointReference
from forerun.certify.engines.base import Told
from forerun.certify.engines.endpoint_laws import decimals, laws
from forerun.certify.outcome import outcome
from forerun.certify.plan import Plan
from forerun.certify.references import references
from forerun.certify.run import certify
from forerun.certify.tiny import random_pair
from forerun.errors import CapabilityError, OptionError, PeerError

V, END = 32, 31
PAIR = random_pair(vocabulary=V, seed=6, eos=END)


class Server:
    """Plain sampling from a table. `kind`: what its logprobs are of; `fault`: what it does."""

    def __init__(self):
        self.kind, self.fault, self.digits, self.names = "raw", None, None, "token_id:{}"
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args): ...

            def do_GET(self):
                self.answer(200, {"data": [{"id": "m", "owned_by": "vllm"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path == "/tokenize":
                    return self.answer(200, {"tokens": [b % 31 for b in body["prompt"].encode()]})
                if body["logprobs"] > 20:
                    return self.answer(400, {"error": "at most 20 logprobs"})
                return self.answer(200, {"choices": [server.choice(body)]})

            def answer(self, code, value):
                data = json.dumps(value).encode()
                self.send_response(code)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def choice(self, body):
        rng, prefix = np.random.default_rng(body["seed"]), list(body["prompt"])
        tokens, tops, own, reason = [], [], [], "length"
        for _ in range(body["max_tokens"]):
            raw = PAIR.p[PAIR.row(prefix)]
            p = self.processed(raw, body)
            drawn = p if self.fault is None else self.processed(raw**0.3, body)
            x = int(rng.choice(V, p=drawn / drawn.sum()))
            if self.fault == "outside" and rng.random() < 0.02:
                x = int(raw.argmin())
            shown = {"raw": raw, "processed": p, "other": raw ** body["temperature"] ** -2.0}[
                self.kind
            ]
            with np.errstate(divide="ignore"):
                l = np.maximum(np.log(shown), -9999.0)
            l = l if self.digits is None else np.round(l, self.digits)
            best = np.argsort(-l, kind="stable")[: body["logprobs"]]
            tops.append({self.names.format(i): float(l[i]) for i in best})
            tokens.append(x)
            own.append(float(l[x]))
            prefix.append(x)
            if x == END:
                reason = "stop"
                break
        logprobs = {"tokens": [self.names.format(i) for i in tokens], "token_logprobs": own}
        return {"text": "", "finish_reason": reason, "token_ids": tokens,
                "logprobs": logprobs | {"top_logprobs": tops}}  # fmt: skip

    def processed(self, raw, body):
        p = raw ** (1 / max(body["temperature"], 1e-3))
        k = body.get("top_k") or V
        p = np.where(p >= np.sort(p)[-k], p, 0)
        return p / p.sum()

    def close(self):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


PLAN = Plan(minutes=1.0, tokens=1000, seed=4)


def case_of(server, *settings, **options):
    given = {"controls": ["temperature", "top_k", "max_tokens"], "top_logprobs": 12, **options}
    return endpoint_case(
        build.Wanted(engine=server.url, reference="endpoint", options=given,
                     settings=settings or ("as it is",))
    )  # fmt: skip


def verdict(case):
    try:
        [run] = certify([case], PLAN)
    finally:
        case.engine.close()
    return run, outcome(run, PLAN)


@pytest.mark.parametrize("kind", ["raw", "processed"])
def test_a_sound_endpoint_by_its_own_word(server, kind):
    server.kind = kind
    case = case_of(server, "temperature 1.5")
    assert case.models["how"] == kind
    assert all(each.sampling["top_k"] == 6 for each in case.settings)
    run, found = verdict(case)
    assert found.word == "lossless within the bound"
    said = run.tally.whole.test.verdict()
    assert said.tokens >= 1000
    assert said.given == pytest.approx(2e-5 * said.tokens)
    assert "the reference's rounding is paid for: e-values are divided by 1" in said.sentence
    made = json.loads(json.dumps(report.as_dict([run], PLAN)))
    assert check.mismatches(made, references) == []
    for law in made["cases"][0]["records"][0]["told"][0]["laws"]:
        law[0][1], law[1][1] = law[1][1], law[0][1]
    assert check.mismatches(made, references) != []


@pytest.mark.parametrize("kind", ["raw", "processed"])
def test_a_faulty_one_is_found(server, kind):
    server.kind, server.fault = kind, "hotter"
    run, found = verdict(case_of(server))
    assert run.fault
    assert found.word == "undecided"  # it cannot turn speculation off
    assert "give a way to turn it off" in found.why.lower()


@pytest.mark.parametrize("kind", ["raw", "processed"])
def test_a_token_beyond_the_cut_is_a_fault(server, kind):
    server.kind, server.fault = kind, "outside"
    run, _ = verdict(case_of(server))
    assert run.tally.whole.broken[0].why.endswith("has probability 0 there")


@pytest.mark.parametrize(("kind", "why"), [
    ("raw", "lists 12 tokens of a place, 0.88.* top_k is 13: they do not cover what may come"),
    ("processed", "12 logprobs of a place sum to 0.88.*: they do not cover what may come"),
])  # fmt: skip
def test_laws_that_do_not_cover_are_refused(kind, why):
    law = dict(enumerate(np.log(np.sort(PAIR.p[0])[::-1][:12])))
    reference = EndpointReference(None, kind=kind, count=12)
    sampling = {"max_tokens": 1, "top_k": 13}
    with pytest.raises(CapabilityError, match=why):
        next(reference.places((1,), [(3,)], sampling, told=[Told(laws=(law,))]))


def test_a_cut_that_rounding_may_decide_is_left_out():
    law = {3: -1.0, 4: -2.0, 5: -2.00001, 6: -3.0}
    for top_k, loose in ((1, False), (2, True), (3, False)):
        reference = EndpointReference(None, kind="raw", count=4)
        [[place]] = reference.places(
            (1,), [(3,)], {"max_tokens": 1, "top_k": top_k}, told=[Told(laws=(law,))]
        )
        assert place.edge == loose


def test_endpoints_that_cannot_be_their_own_reference(server):
    with pytest.raises(OptionError, match="takes no top_k"):
        case_of(server, controls=["temperature", "max_tokens"])
    with pytest.raises(CapabilityError, match=r"at most 20 logprobs"):
        case_of(server, top_logprobs=50)
    server.kind = "other"
    with pytest.raises(CapabilityError, match="neither temperature 1 nor the one asked for"):
        case_of(server)
    server.kind, server.names = "raw", "w{}"
    with pytest.raises(CapabilityError, match="by text, and several may read alike"):
        case_of(server)
    with pytest.raises(OptionError, match="--reference endpoint is for an address"):
        endpoint_case(build.Wanted(engine="forerun", reference="endpoint"))


def test_few_digits_must_be_said_and_are_paid_for(server):
    server.digits = 3
    with pytest.raises(CapabilityError, match=r"3 decimals: say .*rounding=0.0005"):
        case_of(server)
    run, found = verdict(case_of(server, rounding=5e-4))
    assert found.word == "lossless within the bound"
    said = run.tally.whole.test.verdict()
    assert said.given == pytest.approx(1e-3 * said.tokens)


def test_decimals():
    assert decimals([{1: -0.5, 2: -1.25}]) == 2
    assert decimals([{1: -0.123456789012345}]) == 12


def test_laws_of_llama_cpp():
    content = [{"id": 3, "token": "a", "logprob": -0.1,
                "top_logprobs": [{"id": 3, "logprob": -0.1},
                                 {"id": 4, "logprob": -9999.0}]}]  # fmt: skip
    assert laws({"logprobs": {"content": content}}, "it") == [{3: -0.1}]
    with pytest.raises(CapabilityError, match="gives no top_logprobs"):
        laws({"logprobs": None}, "it")


def test_nobody_there():
    with pytest.raises(PeerError, match="refused"):
        endpoint_case(build.Wanted(engine="http://127.0.0.1:9/v1", reference="endpoint"))
