"""What a draft model with other tokens needs: one text in two tokenizations, and back again.

    target   " un" "believ" "able" │ "."      the text so far, as the target has written it
    draft    " unbel" "iev" "able" │ "."      the same text, as the draft model would have

A `Translator` reads the target's tokens into a `Reading`, the draft's own ids of the same text, and
turns drafted text back into the target's. The reading is a function of the target's ids alone, not
of how they came: drafts do not depend on how a text was cut into rounds.

Growing text changes its last tokens, not all of them. So a text is encoded piece by piece: a piece
ends before the first space between a visible character and a letter that has at least PIECE
characters before it, for there every tokenizer we know cuts; without such a place it ends after
LONGEST, wherever that is. Only the last piece is encoded again when the text grows.

A text may end inside a character (byte-level tokens are any bytes): the draft model reads those
bytes as tokens of its own, if it has such, and else drafts nothing until the character is whole.
Special tokens are read as the draft's special ones of the same name, or not at all.

`TranslatingDrafter` keeps a draft model's cache up with a reading; `intersection.py` and
`string_match.py` draft with it. (Timor et al. 2025, arXiv 2502.05202.)
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from forerun.drafters.base import DraftRequest, Outlook
from forerun.drafters.model import Chain, ModelDrafter
from forerun.errors import VocabularyError
from forerun.models.base import Model
from forerun.text.tokenizer import Tokenizer
from forerun.text.vocabulary import common

PIECE, LONGEST = 128, 512  # characters


@dataclass
class Reading:
    """A text in the draft's ids: of whole pieces, of the `last` piece, and of the `held` bytes."""

    ids: list[int] = field(default_factory=list)
    settled: int = 0  # leading ids that stay as they are, whatever follows
    last: str = ""  # the text behind them
    held: bytes = b""  # the beginning of a character behind `last`
    begun: bool = False  # some bytes were read
    goes_on: bool = False  # `last` follows another piece
    whole: bool = True  # the draft has tokens for all of `held`


