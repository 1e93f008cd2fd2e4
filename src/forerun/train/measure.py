"""What a head is worth on this machine: the engine itself writes, with it, with others, without.

    rows = measured(model, head, prompts, seconds=60)
    worth(rows)      "Use it as suffix+head: 1.41 times as fast as plain decoding, …"

Each prompt is answered by every drafter in turn, so that what else the machine does meets all of
them alike; with γ as `auto` chooses it by this machine's costs. Once more with γ fixed, where speed
does not matter: tokens a pass.

What this module does not know: how the head was trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.api import load
from forerun.engine import Completion
from forerun.models.base import Model
from forerun.train.chats import Chat

PLAIN, SUFFIX, HEAD, BOTH = "plain", "suffix", "head", "suffix+head"
DRAFTERS = (PLAIN, SUFFIX, HEAD, BOTH)
FIXED = 4  # γ, for tokens a pass
TEMPERATURES = {"greedy": 0.0, "T = 1": 1.0}
TOKENS = 256  # most of an answer: as many as those that heads are trained on have
_WORTH = 1.02  # times as fast: what a drafter has to gain to be named


@dataclass(kw_only=True)
class Row:
    """One drafter at one temperature, over all prompts."""

    drafter: str
    sampling: str
    tokens: int = 0
    seconds: float = 0.0
    fixed_tokens: int = 0
    fixed_passes: int = 0

    @property
    def speed(self) -> float:
        """Tokens a second, γ by `auto`."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_pass(self) -> float:
        """With γ fixed."""
        return self.fixed_tokens / self.fixed_passes if self.fixed_passes else 0.0


def measured(
    model: Model,
    head: Path,
    chats: Sequence[Chat],
    *,
    seconds: float,
    tokens: int = TOKENS,
    num_draft: int = FIXED,
    drafters: Sequence[str] = DRAFTERS,
    cache: Path | None = None,
    stopping: Callable[[], bool] = lambda: False,
    watch: Callable[[float], None] = lambda fraction: None,
) -> list[Row]:
    """As many of `chats` as `seconds` last for, at least one, each answered in all ways, with so
    many `tokens` at most."""
    rows = [Row(drafter=d, sampling=s) for s in TEMPERATURES for d in drafters]
    engines = {name: _engine(model, name, head, cache) for name in drafters}
    for name, engine in engines.items():
        if name != PLAIN:
            engine.costs()
    began = time.monotonic()
    for number, chat in enumerate(chats):
        spent = time.monotonic() - began
        if stopping() or (number and spent * (1 + 1 / number) > seconds):
            break
        watch(spent / seconds)
        for row in rows[number % len(rows) :] + rows[: number % len(rows)]:
            _answer(engines[row.drafter], row, chat, tokens, num_draft)
    return rows


def worth(rows: Sequence[Row]) -> list[str]:
    """Whether the head should be used, in a sentence for each temperature."""
    said = []
    for sampling in TEMPERATURES:
        of = {row.drafter: row for row in rows if row.sampling == sampling}
        if not of or not all(row.speed for row in of.values()):
            continue
        plain, suffix = of[PLAIN].speed, of[SUFFIX].speed
        best = max((of[HEAD], of[BOTH]), key=lambda row: row.speed)
        if best.speed < _WORTH * max(plain, suffix):
            better = f"suffix gives {suffix / plain:.2f}" if suffix > plain else "decode plainly"
            said.append(
                f"{sampling}: not worth using here: at best {best.speed / plain:.2f} times as fast "
                f"as plain decoding, as {best.drafter}; {better}"
            )
        else:
            said.append(
                f"{sampling}: use it as {best.drafter}: {best.speed / plain:.2f} times as fast as "
                f"plain decoding, {best.speed / suffix:.2f} times as suffix drafting"
            )
    return said


def _engine(model: Model, name: str, head: Path, cache: Path | None) -> Any:
    if name == PLAIN:
        return load(model, num_draft=0, cache=cache)
    return load(model, drafter=name, head=head if "head" in name else None, cache=cache)


def _answer(engine: Any, row: Row, chat: Chat, tokens: int, num_draft: int) -> None:
    prompt = _prompt(chat)
    options = {"temperature": TEMPERATURES[row.sampling], "max_tokens": tokens}
    began = time.perf_counter()
    done: Completion = engine.generate(prompt, **options)
    row.seconds += time.perf_counter() - began
    row.tokens += len(done.tokens)
    fixed: Completion = engine.generate(
        prompt, **options, num_draft=0 if row.drafter == PLAIN else num_draft
    )
    row.fixed_tokens += len(fixed.tokens)
    row.fixed_passes += len(fixed.trace)


def _prompt(chat: Chat) -> Any:
    if chat.text is not None:
        return chat.text
    return [*chat.before, {"role": "user", "content": chat.turns[0]}]
