"""Models, drafters and checks that the engine's tests share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from certify.tables import table
from forerun import Engine
from forerun.drafters import (
    DrafterTraits,
    GreedyPlusOneTreeDrafter,
    HybridDrafter,
    JoinedTreeDrafter,
    LayerSkipDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SampledTreeDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.models.tabular import LayeredTabularModel, TabularModel
from forerun.numerics.token_tree import Drawn, Proposal
from text.tiny import tokenizer

V = 5
TOKENS = tokenizer()  # bytes, a few merges, <|endoftext|> 0, <|im_start|> 1, <|im_end|> 2
END = 2


def target(salt: int = 1, eos: int | None = None, **options: Any) -> TabularModel:
    """A model whose law depends on the whole prefix, with eight layers."""
    return LayeredTabularModel(table(V, salt), partial(near, salt), 8, V, eos, **options)


def near(salt: int, prefix: tuple[int, ...], skipped: frozenset[int]) -> Sequence[float]:
    """The law of `target` without some layers: another one in that proportion."""
    pairs = zip(table(V, salt)(prefix), table(V, salt + 10)(prefix))
    return [p + len(skipped) / 8 * (q - p) for p, q in pairs]


def draft(salt: int = 2, **options: Any) -> TabularModel:
    return cheap(TabularModel(table(V, salt), V, name="draft", **options))


def cheap(model: TabularModel) -> TabularModel:
    """A twentieth of the target's costs, so that drafting with it may pay."""
    model.pass_seconds = (model.pass_seconds[0] / 20,)
    return model


def one_hot(token: int, vocabulary: int) -> np.ndarray:
    return np.eye(vocabulary)[token]


def script(tokens: Sequence[int], start: int, vocabulary: int = V, after: int = 0) -> Callable:
    """The law of a model that says `tokens` from position `start` on, then `after` for ever."""
    rows = [one_hot(token, vocabulary) for token in (*tokens, after)]
    return lambda prefix: rows[min(max(len(prefix) - start, 0), len(tokens))]


def says(tokens: Sequence[int], start: int, eos: int | None = None, **options: Any) -> TabularModel:
    return TabularModel(script(tokens, start), V, eos, **options)


def speaks(next_law: Callable, **options: Any) -> TabularModel:
    """A model with a tokenizer; without some of its layers it is as good as with them."""
    model = LayeredTabularModel(
        next_law, lambda prefix, skipped: next_law(prefix), 8, TOKENS.vocab_size, TOKENS.eos,
        **options,
    )  # fmt: skip
    model.tokenizer = TOKENS
    return model


def writes(ids: Sequence[int], start: int, **options: Any) -> TabularModel:
    """A model that writes `ids`, then ends its text."""
    return speaks(script(ids, start, TOKENS.vocab_size, END), **options)


def letters(text: str) -> list[int]:
    """One id for each byte, merges left aside."""
    return [4 + byte for byte in text.encode()]


class Guessing:
    """Drafts `guess(ids, count)`: any function of the text, past its end too."""

    name = "guessing"
    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False)

    def __init__(self, guess: Callable[[list[int], int], Sequence[int]]) -> None:
        self.guess = guess
        self.slots: set[int] = set()
        self.recalled: list[bool] = []  # by request, in the order they began

    def check(self, target):
        pass

    def begin(self, slot, prompt, *, recall=True, tenant=""):
        assert slot not in self.slots
        self.slots.add(slot)
        self.recalled.append(recall)

    def propose(self, requests):
        return [Proposal.point_mass(self.guess(list(r.ids), r.num_draft)) for r in requests]

    def observe(self, slot, committed):
        assert slot in self.slots

    def end(self, slot):
        self.slots.remove(slot)


def follows(tokens: Sequence[int], start: int) -> Guessing:
    """Drafts what stands at the next positions of a text that begins at `start`."""
    return Guessing(lambda ids, count: list(tokens[len(ids) - start :][:count]))


