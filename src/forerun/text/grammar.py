"""Grammars that a text must follow, and the tokens they allow at each position.

    grammar = Grammar.json_schema({"type": "integer"})      # or json_object, regex, lark
    compiled = grammar.compile(tokenizer)                   # OptionError for a bad one
    matcher = compiled.start(vocab_size, end_ids)
    matcher.allowed(())          mask [V]: what may come after the tokens pushed so far
    matcher.allowed((5, 9))      … and after drafted tokens 5, 9; LawError where one is refused,
                                 GrammarError where the library gives up
    matcher.push(5)              5 was committed

A token is allowed where its bytes go on with a text of the grammar, however the tokenizer would
have split that text. An end token is allowed exactly where the text is complete, and is never part
of it; after a text that nothing can follow, end tokens alone are. What stands before the output
plays no part.

The work is llguidance's (extra `grammar`), which this module alone imports.

Requests share the library's view of the vocabulary and nothing else: its lexers wear out with the
texts they have seen, and one that was there already would tell of others' grammars by its speed.

What this module does not know: how a matcher goes about it (`matcher.py`), logits, and who chooses
among the allowed tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from forerun.errors import MissingExtraError, OptionError
from forerun.text.matcher import Matcher, tidied
from forerun.text.tokenizer import Tokenizer

ALL_TOKENS = '%llguidance {"no_forcing": true}\n'
"""Without it the library allows only its own choice of a token where bytes are forced."""

MOST_SOURCE = 1 << 16
"""Characters of a grammar: those may take a third of a second to compile, 1.5 million a minute."""


@dataclass(frozen=True)
class Grammar:
    """What an output must look like; made by one of the functions below.

    The whole output must match, from its first byte to its end token. Checked against a model when
    a request is submitted: OptionError says what is wrong, and where. One of more than MOST_SOURCE
    characters is an OptionError at once.
    """

    kind: Literal["JSON schema", "regex", "Lark grammar"]
    source: str
    whitespace: bool = True  # JSON: whether there may be whitespace between its parts

    def __post_init__(self) -> None:
        if len(self.source) > MOST_SOURCE:
            raise OptionError(
                f"the {self.kind} has {len(self.source)} characters; "
                f"at most {MOST_SOURCE} are taken"
            )

    @classmethod
    def json_schema(
        cls, schema: Mapping[str, Any] | bool | str, *, whitespace: bool = True
    ) -> Grammar:
        """JSON that a schema describes; `schema` as an object or true, or as its text.

        `whitespace` False allows none between the parts: shorter, and more of it is forced.
        """
        if isinstance(schema, str):
            try:
                schema = json.loads(schema)
            except (ValueError, RecursionError) as error:
                raise OptionError(f"the JSON schema is no JSON: {error}") from None
        if schema is False:
            raise OptionError("the JSON schema is false, which nothing matches")
        schema = {} if schema is True else schema
        if not isinstance(schema, Mapping):
            raise OptionError(f"a JSON schema is an object or true, not {schema!r:.80}")
        try:
            text = json.dumps(schema, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"the JSON schema holds what JSON cannot: {error}") from None
        return cls("JSON schema", text, bool(whitespace))

    @classmethod
    def json_object(cls, *, whitespace: bool = True) -> Grammar:
        """Any JSON object."""
        return cls.json_schema({"type": "object"}, whitespace=whitespace)

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that matches `pattern` as a whole; Rust's syntax, which has no back-references."""
        return cls("regex", _text("a regex", pattern))

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """Text of a context-free grammar, in llguidance's kind of Lark's syntax."""
        return cls("Lark grammar", _text("a Lark grammar", text))

    def compile(self, tokenizer: Tokenizer) -> CompiledGrammar:
        """For a model's tokens, anew each time. OptionError for one that is none, that no text
        matches, or that is too complex from the start; MissingExtraError without llguidance."""
        guide: Guide = tokenizer.guide or Guide(tokenizer)
        tokenizer.guide = guide
        library = guide.library.LLMatcher
        try:
            plain, unforced = self._for_library(library)
            compiled = CompiledGrammar(self, guide, unforced)
            prototype = compiled.prototype
            bits = prototype.compute_bitmask()  # now, for it shows what is wrong
            if prototype.is_error():  # of what the user wrote there are better messages
                failed, messages = library.validate_grammar_with_warnings(plain, guide.view)
                message = messages[0] if failed else prototype.get_error()
            elif not any(bits) and not prototype.is_accepting():
                message = "no text matches it"
            else:
                return compiled
        except Exception as error:  # the library's own, of any kind
            message = str(error)
        raise OptionError(f"the {self.kind} cannot be used: {tidied(message)}")

    def _for_library(self, make: Any) -> tuple[str, str]:
        """As the user wrote it, for messages; and so that all tokens are allowed that may be."""
        if self.kind == "JSON schema":
            options = {"whitespace_flexible": self.whitespace}
            plain = make.grammar_from_json_schema(self.source, overrides=options)
            schema = json.dumps(json.loads(plain)["grammars"][0]["json_schema"])
            return plain, f"{ALL_TOKENS}start: %json {schema}"
        if self.kind == "regex":
            plain = make.grammar_from_regex(self.source)
            return plain, ALL_TOKENS + json.loads(plain)["grammars"][0]["lark_grammar"]
        return make.grammar_from_lark(self.source), ALL_TOKENS + self.source


