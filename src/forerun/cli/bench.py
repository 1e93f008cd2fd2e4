"""`forerun bench`: systems beside each other on workloads of real text."""

from __future__ import annotations

import json as json_
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from forerun.bench import oracle as oracle_
from forerun.bench import plot as plot_
from forerun.bench import report
from forerun.bench.plan import SAMPLINGS, Plan, Record
from forerun.bench.runner import run
from forerun.bench.systems import ENGINES, System, parse
from forerun.bench.workloads import WORKLOADS, named
from forerun.cli.interrupts import INTERRUPTED
from forerun.cli.screen import Screen
from forerun.cli.session import cache_folder
from forerun.cli.values import whole
from forerun.errors import OptionError
from forerun.models.cores import usable_cores
from forerun.models.load import checked_threads

_SAVE_EVERY = 2.0  # seconds between writes of a report


def bench(
    list_: Annotated[
        bool, typer.Option("--list", metavar="", help="List workloads and systems, and leave.")
    ] = False,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload", metavar="NAME", help="Repeatable. \\[default: all, or none with --passes]"
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            metavar="ENGINE:MODE[@N]",
            help="What to measure, such as native:suffix or llama-cpp-python:lookup@4; the first "
            "is what others are compared with. Repeatable. \\[default: plain and suffix]",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option("-m", "--model", metavar="NAME|PATH", help="The target: as in generate."),
    ] = "smollm2",
    draft_model: Annotated[
        str | None,
        typer.Option("--draft-model", metavar="NAME|PATH", help="For systems that draft with one."),
    ] = None,
    head: Annotated[
        Path | None,
        typer.Option(
            "--head",
            metavar="FOLDER",
            help="For systems that draft with a trained one. \\[default: the one that comes with "
            "forerun, if the model has one]",
        ),
    ] = None,
    sampling: Annotated[
        list[str] | None,
        typer.Option(
            "--sampling",
            metavar="NAME",
            help="greedy, nucleus (T = 1, top-p 0.95), or sampled (T = 1). Repeatable. "
            "\\[default: greedy]",
        ),
    ] = None,
    passes: Annotated[
        bool,
        typer.Option(
            "--passes", metavar="", help="Measure the cost of a pass over 1 to 16 rows as well."
        ),
    ] = False,
    repeats: Annotated[
        int, typer.Option("--repeats", parser=whole, metavar="N", help="Of everything.")
    ] = 3,
    items: Annotated[
        int, typer.Option("--items", parser=whole, metavar="N", help="Prompts of each workload.")
    ] = 4,
    max_tokens: Annotated[
        int,
        typer.Option("-n", "--max-tokens", parser=whole, metavar="N", help="Most of an answer."),
    ] = 128,
    threads: Annotated[
        int | None,
        typer.Option(
            "-t",
            "--threads",
            parser=whole,
            metavar="N",
            help="Of every system. \\[default: the physical cores this process may use]",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", parser=whole, metavar="N", help="Of the first item.")
    ] = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FOLDER", help="Texts of the workloads. \\[default: the packages]"
        ),
    ] = None,
    peers: Annotated[
        Path | None,
        typer.Option("--peers", metavar="FOLDER", help="Where benchmarks/peers.py built peers."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Keep report.md, report.json and logs there."),
    ] = None,
    plot: Annotated[
        bool,
        typer.Option("--plot", metavar="", help="Draw report.svg into --out as well."),
    ] = False,
    oracle: Annotated[
        list[Path] | None,
        typer.Option(
            "--oracle",
            metavar="FILE",
            help="Run nothing; say of rounds that generate --trace recorded how much of what is "
            "possible the verifiers took. Repeatable.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object on standard output.")
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", metavar="", help="No colours or styles.")
    ] = False,
) -> None:
    """Measure systems beside each other, on real texts.

    Every item is given to each system in turn, another one first each time; the report has medians
    and ranges over repeats. Peers run in processes of their own with the same token ids, threads
    and sampling.

    Examples:

      forerun bench --workload edit --items 2

      forerun bench --passes --peers ~/peers --system native --system llama-cpp-python

      forerun bench --oracle trace.jsonl

    Exit code 1 where a system failed; 130 after Ctrl-C, with a report of what there was.
    """
    screen = Screen(no_color=no_color)
    if list_:
        _list(screen, json)
        return
    if oracle:
        _oracle(screen, oracle, json)
        return
    checked_threads(threads)
    if plot:
        if out is None:
            raise OptionError("--plot needs --out FOLDER, where the picture goes")
        plot_.check()
    plan = Plan(
        model=model,
        draft_model=draft_model,
        head=head,
        systems=[parse(name) for name in dict.fromkeys(system or _default(draft_model))],
        workloads=named(workload or ([] if passes else list(WORKLOADS))),
        samplings=tuple(dict.fromkeys(sampling or ["greedy"])),
        repeats=repeats,
        items=items,
        max_tokens=max_tokens,
        threads=usable_cores() if threads is None else threads,
        seed=seed,
        passes=passes,
        peers=peers,
        data=data,
        cache=cache_folder(),
    )
    plan.check()
    if out is not None:
        _writable(out)
    with _progress(screen) as progress:
        record = run(plan, save=_saving(out), progress=progress, logs=out)
    if out is not None:
        report.write(record, out)
        if plot:
            plot_.draw(record, out)
    if json:
        screen.line(json_.dumps(report.to_dict(record), ensure_ascii=False))
    else:
        screen.line(report.to_markdown(record).rstrip())
    if record.interrupted:
        raise typer.Exit(INTERRUPTED)
    if record.failures:
        raise typer.Exit(1)


