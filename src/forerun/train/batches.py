"""Texts and their states as rows to train on.

Pair i of a text is token i + 1 beside the feature of token i: both are known when token i + 2 is
guessed. Of a text of ids t0 … t5 with the answer t3 t4 t5:

    pair            0        1        2        3
    token           t1       t2       t3       t4           read beside
    feature         g0       g1       g2       g3
    guesses         t2       t3       t4       t5
    trained         -        yes      yes      yes          what is guessed is of the answer
    label           s1       s2       s3       s4           last state: its law is that of the guess

Several texts stand in a row, T pairs in all, of which R are trained. A batch is texts of at least
so many pairs; a text that is longer than `LONGEST` is cut in pieces.

What this module does not know: heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from forerun.train.features import States, Taps
from forerun.train.texts import Text

LONGEST = 1024  # pairs of a piece


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A batch: T pairs, of which R are trained, and what they need for K unrolled steps.

    What is guessed in step k from pair `trained[r]` on is known only where `ahead[r]` > k.
    """

    features: torch.Tensor  # [T, taps · h]
    positions: torch.Tensor  # [T] in the text, of the feature's token
    texts: torch.Tensor  # [T] which text it is, by number
    tokens: torch.Tensor  # [T + K] of each pair, and those behind the last one
    trained: torch.Tensor  # [R] pairs
    ahead: torch.Tensor  # [R] tokens of the answer from the guessed one on
    guessed: torch.Tensor  # [R] the token itself
    labels: torch.Tensor  # [R, h] last states
    behind: torch.Tensor  # [R] rows of the file of states that the labels are


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Pairs start … stop − 1 of a text, whose states begin in row `at`."""

    text: Text
    at: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class Corpus:
    """Texts with their states."""

    def __init__(self, texts: Sequence[Text], states: States, starts: Sequence[int], taps: Taps):
        self._states, self._taps = states, taps
        self.pieces = [
            Piece(text=text, at=at, start=first, stop=min(first + LONGEST, len(text.ids) - 2))
            for text, at in zip(texts, starts)
            for first in range(0, len(text.ids) - 2, LONGEST)
        ]
        self.pieces = [piece for piece in self.pieces if any(_trained(piece))]

    def __len__(self) -> int:
        return len(self.pieces)

    def batches(self, order: Sequence[int], pairs: int) -> Iterator[list[int]]:
        """`order` in groups of at least so many pairs each; what is left at the end is a group."""
        group: list[int] = []
        size = 0
        for i in order:
            group.append(i)
            size += len(self.pieces[i])
            if size >= pairs:
                yield group
                group, size = [], 0
        if group:
            yield group

    def rows(self, group: Sequence[int], steps: int) -> Rows:
        pieces = [self.pieces[i] for i in group]
        features, positions, texts, tokens = [], [], [], []
        trained, ahead, guessed, behind = [], [], [], []
        before = 0
        hidden, read = self._taps.hidden, self._taps.read
        for number, piece in enumerate(pieces):
            ids = piece.text.ids
            first, last = piece.at + piece.start, piece.at + piece.stop
            features.append(self._states[first:last, :read])
            positions.append(np.arange(piece.start, piece.stop))
            texts.append(np.full(len(piece), number))
            tokens.append(ids[piece.start + 1 : piece.stop + 1])
            left = list(_trained(piece))
            own = [i for i, some in enumerate(left) if some]
            trained += [before + i for i in own]
            ahead += [left[i] for i in own]
            guessed += [ids[piece.start + i + 2] for i in own]
            behind += [first + i + 1 for i in own]
            before += len(piece)
        flat = [*(id for some in tokens for id in some), *([0] * steps)]
        return Rows(
            features=_tensor(np.concatenate(features)),
            positions=torch.from_numpy(np.concatenate(positions)),
            texts=torch.from_numpy(np.concatenate(texts)),
            tokens=torch.tensor(flat),
            trained=torch.tensor(trained),
            ahead=torch.tensor(ahead),
            guessed=torch.tensor(guessed),
            labels=_tensor(self._states[behind, -hidden:]),
            behind=torch.tensor(behind),
        )


def _trained(piece: Piece) -> Iterator[int]:
    """Of each pair, how many tokens of the answer, within the piece, come from its guess on."""
    for i in range(piece.start, piece.stop):
        stops = [b for a, b in piece.text.spans if a <= i + 2 < b]
        yield min(stops[0], piece.stop + 2) - (i + 2) if stops else 0


def _tensor(values: Any) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))
