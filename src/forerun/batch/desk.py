"""Between lines and the engine: a line becomes requests, what came of them becomes its record.

**Seeds.** A line without a seed gets one, from the run's seed and its own number. That keeps the
law when a run is killed: a text that was on its way is written again, and were it drawn anew, long
texts, which are on their way for longer, would be thrown away more often than short ones; the
answers that remain would be too short. With its seed it is the same text.

What this module does not know: files, how many lines run at once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forerun.batch.identity import Identity
from forerun.batch.lines import BadLine, Line, parse, request
from forerun.batch.output import record_id
from forerun.engine import Completion, Engine, Stream
from forerun.errors import EngineClosedError, ForerunError, OptionError, RoundError
from forerun.openai.chat import ChatEndpoint
from forerun.openai.completions import CompletionEndpoint
from forerun.openai.endpoint import Endpoint, Head, fingerprint, named
from forerun.openai.errors import ApiError, failure, refusal
from forerun.openai.requests import ChatRequest

log = logging.getLogger("forerun")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What holds for all lines of a run."""

    run: Identity
    models: tuple[str, ...]  # names the model answers to; the first is the one it gives
    max_tokens: int  # of an answer whose line names no limit
    seed: str  # of lines that have none: with a line's number it gives its seed


class Asked:
    """A line whose requests are queued; `done` once all of them have ended."""

    def __init__(self, number: int, line: Line, endpoint: Endpoint, seed: int, model: str) -> None:
        self.number, self.line, self.endpoint = number, line, endpoint
        self.seed, self.model = seed, model
        self.streams: list[Stream] = []
        self.choices = len(endpoint.prompts) * (endpoint.body.n or 1)

    @property
    def done(self) -> bool:
        return len(self.streams) == self.choices and all(s.done is not None for s in self.streams)

    @property
    def cancelled(self) -> bool:
        """Whether somebody ended one of them before its time: there is no answer then."""
        ends = [stream.done for stream in self.streams]
        return any(end is not None and end.finish_reason == "cancelled" for end in ends)


class Desk:
    """Asks `engine`, which must have a tokenizer, and writes records. OptionError without one."""

    def __init__(self, engine: Engine, terms: Terms) -> None:
        if engine.target.tokenizer is None:
            raise OptionError(f"{engine.target.name} has no tokenizer: a batch needs one")
        self._engine, self._terms = engine, terms
        self._tokenizer = engine.target.tokenizer
        self.maker = fingerprint(engine)

    def ask(
        self,
        number: int,
        raw: bytes,
        before: int | None,
        listener: Callable[[Stream], None],
    ) -> Asked | bytes:
        """Queue what a line asks for, or the record of why it cannot be.

        `before` is the number of a line with the same custom_id. EngineClosedError.
        """
        try:
            line = parse(raw)
            if before is not None:
                raise BadLine(
                    "duplicate_custom_id", f"the custom_id is that of line {before}, too: give "
                    "each line its own", line.custom_id,
                )  # fmt: skip
        except BadLine as bad:
            return self._record(number, bad.custom_id, error=_error(bad.code, bad.message))
        try:
            return self._asked(number, line, listener)
        except ApiError as error:
            return self._refused(number, line.custom_id, error)

    def record(self, asked: Asked) -> tuple[bytes, bool]:
        """Of a line that is done and was not cancelled, and whether it is of an error. RoundError
        where a round broke off, which is no fault of the line's."""
        choices = [stream.done for stream in asked.streams if stream.done is not None]
        for choice in choices:
            if isinstance(choice.error, RoundError):
                raise choice.error
            if choice.error is not None:
                custom_id = asked.line.custom_id
                return self._refused(asked.number, custom_id, failure(choice.error)), True
        return self._answered(asked, choices), False

    # ------------------------------------------------------------------ parts

    def _asked(self, number: int, line: Line, listener: Callable[[Stream], None]) -> Asked:
        body = request(line)
        model = named(body.model, self._terms.models)
        tokenizer, most = self._tokenizer, self._terms.max_tokens
        endpoint: Endpoint
        if isinstance(body, ChatRequest):
            endpoint = ChatEndpoint(body, tokenizer, most)
        else:
            endpoint = CompletionEndpoint(body, tokenizer, self._engine.target.eos, most)
        options = endpoint.options
        options.setdefault("seed", derived_seed(self._terms.seed, number))
        asked = Asked(number, line, endpoint, options["seed"], model)
        try:
            asked.streams = self._engine.submit_batch(
                endpoint.prompts, body.n or 1, listener=listener, **options
            )
        except EngineClosedError:
            raise
        except ForerunError as error:
            raise refusal(error, tuple(type(body).model_fields)) from error
        except Exception as error:
            if options.get("grammar") is None:
                raise
            log.exception("line %d: its grammar failed", number)
            raise ApiError(
                400, "response_format cannot be used: the grammar's library failed at it",
                param="response_format",
            ) from error  # fmt: skip
        return asked

    def _answered(self, asked: Asked, choices: Sequence[Completion]) -> bytes:
        name = f"{self._terms.run}_{asked.number}"
        kind = "chatcmpl" if isinstance(asked.endpoint, ChatEndpoint) else "cmpl"
        head = Head(
            id=f"{kind}-{name}", created=int(time.time()), model=asked.model,
            system_fingerprint=self.maker,
        )  # fmt: skip
        body = asked.endpoint.reply(head, choices).to_json()
        return self._record(asked.number, asked.line.custom_id, (200, body), seed=asked.seed)

    def _refused(self, number: int, custom_id: str | None, error: ApiError) -> bytes:
        return self._record(number, custom_id, (error.status, error.to_json()))

    def _record(
        self,
        number: int,
        custom_id: str | None,
        answer: tuple[int, str] | None = None,
        *,
        error: dict[str, str] | None = None,
        seed: int | None = None,
    ) -> bytes:
        """`answer`: HTTP's status, and a body that is JSON already."""
        response = "null"
        if answer is not None:
            asked = json.dumps(f"req_{self._terms.run}_{number}")
            response = f'{{"status_code":{answer[0]},"request_id":{asked},"body":{answer[1]}}}'
        parts = {
            "id": json.dumps(record_id(self._terms.run, number)),
            "line": str(number),
            "custom_id": json.dumps(custom_id),
            **({} if seed is None else {"seed": str(seed)}),
            "response": response,
            "error": json.dumps(error),
        }
        text = ",".join(f'"{key}":{value}' for key, value in parts.items())
        return f"{{{text}}}\n".encode()


def derived_seed(run: str, number: int) -> int:
    """64 bits, the most that the server takes too: of two lines they differ."""
    raw = f"{run}:{number}".encode()
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def _error(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}
