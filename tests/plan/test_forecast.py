"""On a clock of passes alone, what is predicted is what an engine then does."""

from __future__ import annotations

from functools import cache
from itertools import count

import pytest

from forerun.drafters import NEEDS, with_model
from forerun.errors import OptionError
from forerun.pace import Pace
from forerun.plan import report
from forerun.plan.check import check
from forerun.plan.forecast import MOST, accepted_by_depth, plan
from forerun.plan.plot import draw
from forerun.plan.rounds import measure
from forerun.plan.texts import Asked, write
from plan.clocked import PROMPTS, Clock, Layered, mixed, models

GREEDY = {"temperature": 0, "max_tokens": 48}
ASKED = [Asked(name=str(number), prompt=prompt) for number, prompt in enumerate(PROMPTS)]


@cache
def usual():
    """What several tests look at."""
    return planned()[3]


def planned(options=GREEDY, given=True, cost=0.05, seconds=1e9, slots=(1,), row=0.05):
    clock, target, small = models(cost=cost, row=row)
    given = {"model": small} if given else {}
    found = plan(
        target, ASKED, given=given, options=options, clock=clock, seconds=seconds, slots=slots
    )
    return clock, target, small, found


def test_what_is_predicted_happens():
    """Over texts so long that a draft which the last bit of an account decides is one of many."""
    clock, target, small, found = planned({"temperature": 0, "max_tokens": 400})
    checked = check(target, found, given={"model": small}, repeats=1, clock=clock)
    assert len(checked) > 10
    tried = {one.drafter for one in checked}
    assert {"none", "suffix", "ngram", "model", "tree", "suffix+model"} <= tried
    for one in checked:
        assert one.predicted == pytest.approx(one.measured, rel=0.05), one
    ratios = [one.measured_ratio for one in checked]
    assert max(ratios) > 1.5
    assert min(ratios) < 1.2


def test_a_target_that_drafts_for_itself_reads_nothing_twice():
    """Plain rounds leave a draft model behind the text, but not the target's own layers. (Of three
    layers one can be left out, so that there is one way to draft.)"""
    clock = Clock()
    target = Layered(mixed(1), mixed(2, 0.85), clock, layers=3)
    options = {"temperature": 0, "max_tokens": 400}
    found = plan(target, ASKED, options=options, clock=clock, seconds=1e9)
    checked = check(target, found, repeats=1, clock=clock)
    own = [one for one in checked if "layer-skip" in one.drafter]
    assert {one.drafter for one in own} == {"layer-skip", "suffix+layer-skip", "ngram+layer-skip"}
    assert {one.num_draft for one in own} >= {"auto"}
    for one in own:
        assert one.predicted == pytest.approx(one.measured, rel=1e-3), one


def test_a_dear_draft_model_is_told_from_a_cheap_one():
    cheap = usual()
    _, _, _, dear = planned(cost=0.9)
    by_cost = [{way.drafter: way for way in one.ways}["model"] for one in (cheap, dear)]
    assert by_cost[0].ratio > 1.5
    assert by_cost[1].best.rate < by_cost[0].best.rate / 1.4
    assert by_cost[0].acceptance == pytest.approx(by_cost[1].acceptance), "it is the same model"


@pytest.mark.long
def test_sampling_is_predicted_too(monkeypatch):
    """Texts differ: the means of many are compared. The seeds are fixed, so that it passes or fails
    for good."""
    monkeypatch.setattr("forerun.engine.request.fresh_seed", count(1).__next__)
    options = {"temperature": 1, "max_tokens": 64}
    clock, target, small, found = planned(options)
    verifiers = {way.drafter: way.verifier for way in found.ways}
    assert verifiers["model"] == "block"
    assert verifiers["suffix"] == "rejection"
    assert verifiers["sampled-tree"] == "traversal"
    assert verifiers["suffix-tree"] == "coupled"
    checked = check(target, found, given={"model": small}, repeats=9, clock=clock)
    for one in checked:
        assert one.predicted == pytest.approx(one.measured, rel=0.2), one


def test_auto_is_told_what_a_first_pass_takes_longer(monkeypatch):
    seen = []
    monkeypatch.setattr("forerun.plan.forecast.awakening", lambda *models, clock: 0.25)
    monkeypatch.setattr(
        "forerun.plan.forecast.Pace", lambda costs: seen.append(costs) or Pace(costs)
    )
    planned()
    assert {tuple(costs.first.items()) for costs in seen} >= {(("model", 0.25),), ()}
    assert all(costs.first.keys() == costs.draft.keys() for costs in seen)


