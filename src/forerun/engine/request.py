"""A request on its way in: prompt and parameters, checked, and its state before the first round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forerun.drafters.base import Drafter
from forerun.drafters.per_request import PerRequestDrafter
from forerun.drafters.prediction import check_known, token_ids
from forerun.engine.choices import (
    AUTO,
    STEADY,
    check_prediction,
    check_verifier,
    checked_flag,
    checked_logprobs,
    checked_num_draft,
    choose_control,
    choose_drafters,
    choose_verifier,
    steady,
)
from forerun.engine.prompt import Prompt, has_text, is_chat, prompt_ids
from forerun.engine.resume import START, Resume, check_resume, checked_resume
from forerun.engine.stops import TextFollower
from forerun.errors import CapabilityError, OptionError
from forerun.generation import Generation
from forerun.models.base import Model
from forerun.numerics.randomness import Draws, KeyedDraws, fresh_seed
from forerun.pace import Pace
from forerun.sampling import SamplingParams
from forerun.text.grammar import CompiledGrammar, Grammar
from forerun.verifiers import verifier as find_verifier

NO_SLOT = -1


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
    trace_heads: bool = False
    grammar: CompiledGrammar | None = None
    resume: Resume = START  # what another engine has written of it
    continuing: bool  # the text goes on from the prompt's; an answer in a chat stands alone


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
    trace_heads: bool = False,
) -> Request:
    """Check a request against model and drafter; nothing is allocated yet.

    `options` are sampling keywords, with `verifier`, `num_draft` and `drafter` where they are not
    the default, `prediction`, `logprobs`, `prompt_logprobs`, `trace_heads`, `grammar` and `resume`.
    """
    sampling = dict(options)
    verifier = sampling.pop("verifier", verifier)
    gamma = checked_num_draft(sampling.pop("num_draft", num_draft))
    prediction = prediction_ids(target, sampling.pop("prediction", None))
    drafters = per_request(drafter)
    asked = sampling.pop("drafter", AUTO)
    grammar = sampling.pop("grammar", None)
    resume = checked_resume(sampling.pop("resume", None))
    names = choose_drafters(asked, drafters, predicted=bool(prediction), forced=grammar is not None)
    guessers = {name: drafters.parts[name] for name in names}
    if names and not target.abilities.rollback:
        raise CapabilityError(f"{target.name} cannot roll back, so it cannot verify drafts")
    logprobs = checked_logprobs("logprobs", sampling.pop("logprobs", None))
    prompt_logprobs = checked_logprobs("prompt_logprobs", sampling.pop("prompt_logprobs", None))
    heads = checked_flag("trace_heads", sampling.pop("trace_heads", trace_heads))
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
    check_resume(resume, target, chosen, params, logprobs)
    if gamma is None and steady(chosen, params):
        gamma = STEADY
    return Request(
        index=index,
        prompt=ids,
        params=params,
        seed=next(seed for seed in (params.seed, resume.seed, fresh_seed()) if seed is not None),
        choice=resume.choice,
        resume=resume,
        tenant=tenant,
        verifier=chosen.name if verifier == AUTO else verifier,
        num_draft=gamma if names else 0,
        drafters=names,
        prediction=prediction,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        trace_heads=heads,
        grammar=checked_grammar(target, grammar, params),
        continuing=not is_chat(prompt) and has_text(target, ids),
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
    params, prompt, resume = request.params, request.prompt, request.resume
    tokenizer = target.tokenizer
    g = Generation(
        request=request.index,
        slot=NO_SLOT,
        ids=list(prompt),
        prompt_length=len(prompt),
        limit=limit(target, request),
        params=params,
        verifier=find_verifier(request.verifier),
        draws=KeyedDraws(request.seed, request.choice, resume.epoch) if draws is None else draws,
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
        found=list(resume.logprobs or ()),
        prompt_logprobs=request.prompt_logprobs,
        heads=request.trace_heads,
        round=len(resume.output),  # so many rounds at most were taken for them
    )
    for token in resume.output:
        if g.finish_reason is not None:
            raise OptionError("resume: its output goes on behind a stop string")
        g.push(int(token))
    return g


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
