"""The exact suite: every drafter with every verifier under every kind of sampling, each enumerated.

Small tables that depend on the whole prefix, two or three tokens, outputs of four. The law that
the production loop writes is compared with Π p:

    case = Case(drafter="ngram", verifier="block", control="top-p", ...)
    run(case).total_variation < EXACT

What this module does not know: how results are shown. Tests have suites of their own, larger ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from forerun.certify.enumerate import exact_law, plain_law, total_variation
from forerun.certify.tiny_head import tiny_head, tiny_mlp_head
from forerun.certify.vocabularies import of_pieces, pieces
from forerun.drafters import (
    Drafter,
    GreedyPlusOneTreeDrafter,
    HeadDrafter,
    HeadGreedyPlusOneTreeDrafter,
    HeadJoinedTreeDrafter,
    HeadSampledTreeDrafter,
    HeadTreeDrafter,
    HybridDrafter,
    IntersectionDrafter,
    JoinedTreeDrafter,
    LayerSkipDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SampledTreeDrafter,
    StringMatchDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.drafters.base import parts
from forerun.engine.choices import AUTO
from forerun.errors import UnknownNameError
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.mlp_checkpoint import MLPConfig
from forerun.models.heads.mlp_model import MLPHeadModel
from forerun.models.heads.model import HeadModel
from forerun.models.tabular import HIDDEN, LayeredTabularModel, TabularModel
from forerun.pace import Costs
from forerun.verifiers import VERIFIERS, verifier

EXACT = 1e-12
"""Total variation from here on is not rounding."""

PROMPT = (0, 1, 1, 0, 1)  # repeats itself, so that lookup drafters find something
COMPANY = (((1, 0, 0), {"max_tokens": 2, "num_draft": 1, "temperature": 1.3}),)
HORIZON = 4
DEPTH = 4  # of the target
TWIG = (-1, -1, 0)  # two children, and one below the first

CHAIN_VERIFIERS = ("rejection", "block", "coupled")

COSTS = Costs(
    target=tuple(1 + 0.1 * i for i in range(16)),
    draft=dict.fromkeys(("model", "intersection", "string-match", "head"), (0.05,))
    | {"layer-skip 1": (0.1,), "layer-skip 1-2": (0.05,)},
    fixed=True,
)
"""What decides γ where that is "auto": so that it rises and falls with what was accepted."""

OTHER_CONTROLS = {"temperature": 1.6, "top_k": 0, "top_p": 1.0, "min_p": 0.05}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One enumeration."""

    drafter: str  # a name in VARIANTS
    variant: str  # which of that drafter's; "" where there is one
    verifier: str
    control: str
    vocabulary: int
    num_draft: int | Literal["auto"]
    company: bool = False

    @property
    def described(self) -> str:
        company = ", in company" if self.company else ""
        variant = f", {self.variant}" if self.variant else ""
        return f"{self.control}{variant}{company}, V = {self.vocabulary}, γ = {self.num_draft}"


@dataclass(frozen=True, kw_only=True)
class Result:
    case: Case
    total_variation: float

    @property
    def exact(self) -> bool:
        return self.total_variation < EXACT  # NaN is not


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A drafter with a verifier: how far the worst of its cases was off."""

    drafter: str
    verifier: str
    cases: int
    worst: Result

    @property
    def exact(self) -> bool:
        return self.worst.exact


def cases(drafter: str | None = None, verifier_name: str | None = None) -> list[Case]:
    """The suite, or its part for one drafter, one verifier. UnknownNameError for others."""
    if drafter is not None and drafter not in VARIANTS:
        raise UnknownNameError.of("drafter", drafter, VARIANTS)
    if verifier_name not in (None, AUTO, *VERIFIERS):
        raise UnknownNameError.of("verifier", str(verifier_name), [AUTO, *VERIFIERS])
    verifiers = list(VERIFIERS) if verifier_name is None else [verifier_name]
    return [
        case
        for name in ([drafter] if drafter else VARIANTS)
        for judge in verifiers
        for variant in VARIANTS[name]
        if _judges(judge, VARIANTS[name][variant](2))
        for case in _of_pair(name, variant, judge)
    ]


def selection(every: Iterable[Case]) -> list[Case]:
    """A few cases of each pair, for a quick look: of tables of two tokens, of three, and of those
    in company or with γ by cost one in nine, at least one.

    Which come up goes on from pair to pair, halfway ahead for three tokens, so that each verifier
    meets all controls.
    """
    kinds: dict[tuple[Any, ...], list[Case]] = {}
    for case in every:
        who = (case.drafter, case.variant)
        what = (case.verifier, case.vocabulary, case.company or case.num_draft == AUTO)
        kinds.setdefault((who, what), []).append(case)
    met: dict[tuple[Any, ...], int] = {}
    found: list[Case] = []
    for (_, what), some in kinds.items():
        start = met.get(what, 0 if what[1] == 2 else len(some) // 2)
        met[what] = stop = start + -(-len(some) // 9)
        found += [some[at % len(some)] for at in range(start, stop)]
    return found


def run(case: Case) -> Result:
    """Enumerate one case."""
    sampling = dict(controls(case.vocabulary)[case.control])
    eos = sampling.pop("eos", None)
    model = target(case.vocabulary, eos=eos)
    common: dict[str, Any] = {"prompt": PROMPT, "max_tokens": HORIZON, **sampling}
    found = exact_law(
        model,
        VARIANTS[case.drafter][case.variant](case.vocabulary),
        verifier=case.verifier,
        num_draft=case.num_draft,
        costs=COSTS,
        company=COMPANY if case.company else (),
        **common,
    )
    return Result(case=case, total_variation=total_variation(found, plain_law(model, **common)))


def by_pair(results: Iterable[Result]) -> list[Pair]:
    """Results of each drafter with each verifier, in the order they came."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result.case.drafter, result.case.verifier), []).append(result)
    return [
        Pair(drafter=name, verifier=judge, cases=len(some), worst=max(some, key=_badness))
        for (name, judge), some in found.items()
    ]


