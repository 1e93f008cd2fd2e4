"""What every model backend must do, run once per backend:

    @pytest.mark.parametrize("check", CONTRACT, ids=name)
    def test_contract(check):
        check(make, tolerance)

`make(context=None, max_memory=None)` gives a model without open slots (the same one again will do,
unless its limits change) of at least 5 tokens and at least 64 positions, unless `context` says
fewer; `tolerance` is the largest difference
between logits that counts as rounding. The reference for a row is the same model, asked for that
prefix alone, in a fresh slot, in one chain: that this is right, each backend tests on its own.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import pytest

from forerun.errors import CacheError, CapabilityError, OptionError
from forerun.models.base import Model, Step

Make = Callable[..., Model]
PROMPT = (1, 3, 0, 2, 4, 4, 1)
#                root ── 0 ── 2 ── 4
#                  │     └─── 3
#                  └──── 1 ── 5 ── 6 ── 7 ── 8       deep enough to leave a window of 4 behind
TREE = {"tokens": (2, 0, 1, 3, 4, 1, 2, 0, 3), "parents": (-1, -1, 0, 0, 2, 1, 5, 6, 7)}
PATHS = ((0,), (1,), (0, 2), (0, 3), (0, 2, 4), (1, 5), (1, 5, 6), (1, 5, 6, 7), (1, 5, 6, 7, 8))


def numbers(rows: Any) -> np.ndarray:
    return np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows)


def close(ours: Any, expected: Any, tolerance: float) -> None:
    ours, expected = numbers(ours), numbers(expected)
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance)


def alone(model: Model, prefix: Sequence[int]) -> np.ndarray:
    """The row after `prefix`, from a slot of its own."""
    slot = model.open()
    row = model.extend([Step(slot=slot, tokens=tuple(prefix))])[0][-1]
    model.close(slot)
    return numbers(row)


def filled(model: Model, tokens: Sequence[int] = PROMPT) -> int:
    slot = model.open()
    model.extend([Step(slot=slot, tokens=tuple(tokens), rows=0)])
    return slot


def is_a_model(make: Make, tolerance: float) -> None:
    model = make()
    assert isinstance(model, Model)
    assert model.name
    assert all(0 <= i < model.vocab_size for i in model.eos)
    assert model.abilities.rollback
    assert model.abilities.trees


def a_chain_gives_each_prefix_its_row(make: Make, tolerance: float) -> None:
    model = make()
    slot = model.open()
    rows = model.extend([Step(slot=slot, tokens=PROMPT)])[0]
    assert rows.shape == (len(PROMPT), model.vocab_size)
    assert model.length(slot) == len(PROMPT)
    for i, row in enumerate(rows):
        close(row, alone(model, PROMPT[: i + 1]), tolerance)


def other_tokens_give_other_rows(make: Make, tolerance: float) -> None:
    """Guards the rest: with a model that ignores its prefix nothing here could fail."""
    model = make()
    seen = [alone(model, p) for p in [(1, 2), (2, 1), (1, 2, 1, 2), (0, 2)]]
    for i, a in enumerate(seen):
        for b in seen[:i]:
            assert np.abs(np.exp(a) - np.exp(b)).max() > max(1e-6, 10 * tolerance)


def chunks_equal_the_whole(make: Make, tolerance: float) -> None:
    model = make()
    slot = model.open()
    for a, b in [(0, 1), (1, 4), (4, 6)]:
        model.extend([Step(slot=slot, tokens=PROMPT[a:b], rows=0)])
    close(
        model.extend([Step(slot=slot, tokens=PROMPT[6:])])[0][-1], alone(model, PROMPT), tolerance
    )


def rows_limits_what_comes_back(make: Make, tolerance: float) -> None:
    model = make()
    a, b, c = model.open(), model.open(), model.open()
    none, two, every = model.extend(
        [
            Step(slot=a, tokens=PROMPT, rows=0),
            Step(slot=b, tokens=PROMPT[:3], rows=2),
            Step(slot=c, tokens=PROMPT[:4]),
        ]
    )
    assert none.shape == (0, model.vocab_size)
    assert two.shape == (2, model.vocab_size)
    assert every.shape == (4, model.vocab_size)
    assert [model.length(s) for s in (a, b, c)] == [7, 3, 4]
    close(two[0], alone(model, PROMPT[:2]), tolerance)
    close(two[1], alone(model, PROMPT[:3]), tolerance)
    close(every[3], alone(model, PROMPT[:4]), tolerance)


def a_ragged_batch_equals_solo(make: Make, tolerance: float) -> None:
    """Different lengths before and after, a tree among chains, slots neither in order nor dense."""
    model = make()
    texts = [PROMPT[:n] for n in (5, 1, 7, 3)]
    slots = [filled(model, text) for text in texts]
    model.close(slots[1])
    order = [3, 0, 2]
    steps = [
        Step(slot=slots[3], tokens=(4,)),
        Step(slot=slots[0], **TREE),
        Step(slot=slots[2], tokens=(0, 1, 2), rows=1),
    ]
    rows = model.extend(steps)
    close(rows[0][0], alone(model, (*texts[3], 4)), tolerance)
    for node, path in enumerate(PATHS):
        way = tuple(TREE["tokens"][i] for i in path)
        close(rows[1][node], alone(model, texts[0] + way), tolerance)
    close(rows[2][0], alone(model, (*texts[2], 0, 1, 2)), tolerance)
    assert [model.length(slots[i]) for i in order] == [4, 14, 10]


def tree_rows_equal_their_chains(make: Make, tolerance: float) -> None:
    model = make()
    for start in (1, 4, 7):  # windows may begin before, at, or inside the tree
        slot = filled(model, PROMPT[:start])
        rows = model.extend([Step(slot=slot, **TREE)])[0]
        for node, path in enumerate(PATHS):
            way = tuple(TREE["tokens"][i] for i in path)
            close(rows[node], alone(model, PROMPT[:start] + way), tolerance)
        model.close(slot)


def whole_trees_in_company(make: Make, tolerance: float) -> None:
    """64 nodes each, of several slots at once; then a long path of each is kept."""
    dice = random.Random(64)
    model = make()
    before = [PROMPT[:1], PROMPT]
    slots = [filled(model, text) for text in before]
    trees = [big_tree(dice), big_tree(dice)]
    ways = [paths_of(parents) for _, parents in trees]
    steps = [
        Step(slot=slot, tokens=tokens, parents=parents)
        for slot, (tokens, parents) in zip(slots, trees)
    ]
    for text, rows, (tokens, _), paths in zip(before, model.extend(steps), trees, ways):
        assert len(rows) == 64
        for row, path in zip(rows, paths):
            close(row, alone(model, (*text, *(tokens[i] for i in path))), tolerance)
    kept = []
    for slot, text, (tokens, _), paths in zip(slots, before, trees, ways):
        path = max(paths, key=len)
        assert len(path) > 8
        model.keep(slot, len(text) + len(path), path=path)
        kept.append((*text, *(tokens[i] for i in path)))
    after = model.extend([Step(slot=slot, tokens=(0, 2)) for slot in slots])
    for rows, text in zip(after, kept):
        close(rows[0], alone(model, (*text, 0)), tolerance)
        close(rows[1], alone(model, (*text, 0, 2)), tolerance)


def big_tree(dice: random.Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tokens and parents of 64 nodes."""
    parents = tuple(dice.choice((i - 1, dice.randrange(-1, i))) for i in range(64))
    return tuple(dice.randrange(5) for _ in range(64)), parents


