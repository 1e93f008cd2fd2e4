"""A completion for people, in a line, and for programs, as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from forerun.cli.values import counted
from forerun.engine import Completion
from forerun.numerics.logprobs import TokenLogprob


def tokens_per_second(done: Completion) -> float:
    """Over drafting, target passes and verification; reading the prompt is not counted."""
    stats = done.stats
    seconds = stats.draft_seconds + stats.target_seconds + stats.verify_seconds
    return stats.tokens / seconds if seconds > 0 else 0.0


def summary(done: Completion) -> str:
    """How much, how well, how fast, and how it ended if not by itself."""
    stats = done.stats
    tokens, passes = (
        counted(stats.tokens, "token"),
        counted(stats.rounds, "target pass", "target passes"),
    )
    parts = [f"{tokens} in {passes}: {stats.tokens_per_pass:.2f} tokens per pass"]
    parts.append(f"acceptance {stats.acceptance_rate:.0%}" if stats.drafted else "nothing drafted")
    parts.append(f"{tokens_per_second(done):.1f} tokens/s")
    if done.finish_reason not in ("stop", "length"):
        parts.append(done.finish_reason)
    return " · ".join(parts)


def drafting(done: Completion) -> str:
    """How many rounds drafted how many tokens, by drafter: "suffix 3 in 4, 15 in 1"."""
    counts = Counter((record.drafter, len(record.drafted)) for record in done.trace)
    parts = []
    if nothing := counts.pop((None, 0), 0):
        parts.append(f"none in {counted(nothing, 'round')}")
    for name, drafter in done.stats.drafters.items():
        lengths = sorted((n, rounds) for (who, n), rounds in counts.items() if who == name)
        often = ", ".join(f"{n} in {rounds}" for n, rounds in lengths)
        parts.append(f"{name} {often}; {drafter.accepted / drafter.drafted:.0%} accepted")
    return " · ".join(parts) or "no rounds"


def as_dict(done: Completion) -> dict[str, Any]:
    """The public names of `done`, for json.dumps."""
    error = done.error
    return {
        "text": done.text,
        "tokens": done.tokens,
        "finish_reason": done.finish_reason,
        "prompt": done.prompt,
        "seed": done.seed,
        "choice": done.choice,
        "verifier": done.verifier,
        "stats": done.stats.to_dict(),
        "usage": done.usage,
        "cached_tokens": done.cached_tokens,
        "submitted": done.submitted,
        "admitted": done.admitted,
        "ended": done.ended,
        "logprobs": _plain(done.logprobs),
        "prompt_logprobs": _plain(done.prompt_logprobs),
        "trace": [json.loads(record.to_json()) for record in done.trace],
        "error": None if error is None else {"type": type(error).__name__, "message": str(error)},
    }


def _plain(logprobs: Sequence[TokenLogprob | None] | None) -> list[dict[str, Any] | None] | None:
    if logprobs is None:
        return None
    return [None if one is None else dataclasses.asdict(one) for one in logprobs]