def table(
    vocabulary: int, seed: int, *, zeros: bool = False
) -> Callable[[tuple[int, ...]], list[float]]:
    """A law that depends on the whole prefix. `zeros`: after some, a token has none."""

    @cache
    def next_law(prefix: tuple[int, ...]) -> list[float]:
        rng = np.random.default_rng([seed, vocabulary, *prefix])
        p = rng.dirichlet(np.full(vocabulary, 0.8))
        if zeros and vocabulary > 2 and rng.random() < 0.5:
            p[rng.integers(vocabulary)] = 0.0
        return [float(x) for x in p / p.sum()]

    return next_law


def controls(vocabulary: int) -> dict[str, Mapping[str, Any]]:
    """Kinds of sampling, each axis of a request's law alone. `eos` is the model's."""
    last = vocabulary - 1
    return {
        "plain": {},
        "temperature": {"temperature": 0.7},
        "greedy": {"temperature": 0.0},
        "top-k": {"top_k": max(vocabulary - 1, 1)},
        "top-p": {"top_p": 0.7},
        "min-p": {"min_p": 0.4},
        "repetition penalty": {"repetition_penalty": 1.8},
        "repetition reward": {"repetition_penalty": 0.6},
        "presence penalty": {"presence_penalty": 0.9},
        "presence reward": {"presence_penalty": -0.9},
        "frequency penalty": {"frequency_penalty": 0.8},
        "frequency reward": {"frequency_penalty": -0.8},
        "logit bias": {"logit_bias": {0: -1.5, last: 0.7}},
        "ban": {"banned": [last]},
        "end token": {"eos": last},
        "end token, min-tokens": {"eos": last, "min_tokens": 2},
        "stop id": {"stop_ids": [0]},
    }


def draft_model(vocabulary: int, *, context: int | None = None) -> TabularModel:
    return TabularModel(table(vocabulary, 2), vocabulary, context=context, name="draft")


def foreign(vocabulary: int, tokens: Sequence[bytes] | None = None) -> TabularModel:
    """A draft model with tokens of its own: some of the target's, in another order, and others."""
    own = [b"abb", *pieces(vocabulary)[:0:-1], b"c"] if tokens is None else tokens
    law = table(len(own), 3, zeros=True)
    return TabularModel(law, len(own), name="draft", tokenizer=of_pieces(own))


def target(vocabulary: int, *, eos: int | None = None, context: int | None = None) -> TabularModel:
    return LayeredTabularModel(
        table(vocabulary, 1, zeros=True), shallow_table(vocabulary), DEPTH, vocabulary, eos,
        context=context, tokenizer=of_pieces(pieces(vocabulary)),
    )  # fmt: skip


def shallow_table(
    vocabulary: int,
) -> Callable[[tuple[int, ...], frozenset[int]], list[float]]:
    """The target's law without some of its layers: the further off, the more of them."""
    whole, other = table(vocabulary, 1, zeros=True), table(vocabulary, 4)

    def law(prefix: tuple[int, ...], skipped: frozenset[int]) -> list[float]:
        far = len(skipped) / DEPTH
        return [(1 - far) * p + far * q for p, q in zip(whole(prefix), other(prefix))]

    return law


def head(vocabulary: int) -> HeadModel:
    """Of three tokens it drafts two only."""
    config = HeadConfig(
        hidden=HIDDEN, heads=1, kv_heads=1, head_width=HIDDEN, feed_forward=HIDDEN, taps=(1, 2),
        vocabulary=vocabulary, draft_vocabulary=min(vocabulary, 2), context=64,
    )  # fmt: skip
    return HeadModel(tiny_head(config), target(vocabulary), kernels="numpy", exact=True)


