"""What the OpenAPI schema says is what holds: fuzzed, no 5xx, no undocumented status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import schemathesis

from forerun import Engine
from forerun.drafters import NgramDrafter
from server.fakes import Serving, lively_model

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "response_headers_conformance",
)  # fmt: skip


def fuzz(folder: Path, seconds: int, **config) -> None:
    model = lively_model()
    model.context = 300
    server = Serving(Engine(model, NgramDrafter(), num_draft=3), timeout=20, **config)
    server.start()
    try:
        command = [
            sys.executable, "-c", "from schemathesis.cli import schemathesis as s; s()", "run",
            f"{server.url}/openapi.json", "--checks", ",".join(CHECKS), "--max-time", str(seconds),
            "--suppress-health-check", "all", "--no-color", "--continue-on-failure",
            "--max-examples", str(20 * seconds), "--request-timeout", "30",
            "--generation-database", "none", "--generation-codec", "utf-8",
            "--header", "Authorization: Bearer right",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds + 250, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said[-6000:]
        print("\n".join(said.splitlines()[-12:]))
        server.idle()
    finally:
        server.stop()


@pytest.mark.parametrize("keys", [(), ("right",)])
def test_fuzzed_for_some_seconds(tmp_path, keys):
    fuzz(tmp_path, 10, api_keys=keys)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_fuzzed_for_five_minutes(tmp_path):
    fuzz(tmp_path, 300)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_are_as_documented(lively, stream):
    """Streams, too, which random bodies rarely ask for."""
    schema = schemathesis.openapi.from_url(f"{lively.url}/openapi.json")
    bodies = {
        "/v1/completions": {"prompt": "hello"},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    }
    for path, body in bodies.items():
        body |= {"stream": stream, "max_tokens": 4}
        case = schema[path]["POST"].Case(body=body, media_type="application/json")
        assert case.call_and_validate().status_code == 200


def test_what_is_documented(lively):
    schema = lively.ask("/openapi.json").json
    paths = schema["paths"]
    assert sorted(paths) == [
        "/detokenize", "/health", "/metrics", "/tokenize", "/tokenizer_info",
        "/v1/chat/completions", "/v1/completions", "/v1/forerun/setup", "/v1/models",
        "/v1/models/{model}",
    ]  # fmt: skip
    for operations in paths.values():
        for operation in operations.values():
            assert "422" not in operation["responses"]
            for status, response in operation["responses"].items():
                content = response.get("content", {})
                if int(status) >= 400 and operation["operationId"] != "health_health_get":
                    reference = content["application/json"]["schema"]["$ref"]
                    assert reference == "#/components/schemas/ErrorBody"
    assert "HTTPValidationError" not in json.dumps(schema)
    for path in ("/v1/completions", "/v1/chat/completions"):
        responses = paths[path]["post"]["responses"]
        assert sorted(responses) == [
            "200", "400", "401", "404", "405", "408", "413", "429", "500", "503",
        ]  # fmt: skip
        assert sorted(responses["200"]["content"]) == ["application/json", "text/event-stream"]
    fields = schema["components"]["schemas"]["ChatRequest"]["properties"]
    for field in (
        "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n",
        "stop", "seed", "stream", "stream_options", "logprobs", "top_logprobs", "presence_penalty",
        "frequency_penalty", "logit_bias", "response_format", "prediction", "top_k", "min_p",
        "repetition_penalty", "drafter", "num_draft", "speculative", "trace", "verifier",
    ):  # fmt: skip
        assert field in fields
