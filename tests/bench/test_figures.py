"""Records add up to the figures that are reported."""

from __future__ import annotations

import pytest

from forerun.bench.figures import Figure, Run, summarise


def run(system="a", repeat=0, item="i", later=10, seconds=1.0, **changes) -> Run:
    return Run(
        **{
            "workload": "w",
            "sampling": "greedy",
            "system": system,
            "item": item,
            "repeat": repeat,
            "prompt_tokens": 5,
            "tokens": later + 2,
            "first_seconds": 0.5,
            "seconds": 0.5 + seconds,
            "later_tokens": later,
            "passes": 5,
            "drafted": 8,
            "accepted": 4,
            "model_seconds": 0.9 * seconds,
            "digest": "x",
        }
        | changes
    )


def only(runs, system="a", baseline="a"):
    systems = list(dict.fromkeys([baseline, system]))
    (found,) = [s for s in summarise(runs, systems) if s.system == system]
    return found


def test_from_an_answer():
    answer = {
        "tokens": [4, 5, 6, 7],
        "arrivals": [[0.2, 1], [0.3, 2], [0.5, 1]],
        "passes": 2,
        "drafted": 3,
        "accepted": 1,
        "model_seconds": 0.15,
        "expected": [[2.5, 0.3], [3.0, 0.25]],
    }
    made = Run.of(
        answer, workload="w", sampling="s", system="x", item="i", repeat=1, prompt_tokens=9
    )
    assert (made.tokens, made.later_tokens, made.first_seconds) == (4, 3, 0.2)
    assert made.later_seconds == pytest.approx(0.3)
    assert (made.expected_tokens, made.came_seconds) == (2.5, 0.25)
    other = Run.of(
        {**answer, "tokens": [4, 5, 6, 8], "expected": None},
        workload="w", sampling="s", system="x", item="i", repeat=1, prompt_tokens=9,
    )  # fmt: skip
    assert other.digest != made.digest
    assert other.expected_tokens is None


def test_a_repeat_is_a_ratio_of_sums_and_repeats_have_a_median():
    runs = [
        run(repeat=0, item="i", later=10, seconds=1.0),
        run(repeat=0, item="j", later=50, seconds=2.0),  # 60 tokens in 3 s
        run(repeat=1, later=10, seconds=1.0),
        run(repeat=2, later=30, seconds=1.0),
    ]
    found = only(runs)
    assert found.decode == Figure(median=20.0, low=10.0, high=30.0)
    assert found.total.high == pytest.approx(32 / 1.5)
    assert found.tokens_per_pass.low == 2.0
    assert found.acceptance.median == 0.5
    assert found.outside.median == pytest.approx(0.1)
    assert (found.repeats, found.runs) == (3, 4)


def test_ratios_are_taken_within_a_repeat_and_over_the_same_items():
    runs = []
    for repeat, load in enumerate((1.0, 2.0, 10.0)):  # the machine slows down for both alike
        runs += [run("a", repeat, seconds=load), run("b", repeat, seconds=load / 2)]
    runs += [run("a", 3), run("a", 3, item="j", later=1000), run("b", 3, seconds=0.5)]
    found = only(runs, "b")
    assert found.ratio == Figure(median=2.0, low=2.0, high=2.0)
    assert only(runs, "a").ratio.median == 1.0
    assert only(runs, "b", baseline="c").ratio is None


def test_foretold_against_what_came():
    told = {"expected_tokens": 3.0, "expected_seconds": 1.0, "came_tokens": 2.0}
    found = only([run(**told, came_seconds=1.0)])
    assert found.foretold.median == pytest.approx(1.5)


def test_what_an_engine_does_not_say_is_left_out():
    found = only([run(passes=None, drafted=None, accepted=None, model_seconds=None)])
    assert found.tokens_per_pass is found.acceptance is found.outside is found.foretold is None
    assert only([run(drafted=0, accepted=0)]).acceptance is None
    assert only([run(later=0, seconds=0.0)]).decode is None


def test_same_text_counts_answers_with_equal_digests():
    runs = [run("a"), run("b"), run("a", item="j"), run("b", item="j", digest="y")]
    assert only(runs, "b").same_text == 0.5


def test_summaries_stand_in_the_order_of_systems():
    runs = [run("b"), run("a"), run("b", workload="v"), run("a", sampling="s")]
    assert [(s.workload, s.sampling, s.system) for s in summarise(runs, ["a", "b"])] == [
        ("w", "greedy", "a"), ("w", "greedy", "b"), ("v", "greedy", "b"), ("w", "s", "a"),
    ]  # fmt: skip
