"""Records of runs, and what they add up to: medians and ranges over repeats.

A repeat's figure is a ratio of sums over its items (tokens ÷ seconds), so long answers weigh more
and none is counted twice; the median and the range are over the repeats. A ratio between systems is
taken within each repeat, where they ran side by side.

    decode tokens/s    tokens after the first delivery ÷ the time since it
    total tokens/s     all tokens ÷ all the time, reading of the prompt included
    tokens per pass    tokens after the first delivery ÷ target passes after it
    outside            share of that time in which no model computes

This module does not know how runs come about.
"""

from __future__ import annotations

import dataclasses
import hashlib
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Run:
    """One answer of one system."""

    workload: str
    sampling: str
    system: str
    item: str
    repeat: int
    prompt_tokens: int
    tokens: int
    first_seconds: float  # from the request to the first delivery
    seconds: float  # from the request to the last
    later_tokens: int  # delivered after the first delivery
    passes: int | None  # target passes after the first delivery
    drafted: int | None
    accepted: int | None
    model_seconds: float | None  # in passes of target and draft, after the first delivery
    expected_tokens: float | None = None  # what the control foretold for its rounds
    expected_seconds: float | None = None
    came_tokens: float | None = None  # what came of the same rounds
    came_seconds: float | None = None
    digest: str  # of the token ids

    @property
    def later_seconds(self) -> float:
        return self.seconds - self.first_seconds

    @classmethod
    def of(cls, answer: dict[str, Any], **where: Any) -> Run:
        """From what a worker's `generate` answers."""
        arrivals = answer["arrivals"]
        told: Any = answer.get("expected") or ((None, None), (None, None))
        ids = ",".join(map(str, answer["tokens"]))
        return cls(
            tokens=len(answer["tokens"]),
            first_seconds=arrivals[0][0],
            seconds=arrivals[-1][0],
            later_tokens=sum(count for _, count in arrivals[1:]),
            passes=answer["passes"],
            drafted=answer["drafted"],
            accepted=answer["accepted"],
            model_seconds=answer["model_seconds"],
            expected_tokens=told[0][0],
            expected_seconds=told[0][1],
            came_tokens=told[1][0],
            came_seconds=told[1][1],
            digest=hashlib.sha256(ids.encode()).hexdigest()[:16],
            **where,
        )


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A median and its range."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure | None:
        """None where there is nothing to take a median of."""
        values = list(values)
        if not values:
            return None
        return cls(median=statistics.median(values), low=min(values), high=max(values))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One system on one workload under one sampling. None: the engine does not say."""

    workload: str
    sampling: str
    system: str
    repeats: int
    runs: int
    decode: Figure | None  # tokens/s
    total: Figure | None  # tokens/s
    ratio: Figure | None  # of decode tokens/s to the baseline's in the same repeat
    first: Figure | None  # seconds to the first token, mean over items
    tokens_per_pass: Figure | None
    acceptance: Figure | None  # accepted ÷ drafted
    outside: Figure | None  # share of the time outside passes
    foretold: Figure | None  # control: expected tokens/s ÷ those that came
    same_text: float | None  # share of answers with the baseline's very tokens

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def summarise(runs: Sequence[Run], systems: Sequence[str]) -> list[Summary]:
    """One summary for each workload, sampling, and system: those in the order they first ran in,
    systems in the order given. The first system is the baseline of ratios.

    Only repeats that are whole count for a ratio: those in which both systems ran the same items.
    """
    workloads = dict.fromkeys((r.workload, r.sampling) for r in runs)
    ran = {(r.workload, r.sampling, r.system) for r in runs}
    keys = [(*w, name) for w in workloads for name in systems if (*w, name) in ran]
    grouped = {key: [r for r in runs if (r.workload, r.sampling, r.system) == key] for key in keys}
    return [
        _summary(key, group, grouped.get((key[0], key[1], systems[0]), []))
        for key, group in grouped.items()
    ]


def _summary(key: tuple[str, str, str], runs: Sequence[Run], base: Sequence[Run]) -> Summary:
    repeats, base_repeats = _by_repeat(runs), _by_repeat(base)
    pairs = [_paired(repeats[i], base_repeats[i]) for i in repeats if i in base_repeats]
    digests = {(r.item, r.repeat): r.digest for r in base}
    compared = [r for r in runs if (r.item, r.repeat) in digests]
    same = [r.digest == digests[r.item, r.repeat] for r in compared]

    def over(rate: Callable[[Sequence[Run]], float | None]) -> Figure | None:
        values = [rate(group) for group in repeats.values()]
        return Figure.of(value for value in values if value is not None)

    return Summary(
        workload=key[0],
        sampling=key[1],
        system=key[2],
        repeats=len(repeats),
        runs=len(runs),
        decode=over(decode_rate),
        total=over(lambda group: _ratio(group, "tokens", "seconds")),
        ratio=Figure.of(
            mine / theirs
            for a, b in pairs
            if (mine := decode_rate(a)) is not None and (theirs := decode_rate(b))
        ),
        first=over(lambda group: statistics.fmean(r.first_seconds for r in group)),
        tokens_per_pass=over(lambda group: _ratio(group, "later_tokens", "passes")),
        acceptance=over(lambda group: _ratio(group, "accepted", "drafted")),
        outside=over(_outside),
        foretold=over(_foretold),
        same_text=sum(same) / len(same) if same else None,
    )


def decode_rate(runs: Sequence[Run]) -> float | None:
    """Tokens per second after the first delivery."""
    return _ratio(runs, "later_tokens", "later_seconds")


def _by_repeat(runs: Sequence[Run]) -> dict[int, list[Run]]:
    groups: dict[int, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.repeat, []).append(run)
    return groups


def _paired(a: Sequence[Run], b: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The runs of the items that both have."""
    items = {r.item for r in a} & {r.item for r in b}
    return [r for r in a if r.item in items], [r for r in b if r.item in items]


def _ratio(runs: Sequence[Run], above: str, below: str) -> float | None:
    """Sum ÷ sum over the runs that have both; None where that is nothing ÷ nothing."""
    known = [
        (getattr(r, above), getattr(r, below))
        for r in runs
        if getattr(r, above) is not None and getattr(r, below) is not None
    ]
    total = sum(b for _, b in known)
    return float(sum(a for a, _ in known) / total) if total else None


def _outside(runs: Sequence[Run]) -> float | None:
    inside = _ratio(runs, "model_seconds", "later_seconds")
    return None if inside is None else 1 - inside


def _foretold(runs: Sequence[Run]) -> float | None:
    expected = _ratio(runs, "expected_tokens", "expected_seconds")
    came = _ratio(runs, "came_tokens", "came_seconds")
    return expected / came if expected is not None and came else None
