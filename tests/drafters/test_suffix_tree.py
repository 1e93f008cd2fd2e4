"""Suffix trees: what is counted, and what of it is drafted."""

from __future__ import annotations

import random
from typing import Any

import pytest

from forerun.drafters import SuffixDrafter, SuffixTreeDrafter
from forerun.drafters.lookup import after_match
from forerun.errors import OptionError
from forerun.numerics.token_tree import ROOT, TokenTree

from .contract import ask

OLD = [10, 11, 12, 13, 14, 15, 16, 17]


def proposed(
    drafter: SuffixTreeDrafter, slot: int, text: list[int], count: int, end: int | None = None
) -> TokenTree:
    eos = frozenset[int]() if end is None else frozenset({end})
    return drafter.propose([ask(slot, text, [], count, eos=eos)])[0].tree


def tree(text: list[int], count: int, end: int | None = None, **options: Any) -> TokenTree:
    drafter = SuffixTreeDrafter(**options)
    drafter.begin(0, text)
    return proposed(drafter, 0, text, count, end)


def paths(found: TokenTree) -> list[tuple[int, ...]]:
    return [found.path_tokens(node) for node in range(len(found))]


def test_worked_examples() -> None:
    assert paths(tree([1, 2, 3, 1, 2, 4, 1, 2], 3)) == [(4,), (3,), (4, 1)]
    sat, ran, slept, the, cat, a = range(6)
    text = [the, cat, sat, the, cat, sat, the, cat, ran, a, cat, slept, the, cat]
    assert [path for path in paths(tree(text, 40)) if len(path) == 1] == [(sat,), (ran,), (slept,)]
    assert paths(tree(text, 1)) == [(sat,)]


def test_nothing_known() -> None:
    assert len(tree([1], 8)) == len(tree([1, 2, 3], 8)) == 0


def test_a_tie_goes_to_the_more_recent() -> None:
    assert paths(tree([7, 4, 8, 4, 9, 4], 2))[0] == (9,)


def test_nothing_follows_an_end() -> None:
    text = [1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2]
    whole, cut = tree(text, 40), tree(text, 40, end=3)
    assert any(len(path) > 1 for path in paths(whole) if path[0] == 3)
    assert paths(cut) == [path for path in paths(whole) if 3 not in path[:-1]]


def counted(text: list[int], path: tuple[int, ...], depth: int) -> list[tuple[int, float]]:
    """What may follow, by looking through the text: longest matches first."""
    whole, left, seen, found = [*text, *path], 1.0, set[int](), list[tuple[int, float]]()
    longer: list[int] = []
    for m in range(min(depth, len(whole)), 0, -1):
        ends = [i for i in range(m, len(text) + 1) if text[i - m : i] == whole[-m:]]
        if ends == longer:
            continue  # the same places as of a longer match
        longer = ends
        after = [text[i] for i in ends if i < len(text)]
        if not after:
            continue
        for token in sorted(set(after), key=lambda x: -after.count(x)):
            if token not in seen:
                found.append((token, left * after_match(m) * after.count(token) / len(after)))
        seen |= set(after)
        left *= 1 - after_match(m)
    return found


@pytest.mark.parametrize("depth", [2, 5, 32])
def test_probabilities_are_those_of_counts(depth: int) -> None:
    """Each node's, and that no better one is left out."""
    dice = random.Random(depth)
    for _ in range(60):
        text = dice.choices(range(dice.choice((2, 4, 9))), k=dice.randrange(2, 30))
        drafter = SuffixTreeDrafter(max_match=depth, min_probability=0.0)
        drafter.begin(0, text)
        nodes = drafter._readers[0].nodes(12)
        found = TokenTree(tuple(n[0] for n in nodes), tuple(n[1] for n in nodes))
        scores = {ROOT: 1.0} | {node: score for node, (_, _, score) in enumerate(nodes)}
        left_out: list[float] = []
        for node, children in found.children.items():
            expected = counted(text, found.path_tokens(node) if node != ROOT else (), depth)
            named = dict(expected)
            most = scores[node]
            assert len({found.tokens[child] for child in children}) == len(children)
            for child in children:
                most = min(most, scores[node] * named[found.tokens[child]])
                assert scores[child] == pytest.approx(most)
            rest = [share for token, share in expected
                    if token not in {found.tokens[child] for child in children}]  # fmt: skip
            left_out += [min(most, scores[node] * share) for share in rest]
        assert all(min(scores.values()) >= score - 1e-12 for score in left_out) or len(found) < 12
        assert len(found) == 12 or not left_out
        assert list(scores.values()) == sorted(scores.values(), reverse=True)


