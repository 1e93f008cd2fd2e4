"""A stream at a steady rhythm, in chunks of equal size.

Under speculation the number of tokens in a packet tells which guesses were accepted, and that tells
much of what is written: an eavesdropper who sees only sizes and times of encrypted packets can
recognise prompts (arXiv 2411.01076). So tokens are gathered and sent at fixed times: at each tick,
every choice that runs gets one chunk, with at most `TEXT` bytes of text, empty ones too, and
`events.py` pads all to one size. What is left to see is how long the answer took.

This module does not know what a chunk looks like, only how much of a text goes into it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from forerun.engine import Completion
from forerun.openai.delta import Delta
from forerun.trace import Round

TEXT = 96  # bytes of text in a chunk, as JSON writes them
TOKENS = 16  # tokens in a chunk


def block(top: int | None) -> int:
    """Bytes that hold a chunk, with `top` log-probabilities for each token; None: without them."""
    return 1024 if top is None else 1024 + 256 * TOKENS * (1 + top)


class Backlog:
    """What a choice has to say and may not yet."""

    def __init__(self, choice: int) -> None:
        self.choice = choice
        self._text = ""
        self._tokens: deque[tuple[int, Any]] = deque()
        self._rounds: deque[Round] = deque()
        self._done: Completion | None = None
        self.open = True

    def add(self, delta: Delta) -> None:
        self._text += delta.text
        logprobs = delta.logprobs or (None,) * len(delta.tokens)
        self._tokens.extend(zip(delta.tokens, logprobs, strict=True))
        self._rounds.extend(delta.rounds)
        self._done = delta.done

    def take(self) -> Delta:
        """The next chunk; the last holds nothing but the end."""
        if self._done is not None and not (self._text or self._tokens or self._rounds):
            self.open = False
            return Delta(choice=self.choice, done=self._done)
        count = fitting(self._text, TEXT)
        text, self._text = self._text[:count], self._text[count:]
        some = [self._tokens.popleft() for _ in range(min(TOKENS, len(self._tokens)))]
        logprobs = tuple(entry for _, entry in some if entry is not None)
        rounds = (self._rounds.popleft(),) if self._rounds else ()
        return Delta(
            choice=self.choice,
            text=text,
            tokens=tuple(token for token, _ in some),
            logprobs=logprobs,
            rounds=rounds,
        )


def fitting(text: str, size: int) -> int:
    """How many of the first characters take at most `size` bytes in JSON; one at least."""
    used = 0
    for count, letter in enumerate(text[:size]):
        used += len(json.dumps(letter, ensure_ascii=False).encode()) - 2
        if used > size:
            return max(count, 1)
    return min(len(text), size)


async def paced(deltas: AsyncIterator[Delta], choices: int, seconds: float) -> AsyncIterator[Delta]:
    """The same deltas, gathered and cut. An error comes at once, what was gathered is lost."""
    backlogs = [Backlog(i) for i in range(choices)]

    async def read() -> None:
        async for delta in deltas:
            backlogs[delta.choice].add(delta)

    reader = asyncio.ensure_future(read())
    loop = asyncio.get_running_loop()
    tick = loop.time()
    try:
        while True:
            if reader.done():
                reader.result()
            for backlog in backlogs:
                if backlog.open:
                    yield backlog.take()
            if not any(backlog.open for backlog in backlogs):
                return
            tick = max(tick + seconds, loop.time() - seconds)  # a slow reader is not caught up with
            await asyncio.sleep(tick - loop.time())
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
