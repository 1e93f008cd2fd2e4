"""Drafters and predictions of single requests, beside those of the engine."""

from __future__ import annotations

import pytest

from forerun import Engine
from forerun.drafters import HybridDrafter, ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.errors import CapabilityError, OptionError, UnknownNameError, VocabularyError
from forerun.models.base import Abilities

from .fakes import END, TOKENS, consistent, draft, letters, says, target, writes

TEXT = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4] * 4


def several(**options):
    helper = HybridDrafter([SuffixDrafter(), ModelDrafter(draft())])
    return Engine(says(TEXT, 2), helper, **options)


def drafting(done):
    return {record.drafter for record in done.trace if record.drafted}


def test_a_request_chooses_among_the_engines_drafters():
    engine = several(num_draft=3)
    chosen = ["suffix", "model", "model+suffix", "auto", None, "none"]
    done = engine.generate_batch([[0, 0]] * 6, [{"max_tokens": 40, "drafter": d} for d in chosen])
    both = {"suffix", "model"}
    assert [drafting(one) for one in done] == [{"suffix"}, {"model"}, both, both, set(), set()]
    for one in done:
        consistent(one)
        assert one.tokens == tuple(TEXT)
    assert len(done[4].trace) == 40, "plain decoding"


def test_the_verifier_is_chosen_for_those_that_draft():
    engine = several()
    chosen = {d: engine.generate([0, 0], max_tokens=2, drafter=d).verifier for d in
              ("suffix", "model", None)}  # fmt: skip
    assert chosen == {"suffix": "rejection", "model": "block", None: "rejection"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("ngram", r"unknown drafter 'ngram'.* Known: model, none, suffix\."),
        ("suffix+modal", r"unknown drafter 'modal'; did you mean 'model'\?"),
        ("suffix+none", "unknown drafter 'none'"),
        ("", "unknown drafter ''"),
        ("prediction", "unknown drafter 'prediction'"),
    ],
)
def test_names_the_engine_does_not_have(wrong, said):
    with pytest.raises(UnknownNameError, match=said):
        several().generate([0, 0], drafter=wrong)


def test_what_is_no_name():
    with pytest.raises(OptionError, match="a name of the engine's, or None, not 3"):
        several().generate([0, 0], drafter=3)


# ------------------------------------------------------------------ predictions


@pytest.mark.parametrize("helper", [None, "ngram"])
def test_a_prediction_is_followed_by_its_own_request_alone(helper):
    engine = Engine(says(TEXT, 2), helper, num_draft=5)
    wrong = [4, 4, 4] * 10
    options = [{"prediction": TEXT}, {"prediction": wrong}, {}]
    done = engine.generate_batch([[0, 0]] * 3, [one | {"max_tokens": 12} for one in options])
    for one in done:
        consistent(one)
        assert one.tokens == tuple(TEXT[:12])
    counted = [one.stats.drafters.get("prediction") for one in done]
    assert (counted[0].drafted, counted[0].accepted, counted[0].rejected) == (10, 10, 0)
    assert counted[1].accepted < counted[1].rejected
    assert counted[2] is None


def test_a_prediction_in_text():
    text = "a cat, a cat and a hat"
    engine = Engine(writes(letters(text), 1), num_draft=4)
    plain = engine.generate([5], max_tokens=60)
    done = engine.generate([5], max_tokens=60, prediction=TOKENS.decode(letters(text)))
    assert done.text == plain.text == text
    assert done.tokens[-1] == END
    # ids of merges are predicted where the model writes bytes: some are found again all the same
    exact = engine.generate([5], max_tokens=60, prediction=letters(text))
    assert exact.tokens == plain.tokens
    assert len(exact.trace) < 8 < len(plain.trace)


def test_beside_the_drafter_that_is_named_and_not_where_there_is_none():
    engine = several(num_draft=3)

    def used(**options):
        return drafting(engine.generate([0, 0], max_tokens=30, prediction=TEXT[:15], **options))

    assert used(drafter="suffix") == {"prediction", "suffix"}
    assert used(drafter="prediction") == {"prediction"}
    assert used(drafter=None) == set()


@pytest.mark.parametrize("nothing", [None, "", []])
def test_no_prediction(nothing):
    done = Engine(writes(letters("ab"), 1)).generate([5], max_tokens=5, prediction=nothing)
    assert drafting(done) == set()


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_prediction_must_not_know_the_coins(verifier):
    engine = Engine(target(), NgramDrafter(), verifier=verifier)
    with pytest.raises(OptionError, match=f"whose coins verifier {verifier!r} tosses again: use"):
        engine.generate([0], max_tokens=3, seed=5, prediction=[1, 2])
    for options in (
        {"seed": 5},
        {"prediction": [1, 2]},
        {"seed": 5, "prediction": [1, 2], "temperature": 0},
        {"seed": 5, "prediction": [1, 2], "verifier": "coupled"},
        {"seed": 5, "prediction": [1, 2], "drafter": None},
    ):
        engine.generate([0], max_tokens=3, **options)


def test_why_it_must_not(monkeypatch):
    """A seed's own output predicted to it, over seeds: its first tokens have another law than p."""
    monkeypatch.setattr("forerun.engine.request.check_prediction", lambda *args: None)
    engine, p = Engine(target(3), num_draft=1), target(3)._next_law((0,))
    likely = p.index(max(p))

    def firsts(verifier):
        found = []
        for seed in range(400):
            common = {"max_tokens": 2, "seed": seed, "verifier": verifier}
            once = engine.generate([0], prediction=[likely], **common).tokens
            again = engine.generate([0], prediction=once, **common).tokens
            found.append((once[0], again[0]))
        return found

    assert all(once == again for once, again in firsts("auto"))
    pairs = firsts("rejection")
    found = [[pair[i] for pair in pairs].count(likely) / 400 for i in (0, 1)]
    spread = (p[likely] * (1 - p[likely]) / 400) ** 0.5
    assert abs(found[0] - p[likely]) < 3 * spread
    assert abs(found[1] - p[likely]) > 5 * spread


def test_predictions_that_are_none():
    engine = Engine(target(), NgramDrafter())
    with pytest.raises(OptionError, match="a prediction is a list of token ids, not 5"):
        engine.generate([0], prediction=5)
    with pytest.raises(OptionError, match="token ids from 0 up, not -1"):
        engine.generate([0], prediction=[0, -1])
    with pytest.raises(VocabularyError, match="the prediction holds id 9"):
        engine.generate([0], prediction=[9])
    with pytest.raises(OptionError, match="has no tokenizer: give the prediction as token ids"):
        engine.generate([0], prediction="text")


def test_a_target_that_cannot_roll_back_refuses_the_request_alone():
    model = target()
    model.abilities = Abilities(rollback=False)
    engine = Engine(model)
    assert len(engine.generate([0], max_tokens=3).tokens) == 3
    with pytest.raises(CapabilityError, match="cannot roll back, so it cannot verify drafts"):
        engine.generate([0], max_tokens=3, prediction=[1])
