"""A request on its way in (prompt and parameters, checked) and on its way out (`Completion`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from forerun.drafters.base import Drafter
from forerun.drafters.per_request import PerRequestDrafter
from forerun.drafters.prediction import check_known, token_ids
from forerun.engine.choices import (
    AUTO,
    STEADY,
    check_prediction,
    check_verifier,
    checked_logprobs,
    checked_num_draft,
    choose_control,
    choose_drafters,
    choose_verifier,
    steady,
)
from forerun.engine.stops import TextFollower
from forerun.errors import CapabilityError, ForerunError, OptionError, PromptError
from forerun.generation import FinishReason, Generation
from forerun.models.base import Model
from forerun.numerics.logprobs import TokenLogprob
from forerun.numerics.randomness import Draws, KeyedDraws, fresh_seed
from forerun.pace import Pace
from forerun.sampling import SamplingParams, is_whole
from forerun.text.grammar import CompiledGrammar, Grammar
from forerun.trace import Kind, Round, Stats, stats
from forerun.verifiers import verifier as find_verifier

NO_SLOT = -1

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""Text, token ids, or chat messages ({"role": …, "content": …})."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request, checked: all that is needed to put it into a slot."""

    index: int  # in its call
    prompt: tuple[int, ...]
    params: SamplingParams  # with the model's eos
    seed: int  # the request's own, or a fresh one
    choice: int = 0  # which completion of the seed
    tenant: str = ""  # whose it is: what is remembered of one tenant's requests serves no other
    verifier: str  # its name; "auto" is resolved
    num_draft: int | None  # None: control chooses it by what passes cost
    drafters: tuple[str, ...]  # who drafts, by name
    prediction: tuple[int, ...]  # the request's own
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    grammar: CompiledGrammar | None = None
    continuing: bool  # the text goes on from the prompt's; an answer in a chat stands alone


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What came of a request."""

    text: str  # up to a stop string; end tokens do not show
    tokens: tuple[int, ...]  # up to the end token, or the token that completed a stop string
    finish_reason: FinishReason
    prompt: tuple[int, ...]  # token ids that were read
    seed: int  # repeats this output where the verifier is `coupled` or γ is fixed
    choice: int = 0  # which completion of the seed it is
    verifier: str
    trace: tuple[Round, ...]
    cached_tokens: int = 0  # of `prompt`, that were known from earlier requests and not read again
    logprobs: tuple[TokenLogprob, ...] | None = None  # of each of `tokens`, where asked for
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None  # of `prompt`; first is None
    submitted: float = 0.0  # seconds of the engine's clock: when it came,
    admitted: float | None = None  # when it first had a slot; None: never,
    ended: float = 0.0  # and when it ended
    error: ForerunError | None = None

    @cached_property
    def stats(self) -> Stats:
        return stats(self.trace)

    @property
    def usage(self) -> dict[str, int]:
        """Token counts under OpenAI's names."""
        read, written = len(self.prompt), len(self.tokens)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a round added to a stream. `text` may lag behind `tokens`: see `engine/stops.py`."""

    text: str
    tokens: tuple[int, ...]
    kinds: tuple[Kind, ...]
    parts: tuple[tuple[str, Kind], ...]  # `text`, split by the kind of the token that completed it
    logprobs: tuple[TokenLogprob, ...] | None = None  # of each of `tokens`, where asked for
    round: Round
    at: float  # seconds of the engine's clock (`time.monotonic`), at the end of the round


def prompt_ids(target: Model, prompt: Prompt) -> tuple[int, ...]:
    """The ids a prompt stands for, checked. PromptError says what is wrong with it."""
    tokenizer = target.tokenizer
    if isinstance(prompt, (bytes, Mapping)) or not hasattr(prompt, "__getitem__"):
        raise PromptError(f"a prompt is text, token ids, or chat messages, not {prompt!r}")
    if tokenizer is None and (isinstance(prompt, str) or _is_chat(prompt)):
        raise PromptError(f"{target.name} has no tokenizer: give the prompt as token ids")
    if isinstance(prompt, str):
        start = [tokenizer.bos] if tokenizer.adds_bos else []
        ids = [*start, *tokenizer.encode(prompt)]
    elif _is_chat(prompt):
        ids = tokenizer.encode_chat(prompt)
    else:
        ids = [_token_id(i) for i in prompt]
        if not ids and tokenizer is not None and tokenizer.adds_bos:
            ids = [tokenizer.bos]
    if not ids:
        raise PromptError(
            f"the prompt is empty and {target.name} has no beginning-of-text token: "
            "give at least one token"
        )
    if bad := [i for i in ids if not 0 <= i < target.vocab_size]:
        raise PromptError(
            f"token id {bad[0]} is not in the vocabulary of {target.name}: "
            f"0 to {target.vocab_size - 1}"
        )
    if target.context is not None and len(ids) >= target.context:
        raise PromptError(
            f"the prompt has {len(ids)} tokens; {target.name} has a context of {target.context}, "
            f"so that at most {target.context - 1} leave room for an answer"
        )
    return tuple(ids)


def _is_chat(prompt: Prompt) -> bool:
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def _has_text(target: Model, ids: Sequence[int]) -> bool:
    return target.tokenizer is not None and any(target.tokenizer.token_bytes(i) for i in ids)


def _token_id(value: Any) -> int:
    if not is_whole(value):
        raise PromptError(
            f"a prompt is text, token ids, or chat messages; {value!r} is none of them"
        )
    return int(value)


def per_request(drafter: Drafter | None) -> PerRequestDrafter:
    """The drafters of an engine, to choose from for each request."""
    return drafter if isinstance(drafter, PerRequestDrafter) else PerRequestDrafter(drafter)


def prediction_ids(target: Model, prediction: str | Sequence[int] | None) -> tuple[int, ...]:
    """The ids of a request's own prediction, text or ids; none of them: it has none."""
    if prediction is None:
        return ()
    if isinstance(prediction, str):
        if target.tokenizer is None:
            raise OptionError(f"{target.name} has no tokenizer: give the prediction as token ids")
        prediction = target.tokenizer.encode(prediction)
    ids = token_ids(prediction)
    check_known(ids, target)
    return ids


