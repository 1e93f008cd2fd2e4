"""Keys, tenants, and pages of other origins."""

from __future__ import annotations

import hmac
import logging

import pytest

from forerun import Engine
from forerun.errors import OptionError
from forerun.server import Server, ServerConfig, security
from server.fakes import JSON, MODEL, lively_model

KEYS = ("first-key", "second-key")


def bearer(key: str, kind: str = "Bearer") -> dict[str, str]:
    return {**JSON, "authorization": f"{kind} {key}"}


def test_who_may_ask(serve):
    server = serve(Engine(lively_model(), None), api_keys=KEYS)
    body = {"prompt": "hello", "max_tokens": 2}
    for key in KEYS:
        assert server.ask("/v1/completions", body, headers=bearer(key)).status == 200
        assert server.ask("/v1/completions", body, headers=bearer(key, "bearer")).status == 200
    for headers in (JSON, bearer("third"), bearer(""), bearer("first-key", "Basic"),
                    bearer("first-key second-key"), bearer("first-keyy"), bearer("é")):  # fmt: skip
        found = server.ask("/v1/completions", body, headers=headers)
        assert found.status == 401
        assert found.error["code"] == "invalid_api_key"
        assert found.headers["www-authenticate"] == "Bearer"
        assert not any(key in found.body.decode() for key in KEYS)
    for path in ("/v1/models", "/metrics", "/openapi.json", "/nothing"):
        assert server.ask(path).status == 401
    assert server.ask("/health").status == 200


def test_a_body_is_not_read_before_the_key(serve):
    server = serve(Engine(lively_model(), None), api_keys=KEYS, max_body=10)
    assert server.complete("a" * 1000).status == 401


def test_every_key_is_compared(monkeypatch):
    """No early exit: how long it takes does not tell which key, or how much of one, was right."""
    compared = []

    def spy(a, b):
        compared.append(len(a) == len(b))
        return hmac.compare_digest(a, b)

    monkeypatch.setattr(security.hmac, "compare_digest", spy, raising=True)
    keys = security.Keys(None, [f"key-{i}" for i in range(5)])
    monkeypatch.undo()
    monkeypatch.setattr(security, "hmac", type("Spy", (), {"compare_digest": staticmethod(spy)}))
    tenants = {keys.tenant(f"Bearer key-{i}") for i in range(5)}
    assert len(tenants) == 5
    assert keys.tenant("Bearer key-9") is None
    assert compared == [True] * 30


@pytest.mark.parametrize("shared", [False, True])
def test_what_was_read_for_one_key_is_not_known_to_another(serve, shared):
    engine = Engine(lively_model(), None, prefix_memory=1 << 20, share_prefixes=shared)
    server = serve(engine, api_keys=KEYS)
    body = {"prompt": "hello " * 40, "max_tokens": 2}

    def cached(key):
        usage = server.ask("/v1/completions", body, headers=bearer(key)).json["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]

    assert cached(KEYS[0])[0] == 0
    assert (cached(KEYS[1])[0] > 0) == shared
    again, whole = cached(KEYS[0])
    assert again == whole - 1


def test_keys_are_not_logged(serve, caplog):
    server = serve(Engine(lively_model(), None), api_keys=KEYS)
    with caplog.at_level(logging.DEBUG):
        server.ask("/v1/completions", {"prompt": "secret words"}, headers=bearer(KEYS[0]))
    said = " ".join(f"{r.getMessage()} {getattr(r, 'fields', '')}" for r in caplog.records)
    assert KEYS[0] not in said
    assert "secret words" not in said


def test_other_origins(serve):
    server = serve(
        Engine(lively_model(), None), api_keys=KEYS, cors_origins=("https://good.example",)
    )
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-a"}
    good = server.ask("/v1/completions", method="OPTIONS",
                      headers={"origin": "https://good.example", **asks})  # fmt: skip
    assert good.status == 200
    assert good.headers["access-control-allow-origin"] == "https://good.example"
    bad = server.ask("/v1/completions", method="OPTIONS",
                     headers={"origin": "https://bad.example", **asks})  # fmt: skip
    assert "access-control-allow-origin" not in bad.headers
    refused = server.ask("/v1/models", headers={"origin": "https://good.example"})
    assert refused.status == 401
    assert refused.headers["access-control-allow-origin"] == "https://good.example"


def test_no_origin_is_let_in_unasked(lively):
    found = lively.ask("/v1/models", headers={"origin": "https://any.example"})
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize(
    "config",
    [
        {"models": ()}, {"models": ("",)}, {"api_keys": ("",)}, {"api_keys": ("a b",)},
        {"api_keys": ("ä",)}, {"cors_origins": ("example.org",)}, {"max_body": 0},
        {"timeout": 0}, {"timeout": float("inf")}, {"pacing": -1}, {"max_choices": 0},
        {"max_bodies": 0}, {"max_tokenize": 0},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(config):
    with pytest.raises(OptionError):
        ServerConfig(**{"models": (MODEL,), **config})


def test_metrics_have_keys_of_their_own(serve):
    """What they count moves with each round of everybody's."""
    closed = serve(Engine(lively_model(), None), api_keys=KEYS)
    assert closed.ask("/metrics", headers=bearer(KEYS[0])).status == 401
    server = serve(Engine(lively_model(), None), api_keys=KEYS, metrics_keys=("watcher",))
    assert server.ask("/metrics", headers=bearer("watcher")).status == 200
    assert server.ask("/metrics", headers=bearer(KEYS[0])).status == 401
    assert server.ask("/v1/models", headers=bearer("watcher")).status == 401
    alone = serve(Engine(lively_model(), None), metrics_keys=("watcher",))
    assert alone.ask("/metrics").status == 401
    assert alone.ask("/v1/models").status == 200


def test_pages_that_lead_their_name_to_this_machine(serve, lively):
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        found = lively.ask("/v1/models", headers={"host": host})
        assert found.status == 400
        assert found.headers["x-request-id"]
    for host in ("localhost:8000", "LOCALHOST", "127.0.0.1", "[::1]:5", "[::1]"):
        assert lively.ask("/v1/models", headers={"host": host}).status == 200
    named = serve(Engine(lively_model(), None), hosts=("box.example",))
    assert named.ask("/v1/models", headers={"host": "box.example:80"}).status == 200
    assert named.ask("/v1/models").status == 400


def test_an_open_server_says_so(caplog):
    for host, keys, said in (
        ("0.0.0.0", (), True),
        ("0.0.0.0", KEYS, False),
        ("127.0.0.1", (), False),
    ):
        caplog.clear()
        engine = Engine(lively_model(), None)
        server = Server(engine, ServerConfig(models=(MODEL,), api_keys=keys), host=host, port=0)
        server.socket.close()
        engine.close()
        assert any(record.message == "open_to_all" for record in caplog.records) == said
