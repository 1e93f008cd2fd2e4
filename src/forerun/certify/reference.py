"""The target's law at each place of a text, by a local model: what samples are held against.

    reference.places(prompt, samples, sampling)   for each sample, for each of its tokens, a Place

The model is read by forerun's backends, and its logits become laws where all of forerun's do
(`numerics.distribution.law`): penalties, masks and cuts with the history of that very position. The
prompt is read once for all of its samples.

A cut (top-k, top-p, min-p) is a cliff: two exact engines whose logits differ by rounding disagree
about a token that stands on its edge. So a token with p = 0 that has mass as soon as its logit is
raised by `edge` is said to be on the edge; a lossless engine in the reference's own arithmetic
never writes one, so that leaving it out of a test is fair.

What this module does not know: engines, tests, what is made of the laws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.certify.engines.base import Told
from forerun.engine.request import checked_params
from forerun.errors import PromptError
from forerun.models.base import Model, Step
from forerun.numerics.distribution import History, law
from forerun.numerics.randomness import host
from forerun.sampling import SamplingParams

Array = NDArray[np.float64]

_CHUNK = 512  # tokens of a prompt read in one pass


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """One token of a sample, and what the reference says of its place."""

    prefix: tuple[int, ...]  # prompt and output before it
    token: int
    p: Array  # [V], float64, sums to 1
    edge: bool = False  # on the edge of a cut: left out, with what is behind it
    others: Mapping[str, Array] = field(default_factory=dict)  # laws under named faults
    rounding: float = 0.0  # by so much log p may be off, where the reference knows


@dataclass(frozen=True, kw_only=True)
class Margin:
    """How far the reference is from choosing one of two tokens."""

    best: int  # its own choice
    second: int
    gap: float  # between the two largest logits, after processing
    behind: float  # of the largest logit over the smaller of the two tokens'


class Reference:
    """A model, asked for laws. Not to be shared by threads, nor its model by an engine that is.

    temperature_last  whether cuts come before the temperature, as in some engines
    edge              by how much logits of equal engines may differ through rounding
    """

    def __init__(self, model: Model, *, temperature_last: bool = False, edge: float = 1e-3) -> None:
        self.model, self.edge = model, edge
        self._temperature_last = temperature_last

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    def params(self, sampling: Mapping[str, Any]) -> SamplingParams:
        """Checked for the model; what is the engine's alone is left out."""
        return checked_params(self.model, {k: v for k, v in sampling.items() if k != "num_draft"})

    def law(self, logits: Any, params: SamplingParams, history: History) -> Array:
        """[V] in float64."""
        if not self._temperature_last or params.temperature in (0, 1):
            return _normalised(law(logits, params, history))
        cut = _normalised(law(logits, params.replace(temperature=1.0), history))
        with np.errstate(divide="ignore"):
            scaled = np.log(cut) / params.temperature
        return _normalised(np.exp(scaled - scaled.max()))

    def places(
        self,
        prompt: Sequence[int],
        samples: Sequence[Sequence[int]],
        sampling: Mapping[str, Any],
        *,
        faults: bool = False,
        told: Sequence[Told] = (),
    ) -> Iterator[list[Place]]:
        """For each sample its places. `faults`: with the laws of named faults of the controls;
        `told`: what the engine said of each sample, for references that need it."""
        params, prompt = self.params(sampling), tuple(int(i) for i in prompt)
        plain = SamplingParams(max_tokens=params.max_tokens, eos=params.eos)
        for tokens, rows in zip(samples, self._logits(prompt, samples)):
            found = []
            text = (*prompt, *tokens)
            for i, (token, logits) in enumerate(zip(tokens, rows)):
                history = History(text[: len(prompt) + i], len(prompt))
                p = self.law(logits, params, history)
                known = 0 <= token < len(p)
                zero = known and bool(p[token] == 0)
                edge = zero and self._on_edge(logits, params, history, token)
                others = self._faults(logits, params, plain, history) if faults else {}
                prefix = text[: len(prompt) + i]
                found.append(Place(prefix=prefix, token=token, p=p, edge=edge, others=others))
            yield found

    def margin(
        self, prefix: Sequence[int], prompt_length: int, sampling: Mapping[str, Any],
        tokens: tuple[int, int],
    ) -> Margin:  # fmt: skip
        """Between two tokens after `prefix`, under the controls but for the temperature."""
        params = self.params(sampling).replace(temperature=1.0)
        [rows] = self._logits(tuple(prefix), [(0,)])
        p = self.law(rows[0], params, History(tuple(prefix), prompt_length))
        with np.errstate(divide="ignore"):
            logits = np.log(p)
        order = np.argsort(-logits, kind="stable")
        known = [t for t in tokens if 0 <= t < len(logits)]
        low = min(float(logits[t]) for t in known) if len(known) == len(tokens) else -np.inf
        return Margin(
            best=int(order[0]),
            second=int(order[1]) if len(order) > 1 else int(order[0]),
            gap=float(logits[order[0]] - logits[order[1]]) if len(order) > 1 else np.inf,
            behind=float(logits[order[0]] - low),
        )

    def _logits(
        self, prompt: tuple[int, ...], samples: Sequence[Sequence[int]]
    ) -> Iterator[list[Any]]:
        """Rows before each token of each sample; an id that is none ends a sample's rows."""
        if not prompt:
            raise PromptError("the reference needs a prompt of at least one token")
        model, read = self.model, len(prompt) - 1
        slot = model.open()
        try:
            for start in range(0, read, _CHUNK):
                end = min(start + _CHUNK, read)
                model.extend([Step(slot=slot, tokens=prompt[start:end], rows=0)])
                model.keep(slot, end)
            for tokens in samples:
                asked = self._readable(tokens)
                [rows] = model.extend([Step(slot=slot, tokens=(prompt[-1], *asked))])
                yield [_numpy(row) for row in rows]
                model.keep(slot, read)
        finally:
            model.close(slot)

    def _readable(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """All tokens but the last that can be read."""
        found = []
        for token in tokens[:-1]:
            if not 0 <= token < self.vocab_size:
                break
            found.append(int(token))
        return tuple(found)

    def _on_edge(self, logits: Any, params: SamplingParams, history: History, token: int) -> bool:
        if self.edge <= 0 or not (params.top_k or params.top_p < 1 or params.min_p):
            return False
        raised = np.array(logits, copy=True)
        raised[token] += self.edge * max(params.temperature, 1.0)
        return bool(self.law(raised, params, history)[token] > 0)

    def _faults(
        self, logits: Any, params: SamplingParams, plain: SamplingParams, history: History
    ) -> dict[str, Array]:
        """Laws under faults that the controls invite."""
        found = {}
        if params.uses_history and history.output_length:
            stale = History(history.ids[:-1], history.prompt_length)
            found["penalties with stale history"] = self.law(logits, params, stale)
        if not _plain(params):
            found["controls not applied"] = self.law(logits, plain, history)
        return found


def _plain(params: SamplingParams) -> bool:
    unlike = (
        params.temperature != 1 or params.top_k or params.top_p < 1 or params.min_p
        or params.uses_history or params.logit_bias or params.banned or params.min_tokens
    )  # fmt: skip
    return not unlike


def _normalised(p: Any) -> Array:
    found: Array = np.asarray(host(p), dtype=np.float64)
    return found / float(found.sum())


def _numpy(row: Any) -> Any:
    """Logits in host memory, in NumPy."""
    return row.cpu().numpy() if hasattr(row, "cpu") else row
