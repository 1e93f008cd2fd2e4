"""What is said of speeds: plainly where a head is not worth using."""

from __future__ import annotations

import pytest

from forerun.train.measure import Row, worth

PLAIN, SUFFIX, HEAD, BOTH = "plain", "suffix", "head", "suffix+head"


def rows(**speeds):
    return [
        Row(drafter=name, sampling=s, tokens=int(100 * speed), seconds=100.0)
        for s in ("greedy", "T = 1")
        for name, speed in zip((PLAIN, SUFFIX, HEAD, BOTH), speeds[s[0]])
    ]


@pytest.mark.parametrize(
    ("speeds", "said"),
    [
        ((100, 120, 110, 150), "use it as suffix+head: 1.50 times as fast as plain decoding, 1.25"),
        ((100, 90, 130, 120), "use it as head: 1.30 times as fast as plain decoding, 1.44 times"),
        ((100, 120, 90, 121), "not worth using here: at best 1.21 times as fast as plain decoding, "
                              "as suffix+head; suffix gives 1.20"),
        ((100, 90, 80, 95), "not worth using here: at best 0.95 times as fast as plain decoding, "
                            "as suffix+head; decode plainly"),
    ],
)  # fmt: skip
def test_what_is_said(speeds, said):
    greedy, sampled = worth(rows(g=speeds, T=(100, 100, 50, 50)))
    assert greedy.startswith(f"greedy: {said}")
    assert sampled.startswith("T = 1: not worth using here")


def test_nothing_measured_nothing_said():
    assert worth([]) == []