class Translator:
    """Between a target's tokens and a draft's. Never changes; shared by all slots.

    `sizes` are the V of both models. `to_draft` are the ids of the tokens that both have
    (`text.vocabulary.common`), `shared` [2, n] the same in arrays, in the order of the target's.
    """

    def __init__(self, target: Tokenizer, draft: Tokenizer, sizes: tuple[int, int]) -> None:
        self.target, self.draft, self.sizes = target, draft, sizes
        both = common(target, draft).items()
        self.to_draft = {i: own for i, own in both if i < sizes[0] and own < sizes[1]}
        self.to_target = {own: i for i, own in self.to_draft.items()}
        ids = sorted(self.to_draft)
        self.shared = np.array([ids, [self.to_draft[i] for i in ids]], np.int64)
        self._parts = {  # tokens that are parts of characters
            data: i
            for i in range(draft.vocab_size)
            if len(data := draft.token_bytes(i)) in (1, 2, 3) and not _is_text(data)
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return Translator, (self.target, self.draft, self.sizes)

    def begin(self, prompt: Sequence[int]) -> Reading:
        """Of a prompt in the target's ids. Where the draft begins its texts with BOS, that stands
        for the target's."""
        start = [self.draft.bos] if self.draft.adds_bos and self.draft.bos is not None else []
        reading = Reading(ids=start, settled=len(start))
        own = bool(start) and len(prompt) > 0 and prompt[0] == self.target.bos
        self.read(reading, prompt[1:] if own else prompt)
        return reading

    def read(self, reading: Reading, tokens: Sequence[int]) -> None:
        """The target's text grew by `tokens`."""
        for special, run in groupby(tokens, self.target.special.__contains__):
            if special:
                self._read_special(reading, run)
            else:
                self._read_text(reading, run)
        self._encode_last(reading)

    def back(self, reading: Reading, drafted: bytes) -> list[int]:
        """The target's ids of text drafted behind a reading; [] where none of them begins there.

        They are those that the target's tokenizer gives text and draft together, from where the
        text ends: so a draft that begins inside a word is cut as the target cuts the rest of it.
        Where that tokenizer would join both sides of the seam, the draft is encoded alone.
        """
        text, _ = codecs.utf_8_decode(reading.held + drafted, "replace", False)
        if not text:
            return []
        before = len(reading.last.encode()) + len(reading.held)
        ids = encoded(self.target, reading.last + text, reading.goes_on)
        found = _behind(self.target, ids, before, len((reading.last + text).encode()))
        if found is None and not reading.held:
            return encoded(self.target, text, True)
        return found or []

    def _read_text(self, reading: Reading, tokens: Iterable[int]) -> None:
        data = reading.held + b"".join(map(self.target.token_bytes, tokens))
        if data and not reading.begun:
            data, reading.begun = data.removeprefix(self.target.strip_first), True
        text, used = codecs.utf_8_decode(data, "replace", False)
        reading.last, reading.held = reading.last + text, data[used:]
        while end := piece_end(reading.last):
            rest = reading.last[end:]
            reading.last = reading.last[:end]
            self._settle(reading)
            reading.last, reading.goes_on = rest, True

    def _read_special(self, reading: Reading, tokens: Iterable[int]) -> None:
        reading.last += reading.held.decode(errors="replace")
        reading.held = b""
        self._settle(reading)
        reading.ids += [self.to_draft[token] for token in tokens if token in self.to_draft]
        reading.settled, reading.last, reading.goes_on = len(reading.ids), "", False

    def _settle(self, reading: Reading) -> None:
        reading.ids[reading.settled :] = encoded(self.draft, reading.last, reading.goes_on)
        reading.settled = len(reading.ids)

    def _encode_last(self, reading: Reading) -> None:
        part = self._parts_of(reading.held)
        reading.whole = part is not None
        reading.ids[reading.settled :] = [
            *encoded(self.draft, reading.last, reading.goes_on), *(part or ())
        ]  # fmt: skip

    def _parts_of(self, held: bytes) -> list[int] | None:
        if held in self._parts:
            return [self._parts[held]]
        found = [self._parts.get(bytes([byte])) for byte in held]
        return None if None in found else [i for i in found if i is not None]


def piece_end(text: str) -> int:
    """How many characters of `text` make a piece that nothing behind them changes; 0: none yet."""
    at = text.find(" ", PIECE)
    while 0 < at <= LONGEST and at + 1 < len(text):
        if text[at + 1].isalpha() and not text[at - 1].isspace():
            return at
        at = text.find(" ", at + 1)
    return LONGEST if len(text) > LONGEST + 1 else 0


def encoded(tokenizer: Tokenizer, text: str, goes_on: bool) -> list[int]:
    """The ids of `text`. Where it goes on with another, it begins without the space that some
    tokenizers put before a text."""
    strip = tokenizer.strip_first.decode()
    if not text or not strip or not goes_on:
        return tokenizer.encode(text) if text else []
    if text.startswith(strip):
        return tokenizer.encode(text[len(strip) :])
    ids = tokenizer.encode("\n" + text)
    return _behind(tokenizer, ids, 1, 1 + len(text.encode())) or []


def _behind(tokenizer: Tokenizer, ids: Sequence[int], before: int, size: int) -> list[int] | None:
    """The ids of a text of `size` bytes from the one that begins `before` bytes into it; None where
    none begins there. The text may have a space in front that is not its own."""
    sizes = [len(tokenizer.token_bytes(i)) for i in ids]
    at = size - sum(sizes)
    if at not in (0, -len(tokenizer.strip_first)):
        return None  # the tokenizer changed the text
    for place, one in enumerate(sizes):
        if at >= before:
            return list(ids[place:]) if at == before else None
        at += one
    return [] if at == before else None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(eq=False, kw_only=True)
class TranslatedChain(Chain):
    """A draft in the making, whose `request` and `tokens` are in the draft's own ids."""

    asked: DraftRequest  # in the target's
    found: list[int] = field(default_factory=list)  # drafted tokens, in the target's
    end: int | None = None  # the special token behind them, where the draft ended with one


class TranslatingDrafter(ModelDrafter):
    """A `ModelDrafter` whose model reads the text in tokens of its own. A subclass drafts."""

    def __init__(
        self, model: Model, *, sampling: Mapping[str, Any] | None = None, prefix_memory: int = 0
    ) -> None:
        super().__init__(model, sampling=sampling, prefix_memory=prefix_memory)
        self._translator: Translator | None = None
        self._readings: dict[int, Reading] = {}

    @property
    def translator(self) -> Translator:
        """What `check` made."""
        assert self._translator is not None, "check comes before begin"
        return self._translator

    def _check_vocabularies(self, target: Model) -> None:
        for model in (target, self.model):
            if model.tokenizer is None:
                raise VocabularyError(
                    f"{model.name} has no tokenizer, so that drafter {self.name!r} cannot tell "
                    "which text its ids stand for"
                )
        self._translator = Translator(
            target.tokenizer, self.model.tokenizer, (target.vocab_size, self.model.vocab_size)
        )

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        reading = self.translator.begin(prompt)
        super().begin(slot, reading.ids, recall=recall, tenant=tenant)
        self._readings[slot] = reading

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        reading = self._readings[slot]
        said = super().outlook(slot, len(reading.ids), most if _readable(reading) else 0)
        return replace(said, unread=max(said.unread, 0))  # pages may know more than there is

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """The cache keeps what it shares with the text as it is read now."""
        state, reading = self._slots[slot], self._readings[slot]
        same = min(reading.settled, state.cached)
        held = [*reading.ids[same : state.cached], *state.ahead]
        self.translator.read(reading, committed)
        for one, other in zip(held, reading.ids[same:]):
            if one != other:
                break
            same += 1
        if state.slot is not None:
            state.cached = same
            state.ahead.clear()
            self.model.keep(state.slot, same)

    def end(self, slot: int) -> None:
        reading = self._readings.pop(slot)
        if self._prefixes is not None:
            self._slots[slot].text = reading.ids
        super().end(slot)

    def _chain(self, request: DraftRequest) -> TranslatedChain | None:
        reading = self._readings[request.slot]
        if not _readable(reading):
            return None
        chain = super()._chain(replace(request, ids=reading.ids))
        if chain is None:
            return None
        return TranslatedChain(
            request=chain.request, params=chain.params, state=chain.state, most=chain.most,
            asked=request,
        )  # fmt: skip


def _readable(reading: Reading) -> bool:
    return reading.whole and bool(reading.ids)
