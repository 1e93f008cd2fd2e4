"""`forerun train`: a head for a target, on this machine."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.interrupts import INTERRUPTED, Interrupts
from forerun.cli.options import THREADS
from forerun.cli.screen import Screen
from forerun.cli.session import cache_folder
from forerun.cli.values import counted, number, whole
from forerun.errors import MissingExtraError, OptionError, UnknownNameError
from forerun.models.cores import usable_cores
from forerun.models.load import checked_threads, load_model
from forerun.models.machine import usable_memory

if TYPE_CHECKING:
    from forerun.train.data import News
    from forerun.train.run import Outcome

_SAY_EVERY = 15.0  # seconds between lines, where there is no terminal
_SHARE = 4  # the target's caches may take a fourth of the machine's memory
LEAST_MINUTES = 1.0


def train(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The target: a named model or a GGUF file.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="FOLDER",
            help="Where the run lives; the head is in its subfolder head. A run that is there "
            "already goes on.",
        ),
    ],
    minutes: Annotated[
        float, typer.Option("--minutes", parser=number, metavar="N", help="Time for all of it.")
    ] = 60.0,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help='Prompts or chats, JSON objects a line: {"prompt": "…"} or {"messages": […]}. '
            "Chats that end with an answer are taken as they are; others the target answers. "
            "\\[default: prompts that come with forerun]",
        ),
    ] = None,
    from_traces: Annotated[
        list[Path] | None,
        typer.Option(
            "--from-traces",
            metavar="FILE",
            help="Answers that were recorded with generate --json or chat --json: train on them, "
            "and with --data on both. Repeatable.",
        ),
    ] = None,
    evaluation: Annotated[
        Path | None,
        typer.Option(
            "--eval",
            metavar="FILE",
            help="Prompts to judge by, of the same form. \\[default: others that come with "
            "forerun]",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="HEAD",
            help="Go on from this head: a folder, or shipped, the one that comes with forerun. "
            "\\[default: begin with nothing]",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--form",
            metavar="NAME",
            help="Of the head: eagle3, a layer with attention; or, quicker to train, hydra, "
            "blockwise or medusa, without. \\[default: eagle3]",
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            "--layers",
            metavar="A,B,…",
            help="Hidden states to read: behind so many layers. \\[default: 2, the middle, and "
            "three before the last; without attention the last one]",
        ),
    ] = None,
    draft_vocab: Annotated[
        int | None,
        typer.Option(
            "--draft-vocab",
            parser=whole,
            metavar="N",
            help="Tokens that can be drafted. \\[default: 16384]",
        ),
    ] = None,
    feed_forward: Annotated[
        int | None,
        typer.Option(
            "--feed-forward",
            parser=whole,
            metavar="N",
            help="Values in the middle of the layer of eagle3: with fewer, more texts are seen in "
            "the time, which is better where it is short for the model. \\[default: as many as in "
            "the target's layers]",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("-t", "--threads", parser=whole, metavar="N", help=THREADS)
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", parser=whole, metavar="N", help="Of prompts and answers.")
    ] = 0,
    json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object on standard output.")
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", metavar="", help="No colours or styles.")
    ] = False,
) -> None:
    """Train a head that drafts for a model, on this machine's CPU.

    The model answers prompts; a small network learns to guess it from its own hidden states
    (EAGLE-3). A third of the time goes to texts, the rest to training. Stopped or killed at any
    moment, the same command goes on where it was.

    Examples:

      forerun train smollm2 -o head-of-smollm2 --minutes 60

      forerun train model.gguf -o run --data chats.jsonl --eval others.jsonl

      forerun train smollm2 -o mine --from shipped --data my-chats.jsonl --minutes 20

    Needs the extra train. Exit code 130 after Ctrl-C, which saves what there is.
    """
    try:
        from forerun.train import forms, report
        from forerun.train import run as running
    except ModuleNotFoundError as error:
        raise MissingExtraError.of(error.name or "torch", "train", "forerun train") from None
    if not minutes >= LEAST_MINUTES:
        raise OptionError(f"--minutes must be at least {LEAST_MINUTES:g}, not {minutes:g}")
    if draft_vocab is not None and draft_vocab < 1:
        raise OptionError(f"--draft-vocab must be at least 1, not {draft_vocab}")
    if form is not None and form not in forms.FORMS:
        raise UnknownNameError.of("form", form, forms.FORMS)
    chosen: dict[str, Any] = {
        "form": form,
        "layers": None if layers is None else _layers(layers),
        "draft_vocab": draft_vocab,
        "feed_forward": feed_forward,
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if start is not None and chosen:
        option = f"--{next(iter(chosen)).replace('_', '-')}"
        raise OptionError(f"{option} is settled by the head that --from names: leave it out")
    checked_threads(threads)
    wanted = running.Wanted(
        minutes=minutes,
        out=out,
        data=data,
        recorded=tuple(from_traces or ()),
        evaluation=evaluation,
        start=start,
        threads=usable_cores() if threads is None else threads,
        seed=seed,
        **chosen,
    )
    screen = Screen(no_color=no_color)
    memory = usable_memory()
    with screen.working(f"loading {model}") as fetched:
        target = load_model(
            model,
            threads=wanted.threads,
            cache=cache_folder(),
            progress=fetched,
            max_memory=None if memory is None else memory // _SHARE,
        )
    with Interrupts(signal.SIGINT, signal.SIGTERM) as interrupts, Teller(screen) as teller:
        work = running.Run(
            wanted,
            target,
            tell=teller.tell,
            stopping=lambda: interrupts.pressed,
            cache=cache_folder(),
        )
        if work.resumed:
            teller.note(f"{out}: goes on where it was")
        outcome = work.go()
    if outcome is None:
        screen.note(f"stopped; the same command goes on with {out}")
        raise typer.Exit(INTERRUPTED)
    report.write(out / "report.json", outcome)
    if json:
        screen.line((out / "report.json").read_text().rstrip())
    else:
        _show(screen, outcome)


def _layers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"--layers takes numbers such as 2,15,27, not {text!r}") from None
    return found


class Teller:
    """What goes on, on standard error: a bar on a terminal, elsewhere a line now and then."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._bar: Any = None
        self._said = 0.0
        self._phase, self._began, self._from = "", 0.0, 0

    def __enter__(self) -> Teller:
        if self._screen.err_styled:
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[more]}"),
                console=self._screen.console(), transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("", total=1.0, more="")
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def note(self, text: str) -> None:
        self._screen.note(text)

    def tell(self, news: News) -> None:
        now = time.monotonic()
        if news.phase != self._phase:
            self._phase, self._began, self._from, self._said = news.phase, now, news.tokens, 0.0
        if now - self._said < (0.2 if self._bar is not None else _SAY_EVERY):
            return
        self._said = now
        more = f"{news.left / 60:.1f} minutes left"
        if news.tokens > self._from:
            more = f"{(news.tokens - self._from) / (now - self._began):.0f} tokens/s · {more}"
        if news.acceptance:
            more += " · " + "; ".join(
                f"{name} {' '.join(f'{a:.2f}' for a in one.by_depth[:3])}"
                for name, one in news.acceptance.items()
            )
        if self._bar is None:
            self._screen.note(f"{news.phase} {news.fraction:.0%} · {more}")
        else:
            self._bar.update(self._task, completed=news.fraction, description=news.phase, more=more)


def _show(screen: Screen, outcome: Outcome) -> None:
    from forerun.train import measure, report

    screen.table(*report.accepted(outcome))
    if outcome.rows:
        screen.line()
        screen.table(*report.speeds(outcome))
    screen.line()
    for sentence in measure.worth(outcome.rows):
        screen.line(sentence)
    screen.line(
        f"{outcome.head}: trained on {counted(outcome.texts, 'text')}, "
        f"{outcome.tokens:,} tokens, {outcome.epochs:.1f} times, in {outcome.updates:,} updates"
    )