def paths_of(parents: Sequence[int]) -> list[tuple[int, ...]]:
    """Nodes down to each node."""
    found: list[tuple[int, ...]] = []
    for node, parent in enumerate(parents):
        found.append((*(found[parent] if parent >= 0 else ()), node))
    return found


def a_kept_path_goes_on_as_if_never_else(make: Make, tolerance: float) -> None:
    for path in [(), *PATHS]:
        model = make()
        slot = filled(model)
        other = filled(model, PROMPT[:2])
        model.extend([Step(slot=slot, **TREE)])
        model.keep(slot, len(PROMPT) + len(path), path=path)
        assert model.length(slot) == len(PROMPT) + len(path)
        text = PROMPT + tuple(TREE["tokens"][i] for i in path)
        rows = model.extend([Step(slot=slot, tokens=(0, 3)), Step(slot=other, tokens=(1,))])
        close(rows[0][0], alone(model, (*text, 0)), tolerance)
        close(rows[0][1], alone(model, (*text, 0, 3)), tolerance)
        close(rows[1][0], alone(model, (*PROMPT[:2], 1)), tolerance)
        model.close(slot)
        model.close(other)


def cut_and_extended_again(make: Make, tolerance: float) -> None:
    model = make()
    slot = filled(model)
    model.extend([Step(slot=slot, tokens=(2, 2, 2, 2, 2, 2, 2, 2))])
    for length in (9, 7, 3, 1, 0):
        model.keep(slot, length)
        assert model.length(slot) == length
        text = (*PROMPT, 2, 2)[:length]
        close(
            model.extend([Step(slot=slot, tokens=(4, 0))])[0][1],
            alone(model, (*text, 4, 0)),
            tolerance,
        )
        model.keep(slot, length)


