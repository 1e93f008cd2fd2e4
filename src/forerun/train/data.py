"""What a run trains on and is judged by: texts and their states, made as far as they are not there.

What this module does not know: heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from forerun.engine import Engine
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.train import prompts
from forerun.train.batches import Corpus
from forerun.train.chats import Chat, of_prompts
from forerun.train.clock import Clock
from forerun.train.continuations import SLOTS, TEMPERATURES, Continuations
from forerun.train.evaluate import Acceptance, Laws, laws
from forerun.train.features import StateFile, Taps, rows_of
from forerun.train.folder import Folder
from forerun.train.texts import Text, TextFile

DATA = 0.35  # of the time: until texts and states are there
JUDGING = 0.06  # of the time: most for the texts that judge, of each temperature
HELD_OUT = {"greedy": 0.0, "sampled": 1.0}  # temperatures of the texts that judge
MOST_HELD_OUT = 80  # chats of each
IMAGINED = (
    3  # chats whose user the target plays too, for each of the prompts that come with forerun
)
_ANSWER = 256  # most tokens of one


@dataclass(frozen=True, kw_only=True)
class News:
    """What goes on. `fraction` of the phase; `tokens` of it so far."""

    phase: str
    fraction: float
    tokens: int = 0
    left: float = 0.0  # seconds of the whole run
    acceptance: dict[str, Acceptance] = field(default_factory=dict)


class Data:
    """`chats` None: the prompts that come with forerun; so with `evaluation`. `recorded` texts are
    there already, and come first.

    tell      hears what goes on
    stopping  whether to end where it can go on later
    """

    def __init__(
        self,
        model: Model,
        folder: Folder,
        taps: Taps,
        clock: Clock,
        *,
        seed: int,
        chats: Sequence[Chat] | None,
        recorded: Sequence[Text] = (),
        evaluation: Sequence[Chat] | None,
        tell: Callable[[News], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._model, self._folder, self._taps, self._clock = model, folder, taps, clock
        self._seed, self._chats, self._evaluation = seed, chats, evaluation
        self._recorded = recorded
        self._tell, self._stopping = tell, stopping
        self._reading_speed = 2000.0  # rows a second, until it is measured

    def asked(self) -> list[Chat]:
        """The chats that a head is judged by: fewer where there is little time."""
        count = int(min(MOST_HELD_OUT, max(8, self._clock.given / 30)))
        chats = of_prompts(prompts.held_out()) if self._evaluation is None else self._evaluation
        return list(islice(chats, count))

    def held_out(self) -> dict[str, tuple[Corpus, Laws]] | None:
        """What judges: answers of each of HELD_OUT, and the target's laws in them. None where it
        was stopped."""
        found = {}
        for kind, temperature in HELD_OUT.items():
            start, given = self._clock.spent, JUDGING * self._clock.given

            def fraction(start: float = start, given: float = given) -> float:
                return (self._clock.spent - start) / given

            with TextFile(self._folder.held_out(kind, ".jsonl")) as texts:
                self._write(texts, self.asked(), (temperature,), "held-out texts", fraction)
                if self._stopping():
                    return None
                if (corpus := self.corpus(texts, self._folder.held_out(kind, ".f16"))) is None:
                    return None
                law = laws(self._model, list(texts), self._folder.held_out(kind, ".npz"))
            found[kind] = (corpus, law)
        return found

    def write(self, texts: TextFile) -> bool:
        """Texts to train on, until their time is over or all chats are answered; False where it
        was stopped. OptionError where there are none."""
        start, until = self._clock.spent, DATA * self._clock.given

        def fraction() -> float:
            """Of the time, with what the states of what is written will take."""
            reading = sum(map(rows_of, texts)) / self._reading_speed
            return (self._clock.spent + reading - start) / max(until - start, 1.0)

        for text in self._recorded:
            if texts.get(text.name) is None:
                texts.append(text)
        chats: Iterable[Chat] | None = self._chats
        if chats is None:
            chats = of_prompts(prompts.training(self._seed), imagined=IMAGINED)
        refused = self._write(texts, chats, TEMPERATURES, "texts", fraction)
        if self._stopping():
            return False
        if not len(texts):
            why = f": {self._model.name} can read none of {refused} chats" if refused else ""
            raise OptionError(f"nothing was written to train on{why or ': give more --minutes'}")
        return True

    def corpus(self, texts: TextFile, path: Path) -> Corpus | None:
        """Of all texts, with their states; None where it was stopped."""
        states = StateFile(path, self._taps)
        total, rows, began = max(sum(map(rows_of, texts)), 1), 0, self._clock.spent

        def watch(done: int) -> None:
            nonlocal rows
            rows = done
            self._say("states", done / total, done)

        done = states.compute(self._model, list(texts), stopping=self._stopping, watch=watch)
        if done < len(texts):
            return None
        if rows:
            self._reading_speed = rows / max(self._clock.spent - began, 1e-3)
        found, starts = states.read(list(texts))
        return Corpus(list(texts), found, starts, self._taps)

    def _write(
        self,
        texts: TextFile,
        chats: Iterable[Chat],
        temperatures: Sequence[float],
        phase: str,
        fraction: Callable[[], float],
    ) -> int:
        """How many chats cannot be read by the target."""
        with Engine(self._model, num_draft=0, max_batch=SLOTS) as engine:
            work = Continuations(
                engine,
                texts,
                seed=self._seed,
                max_tokens=_ANSWER,
                temperatures=temperatures,
                stopping=lambda: self._stopping() or fraction() >= 1,
                watch=lambda tokens: self._say(phase, fraction(), tokens),
            )
            work.run(chats)
        return work.refused

    def _say(self, phase: str, fraction: float, tokens: int) -> None:
        left = self._clock.left
        self._tell(News(phase=phase, fraction=min(fraction, 1.0), tokens=tokens, left=left))
