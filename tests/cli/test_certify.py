"""`forerun certify`: by enumeration and by samples; it covers everything, and it can fail."""

from __future__ import annotations

import json
import math

import pytest

from forerun.certify import suite
from forerun.drafters import DRAFTERS
from forerun.verifiers import VERIFIERS, RejectionVerifier


class Lenient(RejectionVerifier):
    """Accepts a little more than it may."""

    name = "lenient"

    def verify(self, proposal, p, draws):
        class Draws:
            def accept(self, probability, key):
                return draws.accept(min(1.0, probability * 1.2), key)

            def __getattr__(self, name):
                return getattr(draws, name)

        return super().verify(proposal, p, Draws())


PAIRS = {
    (drafter, verifier)
    for drafter in suite.VARIANTS
    for verifier in VERIFIERS
    if not drafter.endswith("tree") or verifier not in ("rejection", "block")
}


def test_every_drafter_and_verifier_is_in_the_suite():
    assert set(suite.VARIANTS) == {*DRAFTERS, "suffix+model", "suffix+head-sampled-tree"}
    pairs = {(case.drafter, case.verifier) for case in suite.cases()}
    assert pairs == PAIRS
    for pair in pairs:
        of_pair = [case for case in suite.cases() if (case.drafter, case.verifier) == pair]
        assert {case.control for case in of_pair} == set(suite.controls(2))
        assert any(case.company for case in of_pair)
        assert {case.company for case in of_pair if case.num_draft == "auto"} == {True, False}


def test_the_selection_leaves_no_pair_control_or_kind_out():
    every, some = suite.cases(), suite.selection(suite.cases())
    assert len(some) < len(every) / 6
    assert set(some) < set(every)
    assert len(set(some)) == len(some)
    for named in (
        lambda case: (case.drafter, case.variant, case.verifier),
        lambda case: (case.verifier, case.control),
        lambda case: (case.drafter, case.verifier, case.vocabulary),
        lambda case: (case.verifier, case.company, case.num_draft == "auto"),
    ):
        assert {named(case) for case in some} == {named(case) for case in every}


def test_a_pair(cli):
    result = cli("certify", "--exact", "--drafter", "ngram", "--verifier", "block")
    assert (result.code, result.err) == (0, "")
    header, row, _, last = result.out.splitlines()
    assert header.split() == ["DRAFTER", "VERIFIER", "CASES", "LARGEST", "TV"]
    assert row.split()[:2] == ["ngram", "block"]
    assert row.endswith("PASS")
    assert last.startswith("exact: every total variation is below 1e-12")
    assert "\x1b" not in result.out


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_all_pairs_as_json(cli, every):
    result = cli("certify", "--exact", "--json", *(["--all"] if every else []))
    assert result.code == 0
    found = json.loads(result.out)
    assert found["exact"] is True
    assert found["tolerance"] == 1e-12
    assert len(found["pairs"]) == len(PAIRS)
    assert all(pair["exact"] and pair["total_variation"] < 1e-12 for pair in found["pairs"])
    cases = suite.cases()
    assert sum(pair["cases"] for pair in found["pairs"]) == found["cases"]
    assert found["cases"] == len(cases if every else suite.selection(cases))
    assert found["known_cases"] == len(cases)


def test_all_goes_with_exact(cli):
    result = cli("certify", "forerun", "--all")
    assert result.code == 2
    assert "--all goes with --exact" in result.err


def test_auto_can_be_asked_for(cli):
    result = cli("certify", "--exact", "--drafter", "model", "--verifier", "auto")
    assert result.code == 0


def test_a_law_that_is_not_exact_fails(cli, monkeypatch):
    monkeypatch.setitem(VERIFIERS, "lenient", Lenient)
    result = cli("certify", "--exact", "--drafter", "model")
    assert result.code == 1
    rows = {line.split()[1]: line for line in result.out.splitlines()[1:-1] if line}
    assert "FAIL" in rows["lenient"]
    assert rows["block"].endswith("PASS")
    assert f"NOT EXACT: 1 pair of {len(VERIFIERS)} above 1e-12" in result.out
    found = cli("certify", "--exact", "--drafter", "model", "--verifier", "lenient", "--json")
    assert found.code == 1
    assert json.loads(found.out)["pairs"][0]["total_variation"] > 1e-3