def drafters(vocabulary: int = V) -> dict[str, Callable[[], Any]]:
    """Every drafter there is, good and bad."""
    text = [int(x) for x in np.random.default_rng(5).integers(vocabulary, size=30)]
    return {
        "none": lambda: None,
        "model": lambda: ModelDrafter(cheap(TabularModel(table(vocabulary, 2), vocabulary))),
        "its own model": lambda: ModelDrafter(
            cheap(TabularModel(table(vocabulary, 1), vocabulary))
        ),
        "model, greedy": lambda: ModelDrafter(
            cheap(TabularModel(table(vocabulary, 1), vocabulary)), sampling={"temperature": 0}
        ),
        "short context": lambda: ModelDrafter(
            cheap(TabularModel(table(vocabulary, 1), vocabulary, context=9))
        ),
        "layer-skip": lambda: LayerSkipDrafter(),
        "ngram": lambda: NgramDrafter(),
        "suffix": lambda: SuffixDrafter(),
        "suffix, memory": lambda: SuffixDrafter(memory_bytes=1 << 20),
        "prediction": lambda: PredictionDrafter(text),
        "several": lambda: HybridDrafter(
            [SuffixDrafter(), ModelDrafter(cheap(TabularModel(table(vocabulary, 1), vocabulary)))]
        ),
    }


def trees(vocabulary: int = V) -> dict[str, Callable[[], Any]]:
    """Every drafter of trees."""

    def like() -> TabularModel:
        return cheap(TabularModel(table(vocabulary, 1), vocabulary))

    return {
        "suffix-tree": lambda: SuffixTreeDrafter(),
        "suffix-tree, memory": lambda: SuffixTreeDrafter(memory_bytes=1 << 20),
        "tree": lambda: LikeliestTreeDrafter(like()),
        "joined-tree": lambda: JoinedTreeDrafter(like()),
        "sampled-tree": lambda: SampledTreeDrafter(like()),
        "greedy-plus-one-tree": lambda: GreedyPlusOneTreeDrafter(like()),
        "several": lambda: HybridDrafter([SuffixTreeDrafter(), ModelDrafter(like())]),
    }


def open_slots(engine: Any) -> tuple[int, int]:
    """Slots open on the target, and on the drafter (its model's for a model drafter)."""
    drafter = engine.drafter
    if isinstance(drafter, HybridDrafter):
        drafter = next(part for part in drafter.parts.values() if hasattr(part, "model"))
    if isinstance(drafter, ModelDrafter):
        drafting = max(len(drafter._slots), _tabular_slots(drafter.model))
    elif isinstance(drafter, (Guessing, LayerSkipDrafter)):
        drafting = len(drafter.slots if isinstance(drafter, Guessing) else drafter._slots)
    else:
        drafting = 0 if drafter is None else len(drafter._readers)
    return _tabular_slots(engine.target), drafting


def _tabular_slots(model: Any) -> int:
    return len(model._cached) if isinstance(model, TabularModel) else 0


NONE_OPEN = (0, 0)


def within(seconds: float, action: Callable[[], Any]) -> Any:
    """What `action` returns or raises, run in a thread; TimeoutError where it hangs."""
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["value"] = action()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"still running after {seconds} s")
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def consistent(done: Any, sent: int = 0) -> None:
    """Trace, tokens, counters and usage tell one story; `sent` tokens another engine has told."""
    delivered = [token for record in done.trace for token in record.tokens]
    assert tuple(delivered) == done.tokens[sent:]
    position = len(done.prompt) + sent
    for index, record in enumerate(done.trace, start=sent):
        assert (record.index, record.position) == (index, position)
        assert len(record.kinds) == len(record.tokens) > 0
        assert all(kind == "accepted" for kind in record.kinds[:-1])
        accepted = [d.token for d in record.drafted if d.accepted]
        assert accepted == list(record.tokens[: record.kinds.count("accepted")])
        position += len(record.tokens)
    stats = done.stats
    assert stats.rounds == len(done.trace)
    assert stats.tokens == stats.accepted + stats.corrected + stats.bonus == len(delivered)
    assert stats.drafted == sum(len(record.drafted) for record in done.trace)
    assert 0 <= stats.accepted <= stats.drafted
    assert done.usage == {
        "prompt_tokens": len(done.prompt),
        "completion_tokens": len(done.tokens),
        "total_tokens": len(done.prompt) + len(done.tokens),
    }


OPTIONS = {"seed": 5, "max_tokens": 30}
PROMPT = [0, 1, 2]


def engine(**options: Any) -> Engine:
    return Engine(target(), ModelDrafter(draft()), **options)


def solo(prompt: Sequence[int] = PROMPT, **options: Any) -> tuple[int, ...]:
    return engine().generate(prompt, **{**OPTIONS, **options}).tokens


def delivered(pieces: Iterable[Any]) -> tuple[int, ...]:
    return tuple(token for piece in pieces for token in piece.tokens)
