"""`forerun run`: a file of requests in, a file of answers out."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.interrupts import INTERRUPTED, Interrupts
from forerun.cli.logs import logging_to
from forerun.cli.options import DRAFTING, MODEL, Settings, command
from forerun.cli.progress import Progress
from forerun.cli.remembering import remembering
from forerun.cli.screen import Screen
from forerun.cli.serve import loaded, name_of
from forerun.cli.values import counted, number, parse_size, whole
from forerun.engine import Engine
from forerun.errors import OptionError, ReplicaError, RoundError, SourceChangedError
from forerun.models.files import sampled

if TYPE_CHECKING:
    from forerun.batch import Output, Source, Tally

_LINES, _OUT, _RAY = "Lines", "Output", "Several processes or machines"
FAILED = 1


def _option(panel: str, names: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(*names.split(), metavar=metavar, help=help, rich_help_panel=panel, **more)


# fmt: off
def run(
    file: Annotated[str, typer.Argument(
        metavar="FILE|-", help="Requests, one JSON object a line; - reads them from stdin.",
    )],
    out: Annotated[str, _option(
        _OUT, "-o --out", "FILE|-",
        "Answers, one JSON object a line, as they are ready; - for stdout. What is in FILE already "
        "is kept, and the rest is done.",
    )],
    max_tokens: Annotated[int, _option(
        _LINES, "-n --max-tokens", "N", "Most tokens of an answer whose line names no limit.",
        parser=whole,
    )] = 256,
    seed: Annotated[int | None, _option(
        _LINES, "--seed", "N",
        "Another one gives other texts to all lines that have no seed of their own. "
        "\\[default: one made of FILE's content]", parser=whole,
    )] = None,
    limit: Annotated[int | None, _option(
        _LINES, "--limit", "N", "Only the first N lines, or N at random with --shuffle-seed.",
        parser=whole,
    )] = None,
    shuffle_seed: Annotated[int | None, _option(
        _LINES, "--shuffle-seed", "N", "Take the lines in an order that this number gives.",
        parser=whole,
    )] = None,
    served_model_name: Annotated[list[str] | None, _option(
        _LINES, "--served-model-name", "NAME",
        "What lines may call the model by. Repeatable: all are taken, the first is given. "
        "\\[default: the model's]",
    )] = None,
    max_batch: Annotated[int, _option(
        _LINES, "--max-batch", "N", "Most answers that are written at once.", parser=whole,
    )] = 8,
    prefix_memory: Annotated[str, _option(
        _LINES, "--prefix-memory", "SIZE",
        "Memory for what was read of earlier prompts, so that those that begin alike are answered "
        "sooner. It comes on top of --max-memory; 0: none.",
    )] = "512MiB",
    ray: Annotated[str | None, _option(
        _RAY, "--ray", "ADDRESS",
        "Spread the lines over Ray's actors: local starts a Ray on this machine, auto takes the "
        "one that runs; or an address. Needs the extra cluster.",
    )] = None,
    replicas: Annotated[int, _option(
        _RAY, "--replicas", "N", "Actors, each with an engine.", parser=whole,
    )] = 1,
    cpus_per_replica: Annotated[int, _option(
        _RAY, "--cpus-per-replica", "N",
        "What Ray sets aside for each; also its threads, unless --threads says otherwise.",
        parser=whole,
    )] = 1,
    gpus_per_replica: Annotated[float, _option(
        _RAY, "--gpus-per-replica", "N", "The same of GPUs.", parser=number,
    )] = 0.0,
    private_weights: Annotated[bool, _option(
        _RAY, "--private-weights", "",
        "Weights of its own for each, where those of a machine else have them in common: more "
        "memory, passes that are a few percent quicker.",
    )] = False,
    verbose: Annotated[int, _option(
        _OUT, "-v --verbose", "", "Say more, on standard error; -vv: tracebacks too.", count=True,
        show_default=False,
    )] = 0,
    log_file: Annotated[Path | None, _option(
        _OUT, "--log-file", "FILE", "Append the log to a file.",
    )] = None,
    no_color: Annotated[bool, _option(_OUT, "--no-color", "", "No colours or styles.")] = False,
    *,
    settings: Settings,
) -> None:
    # fmt: on
    """Answer a file of requests.

    Lines are OpenAI's batch format, or bodies alone: {"prompt": "…"} or {"messages": […]}, with
    sampling fields as the server takes them. Each gets one record, an answer or an error. Stopped
    or killed at any moment, the same command goes on where it was.

    Examples:

      forerun run requests.jsonl -o answers.jsonl

      forerun run requests.jsonl -o sample.jsonl --limit 100 --shuffle-seed 1

      jq -c '{prompt: .text}' texts.jsonl | forerun run - -o - -n 64 > answers.jsonl

    Ctrl-C or SIGTERM lets answers that are being written end; a second one does not. Exit codes: 0
    every line has its record, 1 some records are errors, or the run broke off, 130 stopped.
    """
    from forerun import batch  # here: it takes its time, and other commands do without

    settings.check()
    for name, value, least in (
        ("--max-tokens", max_tokens, 1), ("--limit", limit, 0), ("--seed", seed, 0),
        ("--shuffle-seed", shuffle_seed, 0), ("--max-batch", max_batch, 1),
        ("--replicas", replicas, 1), ("--cpus-per-replica", cpus_per_replica, 1),
    ):  # fmt: skip
        if value is not None and value < least:
            raise OptionError(f"{name} must be a whole number of at least {least}, not {value}")
    kept = 0 if prefix_memory == "0" else parse_size("--prefix-memory", prefix_memory)
    answers = None if out == "-" else Path(out)
    requests = None if file == "-" else Path(file)
    if answers is not None and requests is not None and answers.resolve() == requests.resolve():
        raise OptionError(f"--out {out} is the file of requests: give another")
    if ray is not None and settings.memory is not None:
        raise OptionError("--memory is one process's: leave it out with --ray")
    if ray is None and private_weights:
        raise OptionError("--private-weights goes with --ray: without, they are one process's")
    if ray is not None and answers is None:
        raise OptionError("--ray needs -o FILE: Ray itself writes to standard output")
    names = tuple(served_model_name or [name_of(settings.model)])
    screen = Screen(no_color=no_color)
    with (
        logging_to(verbose, log_file),
        batch.Source(requests) as source,
        Interrupts(signal.SIGINT, signal.SIGTERM) as interrupts,
    ):
        identity = batch.Identity.of(
            source.digest, decisive(settings, names, max_tokens, seed)
        )
        with batch.Output(answers, identity, source.last) as output:
            plan = _Plan(source, output, limit, shuffle_seed, screen)
            plan.tell_what_is_there()
            if plan.left:
                terms = batch.Terms(
                    run=identity,
                    models=names,
                    max_tokens=max_tokens,
                    seed=source.digest if seed is None else str(seed),
                )
                caches: dict[str, Any] = {"max_batch": max_batch, "prefix_memory": kept}
                if ray is not None:
                    from forerun.cluster.batch import RayBatch, Replicas

                    wanted = Replicas(replicas, cpus_per_replica, gpus_per_replica)
                    spread = partial(RayBatch, ray, wanted, source, output)
                    alone = replace(settings, threads=settings.threads or cpus_per_replica)
                    plan.go(
                        spread, interrupts,
                        partial(ready, alone, share_weights=not private_weights, **caches),
                        partial(decisive, settings, names, max_tokens, seed), terms,
                    )  # fmt: skip
                else:
                    engine = ready(settings, screen, **caches)
                    desk = batch.Desk(engine, terms)
                    plan.tell_of_others(desk.maker)
                    with remembering(settings, engine), engine:
                        plan.go(partial(batch.Batch, engine, desk, source, output), interrupts)
        code = plan.tell_what_came()
    if code:
        raise typer.Exit(code)


run = command(run, only=(MODEL, DRAFTING))


@dataclass
class _Plan:
    """Which lines are to be done, and what is said of them."""

    source: Source
    output: Output
    limit: int | None
    shuffle: int | None
    screen: Screen
    stopped: bool = False
    tally: Tally | None = None
    said: str = ""
    broke: Exception | None = None

    def __post_init__(self) -> None:
        self.total = len(self.source) if self.limit is None else min(self.limit, len(self.source))
        done, numbers = self.output.done, self.source.numbers
        self.left = sum(not done[numbers[i]] for i in self.positions())

    def positions(self) -> Iterator[int]:
        return self.source.order(self.limit, self.shuffle)

    def tell_what_is_there(self) -> None:
        output = self.output
        if output.dropped:
            self.screen.note(
                f"{output.name}: cut off {counted(output.dropped, 'byte')} of a record that was "
                "not written whole"
            )
        if output.found:
            self.screen.note(
                f"{output.name}: {counted(output.found, 'line')} done before, "
                f"{self.left} to do"
            )

    def tell_of_others(self, maker: str) -> None:
        if others := self.output.makers - {maker}:
            self.screen.note(
                f"{self.output.name}: answers by {', '.join(sorted(others))} are there, and this "
                f"is {maker}: seeded texts of the two need not agree"
            )

    def go(self, make: Callable[..., Any], interrupts: Interrupts, *parts: Any) -> None:
        """Run what `make` gives, a `Batch` or one over Ray; `parts` are for its `run`."""
        with Progress(self.screen, self.total, self.total - self.left) as progress:
            work = make(watch=progress.show, stopping=lambda: interrupts.pressed)
            self.tally = work.tally
            try:
                self.stopped = not work.run(self.positions(), *parts)
            except (RoundError, SourceChangedError, ReplicaError) as error:
                self.broke = error
            self.said = progress.summary(work.tally)

    def tell_what_came(self) -> int:
        """The exit code."""
        failed, left = self.output.failed, self.left
        if self.tally is not None:
            self.screen.note(self.said)
            failed, left = failed + self.tally.failed, left - self.tally.lines
        if self.broke is not None:
            self.screen.error(f"{self.broke}")
        if self.stopped or self.broke is not None:
            self.screen.note(
                f"{counted(left, 'line')} left: "
                + (
                    "the same command goes on from here"
                    if self.output.resumes
                    else "standard output cannot be gone on with; -o FILE could"
                )
            )
            return FAILED if self.broke is not None else INTERRUPTED
        if self.output.failed:
            are = "is an error" if failed == 1 else "are errors"
            self.screen.note(f"of all records in {self.output.name}, {failed} {are}")
        return FAILED if failed else 0


def ready(settings: Settings, screen: Screen | None = None, **caches: Any) -> Engine:
    """An engine that has measured what it must."""
    engine = loaded(settings, screen or Screen(), **caches)
    if engine.drafter is not None and engine.num_draft != 0:
        engine.costs()  # now, not in the middle of the first lines
    return engine


def decisive(
    settings: Settings, names: tuple[str, ...], max_tokens: int, seed: int | None
) -> dict[str, Any]:
    """What decides the answers, beside the input: an output is gone on with only under the same."""
    text = settings.predicted_text()
    models = [settings.model, *([settings.draft_model] if settings.draft_model else [])]
    return {
        "models": [
            [name_of(model), sampled(Path(model)) if Path(model).is_file() else None]
            for model in models
        ],
        "names": names,
        "backend": settings.backend,
        "dtype": settings.dtype,
        "device": settings.device,
        "context": settings.context,
        "drafter": settings.drafter_name,
        "skip_layers": settings.skip_layers,
        "num_draft": settings.num_draft,
        "verifier": settings.verifier,
        "prediction": None if text is None else hashlib.sha256(text.encode()).hexdigest(),
        "max_tokens": max_tokens,
        "seed": seed,
    }
