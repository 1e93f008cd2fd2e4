"""What clients get, in OpenAI's shapes. Fields that were not set are left out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, SkipValidation
from typing_extensions import TypedDict  # pydantic's own; it refuses Python 3.11's


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    def to_json(self) -> str:
        return self.model_dump_json(exclude_unset=True)


# ---------------------------------------------------------------- usage, statistics


class PromptDetails(Reply):
    cached_tokens: int


class CompletionDetails(Reply):
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int
    reasoning_tokens: int


class Usage(Reply):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class SpeculativeDecoding(Reply):
    """vLLM's fields of the same names. A step is a round in which something was drafted."""

    mean_acceptance_length: float  # 1 + accepted tokens per step
    draft_acceptance_rate: float  # accepted per drafted token
    acceptance_histogram: list[int]  # index j: steps that accepted j tokens
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_tokens: int  # most tokens drafted in a step


class Metrics(Reply):
    speculative_decoding: SpeculativeDecoding


Trace = Annotated[list[dict[str, Any]], SkipValidation]
"""Rounds, as `forerun generate --trace` writes them."""

Words = Annotated[dict[str, str], SkipValidation]
"""The text of each id in a trace, by id."""


# ---------------------------------------------------------------- completions


class CompletionLogprobs(Reply):
    tokens: Annotated[list[str], SkipValidation]
    token_logprobs: Annotated[list[float | None], SkipValidation]
    top_logprobs: Annotated[list[dict[str, float] | None] | None, SkipValidation]
    text_offset: Annotated[
        list[int], SkipValidation
    ]  # characters of the choice's text before each token


class CompletionChoice(Reply):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    trace: Trace | None = None
    words: Words | None = None


class Completions(Reply):
    """Also a chunk of a stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    metrics: Metrics | None = None
    obfuscation: str | None = None  # padding, where the stream is paced


# ---------------------------------------------------------------- chat


class TopLogprob(TypedDict):
    """One of thousands in an answer: a dict, of the server's own making, that nobody checks."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Reply):
    content: Annotated[list[ChatLogprob], SkipValidation]
    refusal: None


class ChatMessage(Reply):
    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(Reply):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"]
    token_ids: list[int] | None = None
    trace: Trace | None = None
    words: Words | None = None


class Chat(Reply):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    metrics: Metrics | None = None
    prompt_token_ids: list[int] | None = None


class Delta(Reply):
    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(Reply):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    token_ids: list[int] | None = None
    trace: Trace | None = None
    words: Words | None = None


class ChatChunk(Reply):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    metrics: Metrics | None = None
    prompt_token_ids: list[int] | None = None
    obfuscation: str | None = None


Chunk = ChatChunk | Completions
"""Of a stream of either endpoint."""


# ---------------------------------------------------------------- the rest


class ModelCard(Reply):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None


class ModelList(Reply):
    object: Literal["list"]
    data: list[ModelCard]


class PassCosts(Reply):
    """Measured when the server began; of a model whose passes are nominal, those."""

    target_seconds: list[float]  # of a pass over 1, 2, … new rows
    draft_seconds: dict[str, list[float]]  # the same of drafters that run a model, by name
    first_draft_seconds: dict[str, float]  # what the first pass of a round takes beyond those


class Setup(Reply):
    """What the server runs, for pages that show it."""

    model: str
    vocab_size: int
    context: int | None
    chat: bool  # whether the model has a chat template
    backend: str
    threads: int | None
    processor: str
    drafters: list[str]
    verifier: str
    num_draft: int | Literal["auto"]
    costs: PassCosts | None  # None: nothing drafts, so nothing was measured


class Health(Reply):
    status: Literal["ok", "draining"]


class Tokens(Reply):
    count: int
    max_model_len: int | None
    tokens: list[int]
    token_strs: list[str] | None


class TokenizerInfo(Reply):
    """Of vLLM's, the fields that clients look at."""

    bos_token: str | None
    eos_token: str | None
    pad_token: str | None
    chat_template: str | None


class Text(Reply):
    prompt: str
