from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun import Engine
from forerun.drafters import ModelDrafter
from forerun.errors import OptionError
from forerun.models.tabular import TabularModel
from forerun.numerics.logprobs import TokenLogprob
from forerun.trace import SCHEMA, Drafted, DrafterStats, Expected, Round, Stats, Times, ids, stats
from forerun.verifiers import VERIFIERS

TIMES = Times(draft=0.1, target=0.5, verify=0.01)


def drafted(token=3, **changes):
    fields = {"parent": -1, "p": 0.25, "q": 0.5, "acceptance": 0.5, "coin": 0.3, "accepted": True}
    return Drafted(token=token, **{**fields, **changes})


def record(**changes):
    fields = {
        "request": 0,
        "index": 2,
        "position": 9,
        "verifier": "rejection",
        "drafted": (drafted(), drafted(4, parent=0, accepted=False, coin=0.9)),
        "tokens": (3, 1),
        "kinds": ("accepted", "residual"),
        "times": TIMES,
    }
    return Round(**{**fields, **changes})


LIKELY = TokenLogprob(token=3, logprob=-0.5, top=((3, -0.5), (1, -1.25)))
RECORDS = [
    record(),
    record(head=((1, 0.5), (3, 0.25))),
    record(head=()),
    record(logprobs=(LIKELY, TokenLogprob(token=1, logprob=-1e-9))),
    record(drafter="suffix", expected=Expected(tokens=2.5, seconds=0.25)),
    record(drafted=(), tokens=(1,), kinds=("bonus",)),
    record(drafted=(drafted(acceptance=None, coin=None, accepted=False),)),
    record(drafted=(drafted(p=1e-300, q=5e-324),)),
    record(drafted=(drafted(p_head=((3, 0.5), (1, 0.25)), q_head=((1, 1.0),)),)),
    record(drafted=(drafted(p_head=((3, 0.5),)), drafted(p_head=()))),
]


@pytest.mark.parametrize("r", RECORDS)
def test_a_line_reads_back(r):
    line = r.to_json()
    assert "\n" not in line
    assert Round.from_json(line) == r
    assert json.loads(line)["schema"] == SCHEMA


@settings(max_examples=100, deadline=None)
@given(
    p=st.floats(0, 1),
    coin=st.none() | st.floats(0, 1, exclude_max=True),
    tokens=st.lists(st.integers(0, 10**6), max_size=5),
)
def test_any_line_reads_back(p, coin, tokens):
    r = record(
        drafted=tuple(drafted(t, p=p, q=p, coin=coin) for t in tokens),
        tokens=(*tokens, 1),
        kinds=(*["accepted"] * len(tokens), "bonus"),
    )
    assert Round.from_json(r.to_json()) == r


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("heads", [False, True])
def test_lines_of_real_rounds_read_back(heads, verifier):
    """Plain Python numbers throughout, however they were computed."""
    model = TabularModel(lambda prefix: [0.5, 0.25, 0.25, 0.0], 4)
    draft = TabularModel(lambda prefix: [0.25, 0.25, 0.25, 0.25], 4)
    engine = Engine(model, ModelDrafter(draft), verifier=verifier, trace_heads=heads)
    done = engine.generate([0], max_tokens=40)
    for r in done.trace:
        assert Round.from_json(r.to_json()) == r
        assert (r.head is not None) == heads
        if heads:
            assert r.tokens[-1] in dict(r.head)
            for found in (r.head, *(h for d in r.drafted for h in (d.p_head, d.q_head))):
                masses = [p for _, p in found]
                assert masses == sorted(masses, reverse=True)
                assert sum(masses) == pytest.approx(1)
        for d in r.drafted:
            assert 0 <= d.p <= 1
            assert d.q == 0.25
            assert (d.p_head is not None) == (d.q_head is not None) == heads
            if heads:
                assert (dict(d.p_head).get(d.token, 0), dict(d.q_head)[d.token]) == (d.p, d.q)
            if verifier == "traversal":  # judges whole paths: not every node gets a coin
                assert d.coin is None or d.acceptance is not None
            else:
                assert (d.coin is None) == (verifier == "coupled" or d.acceptance is None)
            if d.accepted and verifier == "rejection":
                assert d.coin < d.acceptance == min(1, d.p / d.q)
    assert stats(done.trace) == done.stats


def without(mapping, *names):
    return {k: v for k, v in mapping.items() if k not in names}


def test_what_was_not_recorded_is_absent():
    assert not {"head", "drafter", "expected", "logprobs"} & set(json.loads(record().to_json()))


@pytest.mark.parametrize("schema", [1, 2, 3])
def test_lines_of_earlier_versions_are_read(schema):
    fields = json.loads(record().to_json())
    assert Round.from_json(json.dumps(fields | {"schema": schema})) == record()


