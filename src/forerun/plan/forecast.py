"""Every drafter at hand, with every γ: what speed it promises on these prompts.

    forecast = plan(target, prompts, given={"model": small}, options={"temperature": 0.0})
    forecast.ways[0].best          the fastest, with its γ
    forecast.missing               what could not be tried, and why

At hand is every drafter of the registry that can be made of what was given; and pairs of one that
looks things up with one that runs a model. Time is shared out: what a drafter's replays may take
says how many places of each text are looked at.

What this module does not know: how it is shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from forerun.control import AdaptiveControl, Control, FixedControl
from forerun.drafters import DRAFTERS, NEEDS, TRANSLATING, HybridDrafter, ModelDrafter, fitting
from forerun.drafters.base import Drafter, models
from forerun.engine.choices import AUTO, choose_verifier
from forerun.errors import ForerunError, OptionError
from forerun.models.base import Model
from forerun.models.cost import awakening, measured, stated
from forerun.models.shallow import is_part
from forerun.numerics.token_tree import Drawn
from forerun.pace import Costs, Pace
from forerun.plan.replay import Replay, chances, replay
from forerun.plan.rounds import RoundCosts, measure
from forerun.plan.texts import Asked, Clock, Text, write
from forerun.plan.walk import Recorded, Walked, walk
from forerun.verifiers import verifier as find_verifier

GAMMAS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
SIZES = (2, 4, 6, 8, 12, 15)  # of trees
MOST = 15  # tokens of a chain
WALKS = 8  # where coins decide; their mean counts
FIRST = 6  # moments that tell how many there is time for
CLOSE = 0.97  # `auto` is advised where it comes so close to the best γ: it follows the text


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One way to decode. `num_draft` 0: plainly."""

    num_draft: int | str
    rate: float  # tokens a second, of all requests together
    tokens_per_pass: float
    drafted: float  # tokens a round and request


@dataclass(frozen=True, kw_only=True)
class Way:
    """A drafter, or several, for so many requests at once."""

    drafter: str
    verifier: str
    slots: int
    tree: bool
    acceptance: tuple[float, ...]  # by depth, of what was accepted before
    fixed: tuple[Prediction, ...]  # by γ
    auto: Prediction | None  # None: trees whose shape was not tried for every size
    plain: float  # tokens a second without it
    stride: int  # of its replays

    @property
    def best(self) -> Prediction:
        """`auto` where it comes close to the best γ."""
        best = max(self.fixed, key=lambda one: one.rate)
        return self.auto if self.auto and self.auto.rate >= CLOSE * best.rate else best

    @property
    def ratio(self) -> float:
        return self.best.rate / self.plain


