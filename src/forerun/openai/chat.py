"""`/v1/chat/completions`: messages in, a message out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.engine import Completion, Prompt
from forerun.openai.delta import Delta, finish_reason
from forerun.openai.endpoint import Head
from forerun.openai.errors import ApiError
from forerun.openai.logprobs import chat_logprobs
from forerun.openai.options import engine_options, joined
from forerun.openai.requests import ChatRequest, Message
from forerun.openai.responses import Chat, ChatChoice, ChatChunk, ChatMessage, Chunk, ChunkChoice
from forerun.openai.responses import Delta as Words
from forerun.openai.usage import metrics, trace, usage, words
from forerun.text.tokenizer import Tokenizer


class ChatEndpoint:
    """Of one request."""

    def __init__(self, body: ChatRequest, tokenizer: Tokenizer, default_max_tokens: int) -> None:
        self.body, self._tokenizer = body, tokenizer
        self._default = default_max_tokens
        self.prompts: Sequence[Prompt] = [conversation(body.messages)]
        self.top = (body.top_logprobs or 0) if body.logprobs else None

    @property
    def options(self) -> dict[str, Any]:
        body = self.body
        return engine_options(body) | {
            "max_tokens": body.max_completion_tokens or body.max_tokens or self._default,
            "logprobs": self.top,
        }

    def reply(self, head: Head, choices: Sequence[Completion]) -> Chat:
        body = self.body
        reply = Chat(
            **vars(head),
            object="chat.completion",
            choices=[self._choice(i, done) for i, done in enumerate(choices)],
            usage=usage(choices, len(choices), predicted=body.prediction is not None),
            metrics=metrics(choices),
        )
        if body.return_token_ids:
            reply.prompt_token_ids = list(choices[0].prompt)
        return reply

    def _choice(self, index: int, done: Completion) -> ChatChoice:
        body = self.body
        choice = ChatChoice(
            index=index,
            message=ChatMessage(role="assistant", content=done.text, refusal=None),
            logprobs=chat_logprobs(self._tokenizer, done.logprobs or ()) if body.logprobs else None,
            finish_reason=finish_reason(done),
        )
        if body.return_token_ids:
            choice.token_ids = list(done.tokens)
        if body.trace:
            choice.trace = trace(done.trace)
        if body.trace == "full":
            choice.words = words(done.trace, self._tokenizer)
        return choice

    def chunk(self, head: Head, choices: list[ChunkChoice]) -> ChatChunk:
        return ChatChunk(**vars(head), object="chat.completion.chunk", choices=choices)

    def opening(self, index: int) -> ChunkChoice:
        role = Words(role="assistant", content="")
        return ChunkChoice(index=index, delta=role, logprobs=None, finish_reason=None)

    def ending(self, delta: Delta) -> ChunkChoice:
        return self.part(delta)

    def closing(self, chunk: Chunk, choices: Sequence[Completion]) -> None:
        if self.body.return_token_ids and isinstance(chunk, ChatChunk):
            chunk.prompt_token_ids = list(choices[0].prompt)

    def part(self, delta: Delta) -> ChunkChoice:
        body = self.body
        part = ChunkChoice(
            index=delta.choice,
            delta=Words() if delta.done is not None else Words(content=delta.text),
            logprobs=chat_logprobs(self._tokenizer, delta.logprobs)
            if body.logprobs and delta.tokens
            else None,
            finish_reason=delta.finish_reason,
        )
        if body.return_token_ids:
            part.token_ids = list(delta.tokens)
        if body.trace and delta.rounds:
            part.trace = trace(delta.rounds)
            if body.trace == "full":
                part.words = words(delta.rounds, self._tokenizer)
        return part


def conversation(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages for a chat template: role, name, and content as one text each."""
    found: list[dict[str, Any]] = []
    for message in messages:
        extra = message.model_extra or {}
        for field in ("tool_calls", "tool_call_id", "function_call", "audio"):
            if extra.get(field):
                raise ApiError(
                    400, f"{field} in messages is not supported by this server", param="messages"
                )
        plain: dict[str, Any] = {"role": message.role}
        if message.content is not None:
            plain["content"] = joined(message.content, "messages")
        if message.name is not None:
            plain["name"] = message.name
        found.append(plain)
    return found