def test_the_first_children_are_what_suffix_drafts() -> None:
    dice, longest = random.Random(3), 0
    for _ in range(150):
        text = dice.choices(range(dice.choice((2, 3, 6))), k=dice.randrange(2, 40))
        chain = SuffixDrafter(draft_factor=100, min_probability=0)
        chain.begin(0, text)
        drafted = chain.propose([ask(0, text, [], 12, eos=frozenset())])[0].tree.tokens
        found, first, at = tree(text, 12, min_probability=0.0), list[int](), ROOT
        while children := found.children[at]:
            at = children[0]
            first.append(found.tokens[at])
        assert tuple(first) == drafted[: len(first)]
        assert first or not drafted
        longest = max(longest, len(first))
    assert longest > 5


def test_fewer_nodes_are_the_first_of_more() -> None:
    dice = random.Random(1)
    for _ in range(20):
        text = dice.choices(range(3), k=30)
        most = tree(text, 40)
        for count in (1, 2, 5, 17):
            fewer = tree(text, count)
            assert fewer.tokens == most.tokens[:count]
            assert fewer.parents == most.parents[:count]


def test_unlikely_nodes_are_left_out() -> None:
    text = random.Random(2).choices(range(3), k=30)
    sizes = [len(tree(text, 64, min_probability=least)) for least in (0.0, 0.02, 0.2, 0.9)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 64
    assert sizes[1] > sizes[2]


# ------------------------------------------------------------------ earlier texts


def remembering(*texts: list[int], tenant: str = "") -> SuffixTreeDrafter:
    drafter = SuffixTreeDrafter(memory_bytes=1 << 20)
    for text in texts:
        drafter.begin(0, text[:1], tenant=tenant)
        drafter.observe(0, text[1:])
        drafter.end(0)
    return drafter


def test_earlier_texts_are_recalled() -> None:
    drafter = remembering(OLD, [*OLD[:4], 20, 21])
    drafter.begin(0, [1, 10, 11, 12])
    found = paths(proposed(drafter, 0, [1, 10, 11, 12], 4))
    assert found[0] == (13,)
    assert {(13, 14), (13, 20)} <= set(found), "one text went on with 14, the other with 20"
    drafter.begin(1, [11, 12])
    assert len(proposed(drafter, 1, [11, 12], 4)) == 0, "two tokens are too few to find a place"


def test_the_longer_match_is_first_wherever_it_is() -> None:
    for own, first in [([11, 12, 9], 13), ([8, 10, 11, 12, 9, 8], 9)]:
        drafter, text = remembering(OLD), [*own, 10, 11, 12]
        drafter.begin(0, text)
        found = proposed(drafter, 0, text, 40)
        assert found.tokens[found.children[ROOT][0]] == first
        assert {found.tokens[node] for node in found.children[ROOT]} == {9, 13}


def test_a_match_in_both_goes_on_in_both() -> None:
    """Behind a recalled token the request's own text is asked as well."""
    drafter, text = remembering(OLD), [13, 5, 13, 5, 10, 11, 12]
    drafter.begin(0, text)
    assert {(13,), (13, 14), (13, 5)} <= set(paths(proposed(drafter, 0, text, 8)))


def test_a_text_is_recalled_for_its_tenant_alone() -> None:
    drafter, text = remembering(OLD, tenant="a"), [1, 10, 11, 12]
    for tenant, recall, known in [("a", True, 5), ("a", False, 0), ("b", True, 0), ("", True, 0)]:
        drafter.begin(0, text, tenant=tenant, recall=recall)
        assert len(proposed(drafter, 0, text, 5)) == known
        drafter.end(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_bytes": -1}, "memory_bytes must be a whole number of at least 0, not -1"),
        ({"max_match": 0}, "max_match must be a whole number of at least 1, not 0"),
        ({"min_probability": 1.5}, "min_probability must be between 0 and 1, not 1.5"),
        ({"min_probability": "x"}, "min_probability must be between 0 and 1, not 'x'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SuffixTreeDrafter(**options)