def keeping_all_changes_nothing(make: Make, tolerance: float) -> None:
    model = make()
    slot = filled(model)
    model.keep(slot, len(PROMPT))
    close(model.extend([Step(slot=slot, tokens=(3,))])[0][0], alone(model, (*PROMPT, 3)), tolerance)


def a_closed_slot_leaves_nothing_behind(make: Make, tolerance: float) -> None:
    model = make()
    a, b = filled(model, PROMPT * 2), filled(model, PROMPT[:3])
    model.close(a)
    again = model.open()
    assert again == a
    assert model.length(again) == 0
    rows = model.extend([Step(slot=again, tokens=(3,)), Step(slot=b, tokens=(1, 1))])
    close(rows[0][0], alone(model, (3,)), tolerance)
    close(rows[1][1], alone(model, (*PROMPT[:3], 1, 1)), tolerance)
    model.close(b)
    with pytest.raises((CacheError, KeyError)):
        model.length(b)
    with pytest.raises((CacheError, KeyError)):
        model.extend([Step(slot=b, tokens=(1,))])


def impossible_keeps_change_nothing(make: Make, tolerance: float) -> None:
    model = make()
    slot = filled(model)
    with pytest.raises(CacheError):
        model.keep(slot, 8)
    with pytest.raises(CacheError):
        model.keep(slot, -1)
    model.extend([Step(slot=slot, **TREE)])
    for length, path in [
        (9, (0, 4)),  # 4 does not follow 0
        (9, (2, 4)),  # 2 is no child of the root
        (9, (0, 9)),  # no node 9
        (8, (0, 2)),  # two nodes are not one token
        (17, None),
    ]:
        with pytest.raises(CacheError):
            model.keep(slot, length, path=path)
        assert model.length(slot) == 16
    model.keep(slot, 9, path=(0, 3))
    with pytest.raises(CacheError):
        model.keep(slot, 9, path=(0, 3))  # that step is settled
    close(
        model.extend([Step(slot=slot, tokens=(1,))])[0][0],
        alone(model, (*PROMPT, 2, 3, 1)),
        tolerance,
    )


def past_the_context_nothing_changes(make: Make, tolerance: float) -> None:
    model = make(context=10)
    assert model.context == 10
    full, short = filled(model), filled(model, PROMPT[:2])
    with pytest.raises(CacheError, match="10"):
        model.extend([Step(slot=short, tokens=(1,)), Step(slot=full, tokens=(0, 1, 2, 3))])
    assert (model.length(full), model.length(short)) == (7, 2)
    rows = model.extend([Step(slot=short, tokens=(1,)), Step(slot=full, tokens=(0, 1, 2))])
    close(rows[0][0], alone(model, (*PROMPT[:2], 1)), tolerance)
    close(rows[1][2], alone(model, (*PROMPT, 0, 1, 2)), tolerance)
    with pytest.raises(CacheError):
        model.extend([Step(slot=full, tokens=(0,))])
    model.close(full)
    model.close(short)


