"""The page at /: to everybody, with headers that keep it to its own origin."""

from __future__ import annotations

import gzip
import re
from contextlib import contextmanager

import pytest

from forerun import Engine
from forerun.server import page
from server.fakes import JSON, WIDE, Serving, lively_model, serving

KEY = "some-key"
HTML = '<!doctype html>\n<html lang="en" data-server="none"><title>playground</title>' + "." * 2000


@pytest.fixture
def site(tmp_path, monkeypatch):
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(HTML)
    (tmp_path / "assets/page-1a2b.js").write_text("let a = 1\n" * 300)
    (tmp_path / "assets/serif-3c4d.woff2").write_bytes(b"wOF2")
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings/one.json").write_text("{}")
    monkeypatch.setattr(page.files, "__defaults__", (tmp_path,))
    return tmp_path


@contextmanager
def alone(**config):
    """A server without an engine."""
    found = Serving(None, **config)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def test_the_page_and_its_files(site, serve):
    server = serve(Engine(lively_model(), None))
    found = server.ask("/")
    assert found.status == 200
    assert found.body.decode() == HTML.replace('data-server="none"', 'data-server="open"')
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.headers["cache-control"] == "no-cache"
    script = server.ask("/assets/page-1a2b.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    assert server.ask("/assets/serif-3c4d.woff2").headers["content-type"] == "font/woff2"
    assert server.ask("/recordings/one.json").headers["content-type"] == "application/json"
    for answer in (found, script):
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'self'"
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in "".join(policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"


def test_files_are_packed_and_not_sent_twice(site, serve):
    server = serve(Engine(lively_model(), None))
    plain = server.ask("/")
    packed = server.ask("/", headers={"accept-encoding": "br, gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert len(packed.body) < len(plain.body) / 4
    assert gzip.decompress(packed.body) == plain.body
    again = server.ask("/", headers={"if-none-match": plain.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert server.ask("/", headers={"if-none-match": '"other"'}).status == 200
    head = server.ask("/", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(plain.body))


def test_nothing_else_of_the_disk(site, serve):
    (site.parent / "secret.txt").write_text("secret")
    server = serve(Engine(lively_model(), None))
    for path in ("/../secret.txt", "/assets/../../secret.txt", "/%2e%2e/secret.txt", "/assets/",
                 "/index.html", "//etc/passwd", "/assets/page-1a2b.js/"):  # fmt: skip
        assert server.ask(path).status in (404, 307), path
        assert server.ask(path).body != b"secret"
    assert server.ask("/", {"some": "body"}).status == 405


def test_the_page_needs_no_key_and_says_that_the_api_does(site, serve):
    server = serve(Engine(lively_model(), None), api_keys=(KEY,))
    assert b'data-server="key"' in server.ask("/").body
    assert server.ask("/assets/page-1a2b.js").status == 200
    assert KEY.encode() not in server.ask("/").body
    for path in ("/v1/forerun/setup", "/v1/models", "/assets/other.js"):
        assert server.ask(path).status == 401, path
    bearer = {**JSON, "authorization": f"Bearer {KEY}"}
    assert server.ask("/v1/forerun/setup", headers=bearer).status == 200


def test_another_name_is_refused(site, serve):
    server = serve(Engine(lively_model(), None))
    assert server.ask("/", headers={"host": "evil.example"}).status == 400


def test_without_an_engine(site):
    with alone() as server:
        assert b'data-server="none"' in server.ask("/").body
        assert server.ask("/recordings/one.json").status == 200
        assert server.ask("/health").json == {"status": "ok"}
        for path in ("/v1/forerun/setup", "/v1/models", "/metrics", "/openapi.json"):
            found = server.ask(path)
            assert (found.status, found.error["code"]) == (404, None), path
        assert server.complete().status == 404


def test_a_checkout_without_the_page_says_what_to_run(tmp_path, monkeypatch, serve):
    monkeypatch.setattr(page.files, "__defaults__", (tmp_path / "nothing",))
    server = serve(Engine(lively_model(), None), api_keys=(KEY,))
    found = server.ask("/")
    assert found.status == 404
    assert found.headers["content-type"].startswith("text/html")
    assert re.findall("<code>(.*?)</code>", found.body.decode()) == ["make page"] * 2
    assert found.headers["cache-control"] == "no-store"
    assert server.ask("/health").status == 200


def test_what_the_server_is_set_up_with(serve):
    model = lively_model()
    engine = Engine(model, "ngram", costs=[0.25, 0.5], num_draft=3)
    with serving(engine) as server:
        before = server.ask("/v1/forerun/setup")
        assert before.status == 200
        found = before.json
        assert (found["model"], found["chat"], found["vocab_size"]) == ("tiny", True, WIDE)
        assert found["drafters"] == ["ngram"]
        assert (found["verifier"], found["num_draft"]) == ("auto", 3)
        assert found["costs"] == {
            "target_seconds": [0.25, 0.5],
            "draft_seconds": {},
            "first_draft_seconds": {},
        }
        for _ in range(3):
            server.complete("ab ab ab", max_tokens=30)
        assert server.ask("/v1/forerun/setup").body == before.body  # whoever asked meanwhile


def test_costs_that_nobody_measured_are_not_measured_now(lively):
    assert lively.ask("/v1/forerun/setup").json["costs"] is None
