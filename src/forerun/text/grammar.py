"""Grammars that a text must follow, and the tokens they allow at each position.

    grammar = Grammar.json_schema({"type": "integer"})      # or json_object, regex, lark
    compiled = grammar.compile(tokenizer)                   # OptionError for a bad one
    matcher = compiled.start(vocab_size, end_ids)
    matcher.allowed(())          mask [V]: what may come after the tokens pushed so far
    matcher.allowed((5, 9))      … and after drafted tokens 5, 9; LawError where one is refused
    matcher.push(5)              5 was committed

A token is allowed where its bytes go on with a text of the grammar, however the tokenizer would
have split that text. An end token is allowed exactly where the text is complete, and is never part
of it; after a text that nothing can follow, end tokens alone are. What stands before the output
plays no part.

The work is llguidance's (extra `grammar`), which this module alone imports. A drafted path is
walked by advancing its matcher and rolling it back; masks are remembered until a token is pushed,
so that branches of a tree, and a drafter before the target, share them.

What this module does not know: logits, and who chooses among the allowed tokens.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forerun.errors import LawError, MissingExtraError, OptionError
from forerun.text.tokenizer import Tokenizer

Mask = NDArray[np.bool_]
"""Of each of V tokens, whether it is allowed. Not to be changed."""

ALL_TOKENS = '%llguidance {"no_forcing": true}\n'
"""Without it the library allows only its own choice of a token where bytes are forced."""


@dataclass(frozen=True)
class Grammar:
    """What an output must look like; made by one of the functions below.

    The whole output must match, from its first byte to its end token. Checked against a model when
    a request is submitted: OptionError says what is wrong, and where.
    """

    kind: Literal["JSON schema", "regex", "Lark grammar"]
    source: str
    whitespace: bool = True  # JSON: whether there may be whitespace between its parts

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
            except ValueError as error:
                raise OptionError(f"the JSON schema is no JSON: {error}") from None
        if schema is False:
            raise OptionError("the JSON schema is false, which nothing matches")
        schema = {} if schema is True else schema
        if not isinstance(schema, Mapping):
            raise OptionError(f"a JSON schema is an object or true, not {schema!r:.80}")
        try:
            text = json.dumps(schema, allow_nan=False)
        except (TypeError, ValueError) as error:
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
        """For a model's tokens; the last few grammars are remembered. OptionError for one that is
        none, MissingExtraError without llguidance."""
        guide: Guide = tokenizer.guide or Guide(tokenizer)
        tokenizer.guide = guide
        return guide.compiled(self)

    def _compile(self, library: Any, guide: Any, vocab_size: int) -> CompiledGrammar:
        plain, unforced = self._for_library(library.LLMatcher)
        failed, messages = library.LLMatcher.validate_grammar_with_warnings(plain, guide)
        if failed:
            raise OptionError(f"the {self.kind} cannot be used: {_tidied(messages[0])}")
        matcher = library.LLMatcher(guide, unforced, log_level=0)
        if matcher.is_error():
            raise OptionError(f"the {self.kind} cannot be used: {_tidied(matcher.get_error())}")
        return CompiledGrammar(self, vocab_size, matcher)

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
    """A grammar for one tokenizer; shared by all requests that ask for it."""

    grammar: Grammar
    vocab_size: int  # the tokenizer's
    prototype: Any  # an LLMatcher that never moves

    def start(self, vocab_size: int, end_ids: Iterable[int]) -> Matcher:
        """At the beginning of an output, for a model of V tokens; `end_ids` end the text."""
        return Matcher(compiled=self, vocab_size=vocab_size, end_ids=frozenset(end_ids))


@dataclass(kw_only=True)
class Matcher:
    """Where an output stands in its grammar. Pickles as its tokens."""

    compiled: CompiledGrammar
    vocab_size: int
    end_ids: frozenset[int]
    tokens: list[int] = field(default_factory=list)  # pushed

    def __post_init__(self) -> None:
        self._masks: dict[tuple[int, ...], Mask] = {}
        self._ahead: list[int] = []  # drafted tokens the library's matcher stands behind
        self._restart()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def allowed(self, path: tuple[int, ...]) -> Mask:
        """The mask [V] after `path`. LawError where the grammar refuses one of its tokens, an end
        token among them, or grows too complex to follow."""
        found = self._masks.get(path)
        if found is None:
            self._walk(path)
            found = self._masks[path] = self._mask()
        return found

    def forced(self, count: int) -> tuple[int, ...]:
        """At most `count` tokens for the bytes that must come next, as the tokenizer splits them.
        A guess: the same bytes may come in other tokens."""
        self._walk(())
        if not self._matcher.compute_ff_bytes():  # asked first, else the library finds no tokens
            return ()
        return tuple(self._matcher.compute_ff_tokens()[:count])

    def push(self, token: int) -> None:
        """`token` was committed; an end token ends the text and moves nothing."""
        if token in self.end_ids:
            return
        if self._ahead[:1] != [token]:
            self._walk((token,))
        del self._ahead[0]
        self.tokens.append(token)
        self._masks.clear()

    def _walk(self, path: tuple[int, ...]) -> None:
        """Move the library's matcher to stand behind `path`."""
        same = 0
        while same < min(len(self._ahead), len(path)) and self._ahead[same] == path[same]:
            same += 1
        if back := len(self._ahead) - same:
            del self._ahead[same:]
            if not self._matcher.rollback(back):  # it stumbled over something too complex
                self._restart()
                same = 0
        rest = path[same:]
        ends = (i for i, token in enumerate(rest) if token in self.end_ids)
        most = next(ends, len(rest))
        taken = self._matcher.try_consume_tokens(list(rest[:most]))
        self._ahead += rest[:taken]
        if taken < len(rest):
            self._stumbled()
            raise LawError(f"the {self.compiled.grammar.kind} does not allow token {rest[taken]}")

    def _mask(self) -> Mask:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._stumbled()
        known = min(self.vocab_size, self.compiled.vocab_size)
        mask = np.zeros(self.vocab_size, np.bool_)
        mask[:known] = np.unpackbits(bits, bitorder="little", count=known)
        mask[list(self.end_ids)] = self._matcher.is_accepting()
        return mask

    def _stumbled(self) -> None:
        """LawError if the library cannot follow this path; then it stands before it again."""
        if self._matcher.is_error():
            message = _tidied(self._matcher.get_error())
            self._restart()
            raise LawError(f"the {self.compiled.grammar.kind} cannot be followed: {message}")

    def _restart(self) -> None:
        """A new matcher, behind the tokens pushed."""
        self._ahead = []
        self._matcher = self.compiled.prototype.deep_copy()
        self._matcher.try_consume_tokens(self.tokens)


class Guide:
    """What is made of a vocabulary once, which takes a quarter of a second: the library's view of
    it, and the grammars compiled for it last. Shared between threads."""

    MOST = 32  # grammars

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._library = _library()
        self._tokens = self._library.LLTokenizer(_Tokens(tokenizer))
        self._vocab_size = tokenizer.vocab_size
        self._known: OrderedDict[Grammar, CompiledGrammar] = OrderedDict()
        self._lock = threading.Lock()

    def compiled(self, grammar: Grammar) -> CompiledGrammar:
        with self._lock:
            if grammar in self._known:
                self._known.move_to_end(grammar)
                return self._known[grammar]
        found = grammar._compile(self._library, self._tokens, self._vocab_size)
        with self._lock:
            self._known[grammar] = found
            while len(self._known) > self.MOST:
                self._known.popitem(last=False)
        return found


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


def _tidied(message: str) -> str:
    """The library's message without the line it made of a regex, or its own state."""
    message = message.split("\n<state>")[0]
    message = re.sub(r"^at 1\(8\): (?=invalid regex)", "", message)
    return re.sub(r"\n +1 \| start: /.*\n +\^\s*$", "", message).strip()