def any_life_of_slots_equals_fresh_slots(make: Make, tolerance: float) -> None:
    """A random life: steps of any shape and company, cuts, paths, closings; every row checked."""
    model = make()
    dice = random.Random(5)
    expected: dict[tuple[int, ...], np.ndarray] = {}
    texts: dict[int, tuple[int, ...]] = {}
    for _ in range(24):
        while len(texts) < 3:
            texts[model.open()] = ()
        company = dice.sample(sorted(texts), dice.randint(1, 3))
        steps, ways = [], []
        for slot in company:
            count = dice.randint(1, 5)
            tokens = tuple(dice.randrange(5) for _ in range(count))
            parents = None
            if dice.random() < 0.7:
                parents = tuple(dice.randrange(-1, i) for i in range(count))
            rows = dice.choice([None, dice.randint(0, count)])
            steps.append(Step(slot=slot, tokens=tokens, parents=parents, rows=rows))
            paths: list[tuple[int, ...]] = []
            for i in range(count):
                above = i - 1 if parents is None else parents[i]
                paths.append((*(paths[above] if above >= 0 else ()), i))
            ways.append(paths)
        for step, paths, rows in zip(steps, ways, model.extend(steps)):
            assert len(rows) == step.wanted
            for row, path in zip(rows, paths[len(paths) - step.wanted :]):
                text = texts[step.slot] + tuple(step.tokens[i] for i in path)
                if text not in expected:
                    expected[text] = alone(model, text)
                close(row, expected[text], tolerance)
        for step, paths in zip(steps, ways):
            before = texts[step.slot]
            path = dice.choice([(), *paths])
            path = path[: dice.randint(0, len(path))]
            texts[step.slot] = before + tuple(step.tokens[i] for i in path)
            model.keep(step.slot, len(texts[step.slot]), path=path)
            if dice.random() < 0.3:
                cut = dice.randint(0, len(texts[step.slot]))
                texts[step.slot] = texts[step.slot][:cut]
                model.keep(step.slot, cut)
            if dice.random() < 0.1 or len(texts[step.slot]) > 20:
                model.close(step.slot)
                del texts[step.slot]
    for slot in texts:
        model.close(slot)


def restored_cells_equal_read_ones(make: Make, tolerance: float) -> None:
    """Whole pages and parts of them, one behind another, in company, and what follows them."""
    model = make()
    text = PROMPT * 3 + (2, 0, 3)
    source = filled(model, text)
    cuts = [(0, 9), (9, 10), (10, 17), (17, 24)]
    pages = [model.save(source, start, stop) for start, stop in cuts]
    assert [(p.start, p.stop, len(p)) for p in pages] == [(a, b, b - a) for a, b in cuts]
    model.close(source)
    other = filled(model, PROMPT[:2])
    for whole in range(len(pages)):
        for part in (0, 1, len(pages[whole]) - 1, len(pages[whole])):
            slot = model.open()
            for page in pages[:whole]:
                model.restore(slot, page, len(page))
            model.restore(slot, pages[whole], part)
            held = cuts[whole][0] + part
            assert model.length(slot) == held
            rows = model.extend(
                [Step(slot=slot, tokens=(4, 1)), Step(slot=other, tokens=(3,), rows=0)]
            )[0]
            close(rows[0], alone(model, (*text[:held], 4)), tolerance)
            close(rows[1], alone(model, (*text[:held], 4, 1)), tolerance)
            model.close(slot)
    model.close(other)


def saved_copies_stand_alone(make: Make, tolerance: float) -> None:
    """What is written to the slot later, or to one restored from the copy, does not change it."""
    model = make()
    slot = filled(model)
    pages = model.save(slot, 0, len(PROMPT))
    model.keep(slot, 2)
    model.extend([Step(slot=slot, tokens=(3,) * 9, rows=0)])
    for _ in range(2):
        again = model.open()
        model.restore(again, pages, len(PROMPT))
        close(
            model.extend([Step(slot=again, tokens=(0,))])[0][0],
            alone(model, (*PROMPT, 0)),
            tolerance,
        )
        model.keep(again, 1)
        model.extend([Step(slot=again, tokens=(3, 3, 3, 3, 3, 3), rows=0)])
        close(
            model.extend([Step(slot=slot, tokens=(1,))])[0][0],
            alone(model, (*PROMPT[:2], *(3,) * 9, 1)),
            tolerance,
        )
        model.keep(slot, 11)
        model.close(again)


