"""An endpoint's own log-probabilities as the reference: where no model of it is at hand.

    reference = EndpointReference(engine, count=20, …)     engine tells `count` likeliest per token

Only where they cover the whole support of the law that is sampled from. Two kinds of endpoint:

    raw        logprobs before the controls (vLLM's default, forerun). With top_k ≤ count all that
               may come is listed, and temperature and cut are applied here. Controls that need
               unlisted tokens, or whose edges rounding may move, are not run.
    processed  logprobs after the controls (vLLM's processed_logprobs). They must sum to 1.

Which it is, is asked (`kind`): the same place at two temperatures. What covers less is refused.

Rounding. Each number may be off by `rounding` (1e-5, or half of the last decimal digit that comes,
which is looked at). Then log p is off by at most 2·rounding ÷ min(T, 1), and a fair bet pays at
most e to that more than it should. So much is taken off the e-value for every token
(`Observation.rounding`): the false alarm stays what was promised. Where the k-th and the next
token are closer than that, which of them is cut is not known, and the text is left there.

What this module does not know: whether the endpoint's numbers are the model's. It takes its word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from forerun.certify.engines.base import Told
from forerun.certify.engines.endpoint import EndpointEngine
from forerun.certify.engines.endpoint_laws import Law, decimals
from forerun.certify.reference import Array, Place, Reference
from forerun.errors import CapabilityError
from forerun.numerics.distribution import History
from forerun.sampling import SamplingParams

Kind = Literal["raw", "processed"]

ROUNDING = 1e-5
"""Of a log-probability: what float32 leaves of one, with room."""

IDS = 1 << 20  # ids that may come; rows are as long as those need that did

CONTROLS = frozenset({"temperature", "top_k", "max_tokens", "stop_ids"})
"""That leave a law which raw logprobs tell."""


class _Ids:
    """Stands where a local model would: what is known of the endpoint's without reading it."""

    tokenizer = None

    def __init__(self, name: str, eos: frozenset[int]) -> None:
        self.name, self.eos, self.vocab_size = name, eos, IDS


