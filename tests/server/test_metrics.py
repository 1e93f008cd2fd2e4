"""What Prometheus is told agrees with the rounds."""

from __future__ import annotations

import itertools
import time

from prometheus_client.parser import text_string_to_metric_families

from engine.fakes import END, TOKENS
from forerun import Engine
from forerun.drafters import NgramDrafter
from server.fakes import lively_model, until, writer


def samples(server) -> dict[tuple[str, tuple], float]:
    found = server.ask("/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(found.body.decode())
        for sample in family.samples
    }


def test_counters_of_speculation(serve):
    server = serve(Engine(lively_model(), NgramDrafter(), num_draft=3))
    found = [server.complete("ab ab ab", seed=i, max_tokens=30, trace=True).json for i in range(4)]
    rounds = [r for one in found for r in one["choices"][0]["trace"]]
    drafted = [r for r in rounds if r["drafted"]]
    accepted = [sum(d["accepted"] for d in r["drafted"]) for r in drafted]
    said = samples(server)
    prefix = "forerun_spec_decode_num"
    assert said[f"{prefix}_drafts_total", ()] == len(drafted) > 0
    assert said[f"{prefix}_draft_tokens_total", ()] == sum(len(r["drafted"]) for r in drafted)
    assert said[f"{prefix}_accepted_tokens_total", ()] == sum(accepted) > 0
    for position in range(3):
        expected = sum(count > position for count in accepted)
        key = (f"{prefix}_accepted_tokens_per_pos_total", (("position", str(position)),))
        assert said.get(key, 0) == expected
    tokens = sum(one["usage"]["completion_tokens"] for one in found)
    assert said["forerun_generation_tokens_total", ()] == tokens
    assert said["forerun_prompt_tokens_total", ()] == sum(
        one["usage"]["prompt_tokens"] for one in found
    )
    assert said["forerun_time_to_first_token_seconds_count", ()] == 4
    assert said["forerun_inter_token_latency_seconds_count", ()] == tokens - sum(
        len(one["choices"][0]["trace"][0]["tokens"]) for one in found
    )
    assert said["forerun_queue_time_seconds_count", ()] == 4
    assert said["forerun_num_requests_running", ()] == 0
    assert said["forerun_num_requests_waiting", ()] == 0
    ended = {k: v for k, v in said.items() if k[0] == "forerun_requests_finished_total"}
    assert sum(ended.values()) == 4


def test_answers_are_counted_by_path_and_status(serve):
    server = serve(Engine(lively_model(), None))
    server.ask("/nothing/at/all")
    server.ask("/secret")
    server.complete(5)
    server.complete(max_tokens=1)

    def counted():
        said = samples(server)
        return {k[1]: v for k, v in said.items() if k[0] == "forerun_http_requests_total"}

    found = until(lambda: len(counted()) >= 4 and counted())
    assert found[("path", "other"), ("status", "404")] == 2  # no path of a client's making
    assert found[("path", "/v1/completions"), ("status", "400")] == 1
    assert found[("path", "/v1/completions"), ("status", "200")] == 1


def test_each_app_counts_for_itself(serve):
    servers = [serve(Engine(lively_model(), None)) for _ in range(2)]
    servers[0].complete(max_tokens=1)
    counts = [samples(server)["forerun_generation_tokens_total", ()] for server in servers]
    assert counts == [1, 0]


CANCELLED = ("forerun_requests_finished_total", (("finish_reason", "cancelled"),))


def test_who_leaves_is_counted(serve):
    """With all that was read and written for it, and its time in the queue."""
    engine = Engine(lively_model(0.01), NgramDrafter(), num_draft=3, max_batch=1)
    server = serve(engine)
    body = {"prompt": "a", "max_tokens": 3000, "stream": True, "logit_bias": {str(END): -1000}}
    sock = server.opened("/v1/completions", body)
    until(lambda: engine.status().running)
    behind = server.opened("/v1/completions", body)  # never has a slot
    until(lambda: engine.status().waiting)
    behind.close()
    until(lambda: samples(server).get(CANCELLED) == 1)
    assert sock.recv(10)
    sock.close()
    until(lambda: samples(server).get(CANCELLED) == 2)
    said = samples(server)
    assert said["forerun_prompt_tokens_total", ()] == len(TOKENS.encode("a"))
    assert said["forerun_generation_tokens_total", ()] > 1
    assert said["forerun_time_to_first_token_seconds_count", ()] == 1
    assert said["forerun_queue_time_seconds_count", ()] == 1
    assert said["forerun_e2e_request_latency_seconds_count", ()] == 0  # it was not whole


def test_a_prompt_of_several_choices_counts_once(serve):
    server = serve(Engine(lively_model(), None))
    found = server.complete(["hello", "ab"], n=3, max_tokens=2).json
    said = samples(server)
    assert said["forerun_prompt_tokens_total", ()] == found["usage"]["prompt_tokens"]
    assert said["forerun_queue_time_seconds_count", ()] == 6


def test_times_are_the_engines(serve):
    """Not those at which a busy loop, or a slow reader, takes what was written."""
    clock = itertools.count(time.monotonic() + 1000, 1000)
    engine = Engine(writer("abcdef", 1), None)
    engine._scheduler.clock = lambda: float(next(clock))
    server = serve(engine, timeout=1e9)
    assert server.complete([4], max_tokens=4).status == 200
    said = samples(server)
    assert said["forerun_time_to_first_token_seconds_sum", ()] > 1000
    assert said["forerun_inter_token_latency_seconds_sum", ()] >= 3000
    assert said["forerun_queue_time_seconds_sum", ()] >= 1000
    assert said["forerun_e2e_request_latency_seconds_sum", ()] > 5000