def _oracle(screen: Screen, paths: list[Path], json: bool) -> None:
    found = oracle_.fold(oracle_.read(paths))
    if json:
        screen.line(json_.dumps({"oracle": oracle_.to_list(found)}, ensure_ascii=False))
    elif not found:
        screen.line("nothing was drafted in these rounds")
    else:
        screen.line(oracle_.to_markdown(found))


def _default(draft_model: str | None) -> list[str]:
    """Plain and suffix of forerun's fast backend; with a draft model those that use it too."""
    own = "native" if "native" in ENGINES else next(iter(ENGINES))
    modes = ["plain", "suffix"] + (["model", "suffix+model"] if draft_model else [])
    return [f"{own}:{mode}" for mode in modes]


def _list(screen: Screen, json: bool) -> None:
    if json:
        listed: dict[str, Any] = {
            "workloads": {w.name: {"what": w.what, "from": w.package} for w in WORKLOADS.values()},
            "engines": {e.name: {"what": e.what, "modes": e.modes} for e in ENGINES.values()},
            "samplings": SAMPLINGS,
        }
        screen.line(json_.dumps(listed, ensure_ascii=False))
        return
    rows = [(w.name, w.what, w.package, w.licence) for w in WORKLOADS.values()]
    screen.table(("WORKLOAD", "WHAT", "FROM", "LICENCE"), rows)
    screen.line()
    engines = [
        (e.name, (" + " if e.joins else ", ").join(e.modes), e.what) for e in ENGINES.values()
    ]
    screen.table(("ENGINE", "MODES", "WHAT"), engines)
    screen.line()
    example = System(engine=next(iter(ENGINES.values())), mode="suffix", num_draft=4).name
    screen.line(
        f"A system is ENGINE:MODE or ENGINE:MODE@N with N drafted tokens, such as {example}"
    )


def _writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"--out {folder} cannot be written: {reason}") from None


def _saving(out: Path | None) -> Callable[[Record], None]:
    """Writes a record, now and then."""
    last = 0.0

    def save(record: Record) -> None:
        nonlocal last
        if out is not None and (record.interrupted or time.monotonic() - last > _SAVE_EVERY):
            report.write(record, out)
            last = time.monotonic()

    return save


@contextmanager
def _progress(screen: Screen) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on a terminal; elsewhere a line now and then."""
    if screen.err_styled:
        from rich.progress import Progress

        with Progress(console=screen.console(), transient=True) as bar:
            task = bar.add_task("starting", total=None)
            yield lambda done, total, what: bar.update(
                task, completed=done, total=total, description=what
            )
        return
    said = 0.0

    def note(done: int, total: int, what: str) -> None:
        nonlocal said
        if time.monotonic() - said > _SAVE_EVERY:
            said = time.monotonic()
            screen.note(f"{done} of {total}: {what}")

    yield note