def a_restored_slot_is_like_any(make: Make, tolerance: float) -> None:
    """Trees on top of it, paths kept, cuts inside of it; and it can be saved again."""
    model = make()
    source = filled(model)
    model.extend([Step(slot=source, **TREE)])
    with pytest.raises(CacheError, match="tree"):
        model.save(source, 0, len(PROMPT) + 1)
    prompt = model.save(source, 1, len(PROMPT))
    model.keep(source, len(PROMPT) + 3, path=(1, 5, 6))
    path = model.save(source, len(PROMPT), len(PROMPT) + 3)
    slot = filled(model, PROMPT[:1])
    model.restore(slot, prompt, len(prompt))
    with pytest.raises(CacheError):
        model.keep(slot, 1, path=(0,))  # that step is over
    model.restore(slot, path, 2)
    text = (*PROMPT, 0, 1)
    rows = model.extend([Step(slot=slot, **TREE)])[0]
    for node, way in enumerate(PATHS):
        close(rows[node], alone(model, (*text, *(TREE["tokens"][i] for i in way))), tolerance)
    model.keep(slot, len(text) + 2, path=(0, 3))
    text += (2, 3)
    again = model.open()
    model.restore(again, model.save(slot, 0, len(text)), len(text))
    model.keep(again, 5)
    close(
        model.extend([Step(slot=again, tokens=(1,))])[0][0], alone(model, (*text[:5], 1)), tolerance
    )
    close(model.extend([Step(slot=slot, tokens=(1,))])[0][0], alone(model, (*text, 1)), tolerance)


def impossible_saves_and_restores_change_nothing(make: Make, tolerance: float) -> None:
    model = make(context=10)
    slot = filled(model)
    for start, stop in [(0, 8), (3, 3), (4, 2), (-1, 2)]:
        with pytest.raises(CacheError, match=f"positions {start} to {stop - 1} cannot be saved"):
            model.save(slot, start, stop)
    pages = model.save(slot, 2, 7)
    with pytest.raises(CacheError, match="from position 2 on cannot follow the 7 tokens of slot"):
        model.restore(slot, pages, 5)
    model.keep(slot, 2)
    for count in (6, -1):
        with pytest.raises(CacheError, match=f"{count} tokens cannot be restored from pages of 5"):
            model.restore(slot, pages, count)
    with pytest.raises(CacheError, match="another model"):
        model.restore(slot, dataclasses.replace(pages, model=copy.copy(model)), 5)
    assert model.length(slot) == 2
    model.restore(slot, pages, 5)
    model.extend([Step(slot=slot, tokens=(2, 2, 2), rows=0)])
    late = model.save(slot, 5, 10)
    model.close(slot)
    model = make(context=9)
    late = dataclasses.replace(late, model=model)
    slot = filled(model, (*PROMPT[:5],))
    with pytest.raises(CacheError, match="10 tokens, its context is 9"):
        model.restore(slot, late, 5)
    assert model.length(slot) == 5


def copies_take_what_they_hold(make: Make, tolerance: float) -> None:
    model = make()
    slot = filled(model, PROMPT * 9)
    one = model.save(slot, 3, 4).nbytes
    assert one > 0
    for start, stop in [(0, 2), (5, 21), (0, 63)]:
        assert model.save(slot, start, stop).nbytes == one * (stop - start)
    assert one * model.length(slot) <= model.cache_bytes


def fits_says_what_extend_would(make: Make, tolerance: float) -> None:
    """For fresh slots and for old ones that were longer, in number or in length."""
    model = make()
    slot = filled(model, PROMPT[:1])
    unit = model.cache_bytes  # as little as one slot can take
    model.close(slot)
    most = 6 * unit
    model = make(context=300, max_memory=most)
    assert model.fits([])
    assert model.fits([1])
    assert model.fits([300]) == (extended(model, [300]) is None)
    assert not model.fits([301])
    dice = random.Random(3)
    said = [0, 0]
    for _ in range(30):
        longest = dice.choice([2, 5, 70, 140, 300])
        lengths = [dice.randint(0, longest) for _ in range(dice.randint(1, 7))]
        fits = model.fits(lengths)
        failure = extended(model, lengths, dice)
        assert fits == (failure is None), (lengths, failure)
        assert model.cache_bytes <= most
        said[fits] += 1
    assert min(said) > 3


def extended(model: Model, lengths: Sequence[int], dice: Any = None) -> CacheError | None:
    """Why slots of such lengths cannot be, if they cannot; with `dice`, they were others before."""
    slots = []
    try:
        for length in lengths:
            slots.append(model.open())
            if dice is not None:
                with suppress(CacheError):
                    model.extend([Step(slot=slots[-1], tokens=(1,) * dice.randint(0, 90), rows=0)])
                model.keep(slots[-1], dice.randint(0, min(length, model.length(slots[-1]))))
                with suppress(CacheError):
                    model.close(model.open())
        order = list(zip(slots, lengths))
        if dice is not None:
            dice.shuffle(order)
        for slot, length in order:
            more = length - model.length(slot)
            model.extend([Step(slot=slot, tokens=(1,) * more, rows=0)])
    except CacheError as error:
        return error
    finally:
        for slot in slots:
            model.close(slot)
    return None


