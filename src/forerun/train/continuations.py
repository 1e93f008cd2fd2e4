"""Chats into texts: the target answers them, as many at once as is quickest.

    chat 7   user, user      ->  text "7.0": user, answer     text "7.1": user, answer, user, answer
    chat 8   imagined        ->  user                         text "8.0": user, answer

In a chat that is imagined the target first goes on from where its template lets the user speak
(Xu et al. 2024, arXiv 2406.08464): what it was trained to be asked comes back, in all its kinds.

Each answer is a text of its own, of which that answer alone counts. Texts that are there already
are not written again, and an answer's seed is that of its name, so a run that was killed goes on
as if nothing had happened. Answers are drawn at the temperatures of `TEMPERATURES` in turn: a head
should follow the target through greedy text and through what it may say instead.

What this module does not know: files of chats, hidden states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue

from forerun.engine import Engine, Stream
from forerun.errors import PromptError, RoundError, TemplateError
from forerun.models.base import Model
from forerun.text.tokenizer import Tokenizer
from forerun.train.chats import Chat, Message
from forerun.train.texts import Text, TextFile

SLOTS = 96  # answers written at once
TEMPERATURES = (0.0, 1.0, 0.7)
IMAGINING = 0.8  # temperature of what an imagined user says
_SAID = 160  # most tokens of it; what is longer is not used
_MARK = "What is said"  # where the template puts it, a user speaks
_BLINK = 0.2  # seconds between looks at whether to stop


class Continuations:
    """Answers chats into `texts`.

    temperatures  of the answers, in turn by chat
    max_tokens    most of an answer
    stopping      whether no further answer is to be begun; those that are being written end
    watch         called some times a second with the tokens written so far
    """

    def __init__(
        self,
        engine: Engine,
        texts: TextFile,
        *,
        seed: int,
        max_tokens: int,
        temperatures: Sequence[float] = TEMPERATURES,
        stopping: Callable[[], bool] = lambda: False,
        watch: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        self._engine, self._texts = engine, texts
        self._seed, self._max_tokens, self._temperatures = seed, max_tokens, temperatures
        self._stopping, self._watch = stopping, watch
        self._asked: dict[Stream, tuple[Chat, int]] = {}
        self._begun: set[Stream] = set()  # that have brought something
        self._ended: SimpleQueue[Stream] = SimpleQueue()
        self.tokens = 0  # written so far, by imagined users too
        self.refused = 0  # chats that the target cannot read: too long, or its template says no

    def run(self, chats: Iterable[Chat]) -> bool:
        """Answer all of them; False where `stopping` left some. RoundError where a round broke."""
        self._engine.start()
        todo = iter(chats)
        chat = next(todo, None)
        while not self._stopping():
            if chat is not None and len(self._asked) < 2 * self._engine.max_batch:
                self._go_on(chat)
                chat = next(todo, None)
            elif self._asked:
                self._take()
            else:
                break
        left = chat is not None
        for stream in [one for one in self._asked if one not in self._begun]:
            stream.cancel(wait=False)
            left = True
        while self._asked:
            self._take()
        return not left

    def _go_on(self, chat: Chat) -> None:
        """Ask for the first answer that is not there."""
        try:
            if chat.imagined:
                if self._texts.get(f"{chat.number}.0") is None:
                    self._imagine(chat)
                return
            if not chat.answers:
                if self._texts.get(f"{chat.number}.0") is None:
                    self._texts.append(given(self._engine.target, chat))
                return
            for turn in range(chat.answers):
                if self._texts.get(f"{chat.number}.{turn}") is None:
                    self._ask(chat, turn)
                    return
        except (PromptError, TemplateError):
            self.refused += 1

    def _imagine(self, chat: Chat) -> None:
        """Ask for what the user says."""
        begun, end = user_turn(self._engine.target.tokenizer)
        stream = self._engine.submit(
            begun,
            listener=self._listen,
            temperature=IMAGINING,
            max_tokens=_SAID,
            stop=[end] if end else [],
            seed=_seed(self._seed, f"{chat.number} user"),
        )
        self._asked[stream] = (chat, 0)

    def _ask(self, chat: Chat, turn: int) -> None:
        stream = self._engine.submit(
            chat.text if chat.text is not None else self._messages(chat, turn),
            listener=self._listen,
            temperature=self._temperature(chat),
            max_tokens=self._max_tokens,
            seed=_seed(self._seed, f"{chat.number}.{turn}"),
        )
        self._asked[stream] = (chat, turn)

    def _temperature(self, chat: Chat) -> float:
        return self._temperatures[chat.number % len(self._temperatures)]

    def _messages(self, chat: Chat, turn: int) -> list[Message]:
        messages = list(chat.before)
        for i, said in enumerate(chat.turns[: turn + 1]):
            messages.append({"role": "user", "content": said})
            if i < turn:
                text = self._texts.get(f"{chat.number}.{i}")
                assert text is not None, "answers come in order"
                start, stop = text.spans[0]
                answer = self._engine.target.tokenizer.decode(text.ids[start:stop])
                messages.append({"role": "assistant", "content": answer})
        return messages

    def _listen(self, stream: Stream) -> None:
        """In the engine's thread, after each round that brought something and at the end."""
        done = stream.done
        self._begun.add(stream)
        self.tokens += sum(len(piece.tokens) for piece in stream.take())
        if done is not None:
            self._ended.put(stream)

    def _take(self) -> None:
        """The next that has ended, if one does soon."""
        self._watch(self.tokens)
        try:
            stream = self._ended.get(timeout=_BLINK)
        except Empty:
            return
        chat, turn = self._asked.pop(stream)
        self._begun.discard(stream)
        done = stream.done
        assert done is not None, "it has ended"
        if isinstance(done.error, RoundError):
            raise done.error
        if done.error is not None:
            self.refused += 1
        elif chat.imagined:
            said = done.text.strip()
            if done.finish_reason == "stop" and said and not self._stopping():
                self._go_on(replace(chat, turns=(said,), imagined=False))
        elif done.finish_reason != "cancelled" and done.tokens:
            ids, start = (*done.prompt, *done.tokens), len(done.prompt)
            self._texts.append(
                Text(
                    name=f"{chat.number}.{turn}",
                    ids=ids,
                    spans=((start, len(ids)),),
                    temperature=self._temperature(chat),
                )
            )
            if not self._stopping():
                self._go_on(chat)