@dataclass(kw_only=True)
class Forecast:
    """What was found."""

    ways: list[Way] = field(default_factory=list)  # the fastest first, for each number of requests
    plain: dict[int, float] = field(default_factory=dict)  # tokens a second, by requests
    missing: dict[str, str] = field(default_factory=dict)  # drafter -> why it was not tried
    texts: list[Text] = field(default_factory=list)
    costs: dict[tuple[str, int], RoundCosts] = field(default_factory=dict)  # verifier, requests
    options: Mapping[str, Any] = field(default_factory=dict)  # of sampling
    given: Mapping[str, str] = field(default_factory=dict)  # what drafters were made of, by name
    stated: bool = False  # the model states what its passes cost

    def advised(self, slots: int) -> Way | None:
        """The fastest; None where none is faster than plain decoding."""
        mine = [way for way in self.ways if way.slots == slots and way.ratio > 1]
        return max(mine, key=lambda way: way.best.rate, default=None)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A drafter whose replays are to be made, in one size or several."""

    drafter: Drafter
    verifier: str
    sizes: Sequence[int]


def plan(
    target: Model,
    prompts: Sequence[Asked],
    *,
    given: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    slots: Sequence[int] = (1,),
    seconds: float = 120.0,
    progress: Callable[[str], None] = lambda what: None,
    clock: Clock = perf_counter,
) -> Forecast:
    """Predict. `given` are arguments of drafters, by name: a draft model as `model`.

    options   sampling keywords of every request
    slots     numbers of requests at once
    seconds   about what it may take; what there is no time for is looked at in fewer places

    OptionError where none of the prompts is answered by a text.
    """
    options = dict(options or {})
    ends = clock() + seconds
    named = {name: getattr(value, "name", str(value)) for name, value in (given or {}).items()}
    forecast = Forecast(options=options, given=named, stated=stated(target) is not None)
    for number, asked in enumerate(prompts, start=1):
        progress(f"writing text {number} of {len(prompts)}")
        if (text := write(target, asked, options, clock)) is not None:
            forecast.texts.append(text)
    if not forecast.texts:
        raise OptionError("the model's answers end at once: there is nothing to plan by")
    jobs = list(_jobs(target, given or {}, forecast))
    names = dict.fromkeys((_plain_verifier(forecast), *(job.verifier for job in jobs)))
    share = 0.3 * (ends - clock()) / (len(names) * len(slots))
    for name in names:
        for count in slots:
            progress(f"measuring rounds of {count} under {name}")
            found = measure(
                target, forecast.texts, name, slots=count, seconds=min(share, 5.0), clock=clock
            )
            if found is None:
                forecast.missing[f"{count} at once"] = "there is no room for so many"
            else:
                forecast.costs[name, count] = found
    added = _added(forecast)
    for count in slots:
        if (costs := forecast.costs.get((_plain_verifier(forecast), count))) is not None:
            forecast.plain[count] = count / (costs.of(count) + count * added)
    recorded: dict[str, dict[int, Recorded]] = {}
    p = [chances(target, text) for text in forecast.texts]
    for number, job in enumerate(jobs):
        left = (ends - clock()) / (len(jobs) - number)
        progress(f"replaying {job.drafter.name}")
        try:
            recorded[job.drafter.name] = _recorded(target, job, forecast.texts, p, left, clock)
        except ForerunError as error:
            forecast.missing[job.drafter.name] = str(error)
    progress("playing rounds through")
    for job in jobs:
        if (sizes := recorded.get(job.drafter.name)) is not None:
            _add(forecast, job.drafter, job.verifier, sizes, added, clock)
    for pair in _pairs(jobs, recorded):
        both = HybridDrafter([job.drafter for job in pair])
        name = _verifier(forecast, both)
        if all((name, count) in forecast.costs for count in forecast.plain):
            parts = [recorded[job.drafter.name][MOST] for job in pair]
            _add_pair(forecast, both, name, parts, added, clock)
    forecast.ways.sort(key=lambda way: (way.slots, -way.best.rate))
    return forecast


# ------------------------------------------------------------------ what is at hand


def _jobs(target: Model, given: Mapping[str, Any], forecast: Forecast) -> Iterator[Job]:
    """Every drafter of the registry that can be made; why others cannot is noted."""
    for name, make in DRAFTERS.items():
        if name == "none":
            continue
        argument, how = NEEDS.get(name, (None, ""))
        if argument is not None and argument not in given:
            forecast.missing[name] = f"needs {how.partition(':')[0]}"
            continue
        try:
            drafter = make(**({} if argument is None else {argument: given[argument]}))
            assert drafter is not None  # "none" alone is
            if not drafter.traits.chain and not target.abilities.trees:
                forecast.missing[name] = f"{target.name} reads no trees"
                continue
            if name in TRANSLATING and fitting(target, given["model"]) == ModelDrafter.name:
                forecast.missing[name] = "is for draft models with other tokens"
                continue
            drafter.check(target)
        except ForerunError as error:
            forecast.missing[name] = str(error)
            continue
        sizes = (MOST,) if drafter.traits.chain else SIZES
        yield Job(drafter=drafter, verifier=_verifier(forecast, drafter), sizes=sizes)


def _pairs(jobs: Sequence[Job], recorded: Mapping[str, Any]) -> Iterator[tuple[Job, Job]]:
    """One that looks things up, and one that runs a model: chains, both of them."""
    chains = [j for j in jobs if j.drafter.traits.chain and j.drafter.name in recorded]
    for first in chains:
        for second in chains:
            if not _runs_model(first.drafter) and _runs_model(second.drafter):
                yield first, second


def _runs_model(drafter: Drafter) -> bool:
    return drafter.traits.laws or getattr(drafter, "model", None) is not None


def _verifier(forecast: Forecast, drafter: Drafter | None) -> str:
    """The one that the engine takes for a request without a seed."""
    parts = {} if drafter is None else getattr(drafter, "parts", {drafter.name: drafter})
    return choose_verifier(AUTO, forecast.texts[0].request.params, parts).name


def _plain_verifier(forecast: Forecast) -> str:
    return _verifier(forecast, None)


def _added(forecast: Forecast) -> float:
    """Seconds that an engine adds to a request's round: what a token took, less what it takes."""
    one = forecast.costs.get((_plain_verifier(forecast), 1))
    if one is None:
        return 0.0
    return max(statistics.median(text.took for text in forecast.texts) - one.of(1), 0.0)


# ------------------------------------------------------------------ how it does


