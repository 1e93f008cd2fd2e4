"""`/v1/completions`: prompts in, their continuations out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from forerun.engine import Completion, Prompt
from forerun.server.deltas import Delta, finish_reason
from forerun.server.events import Chunk
from forerun.server.logprobs import CompletionWriter
from forerun.server.options import engine_options
from forerun.server.requests import CompletionRequest
from forerun.server.responses import CompletionChoice, CompletionLogprobs, Completions
from forerun.server.service import Head
from forerun.server.usage import metrics, trace, usage, words
from forerun.text.tokenizer import Tokenizer

MAX_TOKENS = 16  # where the client says nothing: OpenAI's own default


class CompletionEndpoint:
    """Of one request."""

    def __init__(
        self, body: CompletionRequest, tokenizer: Tokenizer, end_ids: frozenset[int]
    ) -> None:
        self.body, self._tokenizer = body, tokenizer
        self._hidden = end_ids | set(body.stop_token_ids or ())
        self._n = body.n or 1
        self.prompts = _prompts(body.prompt)
        self.top = body.logprobs

    @property
    def options(self) -> dict[str, Any]:
        body = self.body
        length = MAX_TOKENS if body.max_tokens is None else body.max_tokens
        options = engine_options(body) | {"max_tokens": length, "logprobs": body.logprobs}
        if body.echo and body.logprobs is not None:
            options["prompt_logprobs"] = body.logprobs
        elif length == 0:
            options["prompt_logprobs"] = 0  # the prompt is to be read, and nothing written
        return options

    def reply(self, head: Head, choices: Sequence[Completion]) -> Completions:
        return Completions(
            **vars(head),
            object="text_completion",
            choices=[self._choice(i, done) for i, done in enumerate(choices)],
            usage=usage(choices, self._n),
            metrics=metrics(choices),
        )

    def _choice(self, index: int, done: Completion) -> CompletionChoice:
        body = self.body
        choice = CompletionChoice(
            index=index,
            text=self._echo(index) + done.text,
            logprobs=None if body.logprobs is None else self._logprobs(index, done),
            finish_reason=finish_reason(done),
        )
        if body.return_token_ids:
            choice.prompt_token_ids, choice.token_ids = list(done.prompt), list(done.tokens)
        if body.trace:
            choice.trace = trace(done.trace)
        if body.trace == "full":
            choice.words = words(done.trace, self._tokenizer)
        return choice

    def _echo(self, index: int) -> str:
        """The prompt as text, where it is to be shown."""
        if not self.body.echo:
            return ""
        prompt = self.prompts[index // self._n]
        return prompt if isinstance(prompt, str) else self._tokenizer.decode(prompt)  # type: ignore[arg-type]

    def _writer(self, index: int) -> CompletionWriter:
        """For the answer's tokens, which go on from the prompt's text where that has any."""
        prompt = self.prompts[index // self._n]
        if isinstance(prompt, str):
            continuing = bool(prompt)
        else:
            continuing = any(self._tokenizer.token_bytes(i) for i in prompt)  # type: ignore[arg-type]
        writer = CompletionWriter(self._tokenizer, self._hidden)
        writer.begin(len(self._echo(index)), continuing)
        return writer

    def _logprobs(self, index: int, done: Completion) -> CompletionLogprobs:
        written = self._writer(index).write(done.tokens, done.logprobs or ())
        if not self.body.echo:
            return written
        read = CompletionWriter(self._tokenizer, self._hidden).write(
            done.prompt, done.prompt_logprobs or ()
        )
        return CompletionLogprobs(
            tokens=read.tokens + written.tokens,
            token_logprobs=read.token_logprobs + written.token_logprobs,
            top_logprobs=(read.top_logprobs or []) + (written.top_logprobs or []),
            text_offset=read.text_offset + written.text_offset,
        )

    async def chunks(self, head: Head, deltas: AsyncIterator[Delta]) -> AsyncIterator[Chunk]:
        """With echo and logprobs a choice comes as a whole: its prompt's are known at its end."""
        body = self.body
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        at_once = bool(body.echo) and body.logprobs is not None
        whole: dict[int, Completion] = {}
        writers: dict[int, CompletionWriter] = {}

        def chunk(choices: list[CompletionChoice]) -> Completions:
            made = Completions(**vars(head), object="text_completion", choices=choices)
            if with_usage:
                made.usage = None
            return made

        if body.echo and not at_once:
            for i in range(len(self.prompts) * self._n):
                echo = self._echo(i)
                yield chunk(
                    [CompletionChoice(index=i, text=echo, logprobs=None, finish_reason=None)]
                )
        async for delta in deltas:
            if delta.done is not None:
                whole[delta.choice] = delta.done
                if at_once:
                    yield chunk([self._choice(delta.choice, delta.done)])
                    continue
            if not at_once:
                yield chunk([self._part(delta, writers)])
        if with_usage:
            choices = [whole[i] for i in sorted(whole)]
            last = chunk([])
            last.usage, last.metrics = usage(choices, self._n), metrics(choices)
            yield last

    def _part(self, delta: Delta, writers: dict[int, CompletionWriter]) -> CompletionChoice:
        body = self.body
        part = CompletionChoice(
            index=delta.choice, text=delta.text, logprobs=None, finish_reason=delta.finish_reason
        )
        if body.logprobs is not None and delta.tokens:
            if delta.choice not in writers:
                writers[delta.choice] = self._writer(delta.choice)
            part.logprobs = writers[delta.choice].write(delta.tokens, delta.logprobs)
        if body.return_token_ids:
            part.token_ids = list(delta.tokens)
            if delta.done is not None:
                part.prompt_token_ids = list(delta.done.prompt)
        if body.trace and delta.rounds:
            part.trace = trace(delta.rounds)
            if body.trace == "full":
                part.words = words(delta.rounds, self._tokenizer)
        return part


def _prompts(
    prompt: str | list[str] | list[int] | list[list[int]],
) -> Sequence[Prompt]:
    """One or several, each a text or ids."""
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt[0], int):
        return [prompt]
    return prompt
