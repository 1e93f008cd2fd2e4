"""Plain decoding, then speculative with the same seed: the same text, in fewer target passes.

Under `coupled` (and greedy, and so under `auto`, which takes it for a seeded request) the texts are
the same, up to floating point. `rejection` and `block` promise the same law, not the same text.
"""

from __future__ import annotations

import json
from typing import Any

from forerun.cli.report import as_dict, summary, tokens_per_second
from forerun.cli.screen import DIM, STRONG, Screen
from forerun.cli.session import Session
from forerun.drafters.base import parts
from forerun.engine import Completion
from forerun.engine.choices import AUTO
from forerun.engine.prompt import Prompt, prompt_ids
from forerun.numerics.randomness import fresh_seed

WARM_UP = 4  # tokens decoded unseen first, so that neither run pays for the first pass


def compare(session: Session, prompt: Prompt) -> Exception | None:
    """Run both and show them; the error that ended one, if any."""
    settings, screen = session.settings, session.screen
    ids = prompt_ids(session.target, prompt)
    seed = session.sampling.get("seed")
    options: dict[str, Any] = {"seed": fresh_seed() if seed is None else seed}
    session.engine.generate(ids[:1], max_tokens=WARM_UP, seed=0)
    auto = settings.num_draft == AUTO
    most = "as many tokens a round as pay" if auto else f"up to {settings.num_draft} tokens a round"
    head = f"speculative: {'+'.join(parts(session.engine.drafter)) or 'none'}, {most}"
    show = not settings.json
    plain = _run(session, "plain decoding", ids, {**options, "num_draft": 0}, show)
    if plain.finish_reason in ("cancelled", "error"):
        if not show:
            _print_json(screen, plain, None)
        return plain.error
    fast = _run(session, head, ids, options, show, legend=True)
    if not show:
        _print_json(screen, plain, fast)
    elif fast.error is None:
        greedy = session.sampling.get("temperature") == 0
        screen.line(f"{verdict(plain, fast, greedy=greedy)}", STRONG)
        screen.line("times are of one run each: they vary with the machine's load", DIM)
    return fast.error


def verdict(plain: Completion, fast: Completion, *, greedy: bool) -> str:
    """Whether the texts agree, and what it took to write them."""
    before, after = plain.stats.tokens_per_pass, fast.stats.tokens_per_pass
    slow, quick = tokens_per_second(plain), tokens_per_second(fast)
    passes = f"{after:.2f} tokens per target pass instead of {before:.2f}"
    speed = f"{quick:.1f} tokens/s instead of {slow:.1f}"
    ratio = f": {quick / slow:.2f} times as fast" if slow > 0 else ""
    agreement = _agreement(plain, fast, greedy or fast.verifier == "coupled")
    return f"{agreement}\n{passes} · {speed}{ratio}"


def _agreement(plain: Completion, fast: Completion, bound: bool) -> str:
    """`bound`: the same text was promised, not only the same law."""
    pairs = zip(plain.tokens, fast.tokens)
    alike = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if plain.tokens == fast.tokens:
        return "identical, token for token"
    if fast.finish_reason == "cancelled" and alike is None:
        return f"identical as far as it went, {len(fast.tokens)} tokens"
    at = min(len(plain.tokens), len(fast.tokens)) if alike is None else alike
    if bound:
        return (
            f"different from token {at} on: a pass over several rows rounds differently from one "
            "over one row, and two tokens were nearly tied there"
        )
    return f"different from token {at} on: {fast.verifier} keeps the law, not the text"


def _run(
    session: Session,
    head: str,
    ids: tuple[int, ...],
    options: dict[str, Any],
    show: bool,
    *,
    legend: bool = False,
) -> Completion:
    screen = session.screen

    def begin() -> None:
        if legend:
            screen.legend()
        screen.line(f"── {head}", STRONG)

    done = session.answer(ids, options, show=show, begin=begin)
    if show:
        screen.line()
        screen.line(f"── {summary(done)}\n", DIM)
    return done


def _print_json(screen: Screen, plain: Completion, fast: Completion | None) -> None:
    both: dict[str, Any] = {"plain": as_dict(plain), "speculative": fast and as_dict(fast)}
    if fast is not None:
        slow = tokens_per_second(plain)
        both["identical"] = plain.tokens == fast.tokens
        both["tokens_per_second"] = {"plain": slow, "speculative": tokens_per_second(fast)}
        both["ratio"] = tokens_per_second(fast) / slow if slow > 0 else None
    screen.line(json.dumps(both, ensure_ascii=False))