def checked_params(target: Model, options: Mapping[str, Any]) -> SamplingParams:
    """Sampling parameters for this model: ids in range, the model's end tokens known."""
    params = SamplingParams.of(options).replace(eos=target.eos)
    named = {"banned": params.banned, "stop_ids": params.stop_ids, "logit_bias": params.logit_bias}
    for name, ids in named.items():
        if bad := [i for i in ids if i >= target.vocab_size]:
            raise OptionError(
                f"{name} names token id {bad[0]}; {target.name} knows 0 to {target.vocab_size - 1}"
            )
    if params.stop and target.tokenizer is None:
        raise OptionError(f"stop strings need a tokenizer, {target.name} has none: use stop_ids")
    return params


def checked_grammar(target: Model, grammar: Any, params: SamplingParams) -> CompiledGrammar | None:
    """For the target's tokens. OptionError for what is no grammar, or could not end."""
    if grammar is None:
        return None
    if not isinstance(grammar, Grammar):
        raise OptionError(f"grammar takes a Grammar, such as Grammar.regex(…), not {grammar!r:.80}")
    if target.tokenizer is None:
        raise OptionError(f"a grammar needs a tokenizer, {target.name} has none")
    if not params.end_ids:
        raise OptionError(f"a grammar needs an end token, {target.name} has none: give stop_ids")
    return grammar.compile(target.tokenizer)