def test_several_requests_at_once():
    _, _, _, found = planned(slots=(1, 4))
    assert found.plain[4] > 2 * found.plain[1]
    one, four = ({w.drafter: w for w in found.ways if w.slots == n} for n in (1, 4))
    assert one.keys() == four.keys()
    assert all(way.best.rate > one[name].best.rate for name, way in four.items())


def test_short_of_time_fewer_places_are_looked_at():
    _, _, _, found = planned(seconds=500.0)
    strides = {way.drafter: way.stride for way in found.ways}
    assert strides["suffix"] == 1, "looking things up takes no time"
    assert strides["model"] > 1 or strides["tree"] > 1


def test_what_cannot_be_tried_is_told():
    _, _, _, found = planned(given=False)
    assert {way.drafter for way in found.ways} == {"ngram", "suffix", "suffix-tree"}
    needing: dict[str, list[str]] = {}
    for name, (argument, _) in NEEDS.items():
        needing.setdefault(argument, []).append(name)
    said = report.not_tried(found)
    assert f"Not tried: {', '.join(needing['model'])}: needs a draft model" in said
    assert f"Not tried: {', '.join(needing['head'])}: needs a trained head" in said
    assert "Not tried: prediction: needs the predicted text" in said


def test_a_target_without_trees():
    _, target, _ = models()
    target.abilities = type(target.abilities)(trees=False)
    found = plan(target, ASKED, options=GREEDY)
    assert found.missing["suffix-tree"] == f"{target.name} reads no trees"


def test_texts_that_end_at_once():
    _, target, _ = models()
    with pytest.raises(OptionError, match="the model's answers end at once"):
        plan(target, ASKED, options={"temperature": 0, "max_tokens": 4})


def test_rounds_of_each_size_take_what_passes_take():
    clock, target, _ = models()
    texts = [write(target, one, {"temperature": 0, "max_tokens": 60}, clock) for one in ASKED]
    for slots in (1, 3):
        found = measure(target, texts, "coupled", slots=slots, clock=clock)
        for rows in range(slots, slots + 30):
            expected = target.pass_seconds[min(rows, found.rows[-1]) - 1]
            if rows <= found.rows[-1]:
                assert found.of(rows) == pytest.approx(expected)
        assert min(map(len, found.measured.values())) >= 5


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled", "traversal", "recursive"])
def test_every_verifier_writes_the_text_again(verifier):
    clock, target, _ = models()
    texts = [write(target, one, {"temperature": 1, "max_tokens": 60}, clock) for one in ASKED]
    found = measure(target, texts, verifier, clock=clock)
    assert found.rows == (1, 2, 3, 4, 5, 7, 9, 12, 16)


def test_where_there_is_no_room_for_so_many():
    clock, target, _ = models()
    texts = [write(target, one, GREEDY, clock) for one in ASKED]
    target.max_memory = 8 * 60
    assert measure(target, texts, "coupled", clock=clock) is not None
    assert measure(target, texts, "coupled", slots=8, clock=clock) is None
    assert target.open() == 0, "slots are given back"


def test_the_advice_and_its_command_line():
    found = usual()
    best = found.advised(1)
    found.given = {"model": "small.gguf"}
    said = report.advice(found, 1, ["forerun", "generate", "-m", "big.gguf"])
    assert said.startswith(f"Use {best.drafter}: ")
    assert f"forerun generate -m big.gguf --drafter {best.drafter}" in said
    for way in found.ways:
        arguments = report.arguments(way.drafter, way.best, found.given)
        asks = with_model(way.drafter.split("+"))
        assert ("--draft-model" in arguments) == bool(asks)
        assert ("-k" in arguments) == (way.best.num_draft != "auto")


def test_nothing_to_advise():
    _, _, _, found = planned(row=1.0, given=False)
    assert found.advised(1) is None
    said = report.advice(found, 1, ["forerun", "generate"])
    assert said.endswith("forerun generate --drafter none")
    assert "Nothing is faster than plain decoding" in said


def test_acceptance_by_depth_is_of_what_was_accepted_before():
    found = usual()
    for way in found.ways:
        assert 0 < len(way.acceptance) <= 4
        assert all(0 <= share <= 1 for share in way.acceptance)
    assert accepted_by_depth([]) == ()
    assert MOST == 15


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    _, _, _, found = planned(slots=(1, 2), given=False)
    path = tmp_path / "plan.svg"
    draw(found, path, "a title")
    text = path.read_text()
    assert text.startswith("<?xml")
    assert [file.name for file in tmp_path.iterdir()] == ["plan.svg"]
