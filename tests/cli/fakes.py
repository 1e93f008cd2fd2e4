"""A model for the command line's tests: characters as tokens, a law that is quick to compute.

`-m fake` writes a sentence over and over, with slips. What follows the name makes it misbehave:

    fake:context=64     a small context          fake:slow=0.1  so many seconds a pass
    fake:nan=10         NaN logits from the 10th token of a text on
    fake:ids            no tokenizer             fake:esc       writes escape codes
    fake:broken         an error that is not forerun's own
    fake:room=20        memory for so many tokens
    fake:stuck          never has read the text "stuck"
    fake:backwards      numbers its characters from the last to the first
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from forerun.errors import CacheError, TemplateError
from forerun.models import load
from forerun.models.tabular import LayeredTabularModel

ALPHABET = "\n abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?<>|/:0123456789\x1b[é"
EOS = len(ALPHABET)
V = EOS + 1
SENTENCE = "the cat sat on the mat, and the cat ran. "


class Tokenizer:
    """Characters; <|user|> and the like are letters here."""

    vocab_size, bos, adds_bos = V, None, False
    eos = frozenset({EOS})
    chat_template = "in encode_chat"
    special, fallback, strip_first, guide, roles = eos, frozenset(), b"", None, {}
    stuck = False

    @property
    def _names(self) -> list[str]:  # `text.vocabulary` compares them
        return [*ALPHABET, "<end>"]

    def token_text(self, token: int) -> str:
        return self._names[token]

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        while self.stuck and text == "stuck":
            time.sleep(1)
        return [ALPHABET.index(c) if c in ALPHABET else ALPHABET.index("?") for c in text]

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        if messages[-1]["content"] == "refuse":
            raise TemplateError("the chat template refuses these messages: told to")
        return self.encode("".join(f"<{m['role']}>{m['content']}\n" for m in messages))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(ALPHABET[i] for i in ids if i != EOS)

    def token_bytes(self, token: int) -> bytes:
        return self.decode([token]).encode()

    def stream(self, *, continuing: bool = False) -> SimpleNamespace:
        return SimpleNamespace(push=lambda token: self.decode([token]))


class Backwards(Tokenizer):
    @property
    def _names(self) -> list[str]:
        return [*ALPHABET[::-1], "<end>"]

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        return [EOS - 1 - i for i in super().encode(text)]

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode([i if i == EOS else EOS - 1 - i for i in ids])


class FakeModel(LayeredTabularModel):
    """Keeps the prompts it was given in `asked`, as text."""

    def __init__(self, quirks: Mapping[str, str]) -> None:
        self.quirks = quirks
        context = int(quirks["context"]) if "context" in quirks else None
        super().__init__(self._law, self._less, 8, V, EOS, context=context, name="fake")
        self.tokenizer = None if "ids" in quirks else Tokenizer()
        if "backwards" in quirks:
            self.tokenizer = Backwards()
        if "stuck" in quirks:
            self.tokenizer.stuck = True
        self.generation_defaults = {"temperature": 0.8} if "defaults" in quirks else {}

    def extend(self, steps):
        if "slow" in self.quirks:
            time.sleep(float(self.quirks["slow"]))
        if "broken" in self.quirks:
            raise RuntimeError("out of luck")
        for step in steps:
            if self.length(step.slot) + len(step.tokens) > int(self.quirks.get("room", 10**9)):
                raise CacheError("no memory for so many tokens: raise max_memory")
        rows = super().extend(steps)
        limit = int(self.quirks.get("nan", 10**9))
        for step, logits in zip(steps, rows):
            first = self.length(step.slot) - len(logits)
            logits[max(limit - first, 0) :, 0] = np.nan  # rows whose prefix is longer than limit
        return rows

    def _law(self, prefix: tuple[int, ...]) -> np.ndarray:
        p = np.full(V, 1e-4)
        p[EOS] = 0.0
        if "backwards" in self.quirks:
            prefix = tuple(i if i == EOS else EOS - 1 - i for i in prefix)
        text = "".join(ALPHABET[i] for i in prefix[-2:] if i != EOS)
        at = SENTENCE.find(text)
        after = at + 2 if at >= 0 else len(prefix)
        following = "\x1b" if "esc" in self.quirks else SENTENCE[after % len(SENTENCE)]
        p[ALPHABET.index(following)] = 1.0
        p[ALPHABET.index(SENTENCE[len(prefix) % 7])] += 0.3
        if "backwards" in self.quirks:
            p[:EOS] = p[:EOS][::-1].copy()
        return p / p.sum()

    def _less(self, prefix: tuple[int, ...], skipped: frozenset[int]) -> np.ndarray:
        return self._law(prefix)


def load_model(name, **settings):
    """In place of `models.load.load_model`."""
    first, *quirks = str(name).split(":")
    if first != "fake":
        return load.load_model(name, **settings)
    return FakeModel({q.split("=")[0]: q.split("=")[-1] for q in quirks})
