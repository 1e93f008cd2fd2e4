"""The endpoint's adapter, against a server of this file that answers as several servers do."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from forerun.certify.engines.endpoint import EndpointEngine
from forerun.errors import CapabilityError, OptionError, PeerError

TEXTS = {1: "a", 2: "b", 3: "c", 9: "</s>"}


class Server:
    """`kind` says how ids come back; `asked` are the bodies."""

    def __init__(self):
        self.kind, self.asked, self.owner, self.failures = "token_ids", [], "somebody", 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args): ...

            def do_GET(self):
                self.answer(200, {"data": [{"id": "m", "owned_by": server.owner}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.asked.append((self.path, body))
                if server.failures:
                    server.failures -= 1
                    return self.answer(503, {"error": "busy"})
                if body["model"] != "m":
                    return self.answer(404, {"error": "no such model"})
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
        tokens = [1, 2, 1 + body["seed"] % 3]
        found = {"text": "".join(TEXTS[i] for i in tokens), "finish_reason": "length"}
        if self.kind == "token_ids" and body.get("return_token_ids"):
            return found | {"token_ids": tokens}
        if self.kind == "ended":
            return found | {"token_ids": tokens, "finish_reason": "stop"}
        if not body.get("logprobs"):
            return found
        if self.kind == "token_id:":
            return found | {"logprobs": {"tokens": [f"token_id:{i}" for i in tokens]}}
        if self.kind == "content":
            return found | {"logprobs": {"content": [{"id": i, "token": TEXTS[i]} for i in tokens]}}
        if self.kind == "texts":
            return found | {"logprobs": {"tokens": [TEXTS[i] for i in tokens]}}
        return found

    def close(self):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def engine_of(server):
    made = []

    def make(**options):
        options.setdefault("end_ids", frozenset({9}))
        made.append(EndpointEngine(server.url, options.pop("model", "m"), **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.mark.parametrize("kind", ["token_ids", "token_id:", "content", "texts"])
def test_ids_come_back_in_many_ways(kind, server, engine_of):
    server.kind = kind
    ids = {text: i for i, text in TEXTS.items()}
    engine = engine_of(find_token=ids.get)
    found = engine.sample([5, 6], 3, {"max_tokens": 3, "temperature": 0.7, "banned": [4]}, 0)
    assert [tokens[:2] for tokens in found] == [(1, 2)] * 3
    seeds = {body["seed"] for _, body in server.asked}
    assert len(seeds) == 3
    _, body = server.asked[0]
    assert (body["prompt"], body["temperature"], body["max_tokens"]) == ([5, 6], 0.7, 3)
    assert body["logit_bias"] == {"4": -1000.0}
    before = len(server.asked)
    engine.sample([5, 6], 1, {"max_tokens": 3}, 0)
    assert len(server.asked) == before + 1  # the way was found


def test_no_ids_at_all(server, engine_of):
    server.kind = "nothing"
    with pytest.raises(CapabilityError, match="gives no token ids"):
        engine_of().sample([5], 1, {"max_tokens": 3}, 0)
    server.kind = "texts"
    with pytest.raises(CapabilityError, match="'a' is not one id alone"):
        engine_of(find_token=lambda text: None).sample([5], 1, {"max_tokens": 3}, 0)


def test_an_end_token_that_is_left_out_is_put_back(server, engine_of):
    server.kind = "ended"
    [tokens] = engine_of().sample([5], 1, {"max_tokens": 9}, 0)
    assert tokens == (1, 2, 1, 9)
    with pytest.raises(CapabilityError, match="may be any of"):
        engine_of(end_ids=frozenset({8, 9})).sample([5], 1, {"max_tokens": 9}, 0)


def test_speculation_off(server, engine_of):
    engine = engine_of()
    assert not engine.traits.switches
    with pytest.raises(CapabilityError, match="cannot turn speculation off"):
        engine.sample([5], 1, {"max_tokens": 3, "num_draft": 0}, 0)
    server.owner = "forerun"
    own = engine_of()
    assert own.traits.switches
    assert own.traits.seeds
    own.sample([5], 1, {"max_tokens": 3, "num_draft": 0}, 0)
    assert server.asked[-1][1]["speculative"] is False
    own.sample([5], 1, {"max_tokens": 3, "num_draft": 6}, 0)
    assert server.asked[-1][1]["num_draft"] == 6
    other = engine_of(off_url=server.url.replace("/v1", "/plain/v1"))
    other.sample([5], 1, {"max_tokens": 3, "num_draft": 0}, 0)
    assert server.asked[-1][0] == "/plain/v1/completions"


def test_failures(server, engine_of):
    server.failures = 1
    engine = engine_of()
    with pytest.raises(PeerError, match="answered 503"):
        engine.sample([5], 1, {"max_tokens": 3}, 0)
    with pytest.raises(CapabilityError, match="answered 404"):
        engine_of(model="another").sample([5], 1, {"max_tokens": 3}, 0)
    with pytest.raises(OptionError, match="begins with http"):
        EndpointEngine("ftp://x", "m")
    with pytest.raises(PeerError):
        EndpointEngine("http://127.0.0.1:9/v1", "m").sample([5], 1, {"max_tokens": 3}, 0)
