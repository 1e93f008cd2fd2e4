"""The prefix cache against a plain list of all texts, and what it promises to tenants."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.errors import CacheError, CapabilityError, OptionError
from forerun.models import prefix_cache
from forerun.models.base import Abilities, Step
from forerun.models.prefix_cache import PrefixCache
from forerun.models.tabular import TOKEN_BYTES, TabularModel

PLENTY = 1 << 20


def make(**options):
    return TabularModel(lambda prefix: [0.25] * 4, 4, **options)


def held(model, text):
    """A slot that holds `text`."""
    slot = model.open()
    model.extend([Step(slot=slot, tokens=tuple(text), rows=0)])
    return slot


def put(cache, model, tenant, text):
    slot = held(model, text)
    cache.store(tenant, [*text, 0], slot)  # one id more, as when a request ends
    model.close(slot)


def known(cache, model, tenant, ids):
    """How many tokens a fetch restores; that they are the first of `ids` is checked."""
    slot = model.open()
    count = cache.fetch(tenant, ids, slot)
    assert model._cached[slot] == tuple(ids[:count])
    model.close(slot)
    return count


class Counting(TabularModel):
    """Counts copies."""

    def __init__(self, **options):
        super().__init__(lambda prefix: [0.25] * 4, 4, **options)
        self.saved, self.restored = [], []

    def save(self, slot, start, stop):
        self.saved.append((start, stop))
        return super().save(slot, start, stop)

    def restore(self, slot, pages, count):
        self.restored.append((pages.start, count))
        super().restore(slot, pages, count)


# ------------------------------------------------------------------ by example


def test_a_conversation_goes_on_where_it_stood():
    model = Counting()
    cache = PrefixCache(model, PLENTY)
    first = [i % 3 for i in range(150)]
    put(cache, model, "", first)
    assert model.saved == [(0, 64), (64, 128), (128, 150)]
    second = [*first, 1, 1, 2, 3] * 2
    assert known(cache, model, "", second) == 150
    assert model.restored == [(0, 64), (64, 64), (128, 22)]
    put(cache, model, "", second)
    assert model.saved[3:] == [(128, 192), (192, 256), (256, 308)]
    assert (len(cache), cache.bytes) == (5, 308 * TOKEN_BYTES)  # the short page is in a whole one
    assert known(cache, model, "", first) == 149  # the last id is never restored
    assert (cache.fetches, cache.hits, cache.hit_tokens) == (2, 2, 299)


def test_what_is_there_is_not_copied_again():
    model = Counting()
    cache = PrefixCache(model, PLENTY)
    text = [0, 1, 2] * 40
    put(cache, model, "", text)
    copies, size = list(model.saved), cache.bytes
    put(cache, model, "", text)
    put(cache, model, "", text[:70])
    put(cache, model, "", text[:5])
    put(cache, model, "", [])
    assert (model.saved, cache.bytes, len(cache)) == (copies, size, 2)


def test_a_page_in_part():
    model = make()
    cache = PrefixCache(model, PLENTY)
    put(cache, model, "", [1] * 100)
    for ids, count in [
        ([1] * 40 + [2], 40), ([1] * 63 + [2, 1], 63), ([1] * 80 + [3] * 90, 80), ([1, 2], 1),
        ([1] * 64, 63), ([1], 0), ([2, 1, 1], 0), ([1] * 200, 100),
    ]:  # fmt: skip
        assert known(cache, model, "", ids) == count


def test_the_nearest_of_many():
    model = make()
    cache = PrefixCache(model, PLENTY)
    for text in ([1, 2, 3, 0], [1, 2, 0], [1, 0, 3, 3], [3], [1, 2, 3, 3, 3]):
        put(cache, model, "", text)
    for ids, count in [
        ([1, 2, 3, 1, 1], 3), ([1, 2, 1], 2), ([1, 1, 1], 1), ([0, 1, 2], 0),
        ([1, 2, 3, 3, 3, 3], 5), ([1, 0, 3, 2, 0], 3), ([3, 3, 3], 1),
    ]:  # fmt: skip
        assert known(cache, model, "", ids) == count


def test_only_what_the_slot_holds_is_stored():
    model = make()
    cache = PrefixCache(model, PLENTY)
    slot = held(model, [1, 2, 3])
    cache.store("", [1, 2, 3, 0, 0, 0], slot)
    assert known(cache, model, "", [1, 2, 3, 0, 0, 0, 0]) == 3
    with pytest.raises(CacheError, match="slot 0 holds 3 tokens, of which 2 are given"):
        cache.store("", [1, 2], slot)


def test_the_least_recently_used_text_goes_first_from_its_end():
    model = make()
    cache = PrefixCache(model, 256 * TOKEN_BYTES)
    a, b, c = ([i] * 128 for i in range(3))
    put(cache, model, "", a)
    put(cache, model, "", b)
    assert known(cache, model, "", [*a, 3]) == 128  # used: b is the older one now
    put(cache, model, "", c[:60])
    assert known(cache, model, "", [*b, 3]) == 64
    assert known(cache, model, "", [*a, 3]) == 128
    assert known(cache, model, "", [*c, 3]) == 60
    put(cache, model, "", c)
    assert [known(cache, model, "", [*text, 3]) for text in (a, b, c)] == [128, 0, 128]


def test_of_a_text_larger_than_all_the_first_pages_stay():
    model = Counting()
    cache = PrefixCache(model, 130 * TOKEN_BYTES)
    put(cache, model, "", [2] * 10)
    put(cache, model, "", [1] * 1000)
    assert cache.bytes == 128 * TOKEN_BYTES
    assert known(cache, model, "", [1] * 1000) == 128
    assert len(model.saved) == 4  # the third page was tried, and no more
    put(cache, model, "", [1] * 131)  # a shorter page than the one that did not fit
    assert known(cache, model, "", [1] * 1000) == 128
    put(cache, model, "", [1] * 130)
    assert known(cache, model, "", [1] * 1000) == 130


def test_a_short_page_stays_where_the_longer_one_does_not_fit():
    model = make()
    cache = PrefixCache(model, 30 * TOKEN_BYTES)
    put(cache, model, "", [1] * 20)
    put(cache, model, "", [1] * 31)
    assert known(cache, model, "", [1] * 60) == 20
    put(cache, model, "", [1] * 30)
    assert known(cache, model, "", [1] * 60) == 30


def test_what_is_not_sound_is_not_kept():
    class Spoilt(TabularModel):
        def save(self, slot, start, stop):
            return dataclasses.replace(super().save(slot, start, stop), sound=stop <= 64)

    model = Spoilt(lambda prefix: [0.25] * 4, 4)
    cache = PrefixCache(model, PLENTY)
    put(cache, model, "", [1] * 200)
    assert known(cache, model, "", [1] * 200) == 64


def test_where_there_is_no_memory_for_a_copy_no_more_is_kept():
    class Short(TabularModel):
        def save(self, slot, start, stop):
            if start > 64:
                raise CacheError("no memory for a copy of 64 tokens")
            return super().save(slot, start, stop)

    model = Short(lambda prefix: [0.25] * 4, 4)
    cache = PrefixCache(model, PLENTY)
    put(cache, model, "", [1] * 200)
    assert known(cache, model, "", [1] * 200) == 128


def test_no_bytes_no_pages():
    model = make()
    cache = PrefixCache(model, 0)
    put(cache, model, "", [1, 2, 3])
    assert known(cache, model, "", [1, 2, 3, 0]) == 0
    assert (len(cache), cache.bytes, cache.fetches, cache.hits) == (0, 0, 1, 0)


def test_forgotten():
    model = make()
    cache = PrefixCache(model, PLENTY)
    put(cache, model, "a", [1] * 70)
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)
    assert known(cache, model, "a", [1] * 70) == 0
    put(cache, model, "a", [1] * 70)
    assert known(cache, model, "a", [1] * 70) == 69


def test_tenants_know_nothing_of_each_other():
    model = Counting()
    cache = PrefixCache(model, PLENTY)
    put(cache, model, "a", [1] * 70)
    assert known(cache, model, "b", [1] * 70) == 0
    assert known(cache, model, "", [1] * 70) == 0
    assert (cache.hits, cache.hit_tokens, model.restored) == (0, 0, [])
    put(cache, model, "b", [1] * 70)
    assert len(model.saved) == 4  # what one stored spares the other no copy
    assert cache.bytes == 140 * TOKEN_BYTES
    put(cache, model, "b", [1] * 20 + [2])
    assert known(cache, model, "a", [1] * 20 + [2, 2]) == 20
    assert known(cache, model, "b", [1] * 20 + [2, 2]) == 21


def test_refusals():
    with pytest.raises(OptionError, match="a whole number of bytes, 0 or more, not -1"):
        PrefixCache(make(), -1)
    with pytest.raises(OptionError, match="not '1G'"):
        PrefixCache(make(), "1G")
    model = make()
    model.abilities = Abilities(pages=False)
    with pytest.raises(CapabilityError, match="tabular cannot save and restore"):
        PrefixCache(model, 1)
    cache, model = PrefixCache(model := make(), PLENTY), model
    with pytest.raises(CacheError, match="slot 0 holds 2 tokens"):
        cache.fetch("", [1, 2, 3], held(model, [1, 2]))
    assert cache.fetches == 0


def test_no_room_in_the_target():
    model = make(max_memory=80 * TOKEN_BYTES)
    cache = PrefixCache(model, PLENTY)
    put(cache, model, "", [1] * 70)
    other, slot = held(model, [2] * 14), model.open()
    with pytest.raises(CacheError, match="max_memory"):
        cache.fetch("", [1] * 70, slot)
    assert model.length(slot) == 64
    assert (cache.hits, len(cache)) == (0, 2)
    model.close(slot)
    model.close(other)
    assert known(cache, model, "", [1] * 70) == 69


# ------------------------------------------------------------------ against a list of texts


class Naive:
    """The same by brute force: every page as the whole text up to its end, with its last use."""

    def __init__(self, limit, page):
        self.limit, self.page = limit, page
        self.used = {}  # (tenant, text up to the page's end) -> last use
        self.now = 0

    def size(self, text):
        return TOKEN_BYTES * (len(text) - (len(text) - 1) // self.page * self.page)

    @property
    def bytes(self):
        return sum(self.size(text) for _, text in self.used)

    def use(self, tenant, text):
        for end in range(len(text), 0, -1):
            if (tenant, text[:end]) in self.used:
                self.now += 1
                self.used[tenant, text[:end]] = self.now

    def known(self, tenant, ids):
        common = [
            (prefix_cache.shared(text, ids[:-1]), text) for t, text in self.used if t == tenant
        ]
        count, _ = max(common, default=(0, ()))
        if count:
            self.use(tenant, self.page_of(tenant, ids[:-1], count))
        return count

    def page_of(self, tenant, text, count):
        """The text up to the end of the page that holds its first `count` tokens, and no page more:
        of several the last before `text` in order, or else the first behind it."""
        found = [
            other for t, other in self.used
            if t == tenant and other[:count] == text[:count]
            and (len(other) - 1) // self.page == (count - 1) // self.page
        ]  # fmt: skip
        whole = text[: ((count - 1) // self.page + 1) * self.page]
        return max((other for other in found if other < whole), default=min(found))

    def store(self, tenant, text):
        for start in range(0, len(text), self.page):
            end = min(start + self.page, len(text))
            if any(t == tenant and o[:end] == text[:end] for t, o in self.used):
                self.use(tenant, self.page_of(tenant, text, end))
                continue
            if TOKEN_BYTES * end > self.limit:
                return
            for shorter in range(start + 1, end):
                self.used.pop((tenant, text[:shorter]), None)
            self.now += 1
            self.used[tenant, text[:end]] = self.now
            self.use(tenant, text[:end])
            while self.bytes > self.limit:
                leaves = [
                    key for key in self.used
                    if not any(t == key[0] and o != key[1] and o[: len(key[1])] == key[1]
                               for t, o in self.used)
                ]  # fmt: skip
                del self.used[min(leaves, key=self.used.__getitem__)]


texts = st.lists(st.integers(0, 1), max_size=11).map(tuple)
operations = st.lists(
    st.tuples(st.sampled_from(["store", "fetch"]), st.sampled_from("ab"), texts), max_size=30
)


@settings(max_examples=400, deadline=None)
@given(operations=operations, tokens=st.integers(0, 60))
def test_as_a_list_of_texts_would(operations, tokens):
    """Page by page what brute force retains; the bound holds throughout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix_cache, "PAGE", 3)
        model = make()
        cache, naive = PrefixCache(model, tokens * TOKEN_BYTES), Naive(tokens * TOKEN_BYTES, 3)
        for operation, tenant, text in operations:
            if operation == "store":
                put(cache, model, tenant, text)
                naive.store(tenant, text)
            else:
                assert known(cache, model, tenant, (*text, 0)) == naive.known(tenant, (*text, 0))
            assert cache.bytes == naive.bytes <= cache.max_bytes
            assert len(cache) == len(naive.used)
        for tenant in "ab":
            for _, _, text in operations:
                assert known(cache, model, tenant, (*text, 0)) == naive.known(tenant, (*text, 0))


