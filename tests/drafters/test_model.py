"""The model drafter: laws, padded vocabularies, its cache, and failures that stay apart."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from forerun.drafters import ModelDrafter
from forerun.drafters.base import outlook
from forerun.drafters.model import CHUNK, fitted
from forerun.errors import CacheError, CapabilityError, KeyReuseError, OptionError, VocabularyError
from forerun.models.base import Abilities, Step
from forerun.models.tabular import TOKEN_BYTES, TabularModel
from forerun.numerics.distribution import History, law
from forerun.numerics.token_tree import Drawn, Proposal

from .contract import V, ask, same, tabular


class Watched(TabularModel):
    """A tabular model that writes down its passes, and can be told to fail."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.passes: list[list[Step]] = []
        self.nan_after: tuple[int, ...] | None = None  # a prefix whose logits are NaN
        self.full_at: int | None = None  # length at which a slot has no room left

    def extend(self, steps: Sequence[Step]) -> list[Any]:
        lengths = [self.length(step.slot) + len(step.tokens) for step in steps]
        if self.full_at is not None and max(lengths) > self.full_at:
            raise CacheError("no pages left")
        self.passes.append(list(steps))
        rows = super().extend(steps)
        for row, step in zip(rows, steps):
            if self._cached[step.slot] == self.nan_after:
                row[:] = np.nan
        return rows

    def shapes(self) -> list[list[int]]:
        """Tokens of each step of each pass; forgotten afterwards."""
        passes, self.passes = self.passes, []
        return [[len(step.tokens) for step in steps] for steps in passes]


def counting(prefix: tuple[int, ...]) -> list[float]:
    """The likeliest next token is one more than the last, over 4 ids."""
    p = [0.05] * V
    p[(prefix[-1] + 1) % V] = 0.85
    return p


def watched(next_law: Any = counting, vocab_size: int = V, **options: Any) -> Watched:
    return Watched(next_law, vocab_size, **options)


def greedy(model: TabularModel) -> ModelDrafter:
    return ModelDrafter(model, sampling={"temperature": 0})


FREE = {"eos": frozenset[int]()}


def propose(
    drafter: ModelDrafter, prompt: list[int], output: list[int], num_draft: int = 3, **sampling: Any
) -> Proposal:
    return drafter.propose([ask(0, prompt, output, num_draft, **{**FREE, **sampling})])[0]


class TestLaws:
    def test_q_is_the_law_of_the_draft_after_the_drafted_tokens(self) -> None:
        params = {"temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.3, "banned": (2,)}
        drafter = ModelDrafter(tabular(4))
        drafter.begin(0, [0, 1])
        handed: list[Any] = []

        def sample(q: Any, node: int, path: tuple[int, ...]) -> int:
            handed.append((q, node, path))
            return (1, 0, 3)[node]

        request = replace(ask(0, [0, 1], [1], 3, **params), sample=sample)
        (proposal,) = drafter.propose([request])
        assert proposal.tree.tokens == (1, 0, 3)
        assert proposal.drawn is Drawn.SAMPLED
        for node, path in enumerate([(), (1,), (1, 0)]):
            row = np.log(np.asarray(tabular(4)._next_law((0, 1, 1, *path))))
            expected = law(row, request.params, History([0, 1, 1], 2, path))
            np.testing.assert_array_equal(proposal.q[node], expected)
            assert handed[node][0] is proposal.q[node], "the very law that was sampled from"
            assert handed[node][1:] == (node, path)

    def test_sampling_overrides_the_request(self) -> None:
        drafter = greedy(watched())
        drafter.begin(0, [0])
        proposal = propose(drafter, [0], [], temperature=0.9)
        assert proposal.tree.tokens == (1, 2, 3)
        assert [q.tolist() for q in proposal.q] == np.eye(V)[[1, 2, 3]].tolist()

    @pytest.mark.parametrize("name", ["max_tokens", "seed", "stop"])
    def test_only_the_law_can_be_overridden(self, name: str) -> None:
        with pytest.raises(OptionError, match=f"a drafter's sampling cannot set '{name}'"):
            ModelDrafter(tabular(), sampling={name: "x" if name == "stop" else 1})

    def test_sampling_is_checked_when_made(self) -> None:
        with pytest.raises(TypeError, match="did you mean 'temperature'"):
            ModelDrafter(tabular(), sampling={"temprature": 0})
        with pytest.raises(OptionError, match="top_p must be above 0"):
            ModelDrafter(tabular(), sampling={"top_p": 0})

    def test_what_is_no_model_or_no_sampling(self) -> None:
        with pytest.raises(OptionError, match="a draft model is a Model, not 'smollm2'"):
            ModelDrafter("smollm2")  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="sampling takes parameter -> value, not 'greedy'"):
            ModelDrafter(tabular(), sampling="greedy")  # type: ignore[arg-type]

    def test_nothing_follows_an_end(self) -> None:
        drafter = greedy(watched())
        drafter.begin(0, [0])
        assert propose(drafter, [0], [], stop_ids=(2,)).tree.tokens == (1, 2)


