from __future__ import annotations

import copy
import itertools
import random
import sys

import numpy as np
import pytest

pytest.importorskip("llguidance")

from forerun.errors import GrammarError, LawError, MissingExtraError, OptionError
from forerun.text.grammar import MOST_SOURCE, Grammar
from text.languages import LANGUAGES, pieces
from text.tiny import of_pieces, sentencepiece, tokenizer


def text_of(made, ids):
    return b"".join(map(made.token_bytes, ids))


def matcher_of(name, ends=2):
    made = of_pieces(pieces(name), ends)
    return made, LANGUAGES[name].grammar.compile(made).start(made.vocab_size, made.eos)


def agrees(name, made, matcher, path):
    """The mask after `path`, against every short string; True where the grammar may go on."""
    text = text_of(made, matcher.tokens)
    expected = LANGUAGES[name].allowed(made, made.eos, text)
    for token in path:
        if token in made.eos or not expected[token]:
            with pytest.raises(LawError, match=f"does not allow token {token}"):
                matcher.allowed(path)
            return False
        text += made.token_bytes(token)
        expected = LANGUAGES[name].allowed(made, made.eos, text)
    assert matcher.allowed(path).tolist() == expected.tolist(), (text, path)
    return True


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", LANGUAGES)
def test_masks_along_paths_of_all_kinds(name, seed):
    """Paths jump about, refused tokens among them; some tokens are committed, on the path or off
    it; forced tokens are asked for in between. Rollback must leave no trace."""
    rng = random.Random(seed)
    made, matcher = matcher_of(name)
    V = made.vocab_size
    path = ()
    for _ in range(150):
        path = (*path[: rng.randint(0, len(path))], *rng.choices(range(V), k=rng.randint(0, 2)))
        if len(text_of(made, [*matcher.tokens, *path])) > LANGUAGES[name].longest - 4:
            path = ()
        agrees(name, made, matcher, path)
        if rng.random() < 0.3:
            matcher.forced(4)
            agrees(name, made, matcher, path)
        if rng.random() < 0.2:
            able = np.flatnonzero(matcher.allowed(()))
            short = [
                int(i) for i in able
                if len(text_of(made, [*matcher.tokens, i])) <= LANGUAGES[name].longest - 4
            ]  # fmt: skip
            if not short:
                (_, matcher), path = matcher_of(name), ()
                continue
            token = path[0] if path and path[0] in short else rng.choice(short)
            matcher.push(token)
            path = path[1:] if path[:1] == (token,) else ()


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_short_path(name):
    """All paths of two tokens, in an order that rolls back at each."""
    made, matcher = matcher_of(name)
    for first in range(made.vocab_size):
        for second in range(made.vocab_size):
            agrees(name, made, matcher, (first, second))
        if agrees(name, made, matcher, (first,)):
            agrees(name, made, matcher, ())


def test_the_end_is_allowed_exactly_where_the_text_is_complete():
    made, matcher = matcher_of("loop")
    c = made.encode("c")[0]
    assert not matcher.allowed(())[list(made.eos)].any()
    assert np.flatnonzero(matcher.allowed((c,))).tolist() == sorted(made.eos)
    assert not matcher.allowed(())[list(made.eos)].any()


def test_an_end_token_is_never_part_of_the_text():
    """A stop id with bytes of its own ends the text where the grammar may end, and only there."""
    made = of_pieces((b"a", b"b", b"c"))
    compiled = Grammar.regex("(ab)*").compile(made)
    a, b, c = range(3)
    matcher = compiled.start(made.vocab_size, {b, c})
    assert np.flatnonzero(matcher.allowed(())).tolist() == [a, b, c]
    assert not matcher.allowed((a,)).any()  # b would go on with it, but is an end
    with pytest.raises(LawError, match="does not allow token 1"):
        matcher.allowed((a, b))
    matcher.push(b)
    assert matcher.tokens == []
    assert np.flatnonzero(matcher.allowed(())).tolist() == [a, b, c]


def test_tokens_beyond_the_tokenizers_are_not_allowed():
    made = of_pieces((b"a", b"b"))
    matcher = Grammar.regex("[ab]*").compile(made).start(7, made.eos)
    assert matcher.allowed(()).tolist() == [True, True, True, False, False, False, False]
    matcher = Grammar.regex("[ab]*").compile(made).start(2, [])
    assert matcher.allowed(()).tolist() == [True, True]


def test_special_tokens_are_not_their_names():
    made = tokenizer()  # <|im_end|> and others are special, <think> is not
    matcher = Grammar.regex("<.*").compile(made).start(made.vocab_size, made.eos)
    names = [made.token_text(int(i)) for i in np.flatnonzero(matcher.allowed(()))]
    assert sorted(names) == ["<", "<think>"]


def test_special_tokens_where_a_lark_grammar_names_them():
    made = tokenizer()
    grammar = Grammar.lark('start: "a" <|im_start|> "b"')
    matcher = grammar.compile(made).start(made.vocab_size, made.eos)
    a, b, start = 4 + ord("a"), 4 + ord("b"), 1
    for path, expected in (((), [a]), ((a,), [start]), ((a, start), [b]), ((a, start, b), [0, 2])):
        assert np.flatnonzero(matcher.allowed(path)).tolist() == expected
    matcher.push(a)
    assert np.flatnonzero(matcher.allowed(())).tolist() == [start]