def given(target: Model, chat: Chat) -> Text:
    """A chat whose answers are there: all of them count. PromptError, TemplateError."""
    tokenizer = target.tokenizer
    spans: list[tuple[int, int]] = []
    ids: list[int] = []
    for i, message in enumerate(chat.before):
        if message["role"] != "assistant":
            continue
        start = len(tokenizer.encode_chat(chat.before[:i]))
        shown = tokenizer.render_chat(chat.before[: i + 1], add_generation_prompt=False)
        ids = tokenizer.encode(shown, special=True)
        if start < len(ids):
            spans.append((start, len(ids)))
    if target.context is not None and len(ids) > target.context:
        raise PromptError(f"the chat has {len(ids)} tokens, the context is {target.context}")
    return Text(name=f"{chat.number}.0", ids=tuple(ids), spans=tuple(spans), temperature=None)


def user_turn(tokenizer: Tokenizer) -> tuple[list[int], str]:
    """The ids after which a user speaks, and the text that ends what is said, if it is text.
    TemplateError where the template does not show what is said as it is."""
    shown = tokenizer.render_chat([{"role": "user", "content": _MARK}], add_generation_prompt=False)
    begun, mark, end = shown.partition(_MARK)
    if not mark or _MARK in end:
        raise TemplateError("the chat template does not show once what a user says")
    return tokenizer.encode(begun, special=True), end.strip()


def _seed(run: int, name: str) -> int:
    raw = hashlib.blake2b(f"{run} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(raw, "little")