def test_heads_are_a_request_s_own():
    """Of two that share rounds, one; the text is the same with them and without."""
    model = TabularModel(lambda prefix: [0.5, 0.25, 0.25, 0.0], 4)
    engine = Engine(model, "ngram", num_draft=2, trace_heads=True)
    params = [{"seed": 1, "max_tokens": 20}, {"seed": 1, "max_tokens": 20, "trace_heads": False}]
    with_heads, without_heads = engine.generate_batch([[0, 1], [0, 1]], params)
    assert with_heads.tokens == without_heads.tokens
    assert all(r.head for r in with_heads.trace)
    drafted = [d for r in with_heads.trace for d in r.drafted]
    assert drafted
    assert all(d.p_head and d.q_head is None for d in drafted)  # drafted for certain: no law
    assert not any(r.head for r in without_heads.trace)
    assert not any(d.p_head for r in without_heads.trace for d in r.drafted)
    with pytest.raises(OptionError, match="trace_heads must be True or False, not 'yes'"):
        engine.generate([0], trace_heads="yes")


def test_ids_are_all_that_a_record_names():
    r = record(
        drafted=(drafted(7, p_head=((8, 0.5),), q_head=((9, 0.5),)),),
        tokens=(7, 5),
        head=((11, 1.0),),
        logprobs=(TokenLogprob(token=7, logprob=-1.0, top=((12, -0.5),)),),
    )
    assert ids(r) == {5, 7, 8, 9, 11, 12}


def test_what_was_not_recorded_is_absent_from_drafted_tokens_too():
    line = record(drafted=(drafted(acceptance=None, coin=None, accepted=False),)).to_json()
    (found,) = json.loads(line)["drafted"]
    assert set(found) == {"token", "parent", "p", "q", "accepted"}
    assert Round.from_json(line).drafted[0].coin is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f | {"schema": 5}, "trace schema 5; this version reads 1 to 4"),
        (lambda f: without(f, "schema"), "trace schema None; this version reads 1 to 4"),
        (lambda f: without(f, "tokens"), "not a trace record: 'tokens'"),
        (lambda f: without(f, "position"), "not a trace record: .*position"),
        (lambda f: f | {"what": 1}, "not a trace record: .*what"),
        (lambda f: f | {"drafted": [{"token": 1}]}, "not a trace record: "),
        (lambda f: f | {"times": {"draft": 1}}, "not a trace record: "),
        (lambda f: f | {"expected": {"tokens": 1}}, "not a trace record: "),
        (lambda f: f | {"logprobs": [{"token": 1}]}, "not a trace record: "),
    ],
)
def test_lines_that_are_no_records(change, message):
    fields = json.loads(record().to_json())
    with pytest.raises(ValueError, match=message):
        Round.from_json(json.dumps(change(fields)))


def test_lines_that_are_no_json():
    with pytest.raises(ValueError, match="Expecting"):
        Round.from_json("{")


@pytest.mark.parametrize("line", ["[]", "1", "null", '"text"'])
def test_lines_that_are_no_objects(line):
    with pytest.raises(ValueError, match="not a trace record"):
        Round.from_json(line)


def test_statistics_are_sums():
    found = stats(
        [
            record(drafter="suffix"),
            record(drafted=(), tokens=(1,), kinds=("bonus",)),
            record(
                drafter="model", drafted=(drafted(),) * 3, tokens=(3, 3, 3), kinds=("accepted",) * 3
            ),
        ]
    )
    assert found == Stats(
        rounds=3,
        drafted=5,
        accepted=4,
        corrected=1,
        bonus=1,
        draft_seconds=pytest.approx(0.3),
        target_seconds=pytest.approx(1.5),
        verify_seconds=pytest.approx(0.03),
        drafters={
            "model": DrafterStats(rounds=1, drafted=3, accepted=3, seconds=0.1),
            "suffix": DrafterStats(rounds=1, drafted=2, accepted=1, seconds=0.1),
        },
    )
    assert found.outside_share == pytest.approx(0.23 / 1.83), "a draft model's passes are passes"
    assert found.tokens == 6
    assert found.acceptance_rate == 4 / 5
    assert found.mean_accepted == 4 / 3
    assert found.tokens_per_pass == 2
    assert found.to_dict() == dataclasses.asdict(found) | {
        "tokens": 6,
        "acceptance_rate": 0.8,
        "mean_accepted": 4 / 3,
        "tokens_per_pass": 2.0,
        "outside_share": found.outside_share,
    }


def test_statistics_of_nothing():
    found = stats([])
    assert found == Stats()
    assert (found.tokens, found.acceptance_rate, found.mean_accepted) == (0, 0, 0)
    assert found.tokens_per_pass == found.outside_share == 0
    plain = stats([record(drafted=(), tokens=(1,), kinds=("bonus",))] * 4)
    assert (plain.acceptance_rate, plain.mean_accepted, plain.tokens_per_pass) == (0, 0, 1)


def test_records_are_frozen():
    for value in (record(), drafted(), TIMES, Stats()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, 1)