def test_forced_tokens_are_the_tokenizers_own():
    made = tokenizer()
    matcher = Grammar.regex("say hello( hello)?!").compile(made).start(made.vocab_size, made.eos)
    said = matcher.forced(99)
    assert said == tuple(made.encode("say hello"))
    assert matcher.forced(2) == said[:2]
    for token in said:
        matcher.push(token)
    assert matcher.forced(9) == ()
    assert np.count_nonzero(matcher.allowed(())) == 3  # "!", " " and " hello"


def test_forced_bytes_do_not_force_the_token():
    """Every way of writing them is allowed, not only the tokenizer's."""
    made = tokenizer()
    matcher = Grammar.regex("hello!").compile(made).start(made.vocab_size, made.eos)
    names = [made.token_text(int(i)) for i in np.flatnonzero(matcher.allowed(()))]
    assert sorted(names) == ["h", "he", "hell", "hello"]


def test_forced_tokens_of_a_tokenizer_that_puts_a_space_first():
    made = sentencepiece()
    matcher = Grammar.regex("hello!!!").compile(made).start(made.vocab_size, made.eos)
    assert text_of(made, matcher.forced(9)).startswith(b"hello")


def test_forced_tokens_of_a_text_that_is_forced_for_ever():
    made = of_pieces((b"a", b"aaa", b"b"))
    matcher = Grammar.regex("b?((a{1000}){1000}){1000}").compile(made).start(4, made.eos)
    assert matcher.forced(3) == ()
    matcher.push(2)
    assert text_of(made, matcher.forced(5)).strip(b"a") == b""
    assert len(matcher.forced(5)) == 5


def test_forced_bytes_that_end_within_a_character():
    made = tokenizer()
    matcher = Grammar.regex("é[ab]").compile(made).start(made.vocab_size, made.eos)
    assert text_of(made, matcher.forced(1)) == "é".encode()[:1]
    assert text_of(made, matcher.forced(9)) == "é".encode()


def test_no_token_is_forced_where_the_text_may_end():
    made = of_pieces((b"a", b"b"))
    matcher = Grammar.regex("a(a)?").compile(made).start(made.vocab_size, made.eos)
    assert matcher.forced(9) == (0,)


def test_copies_do_not_share_where_they_stand():
    made = of_pieces((b"a", b"b", b"c"))
    compiled = Grammar.regex("abc").compile(made)
    one, two = (compiled.start(made.vocab_size, made.eos) for _ in range(2))
    one.push(0)
    assert np.flatnonzero(two.allowed(())).tolist() == [0]
    assert np.flatnonzero(one.allowed(())).tolist() == [1]


def test_its_state_is_its_tokens():
    made, matcher = matcher_of("nested")
    matcher.push(made.encode("a")[0])
    matcher.allowed(tuple(made.encode("aab")))
    twin = copy.copy(matcher)
    assert twin.__dict__.keys() == matcher.__dict__.keys()
    assert twin._matcher is not matcher._matcher
    for path in ("", "b", "ab", "aa"):
        assert agrees("nested", made, twin, tuple(made.encode(path)))
        assert agrees("nested", made, matcher, tuple(made.encode(path)))


WEARING = Grammar.regex("(.*a.{30}b.*|.*c.{35}d.*|.*e.{33}f.*)&(.*g.{31}h.*)")
WORDS = of_pieces(
    (*(bytes([i]) for i in b"abcdefghz"), *map(bytes, itertools.product(b"aceg", repeat=6)))
)
HARMLESS, HOSTILE = [8] * 20, [0, 2, 4, 6] * 10  # the second, of acegaceg…, wears out a lexer


def begun(compiled):
    return compiled.start(WORDS.vocab_size, WORDS.eos)


def follows(matcher, tokens):
    """How many tokens of a text can be followed."""
    for count, token in enumerate(tokens):
        try:
            matcher.allowed(())
        except GrammarError:
            return count
        matcher.push(token)
    return len(tokens)


def test_a_text_that_wears_out_the_library_harms_no_other_request():
    """In turn and interleaved, requests of the same grammar."""
    assert follows(begun(WEARING.compile(WORDS)), HARMLESS) == len(HARMLESS)
    begun_before = begun(WEARING.compile(WORDS))
    assert follows(begun_before, HARMLESS[:9]) == 9
    assert follows(begun(WEARING.compile(WORDS)), HOSTILE) < len(HOSTILE)
    assert follows(begun_before, HARMLESS) == len(HARMLESS)
    assert follows(begun(WEARING.compile(WORDS)), HARMLESS) == len(HARMLESS)


