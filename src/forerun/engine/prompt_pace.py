"""How many tokens of waiting prompts a pass reads.

Where somebody decodes, a pass over prompts takes no longer than about one round, so that a long
prompt slows the others to half their pace at most. What a token costs is taken from the passes
before.

What this module does not know: whose prompts they are.
"""

from __future__ import annotations

from forerun.reading import CHUNK, LEAST

FADE = 0.7
"""What the past counts beside the newest time."""


class PromptPace:
    """Sizes of chunks, by the times of earlier chunks and rounds."""

    def __init__(self) -> None:
        self._token: float | None = None  # seconds
        self._round: float | None = None  # seconds

    def tokens(self, *, decoding: bool) -> int:
        """Of the next pass; `decoding`: whether others wait for it."""
        if not decoding:
            return CHUNK
        if not self._token or self._round is None:
            return 4 * LEAST
        return int(min(max(self._round / self._token, LEAST), CHUNK))

    def read(self, tokens: int, seconds: float) -> None:
        """What a pass over so many tokens took."""
        if tokens:
            self._token = _mixed(self._token, seconds / tokens)

    def decoded(self, seconds: float) -> None:
        """What a round took."""
        self._round = _mixed(self._round, seconds)


def _mixed(before: float | None, now: float) -> float:
    return now if before is None else FADE * before + (1 - FADE) * now