def restoring_is_bounded_like_reading(make: Make, tolerance: float) -> None:
    model = make()
    source = filled(model, PROMPT * 9)
    pages = model.save(source, 0, 63)
    unit = pages.nbytes // 63
    model.close(source)
    model = make(max_memory=128 * unit)
    pages = dataclasses.replace(pages, model=model)
    slots = [model.open()]
    model.restore(slots[0], pages, 63)
    slots.append(model.open())
    model.restore(slots[1], pages, 63)
    model.extend([Step(slot=slots[0], tokens=(1,), rows=0)])
    model.keep(slots[1], 0)
    model.close(slots.pop())
    assert model.cache_bytes <= 128 * unit
    model.extend([Step(slot=slots[0], tokens=(1,) * 60, rows=0)])

    def one_more() -> None:
        slots.append(model.open())
        model.restore(slots[1], pages, 63)

    with pytest.raises(CacheError, match="bytes"):
        one_more()
    assert model.length(slots[0]) == 124
    for slot in slots[1:]:
        assert model.length(slot) == 0
    close(
        model.extend([Step(slot=slots[0], tokens=(2,))])[0][0],
        alone(make(), (*PROMPT * 9, *(1,) * 61, 2)),
        tolerance,
    )


@contextmanager
def tapped(model: Any, layers: Sequence[int]) -> Iterator[int]:
    width = model.tap(layers)
    try:
        yield width
    finally:
        assert model.tap(()) == 0


def features_alone(model: Any, prefix: Sequence[int]) -> np.ndarray:
    """Of each token of the prefix, from a slot of its own."""
    slot = model.open()
    model.extend([Step(slot=slot, tokens=tuple(prefix), rows=0)])
    found = model.features(slot)
    model.close(slot)
    assert found.dtype == np.float32
    return np.array(found)


