"""The runs that the page ships are traces of this version, and hold together."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from forerun.trace import SCHEMA, Round, ids, stats

WEB = Path(__file__).resolve().parents[2] / "web"
FILES = sorted((WEB / "public/recordings").glob("*.json"))


def load(path: Path):
    found = json.loads(path.read_text(encoding="utf-8"))
    return found, [Round.from_json(json.dumps(line)) for line in found["rounds"]]


def test_the_page_has_those_it_names():
    source = (WEB / "src/chapters/09-live/run.svelte.ts").read_text()
    named = re.search(r"RECORDINGS = \[(.*?)\]", source)[1]
    assert {path.stem for path in FILES} == set(re.findall(r'"(\w+)"', named))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recording(path):
    found, rounds = load(path)
    assert all(line["schema"] == SCHEMA for line in found["rounds"])
    assert [record.index for record in rounds] == list(range(len(rounds)))
    assert {record.verifier for record in rounds} == {found["verifier"]}
    assert {str(i) for record in rounds for i in ids(record)} == set(found["words"])
    text = "".join(found["words"][str(token)] for record in rounds for token in record.tokens)
    assert text.startswith(found["text"])
    assert all(record.head for record in rounds)
    assert stats(rounds).accepted > 5
    assert stats(rounds).corrected > 2
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_was_decided_follows_from_the_numbers(path):
    found, rounds = load(path)
    for record in rounds:
        judged = [d for d in record.drafted if d.acceptance is not None]
        for d in judged:
            assert dict(d.p_head).get(d.token, d.p) == d.p
            assert (d.q_head is None) == (found["drafter"] == "suffix")
        if found["verifier"] == "rejection":
            for d in judged:
                assert math.isclose(d.acceptance, min(1, d.p / d.q), rel_tol=1e-4)
            passed = [d.coin < d.acceptance for d in judged]
            assert passed == [True] * (len(passed) - 1) + passed[-1:]
        if found["verifier"] == "block":
            passed = [d.coin < d.acceptance for d in judged]
            kept = max((i + 1 for i, one in enumerate(passed) if one), default=0)
            assert [d.accepted for d in judged] == [i < kept for i in range(len(judged))]