@settings(max_examples=200, deadline=None)
@given(operations=operations)
def test_with_room_for_all_the_longest_common_prefix_is_found(operations):
    """Per tenant, over all texts ever stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix_cache, "PAGE", 3)
        model = make()
        cache = PrefixCache(model, PLENTY)
        stored = {"a": [()], "b": [()]}
        for operation, tenant, text in operations:
            if operation == "store":
                put(cache, model, tenant, text)
                stored[tenant].append(text)
            longest = max(prefix_cache.shared(one, text) for one in stored[tenant])
            assert known(cache, model, tenant, (*text, 0)) == longest
            assert known(cache, model, tenant, text) == min(longest, max(len(text) - 1, 0))


@settings(max_examples=200, deadline=None)
@given(operations=operations)
def test_another_tenants_texts_change_nothing_while_there_is_room(operations):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix_cache, "PAGE", 3)
        model = make()
        together, alone = PrefixCache(model, PLENTY), PrefixCache(model, PLENTY)
        for operation, tenant, text in operations:
            if operation == "store":
                put(together, model, tenant, text)
                if tenant == "a":
                    put(alone, model, "a", text)
            elif tenant == "a":
                expected = known(alone, model, "a", (*text, 0))
                assert known(together, model, "a", (*text, 0)) == expected
