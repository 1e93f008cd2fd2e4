"""From settings to an engine that is ready, and one answer after another out of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from forerun.cli.interrupts import Interrupts
from forerun.cli.options import Settings
from forerun.cli.report import drafting, summary
from forerun.cli.screen import Screen
from forerun.cli.trace_file import TraceFile
from forerun.cli.values import parse_size
from forerun.drafters import drafter as find_drafter
from forerun.drafters import fitting, names, with_head, with_model
from forerun.drafters.base import Drafter
from forerun.engine import Completion, Engine
from forerun.engine.choices import AUTO
from forerun.engine.prompt import Prompt
from forerun.errors import ForerunError, KeyReuseError, LawError, OptionError
from forerun.models.base import Model
from forerun.models.heads.load import load_head
from forerun.models.heads.shipped import shipped
from forerun.models.load import load_model
from forerun.sampling import SamplingOptions

log = logging.getLogger("forerun")

WHILE_RUNNING = (LawError, KeyReuseError)  # errors that no check beforehand could have found


def cache_folder() -> Path | None:
    """FORERUN_CACHE, or None: the user's cache."""
    folder = os.environ.get("FORERUN_CACHE")
    return Path(folder) if folder else None


class Session:
    """An engine for `settings`, and where its answers go.

    `share_weights` is `load_model`'s; `engine` are further keywords of the engine. Raises what is
    wrong with the settings, the files they name, and the models.
    """

    def __init__(
        self,
        settings: Settings,
        screen: Screen,
        trace: TraceFile,
        predicted: str | None,
        *,
        share_weights: bool = False,
        **engine: Any,
    ) -> None:
        self.settings, self.screen = settings, screen
        self._loading = {**settings.loading(), "share_weights": share_weights}
        self._trace = trace
        self._answers = 0
        self.target = self._load(settings.model)
        self.engine = Engine(
            self.target,
            self._drafter(predicted, engine.get("prefix_memory", 0)),
            verifier=settings.verifier,
            num_draft=settings.num_draft,
            cache=cache_folder(),
            trace_heads=settings.trace is not None,
            **engine,
        )
        if settings.num_draft == AUTO and not settings.plain:
            self._measure()
        self.sampling = {**own_defaults(self.target), **settings.sampling()}
        log.info("sampling: %s", self.sampling)

    def answer(
        self,
        prompt: Prompt,
        options: Mapping[str, Any] | None = None,
        *,
        show: bool = True,
        begin: Callable[[], None] | None = None,
    ) -> Completion:
        """One answer, shown as it comes where `show`, and traced.

        `begin` shows what comes before the text, once it is known that there is an answer. Ctrl-C
        ends it ("cancelled"). What is wrong with the request is raised, and so is a lack of memory
        for its prompt, which streams find with the first round. An error while it runs is in
        `done.error`, beside the text so far: logits that make no law, and anything after the first
        token.
        """
        options = {**self.sampling, **(options or {})}
        shown, begin = 0, begin if show else None
        with Interrupts() as interrupts, self.engine.stream(prompt, **options) as stream:
            try:
                for piece in stream:
                    if begin is not None:
                        begin()
                        begin = None
                    self._trace.write(piece.round, self._answers)
                    for text, kind in piece.parts if show else ():
                        self.screen.write(text, kind)
                        shown += len(text)
                    if interrupts.pressed:
                        break
            except ForerunError as error:
                done = stream.done
                if done is None or not (done.tokens or isinstance(error, WHILE_RUNNING)):
                    raise
            if stream.done is None:
                stream.cancel()
            done = stream.done
        assert done is not None
        if begin is not None:
            begin()
        if show:
            self.screen.write(done.text[shown:], done.trace[-1].kinds[-1] if done.trace else None)
        self._answers += 1
        log.info("verifier %s, seed %d", done.verifier, done.seed)
        log.info("%s", summary(done))
        log.info("drafts a round: %s", drafting(done))
        return done

    def _load(self, name: str) -> Model:
        with self.screen.working(f"loading {name}") as fetched:
            model = load_model(name, cache=cache_folder(), progress=fetched, **self._loading)
        context = "any number of" if model.context is None else model.context
        log.info("%s: %d token ids, context of %s tokens", model.name, model.vocab_size, context)
        return model

    def _measure(self) -> None:
        """What passes cost, measured where it is not known; said where it takes its time."""
        with self.screen.working(f"measuring passes of {self.target.name}"):
            costs = self.engine.costs()
        for name, seconds in {self.target.name: costs.target, **costs.draft}.items():
            said = ", ".join(f"{1000 * s:.2f}" for s in seconds)
            log.info("%s: passes over 1, 2, … rows take %s ms", name, said)

    def _drafter(self, predicted: str | None, prefix_memory: int) -> Drafter | None:
        name, options = self.settings.drafter_name, dict[str, Any]()
        if self.settings.drafter is None and name == "suffix" and shipped(self.target) is not None:
            name = "suffix+head"
        wanted = names(name)
        if with_model(wanted):
            assert self.settings.draft_model is not None
            options["model"] = self._load(self.settings.draft_model)
            options["prefix_memory"] = prefix_memory
            if self.settings.drafter is None and self.settings.head is None:
                name = fitting(self.target, options["model"])
                log.info("drafter %s", name)
        if with_head(wanted):
            options["head"] = load_head(self.settings.head, self.target)
        if self.settings.memory is not None:
            options["memory_bytes"] = parse_size("--memory-size", self.settings.memory_size)
        if "prediction" in wanted:
            if self.target.tokenizer is None:
                raise OptionError(f"{self.target.name} has no tokenizer to read a prediction with")
            options["tokens"] = self.target.tokenizer.encode(predicted or "")
        if self.settings.skip_layers is not None:
            options["skip"] = self.settings.skip_layers
        return find_drafter(name, **options)


def own_defaults(model: Model) -> dict[str, Any]:
    """What the model's authors recommend to sample with, where they say."""
    recommended = getattr(model, "generation_defaults", None) or {}
    return {k: v for k, v in recommended.items() if k in SamplingOptions.__annotations__}
