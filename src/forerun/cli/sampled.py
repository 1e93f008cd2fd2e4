"""`forerun certify ENGINE`: sample it, and say, write down and show what came of it."""

from __future__ import annotations

import json as json_
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from forerun.certify import build, figures, markdown, page, report, tiny_cases
from forerun.certify.plan import Case, Plan
from forerun.certify.run import certify as run_cases
from forerun.cli.certified import sampling, show
from forerun.cli.interrupts import Interrupts
from forerun.cli.screen import Screen
from forerun.errors import OptionError


def certify_by_samples(
    screen: Screen,
    wanted: build.Wanted,
    plan: Plan,
    *,
    tiny: bool,
    out: Path | None,
    json: bool,
    args: Sequence[str],
) -> None:
    """`args` are the command line's, for the command that repeats it. Exits with the verdict's
    code."""
    if out is not None:
        _writable(out)
        figures.check()
    with tempfile.TemporaryDirectory(prefix="forerun-certify-") as folder:
        cases = _cases(screen, wanted, plan, Path(folder), tiny=tiny)
        try:
            with sampling(screen) as progress, Interrupts() as interrupts:
                runs = run_cases(cases, plan, progress=progress, stop=lambda: interrupts.pressed)
        finally:
            for case in cases:
                case.engine.close()
    made = report.as_dict(runs, plan, _again(args, plan))
    if out is not None:
        texts = {report.MARKDOWN: markdown.to_markdown(made), report.HTML: page.to_html(made)}
        report.write(made, out, texts)
    if json:
        screen.line(json_.dumps(report.without_samples(made), ensure_ascii=False))
    else:
        show(screen, made, out)
    if made["exit_code"]:
        raise typer.Exit(made["exit_code"])


def _cases(
    screen: Screen, wanted: build.Wanted, plan: Plan, folder: Path, *, tiny: bool
) -> list[Case]:
    cases = tiny_cases.tiny(wanted, folder, seed=plan.seed % 1000) if tiny else []
    if build.brings_models(wanted):
        with screen.working(f"loading {wanted.model or wanted.reference or wanted.engine}"):
            cases.append(build.own(wanted))
    if not cases:
        raise OptionError(
            f"{wanted.engine} cannot be given tiny models: name its own with -m (and --reference, "
            "where that is no name or path for forerun)"
        )
    return cases


def _again(args: Sequence[str], plan: Plan) -> str:
    """The command line, with its seed."""
    given = list(args)
    if "--seed" not in given:
        given += ["--seed", str(plan.seed)]
    return f"forerun {shlex.join(given)}"


def _writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"--out {folder} cannot be written: {reason}") from None