def test_nan_is_not_exact():
    case = suite.cases("none", "block")[0]
    good = suite.Result(case=case, total_variation=0.0)
    bad = suite.Result(case=case, total_variation=math.nan)
    assert good.exact
    assert not bad.exact
    for results in ([good, bad], [bad, good]):
        [pair] = suite.by_pair(results)
        assert not pair.exact


@pytest.mark.parametrize("case", suite.cases("model", "block")[:1], ids=lambda case: case.described)
def test_a_case_says_what_it_is(case):
    assert case.described == "plain, V = 2, γ = 3"


# ------------------------------------------------------------------ by samples

SOME = ("--seed", "3", "--setting", "as it is", "--setting", "γ = 8")


def test_a_sound_engine(cli, tmp_path):
    result = cli("certify", "certify.faulty:sound", *SOME, "--tokens", "1500", "--out", tmp_path)
    assert result.code == 0
    assert "certify.faulty:sound  lossless within the bound" in result.out
    assert "no fault found in 3," in result.out
    assert "excluded" in result.out
    assert result.out.splitlines()[-1] == "lossless within the bound (false alarm ≤ 1e-06)"
    assert "tokens · e-value" in result.err  # progress
    made = json.loads((tmp_path / "report.json").read_text())
    assert made["exit_code"] == 0
    assert "certify certify.faulty:sound --seed 3" in made["command"]
    again = cli("certify", "--check", tmp_path / "report.json")
    assert (again.code, again.err) == (0, "")
    assert "which follows from its samples" in again.out
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 2
    for outside in ("<script", "src=", "@import", "<link"):
        assert outside not in page
    assert "| as it is | 1," in (tmp_path / "report.md").read_text()
    made["cases"][0]["log_e"] += 1
    (tmp_path / "report.json").write_text(json.dumps(made))
    altered = cli("certify", "--check", tmp_path / "report.json", "--json")
    assert altered.code == 2
    assert "log_e is" in json.loads(altered.out)["mismatches"][0]


def test_a_faulty_engine_fails(cli, tmp_path):
    given = ("certify", "certify.faulty:lenient", "--seed", "3", "--setting", "γ = 8", "--level",
             "1e-3", "--tokens", "4000")  # fmt: skip
    result = cli(*given, "--out", tmp_path)
    assert result.code == 1
    assert "with speculation off the same settings hold" in result.out
    assert "minimal failing case: " in result.out
    assert "expected token" in result.out
    assert result.out.splitlines()[-1].startswith("again: forerun certify certify.faulty:lenient")
    assert "FAULT" in (tmp_path / "report.md").read_text()
    assert cli("certify", "--check", tmp_path / "report.json").code == 1


def test_forerun_itself(cli):
    result = cli("certify", "forerun", "--drafter", "suffix", "--verifier", "coupled", *SOME,
                 "--tokens", "600", "--json")  # fmt: skip
    assert result.code == 0
    [case] = json.loads(result.out)["cases"]
    assert case["verdict"] == "lossless within the bound"
    assert (case["seeds"]["status"], case["bits"]["status"]) == ("same", "same")
    assert "records" not in case


def test_too_few_tokens_decide_nothing(cli):
    result = cli("certify", "certify.faulty:sound", *SOME, "--tokens", "50")
    assert result.code == 2
    assert "too few to say" in result.out


@pytest.mark.parametrize(("args", "said"), [
    (["http://127.0.0.1:9/v1", "-m", "smollm2", "--reference", "endpoint"], "nobody answers there"),
    (["http:/there"], "unknown engine"),
    (["127.0.0.1:8000"], "An address (http://…/v1) and an entry point (module:function) work too"),
    (["certify.faulty:nothing"], "there is no 'nothing' in certify.faulty"),
    (["forerun", "--tokens", "0"], "at least 1, not 0"),
    (["forerun", "--reference", "smollm2", "--no-tiny"], "forerun needs to be given a model: -m"),
    (["forerun", "--reference", "endpoint", "--no-tiny"], "is for an address"),
    (["forerun", "--drafter", "sampled-tree", "--verifier", "block"],
     "--verifier block does not judge what --drafter sampled-tree drafts"),
])  # fmt: skip
def test_what_cannot_be_certified_is_said_in_a_line(cli, args, said):
    result = cli("certify", *args)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": 2, "cases": [{}]}', "nothing"])
def test_what_is_no_report(cli, tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    result = cli("certify", "--check", tmp_path / "report.json")
    assert result.code == 2
    assert "report" in result.err
    assert "Traceback" not in result.err
