"""A head for a target, from nothing, within so many minutes.

    held-out texts -> their states and laws                 what the head is judged by
    texts -> their states            DATA of the time       by the target: engine, then a pass each
    updates                          up to the last REST    judged now and then; saved each minute
    head/, report.json

Killed at any moment and started again with the same folder, a run goes on: nothing but what was
being written at that moment is lost.

What this module does not know: the command line, and what is shown of the progress.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from forerun.engine import Engine
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.heads.checkpoint import offsets, write_head
from forerun.models.heads.config import HeadConfig
from forerun.train import prompts
from forerun.train.batches import Corpus
from forerun.train.chats import Chat, of_prompts, read_chats
from forerun.train.clock import Clock
from forerun.train.continuations import SLOTS, TEMPERATURES, Continuations
from forerun.train.eagle3 import Eagle3, tensors
from forerun.train.evaluate import Acceptance, Judge, laws
from forerun.train.features import StateFile, Taps, rows_of
from forerun.train.folder import Folder, Identity, digest
from forerun.train.loop import Training, initialised, quicker_type
from forerun.train.target import FrozenTarget, draft_ids
from forerun.train.texts import TextFile

DATA, REST = 0.5, 0.03  # of the time: until the data are there; kept for the last evaluation
HELD_OUT = {"greedy": 0.0, "sampled": 1.0}  # temperatures of the texts that judge
MOST_HELD_OUT = 80  # chats of each
_ANSWER = 256  # most tokens of one
_SAVE_EVERY = 60.0  # seconds
_LOOKS = 8  # evaluations on the way
_GLANCE = 40  # texts of such a one
_FLAT = 0.003  # tokens a pass: three looks together that gain less are flat
_LANDING = 0.15  # of the training's time that is still taken when it is


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for. `layers` None: `usual_layers`."""

    minutes: float
    out: Path
    data: Path | None = None
    evaluation: Path | None = None
    layers: tuple[int, ...] | None = None
    draft_vocab: int = 16384
    threads: int = 1
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class News:
    """What goes on. `fraction` of the phase; `tokens` of it so far."""

    phase: str
    fraction: float
    tokens: int = 0
    left: float = 0.0  # seconds of the whole run
    acceptance: dict[str, Acceptance] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    head: Path
    acceptance: dict[str, Acceptance]  # "greedy", "sampled"
    texts: int
    tokens: int  # of answers
    updates: int
    epochs: float


