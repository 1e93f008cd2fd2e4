"""The life of a request: checked, queued, answered, or left.

    body -> endpoint (chat.py, completions.py): prompts and the engine's keywords
         -> Answers: streams of the engine
         -> endpoint: one reply, or chunks

This module does not know what either endpoint's replies look like.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from forerun.engine import Prompt
from forerun.openai.delta import Delta
from forerun.openai.endpoint import Endpoint, Head, named
from forerun.openai.errors import ApiError
from forerun.server import pacing
from forerun.server.answers import in_thread, unless_left
from forerun.server.backend import Asked, Backend
from forerun.server.chunks import chunks
from forerun.server.config import ServerConfig
from forerun.server.deltas import deltas
from forerun.server.events import EventStream
from forerun.server.metrics import Metrics
from forerun.server.replies import json_response

LEFT = 499  # nginx's status for a client that closed the connection; nobody sees it but the log


class Service:
    """One backend behind names."""

    def __init__(self, backend: Backend, config: ServerConfig) -> None:
        self._backend, self.config, self.facts = backend, config, backend.facts
        self.tokenizer = backend.facts.tokenizer
        self.metrics = Metrics(backend.status)
        self.created = int(time.time())
        tokens = range(self.tokenizer.vocab_size)
        self._longest = max(len(self.tokenizer.token_bytes(token)) for token in tokens)

    def named(self, model: str | None) -> str:
        """The name to answer with. ApiError 404 for one that is not served."""
        return named(model, self.config.models)

    async def answer(self, http: Request, endpoint: Endpoint, kind: str) -> Response:
        """One reply, or a stream. ApiError for what is refused."""
        body = endpoint.body
        state = http.scope.setdefault("state", {})
        model = self.named(body.model)
        prompts, n = endpoint.prompts, body.n or 1
        if len(prompts) * n > self.config.max_choices:
            raise ApiError(
                400, f"{len(prompts)} prompts times n = {n} are more than the "
                f"{self.config.max_choices} choices a request may have here", param="n",
            )  # fmt: skip
        self._check_length(prompts)
        self._check_logprobs(endpoint, len(prompts) * n)
        answers = self._backend.answers(
            self.metrics,
            tenant=state.get("tenant", ""),
            arrived=state["arrived"],
            timeout=self.config.timeout,
        )
        fields = tuple(type(body).model_fields)
        left, _ = await unless_left(
            http.receive, answers.submit(prompts, n, endpoint.options, fields)
        )
        if left:
            return gone(state)
        name, now = f"{kind}-{uuid.uuid4().hex}", int(time.time())

        def head() -> Head:
            """As known now: who computes may change."""
            return Head(id=name, created=now, model=model, system_fingerprint=answers.maker)

        if body.stream:
            return self._stream(answers, endpoint, head, len(prompts) * n, state)
        async with answers:
            left, choices = await unless_left(http.receive, answers.finished())
            if left:
                return gone(state)
        state["tokens"] = sum(len(done.tokens) for done in choices)
        if self.config.log_prompts:
            state["texts"] = [done.text for done in choices]
        return json_response(await in_thread(lambda: endpoint.reply(head(), choices).to_json()))

    def check_tokens(self, field: str, count: int, what: str) -> None:
        """Refuse what would keep others' texts from being read for long."""
        if count > (most := self.config.max_tokenize):
            raise ApiError(
                400, f"{field} has {count} {what}; {most} are read at once here", param=field
            )  # fmt: skip

    def _check_logprobs(self, endpoint: Endpoint, choices: int) -> None:
        """Refuse what would make an answer of hundreds of megabytes."""
        if endpoint.top is None:
            return
        tokens = endpoint.options["max_tokens"]
        context = self.facts.context
        if context is not None:
            tokens = context if getattr(endpoint.body, "echo", None) else min(tokens, context)
        entries = choices * tokens * (1 + endpoint.top)
        if entries > self.config.max_logprobs:
            raise ApiError(
                400, f"{choices} choices of {tokens} tokens with {endpoint.top} likeliest ones "
                f"each are {entries} log-probabilities; an answer may have "
                f"{self.config.max_logprobs}", param="max_tokens",
            )  # fmt: skip

    def _check_length(self, prompts: Sequence[Prompt]) -> None:
        """Refuse what no tokens of the context could hold, before time is spent on reading it."""
        context = self.facts.context
        if context is None:
            return
        for prompt in prompts:
            texts = [p if isinstance(p, str) else p.get("content", "") for p in _texts(prompt)]
            size = sum(map(len, texts))
            if size > context * self._longest:
                raise ApiError(
                    400, f"the prompt has {size} characters; a context of {context} tokens holds "
                    f"{context * self._longest} at most", param="prompt",
                    code="context_length_exceeded",
                )  # fmt: skip

    def _stream(
        self,
        answers: Asked,
        endpoint: Endpoint,
        head: Callable[[], Head],
        choices: int,
        state: dict[str, Any],
    ) -> Response:
        body = endpoint.body
        whole = body.trace or body.return_token_ids or endpoint.top is not None

        async def counted(source: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
            """Those that show something; all of them where a rhythm is kept."""
            async for delta in source:
                state["tokens"] = state.get("tokens", 0) + len(delta.tokens)
                if delta.text or delta.done is not None or whole or self.config.pacing is not None:
                    yield delta

        source = counted(deltas(answers))
        pace, block = self.config.pacing, 0
        if pace is not None:
            source = pacing.paced(source, choices, pace)
            block = pacing.block(endpoint.top)
        return EventStream(chunks(endpoint, head, source, block), answers.cancel)


def _texts(prompt: Prompt) -> Sequence[Any]:
    """The text of a prompt, or the messages; nothing for ids."""
    if isinstance(prompt, str):
        return [prompt]
    return [part for part in prompt if not isinstance(part, int)]


def gone(state: dict[str, Any]) -> Response:
    """For a client that has left."""
    state["left"] = True
    return Response(status_code=LEFT)
