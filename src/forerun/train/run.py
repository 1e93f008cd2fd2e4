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

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.heads.checkpoint import WEIGHTS
from forerun.train.batches import Corpus
from forerun.train.chats import read_chats
from forerun.train.clock import Clock
from forerun.train.data import HELD_OUT, Data, News
from forerun.train.evaluate import Acceptance, Judge, Laws
from forerun.train.features import Taps
from forerun.train.folder import Folder, Identity, digest
from forerun.train.forms import check_feed_forward, made, usual_layers
from forerun.train.from_traces import read_answers
from forerun.train.loop import AGAIN, RATE, Training, initialised, quicker_type
from forerun.train.measure import Row, measured
from forerun.train.start import Start
from forerun.train.target import FrozenTarget, draft_ids
from forerun.train.texts import TextFile
from forerun.train.workers import Workers

REST = 0.06  # of the time: kept for what is said at the end
_SAVE_EVERY = 60.0  # seconds
_LOOKS = 8  # evaluations on the way
_GLANCE = 40  # texts of such a one
_FLAT = 0.003  # tokens a pass: three looks together that gain less are flat
_LEAST_MEASURED = 20.0  # seconds
_LANDING = 0.15  # of the training's time that is still taken when it is


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for. `layers` None: `usual_layers`."""

    minutes: float
    out: Path
    data: Path | None = None
    recorded: tuple[Path, ...] = ()  # answers to train on; alone if there is no `data`
    evaluation: Path | None = None
    layers: tuple[int, ...] | None = None
    draft_vocab: int = 16384
    feed_forward: int | None = None  # values in the middle of the layer; None: as the target
    threads: int = 1
    seed: int = 0
    form: str = "eagle3"
    start: str | None = None  # a head to go on from, whose form, layers and ids are kept


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run."""

    head: Path
    acceptance: dict[str, Acceptance]  # "greedy", "sampled"
    texts: int
    tokens: int  # of answers
    updates: int
    epochs: float
    rows: list[Row]  # the engine's own speed; empty where that was not measured


def flat(looks: Sequence[float]) -> bool:
    """Whether the last three looks together gained too little to go on; tokens a pass."""
    return len(looks) > 3 and max(looks[-3:]) - max(looks[:-3]) < _FLAT


