"""`/v1/completions`: prompts in, their continuations out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.engine import Completion, Prompt
from forerun.openai.delta import Delta, finish_reason
from forerun.openai.endpoint import Head
from forerun.openai.logprobs import CompletionWriter
from forerun.openai.options import engine_options
from forerun.openai.requests import CompletionRequest
from forerun.openai.responses import Chunk, CompletionChoice, CompletionLogprobs, Completions
from forerun.openai.usage import metrics, trace, usage, words
from forerun.text.tokenizer import Tokenizer

MAX_TOKENS = 16  # where the client says nothing: OpenAI's own default


class CompletionEndpoint:
    """Of one request."""

    def __init__(
        self,
        body: CompletionRequest,
        tokenizer: Tokenizer,
        end_ids: frozenset[int],
        default_max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.body, self._tokenizer = body, tokenizer
        self._default = default_max_tokens
        self._hidden = end_ids | set(body.stop_token_ids or ())
        self._n = body.n or 1
        self.prompts = _prompts(body.prompt)
        self.top = body.logprobs
        self._writers: dict[int, CompletionWriter] = {}  # of choices that are streamed
        self._echoes: dict[int, str] = {}  # of prompts, whose choices all begin with it
        self._read: dict[int, CompletionLogprobs] = {}

    @property
    def options(self) -> dict[str, Any]:
        body = self.body
        length = self._default if body.max_tokens is None else body.max_tokens
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
            usage=usage(choices, self._n, predicted=self.body.prediction is not None),
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
        number = index // self._n
        prompt = self.prompts[number]
        if isinstance(prompt, str):
            return prompt
        if number not in self._echoes:
            self._echoes[number] = self._tokenizer.decode(prompt)  # type: ignore[arg-type]
        return self._echoes[number]

    def _writer(self, index: int) -> CompletionWriter:
        """For the answer's tokens, which go on from the prompt's text where that has any."""
        prompt = self.prompts[index // self._n]
        if isinstance(prompt, str):
            continuing = bool(prompt)
        else:
            continuing = any(self._tokenizer.token_bytes(i) for i in prompt)  # type: ignore[arg-type]
        writer = self._new_writer()
        writer.begin(len(self._echo(index)), continuing)
        return writer

    def _new_writer(self) -> CompletionWriter:
        by_id = bool(self.body.return_tokens_as_token_ids)
        return CompletionWriter(self._tokenizer, self._hidden, by_id=by_id)

    def _logprobs(self, index: int, done: Completion) -> CompletionLogprobs:
        written = self._writer(index).write(done.tokens, done.logprobs or ())
        if not self.body.echo:
            return written
        number = index // self._n
        if number not in self._read:
            self._read[number] = self._new_writer().write(done.prompt, done.prompt_logprobs or ())
        read = self._read[number]
        return CompletionLogprobs(
            tokens=read.tokens + written.tokens,
            token_logprobs=read.token_logprobs + written.token_logprobs,
            top_logprobs=(read.top_logprobs or []) + (written.top_logprobs or []),
            text_offset=read.text_offset + written.text_offset,
        )

    @property
    def _at_once(self) -> bool:
        """Whether a choice comes as a whole: its prompt's logprobs are known at its end."""
        return bool(self.body.echo) and self.body.logprobs is not None

    def chunk(self, head: Head, choices: list[CompletionChoice]) -> Completions:
        return Completions(**vars(head), object="text_completion", choices=choices)

    def opening(self, index: int) -> CompletionChoice | None:
        if not self.body.echo or self._at_once:
            return None
        text = self._echo(index)
        return CompletionChoice(index=index, text=text, logprobs=None, finish_reason=None)

    def part(self, delta: Delta) -> CompletionChoice | None:
        return None if self._at_once else self._part(delta)

    def ending(self, delta: Delta) -> CompletionChoice:
        if self._at_once and delta.done is not None:
            return self._choice(delta.choice, delta.done)
        return self._part(delta)

    def closing(self, chunk: Chunk, choices: Sequence[Completion]) -> None:
        pass

    def _part(self, delta: Delta) -> CompletionChoice:
        body = self.body
        part = CompletionChoice(
            index=delta.choice, text=delta.text, logprobs=None, finish_reason=delta.finish_reason
        )
        if body.logprobs is not None and delta.tokens:
            if delta.choice not in self._writers:
                self._writers[delta.choice] = self._writer(delta.choice)
            part.logprobs = self._writers[delta.choice].write(delta.tokens, delta.logprobs)
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
