"""Many clients at once, in a process of their own: polite, leaving, malformed, asking too much.

    python storm.py URL REQUESTS CONNECTIONS SEED MOST_TOKENS
    python storm.py URL

Prints a JSON object: what each request asked and got. With the URL alone it looks at /health until
its standard input ends, and prints how long each look took: in a process of its own, because the
many clients' own waiting for each other is not the server's.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any
from urllib.parse import urlsplit

LEAVES, MALFORMED, OVER = 0.20, 0.05, 0.05
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "then", "dog", "ran", "to")
BROKEN = (
    b"{", b"[]", b'{"prompt": 5}', b'{"prompt": "a", "temperature": -1}', b'{"messages": []}',
    b'{"prompt": "a", "max_tokens": "x"}', b"\xff", b'{"prompt": "a", "tools": [], "stop": [""]}',
    b'{"prompt": ["", ' + b"1," * 60_000 + b"1]}",
    b'{"prompt": [' + b"[1]," * 40_000 + b"[1]]}",
    b'{"prompt": "a", "logit_bias": {' + b",".join(b'"%d":""' % i for i in range(9000)) + b"}}",
    b'{"prompt": "a", "stop_token_ids": [' + b'"",' * 40_000 + b"1]}",
    b'{"prompt": "a", "logprobs": 20, "max_tokens": 4000, "n": 16}',
    b"[" * 100_000,
)  # fmt: skip


def plan(number: int, seed: int, most: int) -> dict[str, Any]:
    """What request `number` does."""
    dice = random.Random(f"{seed}-{number}")
    chosen = dice.random()
    variant = dice.randrange(40)  # so many texts are to be known beforehand
    words = random.Random(variant)
    prompt = " ".join(words.choices(WORDS, k=words.randrange(2, 24)))
    asked: dict[str, Any] = {
        "kind": "plain", "variant": variant, "prompt": prompt, "seed": variant,
        "max_tokens": words.randrange(1, most + 1), "stream": dice.random() < 0.5,
        "chat": words.random() < 0.3,
    }  # fmt: skip
    if chosen < LEAVES:
        asked |= {"kind": "leaves", "stream": True, "reads": dice.randrange(1, 1500)}
    elif chosen < LEAVES + MALFORMED:
        asked |= {"kind": "malformed", "body": dice.randrange(len(BROKEN))}
    elif chosen < LEAVES + MALFORMED + OVER:
        asked |= {"kind": "over", "how": dice.choice(["body", "choices", "context"])}
    return asked


def body(asked: dict[str, Any]) -> tuple[str, bytes]:
    path = "/v1/chat/completions" if asked["chat"] else "/v1/completions"
    if asked["kind"] == "malformed":
        return "/v1/completions", BROKEN[asked["body"]]
    fields = {name: asked[name] for name in ("seed", "max_tokens", "stream")}
    if asked["kind"] == "over":
        if asked["how"] == "body":
            return path, b" " * (1 << 20)
        prompt = [asked["prompt"]] * 50 if asked["how"] == "choices" else "cat " * 9000
        return "/v1/completions", json.dumps({"prompt": prompt, **fields}).encode()
    if asked["chat"]:
        message = {"role": "user", "content": asked["prompt"]}
        return path, json.dumps({"messages": [message], **fields}).encode()
    return path, json.dumps({"prompt": asked["prompt"], **fields}).encode()


async def send(url: str, method: str, path: str, data: bytes, reads: int | None = None) -> Any:
    """(status, body); with `reads` the connection is broken off after so many bytes."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {where.netloc}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        if reads is not None:
            got = 0
            while got < reads and (more := await reader.read(min(256, reads - got))):
                got += len(more)
            writer.transport.abort()
            return 0, b""
        raw = await reader.read()
        top, _, rest = raw.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in top.lower():
            rest = unchunked(rest)
        return int(top.split()[1]), rest
    finally:
        writer.close()


def unchunked(raw: bytes) -> bytes:
    found = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        found += raw[: int(size, 16)]
        raw = raw[int(size, 16) + 2 :]
    return found


def text_of(asked: dict[str, Any], raw: bytes) -> str | None:
    """What was written; None where a stream was not whole."""
    if not asked["stream"]:
        choice = json.loads(raw)["choices"][0]
        return choice["message"]["content"] if asked["chat"] else choice["text"]
    events = raw.decode().split("\n\n")
    if events[-2:] != ["data: [DONE]", ""]:
        return None
    choices = [json.loads(event[6:])["choices"][0] for event in events[:-2]]
    return "".join(
        (choice["delta"].get("content") or "") if asked["chat"] else choice["text"]
        for choice in choices
    )


async def one(url: str, asked: dict[str, Any]) -> dict[str, Any]:
    path, data = body(asked)
    begun = time.perf_counter()
    while True:
        try:
            status, raw = await send(url, "POST", path, data, asked.get("reads"))
        except ConnectionError:  # the server refuses a large body before it was sent
            status, raw = 413 if asked["kind"] == "over" else -1, b""
        if status != 429:
            break
        await asyncio.sleep(0.2)
    found: dict[str, Any] = {"asked": asked, "status": status}
    if status == 200:
        found["text"] = text_of(asked, raw)
    found["seconds"] = time.perf_counter() - begun
    return found


async def main(url: str, requests: int, connections: int, seed: int, most: int) -> None:
    numbers = iter(range(requests))
    results: list[dict[str, Any]] = []

    async def client() -> None:
        for number in numbers:
            found = await one(url, plan(number, seed, most))
            results.append(found)

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    print(json.dumps({"results": results, "seconds": time.perf_counter() - begun}))


async def look(url: str) -> None:
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    took: list[float] = []
    while not ended.done():
        begun = time.perf_counter()
        status, _ = await send(url, "GET", "/health", b"")
        assert status == 200
        took.append(time.perf_counter() - begun)
        await asyncio.sleep(0.02)
    print(json.dumps(took))


if __name__ == "__main__":
    if sys.argv[2:]:
        asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
    else:
        asyncio.run(look(sys.argv[1]))
