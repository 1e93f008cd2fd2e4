"""Log-probabilities in OpenAI's two shapes, token by token.

Every token that usage counts has its entry, the one that ended the text too, so that the entries
add up to the log-probability of what was sampled. Tokens are shown as people read them: their text,
the name of a special one, `\\xe2` for bytes that are no text alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.openai.responses import ChatLogprob, ChatLogprobs, CompletionLogprobs, TopLogprob
from forerun.text.tokenizer import Tokenizer

LOWEST = -9999.0
"""In place of −∞, which JSON does not have; OpenAI's own stand-in."""


def chat_logprobs(tokenizer: Tokenizer, entries: Sequence[Any]) -> ChatLogprobs:
    """`entries` are the engine's `TokenLogprob`s."""
    shown: dict[int, tuple[str, list[int] | None]] = {}

    def one(token: int, logprob: float) -> TopLogprob:
        if token not in shown:
            added = tokenizer.token_bytes(token)
            shown[token] = tokenizer.token_text(token), list(added) if added else None
        text, raw = shown[token]
        return {"token": text, "logprob": max(logprob, LOWEST), "bytes": raw}

    content: list[ChatLogprob] = [
        {
            **one(entry.token, entry.logprob),
            "top_logprobs": [one(*top) for top in entry.top],
        }
        for entry in entries
    ]
    return ChatLogprobs(content=content, refusal=None)


class CompletionWriter:
    """Entries of one choice of /v1/completions, in order; it follows the text for the offsets.

    `text_offset` counts the characters of the choice's text before the token, or before the
    character that the token completes. `by_id`: names are "token_id:17" in place of texts.
    """

    def __init__(
        self, tokenizer: Tokenizer, hidden: frozenset[int], *, by_id: bool = False
    ) -> None:
        self._tokenizer, self._hidden, self._by_id = tokenizer, hidden, by_id
        self._decoder = tokenizer.stream()
        self._offset = 0

    def begin(self, offset: int, continuing: bool) -> None:
        """The answer begins behind `offset` characters; its text goes on from a prompt, or not."""
        self._decoder = self._tokenizer.stream(continuing=continuing)
        self._offset = offset

    def write(self, tokens: Sequence[int], entries: Sequence[Any]) -> CompletionLogprobs:
        """`entries` are `TokenLogprob`s, or None for the first token of a prompt."""
        names, offsets = [], []
        for token in tokens:
            names.append(self._name(token))
            offsets.append(self._offset)
            if token not in self._hidden:
                self._offset += len(self._decoder.push(token))
        return CompletionLogprobs(
            tokens=names,
            token_logprobs=[None if e is None else max(e.logprob, LOWEST) for e in entries],
            top_logprobs=[None if e is None else self._top(e) for e in entries],
            text_offset=offsets,
        )

    def _top(self, entry: Any) -> dict[str, float]:
        """The likeliest tokens, and the token itself where it is none of them. Of two tokens that
        read alike, the likelier."""
        found: dict[str, float] = {}
        for token, logprob in (*entry.top, (entry.token, entry.logprob)):
            found.setdefault(self._name(token), max(logprob, LOWEST))
        return found

    def _name(self, token: int) -> str:
        return f"token_id:{token}" if self._by_id else self._tokenizer.token_text(token)
