"""From the engine's streams to what is said next of each choice."""

from __future__ import annotations

from collections.abc import AsyncIterator

from forerun.engine import Completion
from forerun.openai.delta import Delta
from forerun.server.backend import Asked


async def deltas(answers: Asked) -> AsyncIterator[Delta]:
    """One for each round of each choice, as they come."""
    async for number, piece in answers.progress():
        if isinstance(piece, Completion):
            yield Delta(choice=number, done=piece)
        else:
            yield Delta(
                choice=number,
                text=piece.text,
                tokens=piece.tokens,
                logprobs=piece.logprobs or (),
                rounds=(piece.round,),
            )