def features_are_of_each_token_and_its_path(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.features:
        return
    with tapped(model, (1, 0)) as width:
        assert width % 2 == 0
        one, other = filled(model), filled(model, PROMPT[:3])
        close(model.features(one), features_alone(model, PROMPT), tolerance)
        model.extend([Step(slot=other, tokens=(4, 1)), Step(slot=one, rows=0, **TREE)])
        close(model.features(other), features_alone(model, (*PROMPT[:3], 4, 1)), tolerance)
        assert model.features(one).shape == (len(PROMPT) + len(TREE["tokens"]), width)
        for path in PATHS:
            tokens = tuple(TREE["tokens"][i] for i in path)
            expected = features_alone(model, (*PROMPT, *tokens))[-1]
            close(model.features(one, len(PROMPT))[path[-1]], expected, tolerance)
        path = PATHS[-1]
        tokens = tuple(TREE["tokens"][i] for i in path)
        model.keep(one, len(PROMPT) + len(path), path)
        whole = features_alone(model, (*PROMPT, *tokens))
        close(model.features(one), whole, tolerance)
        close(model.features(one, 3), whole[3:], tolerance)
        model.keep(one, len(PROMPT) + 1)
        close(model.features(one), whole[: len(PROMPT) + 1], tolerance)
        model.extend([Step(slot=one, tokens=(2,)), Step(slot=other, tokens=(3, 3))])
        again = features_alone(model, (*PROMPT, tokens[0], 2))
        close(model.features(one), again, tolerance)
        model.keep(one, 2)
        close(model.features(one), again[:2], tolerance)
        assert model.features(one, 2).shape == model.features(one, 9).shape == (0, width)
        model.close(one)
        model.close(other)


def a_feature_depends_on_tokens_and_layers(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.features:
        return
    found = {}
    for layers in ((0,), (1,), (0, 1), (1, 0)):
        with tapped(model, layers):
            found[layers] = features_alone(model, PROMPT)
    assert np.abs(found[0,] - found[1,]).max() > 100 * tolerance
    np.testing.assert_array_equal(found[0, 1], np.hstack([found[0,], found[1,]]))
    np.testing.assert_array_equal(found[1, 0], np.hstack([found[1,], found[0,]]))
    with tapped(model, (1,)):
        changed = features_alone(model, (*PROMPT[:-2], 0, PROMPT[-1]))  # within a window
    assert np.abs(changed[-1] - found[1,][-1]).max() > 100 * tolerance


def features_are_saved_and_restored(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.features:
        return
    with tapped(model, (1,)) as width:
        slot = filled(model)
        parts = [model.save(slot, 0, 4), model.save(slot, 4, 6)]
        assert parts[0].nbytes >= 4 * 4 * width
        again = model.open()
        model.restore(again, parts[0], 4)
        model.restore(again, parts[1], 1)
        np.testing.assert_array_equal(model.features(again), model.features(slot)[:5])
        model.extend([Step(slot=again, tokens=PROMPT[5:])])
        close(model.features(again), model.features(slot), tolerance)
        model.close(slot)
        model.close(again)


def features_begin_where_the_model_was_tapped(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.features:
        return
    slot = filled(model, PROMPT[:4])
    pages = model.save(slot, 0, 4)
    with tapped(model, (1,)) as width:
        assert model.features(slot).shape == (0, width)
        model.extend([Step(slot=slot, tokens=PROMPT[4:])])
        close(model.features(slot), features_alone(model, PROMPT)[4:], tolerance)
        close(model.features(slot, 5), features_alone(model, PROMPT)[5:], tolerance)
        mixed = model.open()
        model.restore(mixed, pages, 3)
        assert model.features(mixed).shape == (0, width)
        model.extend([Step(slot=mixed, tokens=PROMPT[3:])])
        close(model.features(mixed), features_alone(model, PROMPT)[3:], tolerance)
        model.keep(mixed, 1)
        model.extend([Step(slot=mixed, tokens=PROMPT[1:])])
        close(model.features(mixed), features_alone(model, PROMPT)[1:], tolerance)
        model.close(mixed)
    model.close(slot)


def a_tapped_model_says_what_it_is(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.features:
        return
    table = model.embeddings()
    assert len(table.shape) == 2
    assert table.shape[0] >= model.vocab_size
    assert model.fingerprint == make().fingerprint
    with tapped(model, (model.layers,)) as width:
        assert width == table.shape[1]


def taps_that_cannot_be(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.features:
        return
    for bad in (-1, 10_000, True, "1", 0.5):
        with pytest.raises(OptionError, match="layers"):
            model.tap((bad,))
    with tapped(model, (1,)):
        assert model.tap((1,)) > 0
        with pytest.raises(CapabilityError, match="share"):
            model.tap((0,))
    slot = filled(model)
    assert model.features(slot).shape == (0, 0)
    model.close(slot)
    with pytest.raises(CacheError):
        model.features(slot)


def skimmed(model: Any, slot: int, tokens: Sequence[int], skipped: Sequence[int]) -> np.ndarray:
    """Rows of tokens behind the slot's text without some layers; the slot is as before."""
    before = model.length(slot)
    rows = [model.skim([Step(slot=slot, tokens=(t,))], skipped)[0] for t in tokens]
    model.keep(slot, before)
    return np.stack([numbers(row[0]) for row in rows])


def without_no_layer_it_is_the_model(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.skips:
        return
    slot = filled(model)
    found = skimmed(model, slot, (2, 0, 3), ())
    close(found, model.extend([Step(slot=slot, tokens=(2, 0, 3))])[0], tolerance)


def each_layer_that_is_left_out_tells(make: Make, tolerance: float) -> None:
    model: Any = make()
    if not model.abilities.skips:
        return
    slot = filled(model)
    sets = [(), *((i,) for i in range(model.layers)), tuple(range(model.layers))]
    found = [skimmed(model, slot, (2, 0), skipped) for skipped in sets]
    for i, rows in enumerate(found):
        assert rows.shape == (2, model.vocab_size)
        for other in found[:i] if len(set(sets)) == len(sets) else ():
            assert np.abs(np.exp(rows) - np.exp(other)).max() > 10 * tolerance


def skimming_leaves_no_trace(make: Make, tolerance: float) -> None:
    """In slots' rows, lengths, pages, room and features, whatever was drafted behind their text."""
    model: Any = make()
    if not model.abilities.skips:
        return
    with tapped(model, (1,)) if model.abilities.features else nullcontext():
        slot, twin, fresh = (filled(model, (1,) * 16) for _ in range(3))  # room for as much
        for each in (slot, twin):
            model.keep(each, 0)
            model.extend([Step(slot=each, tokens=PROMPT, rows=0)])
        model.keep(fresh, 0)
        model.extend([Step(slot=fresh, tokens=PROMPT, rows=0)])
        expected = model.extend([Step(slot=fresh, **TREE)])[0]
        room = model.cache_bytes
        for skipped in ((0,), (1,), (0, 1)):
            features = model.features(slot).copy() if model.abilities.features else None
            skimmed(model, slot, (2, 0, 3, 1), skipped)
            assert model.length(slot) == len(PROMPT)
            assert model.cache_bytes == room
            if features is not None:
                assert len(features) == len(PROMPT)
                np.testing.assert_array_equal(model.features(slot), features)
            ours, theirs = (cells(model.save(s, 0, len(PROMPT))) for s in (slot, twin))
            assert ours == theirs
            for each in (slot, twin):
                close(model.extend([Step(slot=each, **TREE)])[0], expected, tolerance)
                model.keep(each, 0)
                model.extend([Step(slot=each, tokens=PROMPT, rows=0)])


def cells(pages: Any) -> list[Any]:
    """What is saved, as plain values."""
    many = pages.cells if isinstance(pages.cells, (list, tuple)) else [pages.cells]
    return [numbers(part).tolist() for part in many]


def skimming_in_company_equals_alone(make: Make, tolerance: float) -> None:
    """Ragged slots, several tokens at once or one by one, and only the rows asked for."""
    model: Any = make()
    if not model.abilities.skips:
        return
    one, other = filled(model), filled(model, PROMPT[:3])
    expected = [skimmed(model, one, (2, 0, 3), (1,)), skimmed(model, other, (4, 1), (1,))]
    steps = [Step(slot=other, tokens=(4, 1), rows=1), Step(slot=one, tokens=(2, 0, 3))]
    found = model.skim(steps, (1,))
    close(found[0], expected[1][1:], tolerance)
    close(found[1], expected[0], tolerance)
    assert (model.length(one), model.length(other)) == (len(PROMPT) + 3, 5)


def skims_that_cannot_be_change_nothing(make: Make, tolerance: float) -> None:
    model: Any = make(context=9)
    if not model.abilities.skips:
        return
    slot = filled(model)
    for bad in (-1, model.layers, True, "1", 0.5):
        with pytest.raises(OptionError, match=f"layers are numbered 0 to {model.layers - 1}"):
            model.skim([Step(slot=slot, tokens=(1,))], (bad,))
    with pytest.raises(CacheError, match="10 tokens, its context is 9"):
        model.skim([Step(slot=slot, tokens=(1, 2, 3))], (1,))
    assert model.length(slot) == len(PROMPT)
    close(model.extend([Step(slot=slot, tokens=(2,))])[0][0], alone(model, (*PROMPT, 2)), tolerance)


CONTRACT = [
    is_a_model,
    a_chain_gives_each_prefix_its_row,
    other_tokens_give_other_rows,
    chunks_equal_the_whole,
    rows_limits_what_comes_back,
    a_ragged_batch_equals_solo,
    tree_rows_equal_their_chains,
    whole_trees_in_company,
    a_kept_path_goes_on_as_if_never_else,
    cut_and_extended_again,
    keeping_all_changes_nothing,
    a_closed_slot_leaves_nothing_behind,
    impossible_keeps_change_nothing,
    past_the_context_nothing_changes,
    any_life_of_slots_equals_fresh_slots,
    restored_cells_equal_read_ones,
    saved_copies_stand_alone,
    a_restored_slot_is_like_any,
    impossible_saves_and_restores_change_nothing,
    copies_take_what_they_hold,
    fits_says_what_extend_would,
    restoring_is_bounded_like_reading,
    features_are_of_each_token_and_its_path,
    a_feature_depends_on_tokens_and_layers,
    features_are_saved_and_restored,
    features_begin_where_the_model_was_tapped,
    a_tapped_model_says_what_it_is,
    taps_that_cannot_be,
    without_no_layer_it_is_the_model,
    each_layer_that_is_left_out_tells,
    skimming_leaves_no_trace,
    skimming_in_company_equals_alone,
    skims_that_cannot_be_change_nothing,
]


def name(check: Callable[..., None]) -> str:
    return check.__name__