def mlp_head(vocabulary: int, form: str) -> MLPHeadModel:
    """It drafts two tokens at most."""
    config = MLPConfig(
        form=form, hidden=HIDDEN, width=HIDDEN, depths=2, taps=(DEPTH,),
        vocabulary=vocabulary, draft_vocabulary=min(vocabulary, 2),
    )  # fmt: skip
    return MLPHeadModel(tiny_mlp_head(config), target(vocabulary), kernels="numpy", exact=True)


def _predicted(vocabulary: int) -> list[int]:
    return [int(x) for x in np.random.default_rng(5).integers(vocabulary, size=8)]


VARIANTS: dict[str, dict[str, Callable[[int], Drafter | None]]] = {
    "none": {"": lambda vocabulary: None},
    "model": {
        "": lambda vocabulary: ModelDrafter(draft_model(vocabulary)),
        "other controls": lambda vocabulary: ModelDrafter(
            draft_model(vocabulary), sampling=OTHER_CONTROLS
        ),
        "greedy draft": lambda vocabulary: ModelDrafter(
            draft_model(vocabulary), sampling={"temperature": 0}
        ),
    },
    "layer-skip": {"": lambda vocabulary: LayerSkipDrafter()},
    "ngram": {"": lambda vocabulary: NgramDrafter()},
    "suffix": {"": lambda vocabulary: SuffixDrafter()},
    "prediction": {"": lambda vocabulary: PredictionDrafter(_predicted(vocabulary))},
    "suffix+model": {
        "": lambda vocabulary: HybridDrafter(
            [SuffixDrafter(), ModelDrafter(draft_model(vocabulary))]
        )
    },
    "intersection": {"": lambda vocabulary: IntersectionDrafter(foreign(vocabulary))},
    "string-match": {"": lambda vocabulary: StringMatchDrafter(foreign(vocabulary))},
    "suffix-tree": {"": lambda vocabulary: SuffixTreeDrafter()},
    "tree": {"": lambda vocabulary: LikeliestTreeDrafter(draft_model(vocabulary))},
    "joined-tree": {"": lambda vocabulary: JoinedTreeDrafter(draft_model(vocabulary))},
    "sampled-tree": {
        "": lambda vocabulary: SampledTreeDrafter(draft_model(vocabulary), shape=TWIG)
    },
    "greedy-plus-one-tree": {
        "": lambda vocabulary: GreedyPlusOneTreeDrafter(draft_model(vocabulary), shape=TWIG)
    },
    "head": {
        "": lambda vocabulary: HeadDrafter(head(vocabulary)),
        "hydra": lambda vocabulary: HeadDrafter(mlp_head(vocabulary, "hydra")),
    },
    "head-tree": {"": lambda vocabulary: HeadTreeDrafter(head(vocabulary))},
    "head-joined-tree": {"": lambda vocabulary: HeadJoinedTreeDrafter(head(vocabulary))},
    "head-sampled-tree": {
        "": lambda vocabulary: HeadSampledTreeDrafter(head(vocabulary), shape=TWIG)
    },
    "suffix+head-sampled-tree": {
        "": lambda vocabulary: HybridDrafter(
            [SuffixDrafter(), HeadSampledTreeDrafter(head(vocabulary), shape=TWIG)]
        )
    },
    "head-greedy-plus-one-tree": {
        "": lambda vocabulary: HeadGreedyPlusOneTreeDrafter(head(vocabulary), shape=TWIG)
    },
}
"""By name, as on the command line: drafters for a vocabulary of that size."""


def _of_pair(name: str, variant: str, judge: str) -> Sequence[Case]:
    common: dict[str, Any] = {"drafter": name, "variant": variant, "verifier": judge}
    small = [Case(**common, control=name, vocabulary=2, num_draft=3) for name in controls(2)]
    crossed = (judge in CHAIN_VERIFIERS) != name.endswith("tree")
    large = [
        Case(**common, control=name, vocabulary=3, num_draft=2)
        for name in (controls(3) if crossed else ())
    ]
    company = [
        Case(**common, control=name, vocabulary=2, num_draft=2, company=True)
        for name in ("plain", "temperature", "end token")
    ]
    auto = [
        Case(**common, control=name, vocabulary=2, num_draft=AUTO, company=several)
        for name in ("plain", "temperature", "end token")
        for several in (False, True)
    ]
    return [*small, *large, *company, *auto]


def _judges(judge: str, guesser: Drafter | None) -> bool:
    if judge == AUTO or guesser is None:
        return True
    made = [part.traits for part in parts(guesser).values()]
    return all(verifier(judge).judges(traits.drawn, traits.chain) for traits in made)


def _badness(result: Result) -> float:
    tv = result.total_variation
    return tv if tv == tv else float("inf")