@dataclass(frozen=True, eq=False)
class CompiledGrammar:
    """A grammar for one tokenizer and one request; its choices share it."""

    grammar: Grammar
    guide: Guide
    source: str  # as the library is given it

    @cached_property
    def prototype(self) -> Any:
        """An LLMatcher that never moves. Its copies share a lexer."""
        return self.anew()

    def anew(self) -> Any:
        """An LLMatcher that shares nothing: a millisecond, or a third of a second for a long
        grammar."""
        return self.guide.library.LLMatcher(self.guide.view, self.source, log_level=0)

    def start(self, vocab_size: int, end_ids: Iterable[int]) -> Matcher:
        """At the beginning of an output, for a model of V tokens; `end_ids` end the text."""
        return Matcher(compiled=self, vocab_size=vocab_size, end_ids=frozenset(end_ids))


class Guide:
    """The library's view of a vocabulary, which takes a quarter of a second to make. Shared between
    threads and requests; it does not change."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.library = _library()
        self.vocab_size = tokenizer.vocab_size
        self.token_bytes = tokenizer.token_bytes
        self._tokens = _Tokens(tokenizer)
        self.view = self.library.LLTokenizer(self._tokens)

    def split(self, path: Sequence[int]) -> Sequence[int]:
        """The tokens of a path's text as the tokenizer would have them."""
        text = b"".join(map(self.token_bytes, path))
        try:
            return (path and self._tokens(text.decode())) or path
        except UnicodeDecodeError:  # it ends within a character
            return path


class _Tokens:
    """A tokenizer as the library asks for it. Of end tokens it is told nothing: which they are is
    the request's to say."""

    is_tokenizer_wrapper = True
    bos_token_id = eos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.tokens = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
        self.special_token_ids = sorted(tokenizer.special)
        for i in self.special_token_ids:
            self.tokens[i] = tokenizer.token_text(i).encode()

    def __call__(self, text: str) -> Sequence[int]:
        """The ids of `text` within another; [] where they cannot be told."""
        first = self._tokenizer.strip_first
        if not first:
            return self._tokenizer.encode(text)
        ids, head = self._tokenizer.encode("\n" + text), b""  # the space is put before that
        for count, token in enumerate(ids, start=1):
            head += self._tokenizer.token_bytes(token)
            if head == first + b"\n":
                return ids[count:]
        return []


def _library() -> Any:
    try:
        import llguidance
    except ImportError:
        raise MissingExtraError.of("llguidance", "grammar", "a grammar") from None
    return llguidance


def _text(what: str, given: Any) -> str:
    if not isinstance(given, str):
        raise OptionError(f"{what} is text, not {given!r:.80}")
    return given