class TestVocabularies:
    def serving(self, draft: TabularModel, vocab_size: int) -> ModelDrafter:
        """A drafter for a target of that many ids, as `check` leaves it."""
        drafter = greedy(draft)
        drafter._vocab_size = vocab_size
        drafter.begin(0, [0])
        return drafter

    def test_a_longer_draft_vocabulary_is_cut(self) -> None:
        def loves_its_tail(prefix: tuple[int, ...]) -> list[float]:
            return [0.1, 0.2, 0.05, 0.05, 0.3, 0.3]

        drafter = self.serving(watched(loves_its_tail, 6), V)
        drafter._sampling = {}
        proposal = propose(drafter, [0], [], 5)
        assert all(q.shape == (V,) for q in proposal.q)
        np.testing.assert_allclose(proposal.q[0], [0.25, 0.5, 0.125, 0.125])

    def test_a_shorter_draft_vocabulary_is_padded(self) -> None:
        drafter = self.serving(watched(), 6)
        proposal = propose(drafter, [0], [], 3, banned=(5,), logit_bias={4: 50.0})
        assert proposal.tree.tokens == (1, 2, 3)
        assert [q.tolist() for q in proposal.q] == np.eye(6)[[1, 2, 3]].tolist()

    def test_a_text_the_draft_has_no_ids_for_is_not_followed(self) -> None:
        drafter = self.serving(watched(), 6)
        assert len(propose(drafter, [0], [])) == 3
        drafter.observe(0, [1, 5])
        assert len(propose(drafter, [0], [1, 5])) == 0
        drafter.observe(0, [1])
        assert len(propose(drafter, [0], [1, 5, 1])) == 0

    def test_a_drafted_id_beyond_the_drafts_end_is_the_last(self) -> None:
        def revive(ids: Sequence[int], logits: Any) -> Any:
            logits[5] = 99.0
            return logits

        drafter = self.serving(watched(), 6)
        assert propose(drafter, [0], [], processors=(revive,)).tree.tokens == (5,)

    def test_fitted_keeps_type_and_library(self) -> None:
        torch = pytest.importorskip("torch")
        for row in (np.zeros(4, np.float32), torch.zeros(4, dtype=torch.float16)):
            for size in (2, 4, 7):
                made = fitted(row, size)
                assert type(made) is type(row)
                assert made.dtype == row.dtype
                assert made.tolist() == [0.0] * min(4, size) + [-np.inf] * (size - 4)

    def test_torch_logits_stay_torch(self) -> None:
        torch = pytest.importorskip("torch")

        class OnTorch(Watched):
            def extend(self, steps: Sequence[Step]) -> list[Any]:
                return [torch.from_numpy(rows).float() for rows in super().extend(steps)]

        drafter = self.serving(OnTorch(counting, V), 6)
        proposal = propose(drafter, [0], [])
        assert proposal.tree.tokens == (1, 2, 3)
        assert all(isinstance(q, torch.Tensor) and q.shape == (6,) for q in proposal.q)

    def test_sizes_must_agree_without_tokenizers(self) -> None:
        small = TabularModel(counting, 5, name="small")
        with pytest.raises(VocabularyError, match="tabular has 4 tokens, small has 5"):
            ModelDrafter(small).check(tabular())

    def test_tokenizers_are_compared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        monkeypatch.setattr(
            "forerun.text.vocabulary.check_shared",
            lambda target, draft: asked.append((target, draft)),
        )
        target, draft = tabular(), TabularModel(counting, 6)
        target.tokenizer, draft.tokenizer = "ours", "theirs"  # type: ignore[assignment]
        ModelDrafter(draft).check(target)
        assert asked == [("ours", "theirs")]

    def test_a_draft_that_cannot_roll_back_is_refused(self) -> None:
        model = tabular(name="mamba")
        model.abilities = Abilities(rollback=False)
        with pytest.raises(CapabilityError, match="mamba cannot draft: its cache cannot roll back"):
            ModelDrafter(model).check(tabular())


