"""`assert_lossless`, as an engine builder's tests use it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from certify.faulty import Sampler
from forerun.certify import assert_lossless
from forerun.errors import NotLosslessError, OptionError, UndecidedError
from forerun.models.tabular import TabularModel


def judge(sampler, **options):
    given = {"draft": sampler.draft, "samples": 64, "seed": 3}
    return assert_lossless(sampler, sampler.target, **{**given, **options})


def test_a_sound_sampler_gets_a_verdict():
    verdict = judge(Sampler("lossless"), tokens=8000, exclude=0.05)
    assert verdict.tokens >= 8000
    assert verdict.sentence.startswith("no fault found in 8,192 tokens")
    assert "excluded at 1e-06, of mean TV ≥ 0.05: lenience 0.95" in verdict.sentence


def test_a_faulty_one_fails_with_a_case_to_repeat():
    with pytest.raises(NotLosslessError) as caught:
        judge(Sampler("lenience 0.8"))
    assert isinstance(caught.value, AssertionError)
    assert re.search(
        r"not lossless: e-value 1e\+.* strongest: .*\. Sampling \{'max_tokens': 16\}, "
        r"first seed 3\. Furthest off, of places that came often: after prompt \[0\] and "
        r"output \[.*\] \(id: law → [\d,]+ samples\) \d: 0\.\d+ → 0\.\d+",
        str(caught.value),
    )


def test_without_the_drafts_law_too():
    with pytest.raises(NotLosslessError, match="e-value"):
        judge(Sampler("resample from p"), draft=None)


def test_too_few_tokens_are_not_enough():
    with pytest.raises(UndecidedError, match="tokens are too few to exclude lenience"):
        judge(Sampler("lossless"), tokens=2000, exclude=0.01)


def test_time_ends_it_after_a_whole_request():
    verdict = judge(Sampler("lossless"), tokens=10**9, seconds=0.0)
    assert verdict.tokens == 64 * 16


def test_what_fails_without_speculation_is_not_speculations():
    faulty = Sampler("resample from p", plain="resample from p")
    with pytest.raises(NotLosslessError):
        judge(faulty, off=Sampler("lossless"))
    other = Sampler("lossless")
    wrong = TabularModel(lambda prefix: [0.125] * 8, 8)
    with pytest.raises(UndecidedError, match="the reference differs, for with speculation off"):
        assert_lossless(other, wrong, off=other, samples=64)


def test_texts_that_cannot_be():
    def long(prompt, n, sampling, seed):
        return [[0] * (sampling["max_tokens"] + 1)] * n

    model = TabularModel(lambda prefix: [1.0, 0.0], 2)
    with pytest.raises(NotLosslessError, match="5 tokens where 4 were the most"):
        assert_lossless(long, model, max_tokens=4)

    def impossible(prompt, n, sampling, seed):
        return [[0, 1, 0, 0]] * n

    said = r"8 texts or tokens that cannot be, first token 1 at position 1 has probability 0 there"
    with pytest.raises(NotLosslessError, match=said):
        assert_lossless(impossible, model, max_tokens=4)


@pytest.mark.parametrize("options", [{"tokens": 0}, {"samples": 0}, {"prompts": []}])
def test_what_cannot_be_asked(options):
    with pytest.raises(OptionError, match="at least one token, sample and prompt"):
        judge(Sampler("lossless"), **options)


THEORY = Path(__file__).parents[2] / "docs" / "certify-theory.md"


def test_the_example_of_the_docs(capsys):
    [code] = re.findall(r"```python\n(.*?)```", THEORY.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(compile(code, "example", "exec"), names)
    names["test_our_decoder"]()
    assert capsys.readouterr().out.startswith("no fault found in 10,")
    assert code.count("p[x] / q[x]") == 1
    exec(compile(code.replace("p[x] / q[x]", "0.8 * p[x] / q[x]"), "example", "exec"), names)
    with pytest.raises(NotLosslessError):
        names["test_our_decoder"]()