def test_a_text_that_wears_out_the_library_harms_no_other_choice():
    """Choices share a lexer until it is worn out; then each begins anew with one of its own."""
    compiled = WEARING.compile(WORDS)
    first, second = begun(compiled), begun(compiled)
    assert follows(first, HARMLESS[:9]) == 9
    worn = follows(second, HOSTILE)
    assert 9 < worn < len(HOSTILE)
    assert follows(first, HARMLESS) == len(HARMLESS)
    assert follows(begun(compiled), HARMLESS) == len(HARMLESS)
    assert follows(begun(compiled), HOSTILE) == worn


def test_a_path_that_wears_out_the_library_harms_nothing_before_it():
    matcher = begun(WEARING.compile(WORDS))
    assert follows(matcher, HARMLESS) == len(HARMLESS)
    for _ in range(2):
        with pytest.raises(GrammarError, match="followed: lexer error: too many expressions"):
            matcher.allowed(tuple(HOSTILE))
        assert matcher.forced(2) == ()
        assert matcher.allowed((8, 8)).any()
    assert follows(matcher, HARMLESS) == len(HARMLESS)
    assert matcher.tokens == HARMLESS * 2


class Tired:
    """A library's matcher that has given up for good."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def is_error(self):
        return True

    def get_error(self):
        return "too many items\n<state>\nmuch more"


def test_a_matcher_that_gave_up_is_replaced():
    made, matcher = matcher_of("loop")
    ab, c = made.encode("ab")[0], made.encode("c")[0]
    matcher.push(ab)
    matcher._matcher = Tired(matcher._matcher)
    assert agrees("loop", made, matcher, (ab, c))
    matcher._matcher = Tired(matcher._matcher)
    matcher.push(ab)
    assert agrees("loop", made, matcher, (c,))


def test_an_error_that_stays_is_told_without_the_librarys_state(monkeypatch):
    made, matcher = matcher_of("loop")
    real = type(matcher.compiled).anew
    monkeypatch.setattr(type(matcher.compiled), "anew", lambda compiled: Tired(real(compiled)))
    matcher._matcher = Tired(matcher._matcher)
    with pytest.raises(GrammarError, match=r"the regex cannot be followed: too many items$"):
        matcher.allowed(())
    monkeypatch.undo()
    matcher.push(made.encode("c")[0])
    assert agrees("loop", made, matcher, ())


def nested(depth):
    return {} if depth == 0 else {"properties": {"a": nested(depth - 1)}}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grammar.regex("a(b"), r"the regex cannot be used: .*\n +a\(b\n +\^\n"),
        (lambda: Grammar.regex(b"a"), "a regex is text, not b'a'"),
        (lambda: Grammar.regex(r"(a)\1"), "backreferences are not supported"),
        (lambda: Grammar.lark("start: foo"), r'Lark grammar cannot be used: at 1\(8\): .*"foo"'),
        (lambda: Grammar.lark('start: "a"\nx: ('), r"the Lark grammar cannot be used: 2\(5\): "),
        (lambda: Grammar.lark(""), "Empty grammar"),
        (lambda: Grammar.lark(None), "a Lark grammar is text, not None"),
        (lambda: Grammar.json_schema('{"type":'), r"is no JSON: .*line 1 column 9 \(char 8\)"),
        (lambda: Grammar.json_schema({"type": "strin"}), "cannot be used: Invalid type: strin"),
        (lambda: Grammar.json_schema({"not": {}}), r'Unimplemented keys: \["not"\]'),
        (lambda: Grammar.json_schema({"a": {1}}), "holds what JSON cannot: Object of type set"),
        (lambda: Grammar.json_schema({"minimum": float("nan")}), "holds what JSON cannot: "),
        (lambda: Grammar.json_schema("[]"), r"a JSON schema is an object or true, not \[\]"),
        (lambda: Grammar.json_schema(False), "the JSON schema is false, which nothing matches"),
        (lambda: Grammar.json_schema(nested(200)), "cannot be used: recursion limit exceeded"),
        (lambda: Grammar.json_schema("[" * 99999), "is no JSON: .*recursion"),
        (lambda: Grammar.json_schema({"$ref": "#"}), "JSON schema cannot be used: no text goes on"),
        (lambda: Grammar.regex(r"a[^\s\S]"), "the regex cannot be used: no text goes on"),
        (
            lambda: Grammar.regex("a" * (MOST_SOURCE + 1)),
            "the regex has 65537 characters; at most 65536 are taken",
        ),
    ],
)
def test_bad_grammars(make, message):
    with pytest.raises(OptionError, match=message):
        make().compile(tokenizer())


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'forerun\[grammar\]'"):
        Grammar.regex("a").compile(tokenizer())


def test_nothing_of_a_grammar_is_remembered():
    """Neither its state nor the time it takes tells that another request had the same."""
    made = of_pieces((b"a", b"b"))
    first, second = (Grammar.regex("a").compile(made) for _ in range(2))
    assert first.guide is second.guide
    assert first.prototype is not second.prototype


def test_grammars_are_values():
    assert Grammar.json_object() == Grammar.json_schema('{"type": "object"}')
    assert Grammar.json_object(whitespace=False) != Grammar.json_object()
    assert hash(Grammar.regex("a")) == hash(Grammar.regex("a"))
