"""Stops, end tokens and budgets at every place of a round, in company: streams, choices and calls
give the same text, ids and ends as alone."""

from __future__ import annotations

import pytest

from forerun import Engine
from forerun.verifiers import VERIFIERS

from .fakes import NONE_OPEN, TOKENS, Guessing, consistent, letters, open_slots, script, speaks

TEXT = letters("abcdefgh")
START = 2
BUSY = {"seed": 9, "max_tokens": 40}


def engine(gamma=4):
    """Writes abcdefgh after any two ids; the drafter knows it."""
    model = speaks(script(TEXT, START, TOKENS.vocab_size, 4 + ord("z")))
    return Engine(model, Guessing(lambda ids, n: TEXT[len(ids) - START :][:n]), num_draft=gamma)


def everywhere(options):
    """What comes of a request by each way in, while another request is decoded."""
    found = []
    for way in ("alone", "batch", "stream", "late", "choices"):
        e = engine()
        other = None if way == "alone" else e.submit([5, 5], **BUSY)
        if way == "late":
            e.turn()
        if way in ("stream", "late"):
            stream = e.stream([4, 4], **options)
            pieces = list(stream)
            done = stream.done
            assert "".join(piece.text for piece in pieces) == done.text
            assert tuple(t for piece in pieces for t in piece.tokens) == done.tokens
        elif way == "choices":
            done = e.generate_choices([4, 4], 2, **options)[0]
        else:
            done = e.generate_batch([[4, 4]], options)[0]
        consistent(done)
        if other is not None:
            assert other.wait()
            assert len(other.done.tokens) == 40
        assert open_slots(e) == NONE_OPEN
        found.append((done.text, done.tokens, done.finish_reason, done.usage))
    assert all(one == found[0] for one in found)
    return found[0][:3]


@pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
@pytest.mark.parametrize("place", range(1, 9))
def test_each_end_at_each_place(place, verifier):
    text = "abcdefgh"[:place]
    ids = tuple(TEXT[:place])
    common = {"seed": 1, "max_tokens": 30, "verifier": verifier}
    assert everywhere({**common, "max_tokens": place}) == (text, ids, "length")
    assert everywhere({**common, "stop_ids": [ids[-1]]}) == (text[:-1], ids, "stop")
    stop = text[-2:]  # from its second letter on it stands in two tokens
    assert everywhere({**common, "stop": stop}) == (text[: -len(stop)], ids, "stop")


@pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
def test_of_two_stops_in_one_round_the_first_wins(verifier):
    common = {"seed": 1, "max_tokens": 30, "verifier": verifier}
    for stops in (["bc", "d"], ["d", "bc"], ["bcd", "bc"], ["e", "c"]):
        text, ids, reason = everywhere({**common, "stop": stops})
        assert (ids, reason) == (tuple(TEXT[:3]), "stop")
        assert text == ("ab" if stops == ["e", "c"] else "a")
    ids = everywhere({**common, "stop": "c", "stop_ids": [TEXT[1]]})[1]
    assert ids == tuple(TEXT[:2])
