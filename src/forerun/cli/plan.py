"""`forerun plan`: which drafter to use here, how far it should draft, and what that brings."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from forerun.cli.options import BACKEND, DEVICE, DTYPE, THREADS
from forerun.cli.screen import Screen
from forerun.cli.session import cache_folder
from forerun.cli.values import number, whole
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.cores import usable_cores
from forerun.models.heads.load import load_head
from forerun.models.heads.shipped import shipped
from forerun.models.load import checked_threads, load_model
from forerun.plan import plot as plot_
from forerun.plan import report
from forerun.plan.check import Checked
from forerun.plan.check import check as check_
from forerun.plan.forecast import Forecast
from forerun.plan.forecast import plan as plan_
from forerun.plan.texts import Asked, built_in, read

MOST_SLOTS = 64


def _option(names: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(*names.split(), metavar=metavar, help=help, **more)


# fmt: off
def plan(
    model: Annotated[str, typer.Argument(
        metavar="[MODEL]", help="A named model, a GGUF file, a model folder, or a hub id.",
    )] = "smollm2",
    prompts: Annotated[list[Path] | None, _option(
        "--prompts", "FILE",
        'Your prompts: {"prompt": …} or {"messages": […]} a line, or a text that is one prompt. '
        "Repeatable. \\[default: an edit, a summary, code and a question]",
    )] = None,
    chat: Annotated[bool, _option(
        "--chat", "", "Prompts are messages to answer, in the model's chat template.",
    )] = False,
    draft_model: Annotated[str | None, _option(
        "--draft-model", "NAME|PATH", "A smaller model, to try the drafters that need one.",
    )] = None,
    head: Annotated[Path | None, _option(
        "--head", "FOLDER", "A head trained on the model, to try the drafters that need one. "
        "\\[default: the one that comes with forerun, if it does]",
    )] = None,
    temperature: Annotated[float, _option(
        "--temperature", "T", "0 is greedy.", parser=number,
    )] = 0.0,
    top_p: Annotated[float | None, _option(
        "--top-p", "P", "Only the likeliest that reach P together. \\[default: off]", parser=number,
    )] = None,
    max_tokens: Annotated[int, _option(
        "-n --max-tokens", "N", "Tokens written for each prompt to learn from.", parser=whole,
    )] = 256,
    slots: Annotated[str, _option(
        "--slots", "N,N,…", "How many requests at once: a table for each.",
    )] = "1",
    minutes: Annotated[float, _option(
        "--minutes", "N", "About what it may take; --check comes on top.", parser=number,
    )] = 3.0,
    check: Annotated[bool, _option(
        "--check", "", "Decode with each setting as well, and say how far off its prediction is.",
    )] = False,
    backend: Annotated[str, _option("--backend", "NAME", BACKEND)] = "auto",
    dtype: Annotated[str, _option("--dtype", "NAME", DTYPE)] = "float32",
    device: Annotated[str, _option("--device", "NAME", DEVICE)] = "cpu",
    threads: Annotated[int | None, _option("-t --threads", "N", THREADS, parser=whole)] = None,
    plot: Annotated[Path | None, _option(
        "--plot", "FILE", "Draw tokens per second by γ into this SVG file.",
    )] = None,
    json: Annotated[bool, _option("--json", "", "One JSON object on standard output.")] = False,
    no_color: Annotated[bool, _option("--no-color", "", "No colours or styles.")] = False,
) -> None:
    # fmt: on
    """Say which drafter to use here, and what it brings.

    The model writes an answer to each prompt, plainly. What rounds take is measured along these
    texts, and what every drafter at hand would have proposed; from both follow tokens per second,
    for every number of drafted tokens.

    Examples:

      forerun plan

      forerun plan model.gguf --draft-model small.gguf --prompts mine.jsonl --slots 1,8 --plot p.svg
    """
    checked_threads(threads)
    counts = _slots(slots)
    if not 0 < minutes <= 600:
        raise OptionError(f"--minutes must be above 0 and at most 600, not {minutes:g}")
    if max_tokens < 16:
        raise OptionError(f"--max-tokens must be at least 16 to learn from, not {max_tokens}")
    if plot is not None:
        plot_.check(plot)
    asked = [one for path in prompts or [] for one in read(path, chat=chat)]
    screen = Screen(no_color=no_color)
    loading: dict[str, Any] = {
        "backend": backend,
        "dtype": dtype,
        "device": device,
        "threads": usable_cores() if threads is None else threads,
    }
    target = _loaded(screen, model, loading)
    given: dict[str, Any] = {}
    if draft_model is not None:
        given["model"] = _loaded(screen, draft_model, loading)
    if head is not None or shipped(target) is not None:
        given["head"] = load_head(head, target)
    options = {"temperature": temperature, "max_tokens": max_tokens}
    options |= {} if top_p is None else {"top_p": top_p}
    forecast = _planned(screen, target, asked, given, options, counts, minutes)
    forecast.given = {"model": draft_model or "", "head": str(head or "")}
    checked = _checked(screen, target, forecast, given) if check else []
    if plot is not None:
        plot_.draw(forecast, plot, target.name)
    if json:
        screen.line(json_.dumps(report.to_dict(forecast, checked), ensure_ascii=False))
        return
    command = ["forerun", "generate", "-m", model, "--temperature", f"{temperature:g}"]
    command += [] if top_p is None else ["--top-p", f"{top_p:g}"]
    _show(screen, forecast, checked, command)


def _loaded(screen: Screen, name: str, loading: dict[str, Any]) -> Model:
    with screen.working(f"loading {name}") as fetched:
        return load_model(name, cache=cache_folder(), progress=fetched, **loading)


def _planned(
    screen: Screen,
    target: Model,
    asked: Sequence[Asked],
    given: dict[str, Any],
    options: dict[str, Any],
    slots: Sequence[int],
    minutes: float,
) -> Forecast:
    with screen.working(f"planning for {target.name}"):
        return plan_(
            target,
            asked or built_in(target),
            given=given,
            options=options,
            slots=slots,
            seconds=60 * minutes,
        )


def _checked(
    screen: Screen, target: Model, forecast: Forecast, given: dict[str, Any]
) -> list[Checked]:
    with screen.working("measuring what was predicted"):
        return check_(target, forecast, given=given, cache=cache_folder())


def _show(
    screen: Screen, forecast: Forecast, checked: Sequence[Checked], command: Sequence[str]
) -> None:
    for slots in forecast.plain:
        if len(forecast.plain) > 1:
            screen.line("One request" if slots == 1 else f"{slots} requests at once")
        screen.table(report.HEADER, report.rows(forecast, slots))
        screen.line()
        screen.line(report.advice(forecast, slots, command))
        screen.line()
    if checked:
        screen.table(report.CHECKED, report.checked_rows(checked))
        screen.line()
    for line in report.not_tried(forecast):
        screen.line(line)


def _slots(text: str) -> list[int]:
    """1,4,16"""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= MOST_SLOTS for part in parts):
        raise OptionError(f"--slots takes numbers from 1 to {MOST_SLOTS}, as 1,4, not {text!r}")
    return sorted({int(part) for part in parts})