class EndpointReference(Reference):
    """`engine` may be None where every sample comes with its laws (a report's).

    kind      see above
    count     tokens listed at each place
    eos       ids that end a text, where they are known
    rounding  of a log-probability
    """

    def __init__(
        self,
        engine: EndpointEngine | None,
        *,
        kind: Kind,
        count: int,
        eos: frozenset[int] = frozenset(),
        rounding: float = ROUNDING,
    ) -> None:
        name = "the endpoint" if engine is None else engine.name
        super().__init__(_Ids(name, eos), edge=2 * rounding)  # type: ignore[arg-type]
        self._engine, self._kind, self._count = engine, kind, count
        self._rounding, self._size = rounding, 64

    @property
    def top_k(self) -> int:
        """The largest that shows the next token behind the cut too."""
        return max(self._count // 2, 1)

    def law(self, logits: Any, params: SamplingParams, history: History) -> Array:
        if self._kind == "raw":
            return super().law(logits, params, history)
        weights = np.exp(logits - logits.max())
        p: Array = weights / weights.sum()
        return p

    def places(
        self,
        prompt: Sequence[int],
        samples: Sequence[Sequence[int]],
        sampling: Mapping[str, Any],
        *,
        faults: bool = False,
        told: Sequence[Told] = (),
    ) -> Iterator[list[Place]]:
        params, prompt = self.params(sampling), tuple(int(i) for i in prompt)
        loose = 2 * self._rounding / min(params.temperature or 1.0, 1.0)
        for number, tokens in enumerate(samples):
            laws = told[number].laws if number < len(told) else None
            if laws is None:
                params = params.replace(top_k=params.top_k or self.top_k)
                laws = (self._probe(prompt, params),)
            found, text = [], (*prompt, *tokens)
            for i, (token, law) in enumerate(zip(tokens, laws, strict=True)):
                self._check(law, params)
                prefix = text[: len(prompt) + i]
                p = self.law(self._row(law, token), params, History(prefix, len(prompt)))
                found.append(
                    Place(
                        prefix=prefix,
                        token=token,
                        p=p,
                        edge=self._loose_cut(law, params),
                        rounding=loose,
                    )
                )
            yield found

    def _logits(
        self, prompt: tuple[int, ...], samples: Sequence[Sequence[int]], told: Any = ()
    ) -> Iterator[list[Any]]:
        """For margins: of the next token alone."""
        for _ in samples:
            yield [self._row(self._probe(prompt, SamplingParams(top_k=self._count)), 0)]

    def _probe(self, prompt: Sequence[int], params: SamplingParams) -> Law:
        if self._engine is None:
            raise CapabilityError("the endpoint is asked no more: its samples come with their laws")
        temperature = params.temperature or 1.0
        return probe(self._engine, prompt, temperature=temperature, top_k=params.top_k)

    def _row(self, law: Mapping[int, float], token: int) -> Array:
        while self._size <= max(*law, token):
            self._size *= 2
        row = np.full(self._size, -np.inf)
        row[list(law)] = list(law.values())
        return row

    def _check(self, law: Mapping[int, float], params: SamplingParams) -> None:
        """CapabilityError unless the law is known as a whole."""
        mass = float(np.exp(list(law.values())).sum())
        whole = abs(np.log(mass)) <= self._rounding if mass > 0 else False
        if self._kind == "processed" and not whole:
            raise CapabilityError(
                f"the endpoint's {len(law)} logprobs of a place sum to {mass:.6g}, not to 1 within "
                f"{self._rounding:g}: they do not cover what may come. {ADVICE}"
            )
        if self._kind == "raw" and not whole and not 0 < params.top_k <= min(self._count, len(law)):
            raise CapabilityError(
                f"the endpoint lists {len(law)} tokens of a place, {mass:.6g} of the law, and "
                f"top_k is {params.top_k or 'off'}: they do not cover what may come. {ADVICE}"
            )

    def _loose_cut(self, law: Mapping[int, float], params: SamplingParams) -> bool:
        """Whether rounding may decide which tokens top-k keeps. Known before the token."""
        if self._kind == "processed" or not params.top_k:
            return False
        ordered = sorted(law.values(), reverse=True)
        if len(ordered) <= params.top_k:
            return False
        return ordered[params.top_k - 1] - ordered[params.top_k] <= 2 * self._rounding


ADVICE = "Set --option top_logprobs=N to what it gives at most, or name a local model: --reference"


def probe(engine: EndpointEngine, prompt: Sequence[int], **sampling: Any) -> Law:
    """What the endpoint says of the place behind a prompt."""
    [(_, told)] = engine.tell(prompt, 1, {"max_tokens": 1, **sampling}, 0)
    assert told.laws is not None
    return dict(told.laws[0])


def kind(
    engine: EndpointEngine, prompts: Sequence[Sequence[int]], top_k: int, rounding: float
) -> Kind:
    """Whether its logprobs are those before the controls or after them.

    Each prompt is asked at temperatures 1 and 0.5: the first whose law is wide enough to tell
    decides. CapabilityError for what is neither, where none tells, and for numbers of fewer digits
    than `rounding` wants.
    """
    for prompt in prompts:
        one = probe(engine, prompt, temperature=1.0, top_k=top_k)
        half = probe(engine, prompt, temperature=0.5, top_k=top_k)
        if 0.5 * 10.0 ** -(digits := decimals([one, half])) > rounding:
            raise CapabilityError(
                f"{engine.name} gives logprobs of {digits} decimals: say that they are rounded so, "
                f"with --option rounding={0.5 * 10.0**-digits:g} (every token then counts less)"
            )
        ids = sorted(one.keys() & half.keys(), key=lambda i: -one[i])[:top_k]
        a, b = (np.array([law[i] for i in ids]) for law in (one, half))
        if len(ids) < 2 or abs(a[1] - a[0]) < 0.01 or a[1] < np.log(1e-3):
            continue  # both readings say the same
        steps, loose = np.diff(a), 10 * rounding
        if np.abs(np.diff(b) - steps).max() <= loose:
            return "raw"
        if np.abs(np.diff(b) - 2 * steps).max() <= loose:
            return "processed"
        raise CapabilityError(
            f"{engine.name} gives logprobs that are those of neither temperature 1 nor the one "
            "asked for: they cannot be the reference. Name a local model: --reference"
        )
    raise CapabilityError(
        f"after none of {len(prompts)} prompts the law of {engine.name} is wide enough to say "
        "whether its logprobs come before the temperature or after it: give others, --option "
        "prompts=[[1,2],…]"
    )
