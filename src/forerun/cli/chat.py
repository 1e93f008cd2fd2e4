"""`forerun chat`: a conversation, line by line, from a terminal or a pipe."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from forerun.cli.logs import logging_to
from forerun.cli.options import PROMPT, Settings, command, spoken
from forerun.cli.remembering import remembering
from forerun.cli.report import as_dict, summary
from forerun.cli.screen import DIM, Screen
from forerun.cli.session import Session
from forerun.cli.trace_file import TraceFile
from forerun.cli.values import checked_text, decode
from forerun.errors import CacheError, PromptError, TemplateError

COMMANDS = {
    "/help": "this list",
    "/reset": "forget the conversation; the system message stays",
    "/exit": "leave, as end of file does",
}

KEPT = 512 << 20
"""Most bytes of cached keys and values by which a turn need not read the conversation again."""

Message = Mapping[str, Any]


@command
def chat(
    system: Annotated[
        str | None,
        typer.Option(
            "--system",
            metavar="TEXT",
            help="The system message; it is never dropped.",
            rich_help_panel=PROMPT,
        ),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Talk with a model.

    Each line is a message; the model sees the conversation so far in its chat template. When it no
    longer fits into the context, the oldest turns are dropped. Lines can come from a pipe too.

    Examples:

      forerun chat --system "Answer in one sentence." --temperature 0

      printf 'Name a colour.\\nAnother.\\n' | forerun chat -n 32

    /help lists the commands. Ctrl-C ends an answer; twice, or at the prompt, it leaves.
    """
    settings.check()
    if system is not None:
        checked_text("--system", system)
    predicted = settings.predicted_text()
    screen = Screen(no_color=settings.no_color)
    with (
        logging_to(settings.verbose, settings.log_file),
        TraceFile(settings.trace) as trace,
    ):
        kept = min(KEPT, settings.loading()["max_memory"] or KEPT)
        session = Session(settings, screen, trace, predicted, prefix_memory=kept)
        tokenizer = session.target.tokenizer
        if tokenizer is None or tokenizer.chat_template is None:
            raise TemplateError(
                f"{session.target.name} has no chat template; forerun generate takes plain text"
            )
        talk = Talk(session, Conversation(system))
        interactive = sys.stdin.isatty()
        if interactive:
            screen.note(f"{session.target.name}: write a message; /help for commands")
            if not settings.json and not settings.plain:
                screen.legend()
        with remembering(settings, session.engine):
            for line in _typed(screen) if interactive else _piped():
                if not talk.take(line, patient=interactive):
                    break


@dataclass
class Conversation:
    """A system message, and turns of a user's message and the answer to it."""

    system: str | None
    turns: list[tuple[str, str]] = field(default_factory=list)

    def messages(self, text: str) -> list[Message]:
        """All of it, and a new message of the user's."""
        said: list[Message] = [] if self.system is None else [_message("system", self.system)]
        for asked, answered in self.turns:
            said += [_message("user", asked), _message("assistant", answered)]
        return [*said, _message("user", text)]

    def drop_until(self, fits: Callable[[list[Message]], bool], text: str) -> int:
        """Drop the oldest turns until what is left `fits`, or nothing can be dropped; how many."""
        before = len(self.turns)
        while self.turns and not fits(self.messages(text)):
            del self.turns[0]
        return before - len(self.turns)


class Talk:
    """Takes lines: commands, and messages that get an answer."""

    def __init__(self, session: Session, conversation: Conversation) -> None:
        self.session, self.conversation = session, conversation
        self._answers = 0  # /reset does not set it back: no noise is used twice

    def take(self, line: str, *, patient: bool) -> bool:
        """False to leave. What is wrong with a message is said if `patient`, else raised."""
        word = line.strip()
        if word == "/exit":
            return False
        if word == "/reset":
            self.conversation.turns.clear()
            self.session.screen.note("the conversation is forgotten")
        elif word == "/help":
            for name, what in COMMANDS.items():
                self.session.screen.note(f"{name:8}{what}")
        elif word.startswith("/") and " " not in word:
            close = difflib.get_close_matches(word, COMMANDS, n=1) or list(COMMANDS)
            self.session.screen.note(f"no command {word}; did you mean {' or '.join(close)}?")
        elif word:
            try:
                self.reply(line, patient=patient)
            except (PromptError, CacheError) as error:
                if not patient:
                    raise
                self.session.screen.error(spoken(str(error)))
        return True

    def reply(self, text: str, *, patient: bool) -> None:
        """Answer, and remember both. An answer that ended in error is not remembered."""
        session, screen, conversation = self.session, self.session.screen, self.conversation
        dropped = conversation.drop_until(self._fits, text)
        if dropped:
            were = "turn was" if dropped == 1 else f"{dropped} turns were"
            screen.note(
                f"the conversation has outgrown the context of {session.target.context} tokens: "
                f"the oldest {were} dropped"
            )
        as_json = session.settings.json
        options = {"seed": turn_seed(session.sampling.get("seed"), self._answers)}
        self._answers += 1
        done = session.answer(conversation.messages(text), options, show=not as_json)
        if as_json:
            screen.line(json.dumps(as_dict(done), ensure_ascii=False))
        else:
            screen.line()
            if screen.terminal:
                screen.line(f"{summary(done)}\n", DIM)
        if done.error is not None:
            screen.error(spoken(str(done.error)))
            if not patient:
                raise typer.Exit(1)
        elif done.text:
            conversation.turns.append((text, done.text))

    def _fits(self, messages: list[Message]) -> bool:
        """Whether they leave room for an answer: a whole one, or half the context."""
        context, tokenizer = self.session.target.context, self.session.target.tokenizer
        if context is None or tokenizer is None:
            return True
        room = min(self.session.settings.max_tokens, context // 2)
        return len(tokenizer.encode_chat(messages)) + room <= context


def turn_seed(seed: int | None, turn: int) -> int | None:
    """A seed for each turn: earlier answers are part of its prompt, and know their own noise."""
    return None if seed is None else (seed + turn * 0x9E3779B97F4A7C15) % 2**128


def _message(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def _typed(screen: Screen) -> Iterator[str]:
    """Lines from a terminal, with line editing where Python has it."""
    with suppress(ImportError):
        import readline  # noqa: F401  (input() uses it once it is imported)
    while True:
        try:
            if screen.terminal:
                line = input("> ")
            else:
                screen.err.write("> ")
                screen.err.flush()
                line = input()
        except EOFError:
            screen.note("")
            return
        yield line


def _piped() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = decode(f"line {number} of standard input", line)
        yield text.rstrip("\r\n")
