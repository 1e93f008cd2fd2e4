"""Text to ids and back, exactly: the text that goes in comes out.

    ids = tokenizer.encode(" In 1999,\\r\\n")          # raw text, without BOS
    tokenizer.decode(ids) == " In 1999,\\r\\n"
    stream = tokenizer.stream()
    "".join(map(stream.push, ids)) + stream.finish() == tokenizer.decode(ids)

Every token is a fixed run of bytes, a text is the bytes of its tokens, and special tokens (BOS, end
of turn, ...) have none. They are looked for in text only where `special=True` says so; without it,
`<|im_end|>` is those ten letters. `encode_chat` says so: see there what that means for messages.
Bytes that are not UTF-8 become U+FFFD; bytes that the vocabulary has no token for are lost, as in
the model's own tokenizer (SmolLM2: U+0004 and a few). SentencePiece's kind writes spaces as `▁`, so
that letter in a text comes out as a space.

This module does not know how text becomes tokens (`encoder.py`), where a vocabulary came from
(`folder.py`, `gguf_vocabulary.py`), nor what a chat looks like (`chat_template.py`).
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forerun.errors import PromptError
from forerun.text import chat_template
from forerun.text.encoder import Encoder


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What a model's files say about its tokens; built by `folder.py` and `gguf_vocabulary.py`."""

    encoder: Encoder
    token_bytes: Sequence[bytes]  # by id, special tokens too (then their names)
    special: frozenset[int]  # ids that stand for no text
    fallback: frozenset[int] = frozenset()  # ids of one byte each, for what no other token writes
    bos: int | None = None
    adds_bos: bool = False  # raw text starts with BOS
    eos: frozenset[int] = frozenset()
    chat_template: str | None = None
    template_tokens: Mapping[str, str] = field(default_factory=dict)  # bos_token, eos_token, ...
    strip_first: bytes = b""  # taken off the beginning of a text (SentencePiece's space)


class Tokenizer:
    """A model's tokens. Safe to share between threads, and to pickle."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._encoder = vocabulary.encoder
        self._names = list(vocabulary.token_bytes)
        self._bytes = [b"" if i in vocabulary.special else b for i, b in enumerate(self._names)]
        self.guide: Any = None  # what `grammar.py` makes of the vocabulary, kept here

    @classmethod
    def from_folder(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """From tokenizer.json and its companions. ModelFileError if it is missing or strange."""
        from forerun.text.folder import read_folder

        return cls(read_folder(path))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """From a GGUF file's metadata. ModelFileError for a kind of tokenizer we do not know."""
        from forerun.text.gguf_vocabulary import read_metadata

        return cls(read_metadata(metadata))

    def __getstate__(self) -> Vocabulary:
        return self._vocabulary

    def __setstate__(self, vocabulary: Vocabulary) -> None:
        self.__init__(vocabulary)  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tokenizer:
        return self  # it never changes

    @property
    def vocab_size(self) -> int:
        """V: ids from 0 below V mean something; a model's table may be padded beyond it."""
        return len(self._names)

    @property
    def bos(self) -> int | None:
        return self._vocabulary.bos

    @property
    def adds_bos(self) -> bool:
        """Whether raw text starts with `bos`. A chat template writes its own."""
        return self._vocabulary.adds_bos

    @property
    def eos(self) -> frozenset[int]:
        """All ids that end a text."""
        return self._vocabulary.eos

    @property
    def special(self) -> frozenset[int]:
        """All ids that stand for no text."""
        return self._vocabulary.special

    @property
    def fallback(self) -> frozenset[int]:
        """Ids that stand for one byte each, where no other token does (SentencePiece's)."""
        return self._vocabulary.fallback

    @property
    def strip_first(self) -> bytes:
        """What the encoder puts before a text, and is taken off again."""
        return self._vocabulary.strip_first

    @property
    def chat_template(self) -> str | None:
        return self._vocabulary.chat_template

    @property
    def roles(self) -> Mapping[str, str]:
        """Names of special tokens by what they are: bos_token, eos_token, pad_token, …"""
        return self._vocabulary.template_tokens

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of `text`, without BOS. `special=True` finds special tokens by their names.

        PromptError for text that is not Unicode (half of a surrogate pair).
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise PromptError(
                f"the text has half of a surrogate pair at position {error.start}: "
                f"{error.object[error.start]!r}"
            ) from None
        return self._encoder.encode(text, special=special)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens have none. PromptError for ids out of range."""
        stream = self.stream()
        return stream.extend(ids) + stream.finish()

    def stream(self, *, continuing: bool = False) -> StreamDecoder:
        """A decoder for ids that come one at a time.

        Some tokenizers put a space before a text and take it off again. `continuing=True` says that
        the ids go on with a text that stands there already, so the space before them is its own:

            ids of "a b b"   ▁a ▁b ▁b        decode([▁a]) == "a"
            stream()                         shows ▁b ▁b as "b b"
            stream(continuing=True)          shows ▁b ▁b as " b b", which continues "a"
        """
        return StreamDecoder(self, continuing=continuing)

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token adds to the text; none for a special one."""
        return self._bytes[self._checked(token)]

    def token_text(self, token: int) -> str:
        """A token for people to read: its text, its name, or \\xe2 for bytes that are no text."""
        return self._names[self._checked(token)].decode(errors="backslashreplace")

    def render_chat(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """The conversation as the model was trained to see it. TemplateError if that fails."""
        return chat_template.render(
            self.chat_template,
            messages,
            add_generation_prompt=add_generation_prompt,
            tokens=self._vocabulary.template_tokens,
        )

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The ids of a conversation, up to where the answer begins.

        A template writes its special tokens by name into one text with the messages, so a message
        that spells one (`<|im_end|>`) becomes that very token: whoever wrote it can end their turn
        and speak as system or assistant. transformers and llama.cpp read chats the same way. Who
        passes on messages of people they do not trust has to filter them first.
        """
        return self.encode(self.render_chat(messages), special=True)

    def _checked(self, token: int) -> int:
        if not 0 <= token < len(self._names):
            raise PromptError(f"token id {token} is out of range: 0 to {len(self._names) - 1}")
        return token


class StreamDecoder:
    """Decodes ids as they come, and never shows half a character.

    `push` returns the text that is certain by now: bytes that may still become a character are
    held back, bytes that cannot are U+FFFD at once. Its state is a few bytes, so copies are free.
    """

    def __init__(self, tokenizer: Tokenizer, *, continuing: bool = False) -> None:
        self._tokenizer = tokenizer
        self._held = b""
        self._strip = b"" if continuing else tokenizer._vocabulary.strip_first

    def push(self, token: int) -> str:
        """The text that `token` makes certain; often its own, sometimes none."""
        return self.extend((token,))

    def extend(self, tokens: Iterable[int]) -> str:
        """`push` for several tokens."""
        table, size = self._tokenizer._bytes, self._tokenizer.vocab_size
        parts = [self._held]
        for token in tokens:
            if not 0 <= token < size:
                self._tokenizer._checked(token)
            parts.append(table[token])
        return self._decoded(b"".join(parts), final=False)

    def finish(self) -> str:
        """What is still held back, as U+FFFD: nothing more will come."""
        return self._decoded(self._held, final=True)

    def _decoded(self, data: bytes, final: bool) -> str:
        if self._strip and data:
            data, self._strip = data.removeprefix(self._strip), b""
        text, used = codecs.utf_8_decode(data, "replace", final)
        self._held = data[used:]
        return text
