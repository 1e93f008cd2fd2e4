"""Models and small clients that the server's tests share."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from engine.fakes import END, TOKENS, letters
from forerun.models.tabular import TabularModel
from forerun.server import Server, ServerConfig

MODEL = "tiny"
WIDE = TOKENS.vocab_size
JSON = {"content-type": "application/json"}


def lively(prefix: tuple[int, ...]) -> np.ndarray:
    """A law over a few printable letters that depends on the last two tokens: quick, and sampled
    texts differ. It ends a text now and then."""
    seed = (prefix[-1] * 31 + (prefix[-2] if len(prefix) > 1 else 7)) % 997
    dice = np.random.default_rng(seed)
    p = np.zeros(WIDE)
    p[[4 + byte for byte in b"abcdefgh ,"]] = dice.dirichlet(np.ones(10))
    p[END] = 0.02
    return p / p.sum()


class Slow(TabularModel):
    """Takes its time for each pass."""

    seconds = 0.01

    def extend(self, steps):
        time.sleep(self.seconds)
        return super().extend(steps)


def lively_model(seconds: float = 0.0) -> TabularModel:
    return _slowed(lively, seconds)


def writer(text: str, start: int, seconds: float = 0.0) -> TabularModel:
    """Writes `text` letter by letter from position `start` on, then ends."""
    ids = letters(text)

    def law(prefix: tuple[int, ...]) -> np.ndarray:
        at = len(prefix) - start
        p = np.zeros(WIDE)
        p[ids[at] if 0 <= at < len(ids) else END] = 1
        return p

    return _slowed(law, seconds)


def _slowed(law: Callable[[tuple[int, ...]], Any], seconds: float) -> TabularModel:
    model = (Slow if seconds else TabularModel)(law, WIDE, TOKENS.eos, name=MODEL)
    model.tokenizer = TOKENS
    if seconds:
        model.seconds = seconds
    return model


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found = self.json["error"]
        assert sorted(found) == ["code", "message", "param", "type"]
        return found

    @property
    def events(self) -> list[Any]:
        return parse_events(self.body)


def parse_events(body: bytes) -> list[Any]:
    """JSON of each event; "[DONE]" as it is."""
    parts = body.decode().split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") for part in parts)
    return [p if (p := part[6:]) == "[DONE]" else json.loads(p) for part in parts]


class Serving:
    """A server in a thread, and requests to it."""

    def __init__(self, engine: Any, **config: Any) -> None:
        self.engine = engine
        settings = {"models": (MODEL,)} | config
        self.server = Server(engine, ServerConfig(**settings), port=0)
        self.url = self.server.url
        self._thread = threading.Thread(target=self.server.run, name="serving")

    def start(self) -> None:
        self._thread.start()
        until(lambda: self.server.started or not self._thread.is_alive())
        assert self._thread.is_alive()

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    def connection(self, timeout: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)

    def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str | None = None,
        headers: Mapping[str, str] = JSON,
    ) -> Answer:
        """`body` goes as JSON unless it is bytes."""
        connection = self.connection()
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def complete(self, prompt: Any = "hello", **fields: Any) -> Answer:
        return self.ask("/v1/completions", {"prompt": prompt, **fields})

    def chat(self, content: Any = "hello", **fields: Any) -> Answer:
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        return self.ask("/v1/chat/completions", {"messages": messages, **fields})

    def opened(
        self,
        path: str,
        body: Any,
        headers: Mapping[str, str] = JSON,
        buffer: int | None = None,
    ) -> socket.socket:
        """A socket that has sent a request and read nothing; `buffer`: bytes it holds unread."""
        where = urlsplit(self.url)
        data = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", f"host: {where.netloc}", f"content-length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sock = socket.socket()
        sock.settimeout(30)
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.connect((where.hostname, where.port))
        sock.sendall("\r\n".join([*lines, "", ""]).encode() + data)
        return sock

    def idle(self) -> None:
        """Wait until nothing runs, and see that nothing was left open."""
        until(lambda: busy(self.engine) == 0)


def busy(engine: Any) -> int:
    """Requests that are there, and slots or their bytes."""
    status, target = engine.status(), engine.target
    slots = len(target._cached) if isinstance(target, TabularModel) else target.cache_bytes
    return status.running + status.waiting + status.reading + slots


def until(ready: Callable[[], Any], seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)
    return found


@contextmanager
def serving(engine: Any, **config: Any) -> Iterator[Serving]:
    """A server that is left idle, with no slot open."""
    found = Serving(engine, **config)
    found.start()
    try:
        yield found
        found.idle()
    finally:
        found.stop()


def texts(events: Sequence[Any]) -> str:
    """Of a stream of either endpoint, of one choice."""
    choices = [choice for event in events if event != "[DONE]" for choice in event["choices"]]
    return "".join(
        choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
        for choice in choices
    )