class Run:
    """`tell` hears what goes on; `stopping` says whether to end where it can go on later; `cache`
    is the folder for measured costs.

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
        cache: Path | None = None,
    ) -> None:
        self._cache = cache
        self._model, self._tell, self._stopping = model, tell, stopping
        chats = None if wanted.data is None else read_chats("--data", wanted.data)
        judging = wanted.evaluation
        evaluation = None if judging is None else read_chats("--eval", judging)
        if model.tokenizer is None:
            raise OptionError(f"{model.name} has no tokenizer: there is no text to train on")
        recorded = read_answers(wanted.recorded, model)
        self._start = start = None if wanted.start is None else Start.read(wanted.start, model)
        if start is not None:
            wanted = replace(
                wanted,
                form=start.form,
                layers=start.layers,
                draft_vocab=len(start.ids),
                feed_forward=start.feed_forward,
            )
        self._wanted = wanted
        self._target = target = FrozenTarget.of(model)
        layers = wanted.layers or usual_layers(wanted.form, target.numbers.layers)
        if bad := [n for n in layers if not 0 <= n <= target.numbers.layers]:
            raise OptionError(f"--layers are from 0 to {target.numbers.layers}, not {bad[0]}")
        self._taps = Taps(chosen=layers, layers=target.numbers.layers, hidden=target.numbers.hidden)
        check_feed_forward(wanted.form, wanted.feed_forward)
        self._folder = Folder(wanted.out)
        self.resumed = self._folder.claim(
            Identity(
                target=target.name,
                fingerprint=target.digest,
                layers=layers,
                form=wanted.form,
                draft_vocab=wanted.draft_vocab,
                seed=wanted.seed,
                data=digest(wanted.data, *wanted.recorded),
                evaluation=digest(wanted.evaluation),
                start="" if start is None else digest(start.head.path / WEIGHTS),
                feed_forward="" if start or not wanted.feed_forward else wanted.feed_forward,
            )
        )
        self._clock = Clock(self._folder.clock, wanted.minutes, now)
        self._data = Data(
            model,
            self._folder,
            self._taps,
            self._clock,
            seed=wanted.seed,
            chats=[] if recorded and chats is None else chats,
            recorded=recorded,
            evaluation=evaluation,
            tell=tell,
            stopping=stopping,
        )

    def go(self) -> Outcome | None:
        """Do what is left of it; None where `stopping` ended it before."""
        judged = self._data.held_out()
        found = None
        with TextFile(self._folder.texts) as texts:
            if judged is not None and self._data.write(texts):
                corpus = self._data.corpus(texts, self._folder.states)
                if corpus is not None and not len(corpus):
                    raise OptionError("no answer is long enough to train on")
                found = None if corpus is None else self._trained(texts, corpus, judged)
        self._clock.note()
        return found

    def _trained(
        self, texts: TextFile, corpus: Corpus, judged: dict[str, tuple[Corpus, Laws]]
    ) -> Outcome | None:
        ids = self._ids(texts)
        wanted, target, kind = self._wanted, self._target, quicker_type()
        form = made(wanted.form, target, self._taps, len(ids), wanted.feed_forward)
        output = target.output[torch.from_numpy(ids)]
        if self._start is None:
            head = initialised(form.head, wanted.seed, output)
            early, rate = form.early, RATE
        else:
            head = self._start.into(form)
            early, rate = form.weights, AGAIN
        judges = {
            name: Judge(held, law, target.output, ids, greedy=HELD_OUT[name] == 0)
            for name, (held, law) in judged.items()
        }
        with Workers(self._wanted.threads) as workers:
            training = Training(
                head,
                corpus,
                output.to(kind),
                seed=self._wanted.seed,
                workers=workers,
                weights=form.weights,
                early=early,
                rate=rate,
            )
            if not self._updates(training, judges, workers):
                return None
            self._say("evaluation", 0.0)
            acceptance = {name: judge.acceptance(head, workers) for name, judge in judges.items()}
        form.write(self._folder.head, ids)
        return Outcome(
            head=self._folder.head,
            acceptance=acceptance,
            texts=len(texts),
            tokens=texts.answered,
            updates=training.updates,
            epochs=training.tokens / max(texts.answered, 1),
            rows=self._measured(),
        )

    def _measured(self) -> list[Row]:
        """By the engine, in the time that is left, or a little more."""
        chats = [chat for chat in self._data.asked() if chat.answers]
        if self._stopping() or not chats:
            return []
        return measured(
            self._model,
            self._folder.head,
            chats,
            seconds=max(self._clock.left, _LEAST_MEASURED),
            cache=self._cache,
            stopping=self._stopping,
            watch=lambda fraction: self._say("measurement", fraction),
        )

    def _updates(self, training: Training, judges: dict[str, Judge], workers: Workers) -> bool:
        """Train until the time is over, or what it brings is little; False where it was stopped."""
        clock, folder = self._clock, self._folder
        start, end, looks = clock.spent, (1 - REST) * clock.given, list[float]()
        if folder.training.exists():
            state = training.load(folder.training)
            start, looks = state["start"], state["looks"]
            if state["landing"] and clock.spent < state["end"]:
                end = min(end, state["end"])
        else:
            training.fit(end - start, lambda: clock.spent)
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
                    name: judge.acceptance(training.head, workers, texts=_GLANCE)
                    for name, judge in judges.items()
                }
                looks.append(sum(a.tokens_per_pass for a in found.values()) / len(found))
                if flat(looks):
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
            if self._start is None:
                size, vocabulary = self._wanted.draft_vocab, self._target.vocabulary
                found = draft_ids(texts, size, vocabulary, self._model.eos)
            else:
                found = self._start.ids
            fresh = path.with_suffix(".part.npy")
            np.save(fresh, found)
            fresh.replace(path)
        ids: np.ndarray[Any, np.dtype[np.int64]] = np.load(path)
        return ids

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