def _recorded(
    target: Model,
    job: Job,
    texts: Sequence[Text],
    p: Sequence[Sequence[float]],
    seconds: float,
    clock: Clock,
) -> dict[int, Recorded]:
    """Its replays, by size: in as many places as there is time for."""
    model = next(iter(models(job.drafter).values()), None)  # of its usual way
    passes = () if model is None else stated(model) or measured(model, clock)
    first = 0.0 if model is None else awakening(model, target, clock=clock)
    reads = model is None or not is_part(model, target)
    verifier = find_verifier(job.verifier)
    found: dict[int, Recorded] = {}
    for number, size in enumerate(job.sizes):

        def along(i: int, stride: int, most: int | None = None, size: int = size) -> Replay:
            return replay(
                target, job.drafter, verifier, texts[i], p[i], size,
                stride=stride, most=most, clock=clock,
            )  # fmt: skip

        start = clock()
        along(0, 1, FIRST)
        each, left = (clock() - start) / FIRST, seconds / (len(job.sizes) - number)
        whole = each * sum(len(text.output) for text in texts)
        stride = max(1, -int(-whole // max(left, 1e-9)))
        stride = min(stride, min(len(text.output) for text in texts) // 2)
        replays = [along(i, stride) for i in range(len(texts))]
        found[size] = Recorded.of(job.drafter, replays, passes, first, reads)
        seconds -= clock() - start
    return found


def _add(
    forecast: Forecast,
    drafter: Drafter,
    verifier: str,
    sizes: Mapping[int, Recorded],
    added: float,
    clock: Clock,
) -> None:
    """What one drafter promises, for each number of requests."""
    largest = sizes[max(sizes)]
    lookup = drafter.traits.drawn is Drawn.DETERMINISTIC and not _runs_model(drafter)
    for slots, plain in forecast.plain.items():
        costs = forecast.costs[verifier, slots]

        def walked(part: Recorded, n: int | None, costs: RoundCosts = costs) -> Prediction:
            return _walked(forecast, [part], n, costs, added, clock)

        chain = drafter.traits.chain
        fixed = [walked(largest if chain else sizes[n], n) for n in (GAMMAS if chain else sizes)]
        forecast.ways.append(
            Way(
                drafter=drafter.name,
                verifier=verifier,
                slots=slots,
                tree=not chain,
                acceptance=accepted_by_depth([largest]),
                fixed=tuple(fixed),
                auto=walked(largest, None) if chain or lookup else None,
                plain=plain,
                stride=largest.replays[0].stride,
            )
        )


def _add_pair(
    forecast: Forecast,
    drafter: HybridDrafter,
    verifier: str,
    parts: Sequence[Recorded],
    added: float,
    clock: Clock,
) -> None:
    for slots, plain in forecast.plain.items():
        costs = forecast.costs[verifier, slots]
        fixed = [_walked(forecast, parts, n, costs, added, clock) for n in GAMMAS]
        forecast.ways.append(
            Way(
                drafter=drafter.name,
                verifier=verifier,
                slots=slots,
                tree=False,
                acceptance=accepted_by_depth(parts),
                fixed=tuple(fixed),
                auto=_walked(forecast, parts, None, costs, added, clock),
                plain=plain,
                stride=max(part.replays[0].stride for part in parts),
            )
        )


def _walked(
    forecast: Forecast,
    parts: Sequence[Recorded],
    num_draft: int | None,
    costs: RoundCosts,
    added: float,
    clock: Clock,
) -> Prediction:
    """The mean of a few walks where coins decide, of one where none does."""
    lengths = [(len(text.request.prompt), len(text.output)) for text in forecast.texts]
    fixed = forecast.stated  # as the engine would take them
    models = [part for part in parts if part.pass_seconds]
    passes = {part.name: part.pass_seconds for part in models}
    first = {part.name: part.first for part in models}

    def walks() -> Iterator[Walked]:
        for seed in range(WALKS if any(map(_by_chance, parts)) else 1):
            pace = Pace(Costs(target=costs.by_rows, draft=passes, first=first, fixed=fixed))

            def control(pace: Pace = pace) -> Control:
                return AdaptiveControl(pace) if num_draft is None else FixedControl(num_draft)

            yield walk(lengths, parts, control, costs, added=added, seed=seed, clock=clock)

    found = list(walks())
    tokens, rounds = sum(one.tokens for one in found), sum(one.rounds for one in found)
    return Prediction(
        num_draft=AUTO if num_draft is None else num_draft,
        rate=tokens / sum(one.seconds for one in found),
        tokens_per_pass=tokens / rounds,
        drafted=sum(one.drafted for one in found) / rounds,
    )


def _by_chance(part: Recorded) -> bool:
    """Whether coins decide what comes of its drafts, or which are looked at."""
    moments = (m for one in part.replays for m in one.moments.values())
    return not part.everywhere or any(0 < s < 1 for m in moments for s in m.survival)


def accepted_by_depth(parts: Sequence[Recorded], most: int = 4) -> tuple[float, ...]:
    """Of drafted tokens at depth 1, 2, …, all before them accepted, the share accepted."""
    found: list[float] = []
    moments = [m for part in parts for one in part.replays for m in one.moments.values()]
    for depth in range(1, most + 1):
        good = judged = 0.0
        for moment in moments:
            if max(moment.tree.depths, default=0) < depth:
                continue
            reached = (1.0, *moment.survival, 0.0)
            judged += reached[depth - 1] if depth <= len(reached) else 0.0
            good += reached[depth] if depth < len(reached) else 0.0
        if judged == 0:
            break
        found.append(good / judged)
    return tuple(found)
