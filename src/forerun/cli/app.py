"""The commands under one roof, and what becomes of errors.

    0    done; also an answer that one Ctrl-C ended
    1    something failed while it ran: NaN logits, a law that is not exact
    2    something was asked for that cannot be: the message says what would be right
    130  Ctrl-C (twice while an answer is written)
    141  nobody reads standard output any more

One line on standard error says what was wrong; FORERUN_DEBUG=1 or -vv adds the traceback.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

import forerun
from forerun.cli import bench, certify, chat, generate, models, plan, play, serve, train
from forerun.cli import run as batches
from forerun.cli.interrupts import INTERRUPTED
from forerun.cli.options import spoken
from forerun.cli.screen import Screen
from forerun.cli.session import WHILE_RUNNING
from forerun.errors import ForerunError

FAILED, MISUSED, UNREAD = 1, 2, 141

app = typer.Typer(
    name="forerun",
    add_completion=False,
    epilog="Exit codes: 0 done, 1 failed while running, 2 asked for what cannot be, 130 Ctrl-C. "
    "FORERUN_CACHE is the folder for models, FORERUN_DEBUG=1 shows tracebacks.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("generate")(generate.generate)
app.command("chat")(chat.chat)
app.command("run")(batches.run)
app.command("serve")(serve.serve)
app.command("play")(play.play)
app.command("plan")(plan.plan)
app.command("bench")(bench.bench)
app.command("certify")(certify.certify)
app.command("train")(train.train)
app.add_typer(models.app)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Show the version and leave.")
    ] = False,
) -> None:
    """Makes a language model write faster without changing what it writes.

    A cheap drafter guesses a few tokens ahead; the model reads all guesses in one pass and keeps
    those it would have written. Start with:

      forerun generate "Once upon a time"
    """
    if version:
        typer.echo(f"forerun {forerun.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _warn(message: Warning | str, *where: object, **rest: object) -> None:
    """A warning in a line of its own, without the place in the code."""
    Screen().error(str(message))


def run(args: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    args = with_address(args)
    debug = bool(os.environ.get("FORERUN_DEBUG")) or _verbosity(args) > 1
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = _run(args, debug)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _without_output(UNREAD)
    except OSError as error:  # without a name it is a stream: full, or gone
        what = "cannot write" if error.filename is None else error.filename
        Screen().error(f"{what}: {(error.strerror or str(error)).lower()}")
        return _without_output(FAILED)


def with_address(args: Sequence[str]) -> list[str]:
    """`--ray` without an address means one of its own; typer has no options of that kind."""
    bare = [i for i, arg in enumerate(args) if arg == "--ray"]
    found = list(args)
    for i in reversed(bare):
        if i + 1 == len(found) or found[i + 1].startswith("-"):
            found.insert(i + 1, "local")
    return found


def _run(args: Sequence[str], debug: bool) -> int:
    try:
        with typer.main.get_command(app).make_context(
            "forerun", list(args), obj=tuple(args)
        ) as context:
            context.command.invoke(context)
        return 0
    except typer.Exit as leave:
        return leave.exit_code
    except OSError:
        if debug:
            traceback.print_exc()
        raise
    except (KeyboardInterrupt, typer.Abort):
        return _end_line(INTERRUPTED)
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)


def _explain(error: Exception) -> int:
    screen = Screen()
    if isinstance(error, ForerunError):
        screen.error(spoken(str(error)))
        return FAILED if isinstance(error, WHILE_RUNNING) else MISUSED
    if isinstance(error, typer.TyperException):  # a usage error of typer's own
        context = getattr(error, "ctx", None)
        where = f"; see {context.command_path} --help" if context is not None else ""
        screen.error(error.format_message().strip().rstrip(".") + where)
        return MISUSED
    reason = str(error).strip() or "no reason given"
    screen.error(f"{type(error).__name__}: {reason} (FORERUN_DEBUG=1 shows where)")
    return FAILED


def _verbosity(args: Sequence[str]) -> int:
    short = [arg for arg in args if re.fullmatch("-v+", arg)]
    return sum(len(arg) - 1 for arg in short) + list(args).count("--verbose")


def _end_line(code: int) -> int:
    """Leave a terminal's cursor at the beginning of a line."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    return code


def _without_output(code: int) -> int:
    """Keep the interpreter from complaining about the same stream when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    return code