class TestCache:
    def test_only_what_is_missing_is_fed(self) -> None:
        model = watched()
        drafter = greedy(model)
        drafter.begin(0, [3, 2, 1, 0])
        propose(drafter, [3, 2, 1, 0], [])
        assert model.shapes() == [[4], [1], [1]], "the last drafted token is not run"
        drafter.observe(0, [1, 2, 3, 0])  # all accepted, and a bonus
        assert model.length(0) == 6
        propose(drafter, [3, 2, 1, 0], [1, 2, 3, 0])
        assert model.shapes() == [[2], [1], [1]]
        drafter.observe(0, [1, 0])  # the second of 1, 2, 3 was rejected
        assert model._cached[0] == (3, 2, 1, 0, 1, 2, 3, 0, 1)
        propose(drafter, [3, 2, 1, 0], [1, 2, 3, 0, 1, 0], 1)
        assert model.shapes() == [[1]]

    def test_rounds_without_drafts_are_caught_up(self) -> None:
        model = watched()
        drafter = greedy(model)
        drafter.begin(0, [0])
        for token in (2, 2, 2):
            drafter.observe(0, [token])
        assert propose(drafter, [0], [2, 2, 2]).tree.tokens == (3, 0, 1)
        drafter.observe(0, [3, 3])
        drafter.observe(0, [1])
        assert propose(drafter, [0], [2, 2, 2, 3, 3, 1]).tree.tokens == (2, 3, 0)
        assert model.shapes() == [[4], [1], [1], [2], [1], [1]]

    def test_a_long_prompt_is_fed_in_chunks_beside_a_short_one(self) -> None:
        model = watched()
        drafter = greedy(model)
        long, short = [0, 1, 2, 3] * 300, [0, 1]
        drafter.begin(0, long)
        drafter.begin(1, short)
        both = drafter.propose([ask(0, long, [], 2, **FREE), ask(1, short, [], 2, **FREE)])
        assert [proposal.tree.tokens for proposal in both] == [(0, 1), (2, 3)]
        assert model.passes[0][0].rows == 0
        assert model.shapes() == [[CHUNK], [CHUNK], [1200 - 2 * CHUNK, 2], [1, 1]]

    def test_passes_are_shared_by_ragged_requests(self) -> None:
        model = watched()
        drafter = greedy(model)
        for slot in range(3):
            drafter.begin(slot, [slot])
        drafter.propose([ask(slot, [slot], [], slot + 1, **FREE) for slot in range(3)])
        assert model.shapes() == [[1, 1, 1], [1, 1], [1]]

    def test_what_was_rejected_is_not_in_the_state(self) -> None:
        states = []
        for drafted in ([1, 0], [2, 2]):
            drafter = ModelDrafter(tabular(2))
            drafter.begin(0, [0, 1])
            request = ask(0, [0, 1], [], 3, **FREE)
            path = iter([*drafted, 1])
            drafter.propose([replace(request, sample=lambda q, node, above, path=path: next(path))])
            drafter.observe(0, [0])
            states.append(pickle.dumps(drafter))
        assert states[0] == states[1]

    def test_slots_are_the_drafters_own(self) -> None:
        model = tabular()
        theirs = model.open()
        model.extend([Step(slot=theirs, tokens=(0, 1, 2))])
        drafter = ModelDrafter(model)
        drafter.begin(theirs, [0])
        assert len(drafter.propose([ask(theirs, [0], [], 2, **FREE)])[0]) == 2
        assert model.length(theirs) == 3
        drafter.end(theirs)
        assert model.open() == 1, "the drafter's slot is free again"


