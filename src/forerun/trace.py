"""What happened in a round, as one record; statistics are folds over such records.

One JSON schema, versioned, serves files, streams and the page: `Round.to_json` and
`Round.from_json`, one object a line. Fields that were not recorded are absent from a line, never a
sentinel.

What this module does not know: models, laws, how tokens were judged.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from forerun.numerics.likeliest import Head
from forerun.numerics.logprobs import TokenLogprob

SCHEMA = 4
"""Version of the JSON form. 2: `drafter` and `expected` came in; 3: `logprobs`; 4: `p_head` and
`q_head`. Lines of earlier ones can still be read."""

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
    p_head: Head | None = None  # likeliest tokens of the target's law at the token's position,
    q_head: Head | None = None  # and of the law it was drafted with; None: a point mass


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of a round: the request's share of drafting and of the target pass; verifying."""

    draft: float
    target: float
    verify: float


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What control expected of a round when it chose its draft."""

    tokens: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of one request. `tokens` are those delivered: cut at an end, a stop, the budget."""

    request: int  # index of the request in its call
    index: int  # round number of the request, from 0
    position: int  # absolute position of tokens[0] in prompt + output
    verifier: str
    drafter: str | None = None  # who drafted; None: nothing was drafted
    drafted: tuple[Drafted, ...]
    tokens: tuple[int, ...]
    kinds: tuple[Kind, ...]  # of each of `tokens`
    head: Head | None = None  # likeliest of the law behind the last draw
    logprobs: tuple[TokenLogprob, ...] | None = None  # of each of `tokens`, where asked for
    expected: Expected | None = None  # where `control` chose γ
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
        if (schema := fields.pop("schema", None)) not in range(1, SCHEMA + 1):
            raise ValueError(f"trace schema {schema!r}; this version reads 1 to {SCHEMA}")
        try:
            drafted = tuple(map(_drafted, fields.pop("drafted")))
            head, expected = fields.pop("head", None), fields.pop("expected", None)
            logprobs = fields.pop("logprobs", None)
            return cls(
                drafted=drafted,
                tokens=tuple(fields.pop("tokens")),
                kinds=tuple(fields.pop("kinds")),
                times=Times(**fields.pop("times")),
                head=None if head is None else _pairs(head),
                logprobs=None if logprobs is None else tuple(map(_logprob, logprobs)),
                expected=None if expected is None else Expected(**expected),
                **fields,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a trace record: {error}") from None


def ids(record: Round) -> set[int]:
    """Every token that a record names."""
    heads = [record.head, *(h for d in record.drafted for h in (d.p_head, d.q_head))]
    named = {token for head in heads for token, _ in head or ()}
    for entry in record.logprobs or ():
        named |= {token for token, _ in entry.top}
    return named | set(record.tokens) | {d.token for d in record.drafted}


def _drafted(fields: Mapping[str, Any]) -> Drafted:
    heads = {name: _pairs(fields[name]) for name in ("p_head", "q_head") if name in fields}
    return Drafted(**{**fields, **heads})


def _logprob(fields: Mapping[str, Any]) -> TokenLogprob:
    return TokenLogprob(**{**fields, "top": _pairs(fields["top"])})


def _pairs(found: Iterable[Any]) -> Head:
    return tuple((int(i), float(p)) for i, p in found)


def _recorded(record: Round | Drafted) -> dict[str, Any]:
    return {k: v for k, v in dataclasses.asdict(record).items() if v is not None}


@dataclass(frozen=True, kw_only=True)
class DrafterStats:
    """What one drafter did, in the rounds it drafted in."""

    rounds: int
    drafted: int
    accepted: int
    seconds: float

    @property
    def rejected(self) -> int:
        """Drafted and not delivered."""
        return self.drafted - self.accepted


MODEL_DRAFTERS = frozenset(
    {
        "model",
        "intersection",
        "string-match",
        "tree",
        "joined-tree",
        "sampled-tree",
        "greedy-plus-one-tree",
    }
    | {"head", "head-tree", "head-joined-tree", "head-sampled-tree", "head-greedy-plus-one-tree"}
)
"""Drafters whose drafting is passes of a model, by name."""


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
    drafters: Mapping[str, DrafterStats] = field(default_factory=dict)  # those that drafted

    @property
    def outside_share(self) -> float:
        """Share of the rounds' time outside model passes: laws, verification, lookups."""
        whole = self.draft_seconds + self.target_seconds + self.verify_seconds
        drafting = sum(d.seconds for name, d in self.drafters.items() if name in MODEL_DRAFTERS)
        return (whole - self.target_seconds - drafting) / whole if whole > 0 else 0.0

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
        names = (
            "tokens", "acceptance_rate", "mean_accepted", "tokens_per_pass", "outside_share"
        )  # fmt: skip
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in names}


def stats(rounds: Iterable[Round]) -> Stats:
    """Fold rounds into counts."""
    rounds = list(rounds)
    kinds = [kind for r in rounds for kind in r.kinds]
    drafters = sorted({r.drafter for r in rounds if r.drafter is not None})
    return Stats(
        rounds=len(rounds),
        drafted=sum(len(r.drafted) for r in rounds),
        accepted=kinds.count("accepted"),
        corrected=kinds.count("residual"),
        bonus=kinds.count("bonus"),
        draft_seconds=sum(r.times.draft for r in rounds),
        target_seconds=sum(r.times.target for r in rounds),
        verify_seconds=sum(r.times.verify for r in rounds),
        drafters={name: _of([r for r in rounds if r.drafter == name]) for name in drafters},
    )


def _of(rounds: Sequence[Round]) -> DrafterStats:
    return DrafterStats(
        rounds=len(rounds),
        drafted=sum(len(r.drafted) for r in rounds),
        accepted=sum(kind == "accepted" for r in rounds for kind in r.kinds),
        seconds=sum(r.times.draft for r in rounds),
    )
