from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from forerun.errors import OptionError
from forerun.sampling import SamplingOptions, SamplingParams


def test_defaults_leave_the_law_as_it_is():
    params = SamplingParams()
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (1.0, 0, 1.0, 0.0)
    assert (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) == (
        1,
        0,
        0,
    )
    assert (params.seed, params.max_tokens, params.min_tokens) == (None, 256, 0)
    assert params.end_ids == frozenset()
    assert not params.uses_history


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *[
            ({"temperature": t}, "temperature must be 0 (greedy) or from 1e-6 to 1e6")
            for t in (-1, -1e-9, 1e-7, 5e-324, 1e7)
        ],
        *[
            ({name: value}, f"{name} must be {why}, not {value!r}")
            for name, why in (
                ("temperature", "0 (greedy) or from 1e-6 to 1e6 (1.0 leaves the law as it is)"),
                ("top_p", "above 0 and at most 1 (1 is off)"),
                ("min_p", "between 0 (off) and 1"),
                ("repetition_penalty", "from 1e-6 to 1e6 (1 is off)"),
                ("presence_penalty", "a number from -1e6 to 1e6 (0 is off)"),
                ("frequency_penalty", "a number from -1e6 to 1e6 (0 is off)"),
            )
            for value in (math.nan, math.inf, -math.inf, "1", None, True, [1])
        ],
        *[
            ({"top_p": p}, f"top_p must be above 0 and at most 1 (1 is off), not {p}")
            for p in (0, -0.5, 1.01)
        ],
        *[({"min_p": p}, f"min_p must be between 0 (off) and 1, not {p}") for p in (-0.1, 1.1)],
        *[
            ({"repetition_penalty": r}, f"penalty must be from 1e-6 to 1e6 (1 is off), not {r}")
            for r in (0, -1.5, 1e-45, 1e39)
        ],
        *[
            ({"top_k": k}, f"top_k must be a whole number of at least 0 (0 is off), not {k!r}")
            for k in (-1, 1.0, "3", None, True)
        ],
        *[
            ({"min_tokens": n}, "min_tokens must be a whole number of at least 0 (0 is off), not ")
            for n in (-1, 0.5, None)
        ],
        *[
            ({"max_tokens": n}, "max_tokens must be a whole number of at least 1, not ")
            for n in (-3, 2.5, None, math.inf)
        ],
        (
            {"min_tokens": 5, "max_tokens": 4},
            "min_tokens (5) must be at most max_tokens (4)",
        ),
        *[
            ({"seed": s}, "seed must be None (a fresh one) or a whole number from 0 below 2**128")
            for s in (-1, 2**128, 1.0, "1", True)
        ],
        ({"stop": ""}, "stop takes non-empty strings, not ''; for ids use stop_ids"),
        ({"stop": ["a", ""]}, "stop takes non-empty strings, not ''"),
        ({"stop": [5]}, "stop takes non-empty strings, not 5; for ids use stop_ids"),
        *[
            ({name: [bad]}, f"{name} takes token ids, whole numbers from 0 up, not {bad!r}")
            for name in ("banned", "stop_ids", "eos")
            for bad in ("a", 1.0, None, True)
        ],
        *[
            ({name: [3, -1]}, f"{name} takes token ids, whole numbers from 0 up, not -1")
            for name in ("banned", "stop_ids", "eos")
        ],
        ({"logit_bias": {"a": 1}}, "logit_bias takes token ids, whole numbers from 0 up, not 'a'"),
        ({"logit_bias": {-2: 1}}, "logit_bias takes token ids, whole numbers from 0 up, not -2"),
        *[
            ({"logit_bias": {3: b}}, f"-1e6 to 1e6 (to forbid an id, use banned), not {b!r}")
            for b in (math.inf, -math.inf, math.nan, "1", None, True, 1e39)
        ],
        ({"processors": [5]}, "processors must be functions (ids, logits) -> logits, not 5"),
    ],
)  # fmt: skip
def test_values_that_make_no_sense(options, message):
    with pytest.raises(OptionError) as caught:
        SamplingParams(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stop", None),
        ("stop", 5),
        ("stop_ids", 1),
        ("stop_ids", None),
        ("banned", 5),
        ("banned", None),
        ("logit_bias", None),
        ("logit_bias", [(0, 1.0)]),
        ("processors", None),
        ("processors", print),
        pytest.param("temperature", 10**400, id="temperature-huge"),
        pytest.param("logit_bias", {0: 10**400}, id="logit_bias-huge"),
    ],
)
def test_values_of_another_shape(name, value):
    with pytest.raises(OptionError, match=name):
        SamplingParams(**{name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"temperature": 1e-6},
        {"top_p": 1},
        {"top_p": 1e-9},
        {"min_p": 1},
        {"repetition_penalty": 0.1},
        {"presence_penalty": -2},
        {"frequency_penalty": 2.5},
        {"seed": 0},
        {"seed": 2**128 - 1},
        {"max_tokens": 1, "min_tokens": 1},
        {"temperature": np.float64(0.5)},
        {"temperature": np.float32(0.5), "max_tokens": np.int64(3), "seed": np.uint64(2**64 - 1)},
        {"logit_bias": {0: -100, np.int64(2): 5.0}},
    ],
)
def test_edges_that_do(options):
    SamplingParams(**options)


