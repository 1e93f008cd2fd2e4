"""What happened in a round, as one record; statistics are folds over such records.

One JSON schema, versioned, serves files, streams and the page: `Round.to_json` and
`Round.from_json`, one object a line. Fields that were not recorded are absent from a line, never a
sentinel.

What this module does not know: models, laws, how tokens were judged.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

SCHEMA = 1
"""Version of the JSON form; raised when a field changes its meaning."""

Kind = Literal["accepted", "residual", "bonus"]
"""Where a delivered token came from: a kept draft, a correction, or the target's own extra."""


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """One drafted token of a round."""

    token: int
    parent: int  # index in the round's drafts; −1: the prefix
    p: float  # target's probability of the token
    q: float  # probability it was drafted with; 1 for a point mass
    acceptance: float | None = None  # probability of its acceptance; None: never judged
    coin: float | None = None  # the uniform that decided; None: no coin was tossed
    accepted: bool


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of a round: the request's share of drafting and of the target pass; verifying."""

    draft: float
    target: float
    verify: float


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of one request. `tokens` are those delivered: cut at an end, a stop, the budget."""

    request: int  # index of the request in its call
    index: int  # round number of the request, from 0
    position: int  # absolute position of tokens[0] in prompt + output
    verifier: str
    drafted: tuple[Drafted, ...]
    tokens: tuple[int, ...]
    kinds: tuple[Kind, ...]  # of each of `tokens`
    head: tuple[tuple[int, float], ...] | None = None  # likeliest of the law behind the last draw
    times: Times

    def to_json(self) -> str:
        """One line of the trace file."""
        fields = _recorded(self) | {"drafted": [_recorded(drafted) for drafted in self.drafted]}
        return json.dumps({"schema": SCHEMA, **fields}, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Round:
        """Inverse of `to_json`. ValueError for another schema or missing fields."""
        fields: Any = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError(f"not a trace record: {line[:40]}")
        if (schema := fields.pop("schema", None)) != SCHEMA:
            raise ValueError(f"trace schema {schema!r}; this version reads {SCHEMA}")
        try:
            drafted = tuple(Drafted(**d) for d in fields.pop("drafted"))
            head = fields.pop("head", None)
            return cls(
                drafted=drafted,
                tokens=tuple(fields.pop("tokens")),
                kinds=tuple(fields.pop("kinds")),
                times=Times(**fields.pop("times")),
                head=None if head is None else tuple((int(i), float(p)) for i, p in head),
                **fields,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a trace record: {error}") from None


def _recorded(record: Round | Drafted) -> dict[str, Any]:
    return {k: v for k, v in dataclasses.asdict(record).items() if v is not None}


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Counts over rounds. Accepted + corrected + bonus = tokens, always."""

    rounds: int = 0  # target passes after the prompt
    drafted: int = 0
    accepted: int = 0  # delivered drafted tokens
    corrected: int = 0  # delivered residual tokens
    bonus: int = 0
    draft_seconds: float = 0.0
    target_seconds: float = 0.0
    verify_seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return self.accepted + self.corrected + self.bonus

    @property
    def acceptance_rate(self) -> float:
        """Accepted per drafted token; 0 where nothing was drafted. Falls with γ; not α."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def mean_accepted(self) -> float:
        """Accepted drafted tokens per round."""
        return self.accepted / self.rounds if self.rounds else 0.0

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.rounds if self.rounds else 0.0

    def to_dict(self) -> dict[str, float]:
        names = ("tokens", "acceptance_rate", "mean_accepted", "tokens_per_pass")
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in names}


def stats(rounds: Iterable[Round]) -> Stats:
    """Fold rounds into counts."""
    rounds = list(rounds)
    kinds = [kind for r in rounds for kind in r.kinds]
    return Stats(
        rounds=len(rounds),
        drafted=sum(len(r.drafted) for r in rounds),
        accepted=kinds.count("accepted"),
        corrected=kinds.count("residual"),
        bonus=kinds.count("bonus"),
        draft_seconds=sum(r.times.draft for r in rounds),
        target_seconds=sum(r.times.target for r in rounds),
        verify_seconds=sum(r.times.verify for r in rounds),
    )