def make_request(
    target: Model,
    drafter: Drafter | None,
    prompt: Prompt,
    options: Mapping[str, Any],
    *,
    index: int = 0,
    tenant: str = "",
    verifier: str = AUTO,
    num_draft: int | str = AUTO,
) -> Request:
    """Check a request against model and drafter; nothing is allocated yet.

    `options` are sampling keywords, with `verifier`, `num_draft` and `drafter` where they are not
    the default, `prediction`, `logprobs`, `prompt_logprobs` and `grammar`.
    """
    sampling = dict(options)
    verifier = sampling.pop("verifier", verifier)
    gamma = checked_num_draft(sampling.pop("num_draft", num_draft))
    prediction = prediction_ids(target, sampling.pop("prediction", None))
    drafters = per_request(drafter)
    asked = sampling.pop("drafter", AUTO)
    grammar = sampling.pop("grammar", None)
    names = choose_drafters(asked, drafters, predicted=bool(prediction), forced=grammar is not None)
    guessers = {name: drafters.parts[name] for name in names}
    if names and not target.abilities.rollback:
        raise CapabilityError(f"{target.name} cannot roll back, so it cannot verify drafts")
    logprobs = checked_logprobs("logprobs", sampling.pop("logprobs", None))
    prompt_logprobs = checked_logprobs("prompt_logprobs", sampling.pop("prompt_logprobs", None))
    check_verifier(verifier, guessers)
    params = checked_params(target, sampling)
    if params.max_tokens == 0 and prompt_logprobs is None:
        raise OptionError(
            "max_tokens must be a whole number of at least 1, not 0 (which asks for prompt_logprobs"
            " alone)"
        )
    ids = prompt_ids(target, prompt)
    chosen = choose_verifier(verifier, params, guessers)
    if prediction and names:
        check_prediction(chosen, params)
    if gamma is None and steady(chosen, params):
        gamma = STEADY
    return Request(
        index=index,
        prompt=ids,
        params=params,
        seed=fresh_seed() if params.seed is None else params.seed,
        tenant=tenant,
        verifier=chosen.name if verifier == AUTO else verifier,
        num_draft=gamma if names else 0,
        drafters=names,
        prediction=prediction,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        grammar=checked_grammar(target, grammar, params),
        continuing=not _is_chat(prompt) and _has_text(target, ids),
    )


def new_generation(
    target: Model,
    request: Request,
    draws: Draws | None = None,
    pace: Pace | None = None,
) -> Generation:
    """The request's state before its first round; it has no slot yet.

    `pace`, the engine's, is needed where γ is chosen by it: `num_draft` None.
    """
    params, prompt = request.params, request.prompt
    tokenizer = target.tokenizer
    return Generation(
        request=request.index,
        slot=NO_SLOT,
        ids=list(prompt),
        prompt_length=len(prompt),
        limit=limit(target, request),
        params=params,
        verifier=find_verifier(request.verifier),
        draws=KeyedDraws(request.seed, request.choice) if draws is None else draws,
        control=choose_control(request.num_draft, pace),
        follower=None
        if tokenizer is None
        else TextFollower(
            tokenizer.stream(continuing=request.continuing or request.grammar is not None),
            params.stop,
            params.end_ids,
        ),
        grammar=None
        if request.grammar is None
        else request.grammar.start(target.vocab_size, params.end_ids),
        logprobs=request.logprobs,
        prompt_logprobs=request.prompt_logprobs,
    )


def limit(target: Model, request: Request) -> int:
    """Length of prompt and output at which the budget or the context ends."""
    longest = len(request.prompt) + request.params.max_tokens
    return longest if target.context is None else min(longest, target.context)


def begin_decoding(g: Generation, request: Request, drafter: PerRequestDrafter) -> None:
    """A request's text is read: tell the drafter its prompt and, on resuming, its output."""
    if g.finish_reason is None and len(g.ids) >= g.limit:  # no tokens were asked for
        g.finish_reason = "length"
    # memory of earlier requests may hold this seed's own text, which knows its coins
    recall = request.params.seed is None or g.verifier.races
    drafter.begin(
        g.slot,
        request.prompt,
        recall=recall,
        tenant=request.tenant,
        names=request.drafters,
        prediction=request.prediction,
        grammar=g.grammar,
    )
    if g.output:
        drafter.observe(g.slot, g.output)


def completion(
    request: Request,
    g: Generation | None,
    trace: Sequence[Round],
    *,
    reason: FinishReason,
    cached_tokens: int,
    submitted: float,
    admitted: float | None,
    ended: float,
    error: ForerunError | None,
) -> Completion:
    """What came of a request; no generation for one that never began."""
    follower = None if g is None else g.follower
    return Completion(
        text=follower.text if isinstance(follower, TextFollower) else "",
        tokens=() if g is None else tuple(g.output),
        finish_reason=reason,
        prompt=request.prompt,
        seed=request.seed,
        choice=request.choice,
        verifier=request.verifier,
        trace=tuple(trace),
        cached_tokens=cached_tokens,
        submitted=submitted,
        admitted=admitted,
        ended=ended,
        logprobs=None if request.logprobs is None else () if g is None else tuple(g.found),
        prompt_logprobs=None if g is None or g.prompt_logprobs is None else (None, *g.prompt_found),
        error=error,
    )
