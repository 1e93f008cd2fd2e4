"""What clients send: OpenAI's fields, and forerun's own beside them.

Types are strict, so that what the OpenAPI schema says is what holds. Fields that are not listed are
kept aside (`unknown`), logged by name, and ignored. Fields that would change the answer and are
not supported are refused (`check_supported`), never ignored.

What is checked here needs no model; the engine checks the rest. A body of megabytes must not cost
seconds: lists have a longest length, and the first item that is wrong ends the reading of them.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from forerun.openai.errors import ApiError

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]

MOST_IDS = 1_000_000  # in a list
MOST_PARTS = 4096  # messages, prompts, parts of a content
MOST_BIASES = 1024
MOST_STOPS, STOP_LENGTH = 16, 1000

Stop = Annotated[str, Field(max_length=STOP_LENGTH)]
Ids = Annotated[list[Id], Field(max_length=MOST_IDS, fail_fast=True)]


def _few(given: Any) -> Any:
    """Before its items are looked at, each of which may be an error of its own."""
    if isinstance(given, dict) and len(given) > MOST_BIASES:
        raise PydanticCustomError("too_long", f"it holds at most {MOST_BIASES} tokens")
    return given


Biases = Annotated[dict[str, float], Field(max_length=MOST_BIASES), BeforeValidator(_few)]


class Body(BaseModel):
    model_config = ConfigDict(
        extra="allow", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    @property
    def unknown(self) -> list[str]:
        """Names of fields that mean nothing here; the first 64 of them."""
        return sorted(islice(self.model_extra or {}, 64))


class Format(Body):
    """`type` is text, json_object, json_schema, and of forerun's own: regex, lark."""

    type: Literal["text", "json_object", "json_schema", "regex", "lark"]
    json_schema: dict[str, Any] | None = Field(
        None, description="name, strict, and schema: the JSON schema", examples=[{"schema": {}}]
    )
    regex: str | None = None
    lark: str | None = None


class StreamOptions(Body):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # known; pacing is the server's to choose


class TextPart(Body):
    type: str
    text: str | None = None


Content = str | Annotated[list[TextPart], Field(max_length=MOST_PARTS, fail_fast=True)]


class Prediction(Body):
    """Text the answer will resemble; it is drafted, and judged like any other draft."""

    type: Literal["content"]
    content: Content


class Sampling(Body):
    """What both endpoints share."""

    model: str | None = Field(None, description="a name of /v1/models; none: the served one")
    temperature: Annotated[float, Field(ge=0, le=1e6)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS, fail_fast=True)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Biases | None = Field(None, description="token id -> number")
    response_format: Format | None = None
    prediction: Prediction | None = None
    user: str | None = None

    # forerun's own
    top_k: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: float | None = None
    min_tokens: Count | None = None
    stop_token_ids: Annotated[list[Id], Field(max_length=1024, fail_fast=True)] | None = None
    drafter: str | None = Field(None, description="one of the server's drafters, or none")
    num_draft: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] | None = None
    speculative: bool | None = Field(None, description="false: plain decoding")
    verifier: str | None = Field(None, description="who judges drafts; auto: what goes with them")
    trace: bool | Literal["full"] | None = Field(
        None,
        description="true: what happened in each round; full: with the likeliest tokens of each "
        "law, and the text of each id in it",
    )
    return_token_ids: bool | None = None

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Known fields that are not supported -> values that ask for nothing."""

    def check_supported(self) -> None:
        """ApiError for a field that would change the answer and cannot be honoured."""
        for name, harmless in self.refused.items():
            value = (self.model_extra or {}).get(name)
            if value is not None and not any(_same(value, one) for one in harmless):
                raise ApiError(400, f"{name} is not supported by this server", param=name)
        if self.stream_options is not None and not self.stream:
            raise ApiError(400, "stream_options goes with stream: true", param="stream_options")

    @property
    def unknown(self) -> list[str]:
        return [name for name in super().unknown if name not in self.refused]


_PROMPTS: Any = Field(min_length=1, max_length=MOST_PARTS, fail_fast=True)


class CompletionRequest(Sampling):
    """`POST /v1/completions`."""

    prompt: (
        str
        | Annotated[list[str], _PROMPTS]
        | Annotated[list[Id], Field(min_length=1, max_length=MOST_IDS, fail_fast=True)]
        | Annotated[list[Annotated[Ids, Field(min_length=1)]], _PROMPTS]
    )
    max_tokens: Count | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None
    return_tokens_as_token_ids: bool | None = Field(
        None, description="true: logprobs name tokens token_id:17, not by text, which several share"
    )

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {"best_of": (1,), "suffix": ("",)}

    def check_supported(self) -> None:
        super().check_supported()
        if self.max_tokens == 0 and not self.echo:
            raise ApiError(
                400, "max_tokens must be at least 1; 0 goes with echo: true", param="max_tokens"
            )


class Message(Body):
    role: str
    content: Content | None = None
    name: str | None = None


Messages = Annotated[list[Message], Field(min_length=1, max_length=MOST_PARTS, fail_fast=True)]


class ChatRequest(Sampling):
    """`POST /v1/chat/completions`."""

    messages: Messages
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        "tools": ([],),
        "tool_choice": ("none", "auto"),
        "functions": ([],),
        "function_call": ("none", "auto"),
        "audio": (),
        "modalities": (["text"],),
        "web_search_options": (),
    }

    def check_supported(self) -> None:
        super().check_supported()
        if self.top_logprobs is not None and not self.logprobs:
            raise ApiError(400, "top_logprobs goes with logprobs: true", param="top_logprobs")


class TokenizeRequest(Body):
    """`POST /tokenize`: a text as it would be read, or a conversation in the chat template."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool = Field(True, description="start with BOS where the model does")
    return_token_strs: bool = False


class DetokenizeRequest(Body):
    """`POST /detokenize`."""

    model: str | None = None
    tokens: Ids


def _same(value: Any, other: Any) -> bool:
    """1 is not True here."""
    return type(value) is type(other) and bool(value == other)
