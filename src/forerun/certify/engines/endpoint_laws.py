"""What an endpoint's answer says of the law at each place: the likeliest tokens, by id.

    laws(choice, name) -> for each token, {id: log-probability}

Read from `logprobs.top_logprobs` with names "token_id:17" (forerun, and vLLM, asked with
return_tokens_as_token_ids), or from `logprobs.content[i].top_logprobs[j].id` (llama.cpp). Tokens
by text alone will not do: several may read alike, and which of them is meant is not said.

What this module does not know: whether these are laws before the controls or after them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from forerun.errors import CapabilityError

Law = dict[int, float]

LOWEST = -9000.0
"""At and below it stands no probability: servers write −9999 for −∞."""


def laws(choice: Mapping[str, Any], name: str) -> list[Law]:
    """CapabilityError, which begins with the engine's `name`, where the answer does not tell."""
    given = choice.get("logprobs") or {}
    if content := given.get("content"):
        return [_of_content(entry, name) for entry in content]
    tops, own, tokens = (given.get(k) for k in ("top_logprobs", "token_logprobs", "tokens"))
    if not tops or not tokens or any(top is None for top in tops):
        raise CapabilityError(
            f"{name} gives no top_logprobs, so that its own laws cannot be the reference: name a "
            "local model with --reference"
        )
    found = []
    for token, logprob, top in zip(tokens, own or [None] * len(tokens), tops, strict=True):
        law = {_id(text, name): float(value) for text, value in top.items()}
        if logprob is not None:
            law.setdefault(_id(token, name), float(logprob))
        found.append(_above(law))
    return found


def _of_content(entry: Mapping[str, Any], name: str) -> Law:
    some = [*(entry.get("top_logprobs") or []), entry]
    if len(some) == 1 or any("id" not in one or "logprob" not in one for one in some):
        raise CapabilityError(_BY_TEXT.format(name))
    return _above({int(one["id"]): float(one["logprob"]) for one in some})


def _id(text: str, name: str) -> int:
    head, _, number = text.partition("token_id:")
    if head or not number.isdecimal():
        raise CapabilityError(_BY_TEXT.format(name))
    return int(number)


_BY_TEXT = (
    "{} names the tokens of its logprobs by text, and several may read alike: as a reference it "
    "must know return_tokens_as_token_ids; else name a local model with --reference"
)


def _above(law: Law) -> Law:
    return {i: value for i, value in law.items() if value > LOWEST}


def decimals(some: list[Law]) -> int:
    """The fewest decimal digits that all the numbers can be written with, up to 12."""
    values = [value for law in some for value in law.values() if value != 0]
    for digits in range(12):
        if all(math.isclose(round(v, digits), v, rel_tol=0, abs_tol=1e-13) for v in values):
            return digits
    return 12
