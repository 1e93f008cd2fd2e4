"""What goes between a front, which speaks HTTP, and the replicas, which have engines.

    Call -> Begun, then (choice, Piece) …, (choice, Completion), for each choice
         -> or, in the place of any of these and last, Refused

All of it is pickled. What this module does not know: how it is carried, and who may die meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forerun.engine import Completion, Piece, Prompt, Resume
from forerun.openai.errors import ApiError
from forerun.server.backend import Facts
from forerun.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Call:
    """Of one request: `n` choices for each prompt, numbered prompt by prompt."""

    prompts: Sequence[Prompt]
    n: int
    options: Mapping[str, Any]  # keywords of the engine
    fields: Sequence[str]  # the body's, for `param` of a refusal
    tenant: str
    seconds: float  # until it is too late
    left: Mapping[int, Resume] | None = None  # choices that others began; None: all are new


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Who answers. Of one `model` seeded texts are the same where `path` is."""

    path: str  # build and instruction path, as `fingerprint` tells them
    model: str  # of its file, and of how it is computed
    vocabulary: str  # of its tokenizer


@dataclass(frozen=True, kw_only=True)
class Begun:
    """The call was taken."""

    maker: Maker
    seeds: Mapping[int, int]  # by choice


@dataclass(frozen=True, kw_only=True)
class Refused:
    """An `ApiError`, which would not survive its journey."""

    status: int
    message: str
    param: str | None
    code: str | None
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: ApiError) -> Refused:
        return cls(
            status=error.status, message=error.message, param=error.param, code=error.code,
            headers=error.headers,
        )  # fmt: skip

    @property
    def error(self) -> ApiError:
        error = ApiError(self.status, self.message, param=self.param, code=self.code)
        error.headers.update(self.headers)
        return error


Item = Begun | Refused | tuple[int, Piece | Completion]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a replica tells of itself."""

    maker: Maker
    facts: Facts


def vocabulary(tokenizer: Tokenizer) -> str:
    """A name for a vocabulary: two of one name number the same tokens alike."""
    digest = hashlib.sha256()
    for token in range(tokenizer.vocab_size):
        digest.update(tokenizer.token_bytes(token) + b"\xff")
    return digest.hexdigest()[:16]