class TestContext:
    def test_drafts_stop_at_the_drafts_context(self) -> None:
        drafter = greedy(watched(context=5))
        drafter.begin(0, [0, 1])
        output: list[int] = []
        for expected in (3, 2, 1, 0, 0):
            assert len(propose(drafter, [0, 1], output, 4)) == expected
            drafter.observe(0, [0])
            output.append(0)

    def test_a_prompt_that_does_not_fit_is_never_fed(self) -> None:
        model = watched(context=5)
        drafter = greedy(model)
        drafter.begin(0, [0] * 6)
        assert len(propose(drafter, [0] * 6, [])) == 0
        drafter.observe(0, [1])
        assert len(propose(drafter, [0] * 6, [1])) == 0
        assert model.passes == []
        drafter.end(0)

    def test_a_full_cache_stops_one_request_only(self) -> None:
        model = watched()
        drafter = greedy(model)
        for slot, length in enumerate((2, 6, 3)):
            drafter.begin(slot, [0] * length)
        model.full_at = 6
        requests = [ask(slot, [0] * n, [], 3, **FREE) for slot, n in enumerate((2, 6, 3))]
        assert [len(p) for p in drafter.propose(requests)] == [3, 1, 3]
        model.full_at = None
        drafter.observe(1, [1, 1])
        request = ask(1, [0] * 6, [1, 1], 3, **FREE)
        assert drafter.propose([request])[0].tree.tokens == (2, 3, 0)

    def test_a_cache_that_fills_while_a_long_prompt_is_fed(self) -> None:
        model = watched()
        drafter = greedy(model)
        long = [0] * (3 * CHUNK)
        model.full_at = 2 * CHUNK
        drafter.begin(0, long)
        drafter.begin(1, [0])
        requests = [ask(0, long, [], 2, **FREE), ask(1, [0], [], 2, **FREE)]
        assert [len(p) for p in drafter.propose(requests)] == [0, 2]
        drafter.observe(0, [1])
        model.full_at = None
        assert propose(drafter, long, [1]).tree.tokens == (2, 3, 0)

    def test_no_slot_to_be_had(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def full() -> int:
            raise CacheError("4 slots are open, there is room for 4")

        model = watched()
        drafter = greedy(model)
        monkeypatch.setattr(model, "open", full)
        drafter.begin(0, [0])
        assert len(propose(drafter, [0], [])) == 0
        drafter.observe(0, [1])
        monkeypatch.undo()
        assert propose(drafter, [0], [1]).tree.tokens == (2, 3, 0), "there is room later"
        drafter.end(0)


class TestPrefixes:
    """What the draft model read of earlier texts; see models/test_prefix_cache.py."""

    SAMPLING: ClassVar[dict[str, Any]] = {"sampling": {"temperature": 0}}
    LONG: ClassVar[list[int]] = [0, 1, 2, 3, 2] * 20

    def test_a_text_that_goes_on_is_not_read_again(self) -> None:
        model = watched()
        drafter = ModelDrafter(model, prefix_memory=1 << 16, **self.SAMPLING)
        drafter.begin(0, self.LONG)
        propose(drafter, self.LONG, [])
        drafter.observe(0, [3, 0, 0])
        drafter.end(0)
        assert model.shapes() == [[100], [1], [1]]
        text = [*self.LONG, 3, 0, 0, 1]
        drafter.begin(0, text)
        said = outlook(drafter, 0, len(text), 3)
        assert said.unread == 2, "the first 0 was drafted and accepted, the second was not read"
        assert propose(drafter, text, []).tree.tokens == (2, 3, 0)
        assert model.shapes() == [[2], [1], [1]]
        assert outlook(drafter, 0, len(text), 3).unread == 0

    def test_drafts_are_those_of_a_drafter_without(self) -> None:
        texts = [self.LONG, self.LONG[:70], [*self.LONG, 1], [3], self.LONG[:64], self.LONG]
        drafter, model = ModelDrafter(tabular(2), prefix_memory=1 << 16), tabular(2)
        for text in texts:
            fresh = ModelDrafter(model)
            for one in (drafter, fresh):
                one.begin(0, text)
            for output in ([], [1], [1, 0, 2]):
                request = ask(0, text, output)
                assert same(drafter.propose([request])[0], fresh.propose([request])[0])
                for one in (drafter, fresh):
                    one.observe(0, [1] if not output else [0, 2])
            for one in (drafter, fresh):
                one.end(0)

    def test_tenants(self) -> None:
        model = watched()
        drafter = ModelDrafter(model, prefix_memory=1 << 16, **self.SAMPLING)
        for tenant, fed in [("a", 100), ("b", 100), ("a", 1), ("", 100)]:
            drafter.begin(0, self.LONG, tenant=tenant)
            assert outlook(drafter, 0, 100, 3).unread == fed
            propose(drafter, self.LONG, [])
            assert model.shapes()[0] == [fed]
            drafter.end(0)

    def test_no_room_to_take_pages_back(self) -> None:
        model = watched(max_memory=130 * TOKEN_BYTES)
        drafter = ModelDrafter(model, prefix_memory=1 << 16, **self.SAMPLING)
        drafter.begin(0, self.LONG)
        propose(drafter, self.LONG, [])
        drafter.end(0)
        other = model.open()
        model.extend([Step(slot=other, tokens=[0] * 60, rows=0)])
        drafter.begin(0, self.LONG)
        assert len(propose(drafter, self.LONG, [])) == 0
        drafter.observe(0, [3])
        model.close(other)
        assert propose(drafter, self.LONG, [3]).tree.tokens == (0, 1, 2)

    def test_kept_only_if_asked_for(self) -> None:
        model = watched()
        drafter = greedy(model)
        for _ in range(2):
            drafter.begin(0, self.LONG)
            propose(drafter, self.LONG, [])
            drafter.end(0)
            assert model.shapes()[0] == [100]
        with pytest.raises(OptionError, match="a whole number of bytes, 0 or more, not -1"):
            ModelDrafter(model, prefix_memory=-1)


class TestFailures:
    def test_nan_cuts_one_request_at_its_node(self) -> None:
        model = watched()
        drafter = greedy(model)
        for slot in (0, 1):
            drafter.begin(slot, [slot])
        requests = [ask(slot, [slot], [], 4, **FREE) for slot in (0, 1)]
        model.nan_after = (0, 1, 2)
        cut, whole = drafter.propose(requests)
        assert cut.tree.tokens == (1, 2)
        assert whole.tree.tokens == (2, 3, 0, 1)
        for slot, committed in ((0, [1, 2, 0]), (1, [2])):
            drafter.observe(slot, committed)
        assert propose(drafter, [0], [1, 2, 0]).tree.tokens == (1, 2, 3), "and goes on"

    def test_nan_at_once_proposes_nothing(self) -> None:
        model = watched()
        model.nan_after = (0,)
        drafter = greedy(model)
        drafter.begin(0, [0])
        assert len(propose(drafter, [0], [])) == 0

    def test_an_empty_support_or_a_failing_processor_cuts_too(self) -> None:
        def fails_later(ids: Sequence[int], logits: Any) -> Any:
            if len(ids) > 2:
                raise ZeroDivisionError
            return logits

        drafter = greedy(watched())
        drafter.begin(0, [0])
        assert len(propose(drafter, [0], [], banned=range(V))) == 0
        assert len(propose(drafter, [0], [], processors=(fails_later,))) == 2

    def test_a_failing_source_of_randomness_is_raised(self) -> None:
        def spent(q: Any, node: int, path: tuple[int, ...]) -> int:
            raise KeyReuseError("twice")

        drafter = ModelDrafter(tabular())
        drafter.begin(0, [0])
        with pytest.raises(KeyReuseError):
            drafter.propose([replace(ask(0, [0], []), sample=spent)])


def test_a_round_that_was_not_observed_is_undone() -> None:
    """As when another drafter or the target failed in between: propose again from the same text."""
    drafter = ModelDrafter(tabular())
    drafter.begin(0, [0, 1, 2])
    once, again = (propose(drafter, [0, 1, 2], []) for _ in range(2))
    assert same(once, again)
