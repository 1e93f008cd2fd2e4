"""From tokens to text: half characters, stop strings, and streams that say what the whole says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun import Engine
from forerun.drafters import NgramDrafter, PredictionDrafter
from forerun.engine.request import make_request
from forerun.engine.stops import TextFollower
from forerun.models.tabular import TabularModel
from forerun.text.tokenizer import Tokenizer
from forerun.verifiers import VERIFIERS
from text.test_folder import folder, sentencepiece

from .fakes import END, TOKENS, consistent, follows, letters, one_hot, speaks, writes

each_verifier = pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
PROMPT = letters("?")


def streamed(engine, prompt=PROMPT, **options):
    """A streamed completion, checked against itself."""
    stream = engine.stream(prompt, **options)
    pieces = list(stream)
    done = stream.done
    consistent(done)
    assert "".join(piece.text for piece in pieces) == done.text
    for piece in pieces:
        assert "".join(text for text, _ in piece.parts) == piece.text
        assert all(text for text, _ in piece.parts)
        assert piece.tokens == piece.round.tokens
        assert piece.kinds == piece.round.kinds
    assert tuple(itertools.chain(*(piece.tokens for piece in pieces))) == done.tokens
    return done, pieces


def engines(ids, gamma=4):
    """The same text, written plainly, drafted rightly, and drafted wrongly now and then."""
    stumbling = [t if i % 3 else 7 for i, t in enumerate(ids)]
    for drafter in (None, follows([*ids, 9, 9, 9, 9], 1), follows(stumbling, 1), NgramDrafter()):
        yield Engine(writes(ids, 1), drafter, num_draft=gamma)


@each_verifier
def test_an_emoji_split_across_a_round(verifier):
    """🦊 is four tokens; it appears with the last of them, whatever rounds they fell into."""
    ids = letters("a🦊b")
    for engine in engines(ids, gamma=2):
        done, pieces = streamed(engine, verifier=verifier)
        assert done.text == "a🦊b"
        assert done.tokens == (*ids, END)
        assert all("\ufffd" not in piece.text for piece in pieces)
        fox = next(piece for piece in pieces if "🦊" in piece.text)
        assert letters("🦊")[-1] in fox.tokens


@each_verifier
@pytest.mark.parametrize("budget", range(1, 7))
def test_an_emoji_cut_by_the_budget(budget, verifier):
    """Half a character is not shown; its tokens are there, and counted."""
    ids = letters("a🦊b")
    for engine in engines(ids):
        done, _ = streamed(engine, max_tokens=budget, verifier=verifier)
        assert done.tokens == tuple(ids[:budget])
        assert done.text == ("a" if budget < 5 else "a🦊" if budget == 5 else "a🦊b")
        assert done.finish_reason == "length"


def test_bytes_that_are_no_character_are_replaced():
    ids = [4 + 0xFF, *letters("x"), 4 + 0xE2, *letters("y")]
    for engine in engines(ids):
        done, _ = streamed(engine)
        assert done.text == "\ufffdx\ufffdy"


@each_verifier
@pytest.mark.parametrize("gamma", [1, 4, 12])
def test_a_stop_string_early_in_a_long_block(gamma, verifier):
    """Ids, text and counts are cut at one place: ids after the stop, text before it."""
    ids = letters("say END and more of it")
    for engine in engines(ids, gamma):
        done, _ = streamed(engine, stop="END", verifier=verifier)
        assert (done.text, done.finish_reason) == ("say ", "stop")
        assert done.tokens == tuple(letters("say END"))
        assert done.usage["completion_tokens"] == 7


@each_verifier
@pytest.mark.parametrize(
    ("stops", "text", "used"),
    [
        (["cd", "fg"], "ab", "abcd"),  # both in one round: the first wins
        (["fg", "cd"], "ab", "abcd"),  # whatever the order they are given in
        (["bcd", "cd"], "a", "abcd"),  # complete at once: the longest
        (["cd", "bcd"], "a", "abcd"),
        (["abcdef", "cd"], "ab", "abcd"),  # the first to be complete, though later begun
        (["cde", "bcd"], "a", "abcd"),
        (["b", "bc"], "a", "ab"),
        (["xyz", "a"], "", "a"),
        (["efg", "gh"], "abcd", "abcdefg"),
        (["hi", "zz"], "abcdefgh", None),  # never complete
    ],
)
def test_several_stops(stops, text, used, verifier):
    ids = letters("abcdefgh")
    for engine in engines(ids):
        done, _ = streamed(engine, stop=stops, verifier=verifier)
        assert done.text == text
        assert done.tokens == (tuple(letters(used)) if used else (*ids, END))


@each_verifier
def test_a_stop_across_tokens_and_rounds(verifier):
    """In tokens of several letters, and from the middle of one to the middle of another."""
    hello, blank_hello = TOKENS.encode("hello"), TOKENS.encode(" hello")
    assert len(hello) == len(blank_hello) == 1
    ids = [*letters("oh"), *blank_hello, *hello, *letters("!")]
    for gamma in (1, 2, 5):
        for engine in engines(ids, gamma):
            done, _ = streamed(engine, stop="lohel", verifier=verifier)
            assert (done.text, done.tokens) == ("oh hel", tuple(ids[:4]))


def test_a_stop_in_the_middle_of_a_character():
    """Stops are text: one ends where its last character is complete."""
    ids = letters("né🦊!")
    for engine in engines(ids):
        done, _ = streamed(engine, stop="é")
        assert (done.text, len(done.tokens)) == ("n", 3)
        done, _ = streamed(engine, stop="🦊")
        assert (done.text, len(done.tokens)) == ("né", 7)


@each_verifier
def test_parts_carry_the_kind_of_the_token_that_completed_them(verifier):
    ids = letters("a🦊bcde, and so on")
    for engine in engines(ids):
        _, pieces = streamed(engine, verifier=verifier)
        found = [part for piece in pieces for part in piece.parts]
        kinds = [kind for piece in pieces for kind in piece.kinds]
        bytes_ = [bytes([token - 4]) for token in ids]
        starts = [0, 1, *range(5, len(ids))]  # the fox is of four tokens
        ends = [*starts[1:], len(ids)]
        assert found == [
            (b"".join(bytes_[start:end]).decode(), kinds[end - 1])
            for start, end in zip(starts, ends)
        ]


def test_parts_of_text_that_was_held_back():
    """It keeps the kind of its token, though a later round shows it."""
    ids = letters("abcx")
    wrong = [*letters("ab"), 9, *letters("x")]
    engine = Engine(writes(ids, 1), follows(wrong, 1), num_draft=2)
    _, pieces = streamed(engine, stop="bcd")
    assert [piece.parts for piece in pieces] == [
        (("a", "accepted"),),
        (("b", "accepted"), ("c", "bonus"), ("x", "accepted")),
    ]


def test_text_held_back_for_a_stop_is_shown_in_the_end():
    ids = letters("the en")
    for engine in engines(ids):
        done, pieces = streamed(engine, stop="ending")
        assert done.text == "the en"
        assert not any(piece.text.endswith("e") for piece in pieces[:-1] if len(piece.text) > 3)


def test_a_prefix_that_turns_out_otherwise_is_released():
    ids = letters("aab aaab aac")
    for engine in engines(ids, 1):
        done, pieces = streamed(engine, stop="aac")
        assert done.text == "aab aaab "
        shown = ""
        for piece in pieces:
            shown += piece.text
            assert done.text.startswith(shown)


@each_verifier
def test_min_tokens_pass_over_early_stops(verifier):
    ids = letters("ab.cd.ef.")
    for engine in engines(ids):
        for least, text, count in [(0, "ab", 3), (3, "ab", 3), (4, "ab.cd", 6), (7, "ab.cd.ef", 9)]:
            done, _ = streamed(engine, stop=".", min_tokens=least, verifier=verifier)
            assert (done.text, len(done.tokens)) == (text, count)


def test_end_tokens_and_stop_ids_do_not_show():
    ids = letters("ab")
    done, _ = streamed(Engine(writes(ids, 1)))
    assert (done.text, done.tokens, done.finish_reason) == ("ab", (*ids, END), "stop")
    done, _ = streamed(Engine(writes(ids, 1)), stop_ids=letters("b"))
    assert (done.text, done.tokens) == ("a", tuple(ids))


def test_a_text_prompt_is_encoded():
    engine = Engine(writes(letters("ok"), 3))
    done = engine.generate(" hello 12", max_tokens=2)
    assert done.prompt == tuple(TOKENS.encode(" hello 12"))
    assert TOKENS.decode(done.prompt) == " hello 12"
    chat = engine.generate([{"role": "user", "content": "hi"}], max_tokens=1)
    assert chat.prompt == tuple(TOKENS.encode_chat([{"role": "user", "content": "hi"}]))


# ------------------------------------------------------------------ at random


def babble(seed, alphabet):
    """A model that says letters of a small alphabet at random, by the whole prefix."""
    ids = [*sorted(set(itertools.chain(*map(letters, alphabet)))), END]

    def next_law(prefix):
        rng = np.random.default_rng([seed, *prefix])
        law = np.zeros(TOKENS.vocab_size)
        law[ids] = rng.dirichlet(np.full(len(ids), 0.5))
        law[END] *= 0.1
        return law / law.sum()

    return speaks(next_law)


@pytest.mark.parametrize("seed", range(12))
def test_streamed_text_equals_the_text_whatever_the_rounds(seed):
    """Random texts over a few letters and a fox, random stops: one cut, however it is drafted."""
    rng = np.random.default_rng(seed)
    alphabet = ["a", "b", "🦊"]
    stops = ["".join(rng.choice(alphabet, size=rng.integers(1, 4))) for _ in range(3)]
    options = {"max_tokens": 40, "seed": seed, "stop": stops, "min_tokens": int(rng.integers(6))}
    model = babble(seed, alphabet)
    plain, _ = streamed(Engine(model), **options)
    for gamma in (1, 3, 8):
        for drafter in (PredictionDrafter(plain.tokens), NgramDrafter(), None):
            engine = Engine(model, drafter, num_draft=gamma)
            done, _ = streamed(engine, **options)
            whole = engine.generate(PROMPT, **options)
            assert done.text == whole.text == plain.text
            assert done.tokens == whole.tokens == plain.tokens
            assert done.finish_reason == whole.finish_reason == plain.finish_reason


class Letters:
    """A decoder whose tokens are text already."""

    def push(self, token):
        return token


@settings(max_examples=300, deadline=None)
@given(
    text=st.text("ab", min_size=1, max_size=12),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    cuts=st.sets(st.integers(1, 11)),
)
def test_the_cut_does_not_depend_on_tokens(text, stops, cuts):
    """The first stop to be complete wins, the longest of those that are at once; by brute force."""
    ends = [
        (end, end - len(stop))
        for end in range(1, len(text) + 1)
        for stop in stops
        if text[:end].endswith(stop)
    ]
    expected = text[: min(ends)[1]] if ends else text
    places = [0, *sorted(c for c in cuts if c < len(text)), len(text)]
    follower = TextFollower(Letters(), stops, frozenset())
    shown, stopped = 0, False
    for start, end in itertools.pairwise(places):
        stopped = follower.push(text[start:end], may_stop=True)
        if stopped:
            break
        assert follower.showable() >= shown  # what was shown is not taken back
        shown = follower.showable()
        assert expected.startswith(follower.text[:shown])
    assert stopped == bool(ends)
    assert follower.text == expected
    assert follower.ends == sorted(follower.ends)
    assert follower.ends[-1] == len(expected)


@settings(max_examples=300, deadline=None)
@given(
    text=st.text("ab", max_size=14),
    stops=st.lists(st.text("ab", min_size=1, max_size=6), max_size=3),
)
def test_what_could_become_a_stop_is_held_back_and_no_more(text, stops):
    """Also where stops were complete while the text could not stop; by brute force."""
    follower = TextFollower(Letters(), stops, frozenset())
    for end in range(1, len(text) + 1):
        follower.push(text[end - 1], may_stop=False)
        held = (
            n for stop in stops for n in range(len(stop)) if n <= end and
            text[:end].endswith(stop[:n])
        )  # fmt: skip
        assert follower.showable() == end - max(held, default=0)


@pytest.mark.timeout(60)  # far more than it takes; a search at each letter takes many minutes
def test_a_long_stop_costs_no_more_than_its_letters():
    stops = ["a" * 200_000 + end for end in "bcd"]
    follower = TextFollower(Letters(), stops, frozenset())
    for letter in ("a" * 9_000 + "z") * 3:
        follower.push(letter, may_stop=True)
        follower.showable()
    assert follower.showable() == 27_003


def test_hidden_tokens_take_part_in_no_text():
    follower = TextFollower(Letters(), ["b"], frozenset({"b"}))
    assert not follower.push("a", may_stop=True)
    assert not follower.push("b", may_stop=True)
    assert (follower.text, follower.ends) == ("a", [1, 1])


def test_a_continuation_keeps_the_space_at_the_join_and_a_chat_answer_none(tmp_path):
    """Some tokenizers take the first space off a text; a continuation is not the first."""
    template = "{{ messages[0]['content'] }}"
    made = Tokenizer.from_folder(
        folder(tmp_path, sentencepiece(True), chat_template__jinja=template)
    )
    words = made.encode("ab ab")
    model = TabularModel(
        lambda prefix: one_hot(words[len(prefix) % len(words)], made.vocab_size), made.vocab_size
    )
    model.tokenizer = made
    prompt = made.encode("a")
    done = Engine(model).generate("a", max_tokens=6)
    assert made.decode(prompt) + done.text == made.decode([*prompt, *done.tokens])
    assert done.text != made.decode(done.tokens)  # that would lose the space

    request = make_request(model, None, "a", {})
    assert request.continuing
    assert not make_request(model, None, [{"role": "user", "content": "a"}], {}).continuing