def usual_layers(layers: int) -> tuple[int, ...]:
    """EAGLE-3's: an early, a middle and a late one."""
    return (2, layers // 2, max(layers - 3, 0))


class Run:
    """`tell` hears what goes on; `stopping` says whether to end where it can go on later.

    Raises OptionError for a folder that holds another run, and for files that cannot be read.
    """

    def __init__(
        self,
        wanted: Wanted,
        model: Model,
        *,
        tell: Callable[[News], None] = lambda news: None,
        stopping: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted, self._model, self._tell, self._stopping = wanted, model, tell, stopping
        self._data = None if wanted.data is None else read_chats("--data", wanted.data)
        self._eval = None
        if wanted.evaluation is not None:
            self._eval = read_chats("--eval", wanted.evaluation)
        if model.tokenizer is None:
            raise OptionError(f"{model.name} has no tokenizer: there is no text to train on")
        self._target = target = FrozenTarget.of(model)
        layers = wanted.layers or usual_layers(target.numbers.layers)
        self._taps = Taps(chosen=layers, layers=target.numbers.layers, hidden=target.numbers.hidden)
        self._folder = Folder(wanted.out)
        self.resumed = self._folder.claim(
            Identity(
                target=target.name,
                fingerprint=target.digest,
                layers=layers,
                draft_vocab=wanted.draft_vocab,
                seed=wanted.seed,
                data=digest(wanted.data),
                evaluation=digest(wanted.evaluation),
            )
        )
        self._clock = Clock(self._folder.clock, wanted.minutes, now)

    def go(self) -> Outcome | None:
        """Do what is left of it; None where `stopping` ended it before."""
        judged = self._held_out()
        if judged is None or not self._written():
            return None
        with TextFile(self._folder.texts) as texts:
            corpus = self._corpus(texts, self._folder.states)
            found = self._trained(texts, corpus, judged) if corpus is not None else None
        self._clock.note()
        return found

    # ------------------------------------------------------------------ data

    def _held_out(self) -> dict[str, tuple[Corpus, Any]] | None:
        found = {}
        count = int(min(MOST_HELD_OUT, max(8, 2 * self._wanted.minutes)))
        for kind, temperature in HELD_OUT.items():
            chats = (
                list(islice(of_prompts(prompts.held_out()), count))
                if self._eval is None
                else self._eval[:count]
            )
            with TextFile(self._folder.held_out(kind, ".jsonl")) as texts:
                if not self._continue(texts, chats, (temperature,), "held-out texts", lambda: 0.0):
                    return None
                corpus = self._corpus(texts, self._folder.held_out(kind, ".f16"))
                if corpus is None:
                    return None
                law = laws(self._model, list(texts), self._folder.held_out(kind, ".npz"))
            found[kind] = (corpus, law)
        return found

    def _written(self) -> bool:
        """Texts to train on, until their time is over or all of the data are answered."""
        chats: Iterable[Chat]
        chats = (
            of_prompts(prompts.training(self._wanted.seed)) if self._data is None else self._data
        )
        with TextFile(self._folder.texts) as texts:
            if self._folder.training.exists() and self._clock.spent > DATA * self._clock.given:
                return True
            start = self._clock.spent

            def fraction() -> float:
                """Of the data's time, with what the states of what is written will take."""
                until = DATA * self._clock.given
                reading = sum(map(rows_of, texts)) / self._reading_speed
                return (self._clock.spent + reading - start) / max(until - start, 1.0)

            self._continue(texts, chats, TEMPERATURES, "texts", fraction)
            if not len(texts):
                raise OptionError("nothing was written to train on: give more --minutes")
        return not self._stopping()

    def _continue(
        self,
        texts: TextFile,
        chats: Iterable[Chat],
        temperatures: Sequence[float],
        phase: str,
        fraction: Callable[[], float],
    ) -> bool:
        with Engine(self._model, num_draft=0, max_batch=SLOTS) as engine:
            work = Continuations(
                engine,
                texts,
                seed=self._wanted.seed,
                max_tokens=_ANSWER,
                temperatures=temperatures,
                stopping=lambda: self._stopping() or fraction() >= 1,
                watch=lambda tokens: self._say(phase, fraction(), tokens),
            )
            return work.run(chats)

    def _corpus(self, texts: TextFile, path: Path) -> Corpus | None:
        """Of all texts, with their states; None where it was stopped."""
        states = StateFile(path, self._taps)
        total = max(sum(map(rows_of, texts)), 1)
        began = self._clock.spent
        rows = 0

        def watch(done: int) -> None:
            nonlocal rows
            rows = done
            self._say("states", done / total, done)

        if states.compute(self._model, list(texts), stopping=self._stopping, watch=watch) < len(
            texts
        ):
            return None
        if rows:
            self._reading_speed = rows / max(self._clock.spent - began, 1e-3)
        found, starts = states.read(list(texts))
        return Corpus(list(texts), found, starts, self._taps)

    _reading_speed = 2000.0  # rows a second, until it is measured

    # ------------------------------------------------------------------ training

    def _trained(
        self, texts: TextFile, corpus: Corpus, judged: dict[str, tuple[Corpus, Any]]
    ) -> Outcome | None:
        ids = self._ids(texts)
        target, kind = self._target, quicker_type()
        config = self._config(len(ids))
        head = initialised(
            Eagle3(config, len(self._taps.chosen), target.embedding), self._wanted.seed
        )
        judges = {
            name: Judge(held, law, target.output, ids, greedy=HELD_OUT[name] == 0)
            for name, (held, law) in judged.items()
        }
        training = Training(
            head,
            corpus,
            target.output[torch.from_numpy(ids)].to(kind),
            seed=self._wanted.seed,
            threads=self._wanted.threads,
        )
        try:
            if not self._updates(training, judges):
                return None
        finally:
            training.close()
        self._say("evaluation", 0.0)
        acceptance = {name: judge.acceptance(head) for name, judge in judges.items()}
        write_head(self._folder.head, config, tensors(head) | offsets(ids, target.vocabulary))
        return Outcome(
            head=self._folder.head,
            acceptance=acceptance,
            texts=len(texts),
            tokens=texts.answered,
            updates=training.updates,
            epochs=training.tokens / max(texts.answered, 1),
        )

    def _updates(self, training: Training, judges: dict[str, Judge]) -> bool:
        """Train until the time is over, or what it brings is little; False where it was stopped."""
        clock, folder = self._clock, self._folder
        start, end, looks = clock.spent, (1 - REST) * clock.given, list[float]()
        if folder.training.exists():
            state = training.load(folder.training)
            start, looks = state["start"], state["looks"]
            end = min(end, state["end"]) if state["landing"] else end
        landing = end < (1 - REST) * clock.given
        found: dict[str, Acceptance] = {}

        def save() -> None:
            training.save(folder.training, start=start, end=end, looks=looks, landing=landing)

        saved = clock.spent
        while (fraction := (clock.spent - start) / max(end - start, 1.0)) < 1:
            if self._stopping():
                save()
                return False
            training.update(fraction)
            self._say("training", fraction, training.tokens, found)
            if fraction * _LOOKS >= len(looks) + 1 and not landing:
                found = {
                    n: judge.acceptance(training.head, texts=_GLANCE) for n, judge in judges.items()
                }
                looks.append(sum(a.tokens_per_pass for a in found.values()) / len(found))
                if len(looks) > 3 and looks[-1] - looks[-4] < _FLAT:
                    left = _LANDING * (end - start)
                    end, landing = min(end, clock.spent + left), True
            if clock.spent - saved > _SAVE_EVERY:
                save()
                saved = clock.spent
        save()
        return True

    def _ids(self, texts: TextFile) -> np.ndarray[Any, np.dtype[np.int64]]:
        path = self._folder.ids
        if not path.exists():
            found = draft_ids(
                texts, self._wanted.draft_vocab, self._target.vocabulary, self._model.eos
            )
            fresh = path.with_suffix(".part.npy")
            np.save(fresh, found)
            fresh.replace(path)
        ids: np.ndarray[Any, np.dtype[np.int64]] = np.load(path)
        return ids

    def _config(self, draft_vocabulary: int) -> HeadConfig:
        n = self._target.numbers
        return HeadConfig(
            hidden=n.hidden,
            heads=n.heads,
            kv_heads=n.kv_heads,
            head_width=n.head_width,
            feed_forward=n.feed_forward,
            vocabulary=n.vocabulary,
            draft_vocabulary=draft_vocabulary,
            context=n.context,
            epsilon=n.epsilon,
            rotation_base=n.rotation.base,
            rotation_scale=n.rotation.scale,
            taps=self._taps.chosen,
            target=self._target.name,
            fingerprint=self._target.fingerprint,
        )

    def _say(
        self,
        phase: str,
        fraction: float,
        tokens: int = 0,
        acceptance: dict[str, Acceptance] | None = None,
    ) -> None:
        self._tell(
            News(
                phase=phase,
                fraction=min(fraction, 1.0),
                tokens=tokens,
                left=self._clock.left,
                acceptance=acceptance or {},
            )
        )


def write_report(folder: Path, outcome: Outcome, more: dict[str, Any]) -> None:
    told = {
        "texts": outcome.texts,
        "tokens": outcome.tokens,
        "updates": outcome.updates,
        "epochs": round(outcome.epochs, 2),
        "acceptance": {
            name: {
                "by_depth": [round(a, 4) for a in one.by_depth],
                "tokens_per_pass": round(one.tokens_per_pass, 4),
                "places": one.tokens,
            }
            for name, one in outcome.acceptance.items()
        },
        **more,
    }
    fresh = folder / "report.part"
    fresh.write_text(json.dumps(told, indent=2) + "\n")
    fresh.replace(folder / "report.json")
