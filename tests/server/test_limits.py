"""Bodies and answers of bounded size and time."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
from urllib.parse import urlsplit

from engine.fakes import END
from forerun import Engine
from server.fakes import lively_model, until, writer


def test_a_body_over_the_limit(serve):
    server = serve(Engine(lively_model(), None), max_body=1000)
    assert server.complete("a" * 900, max_tokens=1).status == 200
    found = server.complete("a" * 1000, max_tokens=1)
    assert found.status == 413
    assert found.error["code"] == "body_too_large"
    assert "1000" in found.error["message"]


def test_a_body_whose_length_is_not_told(serve):
    """In chunks: it is not read beyond the limit."""
    server = serve(Engine(lively_model(), None), max_body=1000)
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as sock:
        sock.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for _ in range(4):
            sock.sendall(b"190\r\n" + b" " * 400 + b"\r\n")
        found = http.client.HTTPResponse(sock)
        found.begin()
        assert found.status == 413
        assert json.loads(found.read())["error"]["code"] == "body_too_large"


def test_a_body_that_does_not_come(serve):
    server = serve(Engine(lively_model(), None), body_timeout=0.2)
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as sock:
        sock.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 100\r\n"
            b"content-type: application/json\r\n\r\n{"
        )
        found = http.client.HTTPResponse(sock)
        found.begin()
        assert found.status == 408
        assert json.loads(found.read())["error"]["type"] == "timeout_error"


def _trickles(sock, first=b""):
    """Sends a header every now and then until the other side closes; what it answered."""
    sock.sendall(first + b"GET /health HTTP/1.1\r\nhost: [::1]\r\n")
    sock.settimeout(0.05)
    end, answer = time.monotonic() + 20, b""
    while time.monotonic() < end:
        try:
            sock.sendall(b"x-more: 1\r\n")
            if (data := sock.recv(1 << 16)) == b"":
                return answer
            answer += data
        except TimeoutError:
            continue
        except OSError:
            return answer
    raise AssertionError("it is still listened to")


def test_headers_that_trickle_in(serve, caplog):
    server = serve(Engine(lively_model(), None), body_timeout=0.3)
    where = urlsplit(server.url)
    with (
        caplog.at_level(logging.WARNING, logger="forerun.server"),
        socket.create_connection((where.hostname, where.port), timeout=20) as sock,
    ):
        assert _trickles(sock) == b""
    assert any(r.message == "headers_late" for r in caplog.records)


def test_headers_of_a_later_request_that_trickle_in(serve):
    server = serve(Engine(lively_model(), None), body_timeout=0.3)
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nhost: [::1]\r\n\r\n")
        found = http.client.HTTPResponse(sock)
        found.begin()
        assert found.status == 200
        found.read()
        assert _trickles(sock) == b""


def test_a_connection_that_says_nothing(serve):
    server = serve(Engine(lively_model(), None), body_timeout=0.3)
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as sock:
        assert sock.recv(1) == b""


def test_answers_and_pauses_between_requests_may_take_longer(serve):
    server = serve(Engine(writer("x" * 60, 1, seconds=0.01), None), body_timeout=0.3)
    where = urlsplit(server.url)
    talk = http.client.HTTPConnection(where.hostname, where.port, timeout=20)
    for _ in range(2):
        body = json.dumps({"prompt": [4], "max_tokens": 60})
        talk.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        found = talk.getresponse()
        assert len(json.loads(found.read())["choices"][0]["text"]) == 60
        time.sleep(0.5)
    talk.close()


def test_an_answer_that_takes_too_long(serve):
    server = serve(Engine(writer("x" * 5000, 1, seconds=0.01), None), timeout=0.3)
    found = server.complete([4], max_tokens=5000)
    assert found.status == 408
    assert "0.3 s" in found.error["message"]
    assert found.headers["x-should-retry"] == "false"  # it would be as late again
    server.idle()
    streamed = server.complete([4], max_tokens=5000, stream=True)
    assert streamed.status == 200
    assert streamed.events[-1]["error"]["code"] == "timeout"
    assert len(streamed.events) > 1
    server.idle()


def test_waiting_counts(serve):
    engine = Engine(writer("x" * 5000, 1, seconds=0.01), None, max_batch=1)
    server = serve(engine, timeout=0.5)
    first = server.opened("/v1/completions", {"prompt": [4], "max_tokens": 5000})
    until(lambda: engine.status().running)
    begun = time.monotonic()
    assert server.complete([4], max_tokens=5000).status == 408
    assert time.monotonic() - begun < 10
    first.close()


def test_a_reader_that_does_not_read_is_dropped(serve, caplog):
    """Its answer is longer than what the sockets hold; the engine does not wait for it."""
    text = "x" * 600
    engine = Engine(writer(text, 1), None)
    server = serve(engine, body_timeout=0.3)
    server.server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    body = {"prompt": [4], "max_tokens": 600, "stream": True, "n": 2, "trace": True}
    with caplog.at_level(logging.WARNING, logger="forerun.server"):
        sock = server.opened("/v1/completions", body, buffer=4096)
        until(lambda: any(r.message == "reader_dropped" for r in caplog.records))
    assert server.complete([4], max_tokens=600).json["choices"][0]["text"] == text
    rest = b""
    while data := sock.recv(1 << 16):
        rest += data
    assert b"[DONE]" not in rest  # it was not whole
    sock.close()


def test_an_answer_that_nobody_reads_is_dropped(serve, caplog):
    """A whole one, too; and what it holds of the system is given back."""
    server = serve(Engine(lively_model(), None), body_timeout=0.3)
    server.server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    body = {"prompt": "hello", "max_tokens": 120, "n": 8, "trace": True, "logprobs": 5, "seed": 1,
            "logit_bias": {str(END): -1000}}  # fmt: skip
    assert len(server.ask("/v1/completions", body).body) > 4 << 16
    with caplog.at_level(logging.WARNING, logger="forerun.server"):
        sock = server.opened("/v1/completions", body, buffer=4096)
        until(lambda: any(r.message == "reader_dropped" for r in caplog.records))
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        until(lambda: not server.server.server_state.connections)
    sock.close()


def test_a_slow_reader_gets_all_of_a_large_answer(serve):
    server = serve(Engine(lively_model(), None), body_timeout=2)
    server.server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    body = {"prompt": "hello", "max_tokens": 60, "n": 8, "trace": True, "logprobs": 5, "seed": 1,
            "logit_bias": {str(END): -1000}}  # fmt: skip
    sock = server.opened("/v1/completions", body, buffer=4096)
    found = http.client.HTTPResponse(sock)
    found.begin()
    read = b""
    while part := found.read(1 << 14):
        read += part
        time.sleep(0.02)
    assert len(json.loads(read)["choices"]) == 8
    assert len(read) > 1 << 17
    found.close()
    sock.close()


def test_bodies_of_all_requests_together(serve):
    engine = Engine(writer("x" * 400, 1, seconds=0.01), None)
    server = serve(engine, max_bodies=2000)
    body = {"prompt": [4], "max_tokens": 400, "user": "a" * 1200}
    first = server.opened("/v1/completions", body)
    until(lambda: engine.status().running)
    found = server.complete([4], max_tokens=1, user="a" * 1200)
    assert found.status == 429
    assert int(found.headers["retry-after"]) > 0
    assert "2000 bytes" in found.error["message"]
    assert server.complete([4], max_tokens=1).status == 200
    assert server.ask("/health").status == 200
    first.close()
    server.idle()
    until(lambda: server.complete([4], max_tokens=1, user="a" * 1200).status == 200)


def test_logprobs_of_bounded_number(serve):
    server = serve(Engine(lively_model(), None), max_logprobs=60)
    assert server.complete(max_tokens=10, logprobs=5).status == 200
    for fields in ({"logprobs": 6}, {"logprobs": 5, "n": 2}):
        found = server.complete(max_tokens=10, **fields)
        assert found.status == 400
        assert "60" in found.error["message"]
    assert server.chat(max_tokens=10, logprobs=True, top_logprobs=6).status == 400
