"""`forerun generate`: one prompt, one answer; with --compare, plain decoding beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from forerun.cli.compare import compare
from forerun.cli.logs import logging_to
from forerun.cli.options import DRAFTING, PROMPT, Settings, command, spoken
from forerun.cli.remembering import remembering
from forerun.cli.report import as_dict, summary
from forerun.cli.screen import DIM, Screen
from forerun.cli.session import Session
from forerun.cli.trace_file import TraceFile
from forerun.cli.values import checked_text, read_stdin, read_text, without_last_newline
from forerun.engine.prompt import Prompt
from forerun.errors import OptionError
from forerun.text.grammar import Grammar

FORMAT = "Format: what the answer must look like"


@command
def generate(
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="[PROMPT|-]", help="The text to go on from; - reads it from stdin."),
    ] = None,
    prompt_file: Annotated[
        Path | None,
        typer.Option(
            "--prompt-file",
            metavar="FILE",
            help="Read the prompt from a file. As with -, one newline at its end is left off.",
            rich_help_panel=PROMPT,
        ),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option(
            "--chat",
            metavar="",
            help="The prompt is a message to answer, in the model's chat template.",
            rich_help_panel=PROMPT,
        ),
    ] = False,
    system: Annotated[
        str | None,
        typer.Option(
            "--system",
            metavar="TEXT",
            help="The system message, with --chat.",
            rich_help_panel=PROMPT,
        ),
    ] = None,
    json_schema: Annotated[
        Path | None,
        typer.Option(
            "--json-schema",
            metavar="FILE",
            help="The answer is JSON that the schema in this file describes.",
            rich_help_panel=FORMAT,
        ),
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(
            "--regex",
            metavar="PATTERN",
            help="The whole answer matches this.",
            rich_help_panel=FORMAT,
        ),
    ] = None,
    lark: Annotated[
        Path | None,
        typer.Option(
            "--lark",
            metavar="FILE",
            help="The whole answer is of this file's grammar, in Lark's syntax.",
            rich_help_panel=FORMAT,
        ),
    ] = None,
    compare_: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Decode plainly first, with the same seed, then speculatively; show both.",
            metavar="",
            rich_help_panel=DRAFTING,
        ),
    ] = False,
    *,
    settings: Settings,
) -> None:
    """Complete a text.

    On a terminal the answer streams, with the kinds of its tokens in colours and shapes; on a pipe
    it is the text and nothing else.

    Examples:

      forerun generate "Once upon a time" -n 64 --temperature 0

      forerun generate --chat "Why is the sky blue?" --seed 7 --compare

      git diff | forerun generate - --chat --system "Summarise this change." --json

      forerun generate --chat "When was Ada Lovelace born?" --regex "[0-9]{4}-[0-9]{2}-[0-9]{2}"

    Ctrl-C ends the answer and keeps what is there; twice leaves at once.
    """
    settings.check()
    if compare_ and settings.plain:
        raise OptionError("--compare needs a drafter and --num-draft above 0: else both are plain")
    if system is not None and not chat:
        raise OptionError("--system goes with --chat; without it the prompt is plain text")
    asked = _prompt(prompt, prompt_file, system, chat)
    grammar = _grammar(json_schema, regex, lark)
    predicted = settings.predicted_text()
    screen = Screen(no_color=settings.no_color)
    with (
        logging_to(settings.verbose, settings.log_file),
        TraceFile(settings.trace) as trace,
    ):
        session = Session(settings, screen, trace, predicted)
        if grammar is not None:
            session.sampling["grammar"] = grammar
        with remembering(settings, session.engine):
            error = compare(session, asked) if compare_ else _single(session, asked)
    if error is not None:
        screen.error(spoken(str(error)))
        raise typer.Exit(1)


def _single(session: Session, prompt: Prompt) -> Exception | None:
    screen, as_json = session.screen, session.settings.json
    legend = None if session.settings.plain else screen.legend
    done = session.answer(prompt, show=not as_json, begin=legend)
    if as_json:
        screen.line(json.dumps(as_dict(done), ensure_ascii=False))
    else:
        screen.line()
        if screen.terminal:
            screen.line(f"\n{summary(done)}", DIM)
    return done.error


def _grammar(json_schema: Path | None, regex: str | None, lark: Path | None) -> Grammar | None:
    given = {"--json-schema": json_schema, "--regex": regex, "--lark": lark}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)}: an answer has one format, give one of them")
    if json_schema is not None:
        return Grammar.json_schema(read_text("--json-schema", json_schema))
    if lark is not None:
        return Grammar.lark(read_text("--lark", lark))
    return None if regex is None else Grammar.regex(checked_text("--regex", regex))


def _prompt(text: str | None, file: Path | None, system: str | None, chat: bool) -> Prompt:
    if text is not None and file is not None:
        raise OptionError("two prompts: give either PROMPT or --prompt-file, not both")
    if file is not None:
        text = without_last_newline(read_text("--prompt-file", file))
    elif text == "-":
        text = without_last_newline(read_stdin())
    elif text is None:
        raise OptionError("no prompt: give PROMPT, - for standard input, or --prompt-file FILE")
    else:
        checked_text("PROMPT", text)
    if not chat:
        return text
    if system is not None:
        checked_text("--system", system)
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    return messages if system is None else [{"role": "system", "content": system}, *messages]