def test_collections_are_taken_in():
    params = SamplingParams(
        stop="a", banned=[1, np.int64(2), 1], stop_ids=(3,), eos={4}, logit_bias={np.int64(5): 1}
    )
    assert params.stop == ("a",)
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")
    assert params.banned == frozenset({1, 2})
    assert params.end_ids == frozenset({3, 4})
    assert params.logit_bias == {5: 1}
    assert {type(i) for i in (*params.banned, *params.logit_bias)} == {int}


def test_the_callers_own_collections_stay_apart():
    bias, banned = {1: 2.0}, [1]
    params = SamplingParams(logit_bias=bias, banned=banned)
    bias[2] = 3.0
    banned.append(2)
    assert params.logit_bias == {1: 2.0}
    assert params.banned == frozenset({1})


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SamplingParams().top_k = 3


def test_replace_checks_again():
    params = SamplingParams(top_k=3)
    assert params.replace(top_p=0.5) == SamplingParams(top_k=3, top_p=0.5)
    with pytest.raises(OptionError, match="top_p"):
        params.replace(top_p=0)
    assert params.replace() == params


def test_what_uses_history():
    def processor(ids, logits):
        return logits

    for options in (
        {"repetition_penalty": 1.1},
        {"presence_penalty": -0.1},
        {"frequency_penalty": 0.1},
        {"processors": [processor]},
    ):
        assert SamplingParams(**options).uses_history
    assert not SamplingParams(min_tokens=3, banned=[1], logit_bias={1: 1}, top_k=1).uses_history


def test_of_keywords():
    assert SamplingParams.of({}) == SamplingParams()
    assert SamplingParams.of({"top_k": 3, "stop": "x"}) == SamplingParams(top_k=3, stop=("x",))
    for wrong, message in {
        "topk": r"unknown sampling keyword 'topk'; did you mean 'top_k'\?$",
        "max_new_tokens": "'max_new_tokens'; did you mean 'max_tokens'",
        "zzz": "unknown sampling keyword 'zzz'$",
        "eos": "unknown sampling keyword 'eos'",  # the model's, never the request's
    }.items():
        with pytest.raises(TypeError, match=message):
            SamplingParams.of({wrong: 1})


def test_the_typed_keywords_are_the_parameters():
    fields = {field.name for field in dataclasses.fields(SamplingParams)}
    assert set(SamplingOptions.__annotations__) == fields - {"eos"}


def test_numpy_scalars_become_python_numbers():
    """A float64 scalar would widen a float32 law."""
    params = SamplingParams(temperature=np.float64(0.5), top_k=np.int32(3), seed=np.int64(1))
    assert [type(v) for v in (params.temperature, params.top_k, params.seed)] == [float, int, int]
