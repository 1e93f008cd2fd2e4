"""`forerun generate`: what goes to standard output, in which form, and what is kept beside it."""

from __future__ import annotations

import json
import os
import re

import pytest

from forerun import Completion
from forerun.cli.compare import verdict
from forerun.trace import Round

FAKE = ("-m", "fake", "--seed", "3", "-n", "40")
ESCAPE = "\x1b"


def public(cls):
    return {name for name in (*vars(cls), *cls.__annotations__) if not name.startswith("_")}


def test_a_pipe_gets_the_text_and_nothing_else(cli):
    result = cli("generate", "the cat", *FAKE)
    assert result.code == 0
    assert result.err == ""
    assert len(result.out) == 41
    assert result.out.endswith("\n")
    assert ESCAPE not in result.out


def test_the_text_of_json_is_the_text_of_the_stream(cli):
    text = cli("generate", "the cat", *FAKE).out
    done = json.loads(cli("generate", "the cat", *FAKE, "--json").out)
    assert done["text"] + "\n" == text
    assert done["seed"] == 3
    assert done["verifier"] == "coupled"


def test_json_has_the_names_of_done(cli):
    result = cli("generate", "the cat", *FAKE, "--json")
    done = json.loads(result.out)
    assert set(done) == public(Completion)
    assert result.out.count("\n") == 1
    assert done["stats"]["tokens"] == done["usage"]["completion_tokens"] == 40
    assert done["error"] is None
    rounds = [Round.from_json(json.dumps(record)) for record in done["trace"]]
    assert [token for r in rounds for token in r.tokens] == done["tokens"]


DRAFTERS = [
    "none", "ngram", "suffix", "prediction", "model", "layer-skip", "suffix+model",
    "ngram+prediction", "suffix+layer-skip",
    "intersection", "suffix+string-match",
]  # fmt: skip


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_drafter_writes_the_same(drafter, cli, tmp_path):
    (tmp_path / "old").write_text("the cat sat on the mat, and so on")
    more = {
        "prediction": ["--prediction-file", tmp_path / "old"],
        "model": ["--draft-model", "fake"],
        "intersection": ["--draft-model", "fake:backwards"],
        "string-match": ["--draft-model", "fake:backwards"],
    }
    needed = [arg for name in drafter.split("+") for arg in more.get(name, [])]
    args = ("generate", "the cat", *FAKE)
    plain = cli(*args, "-k", "0").out
    for num_draft in ("auto", "3"):
        assert cli(*args, "--drafter", drafter, *needed, "-k", num_draft).out == plain
    assert (
        cli(*args, *(needed if drafter in more else ["--drafter", drafter, *needed])).out == plain
    )


@pytest.mark.parametrize("skip", ["3", "2-3,6"])
def test_layers_that_are_left_out(skip, cli):
    args = ("generate", "the cat", *FAKE, "--drafter", "layer-skip", "--skip-layers", skip, "-v")
    result = cli(*args, "-k", "3", "--json")
    done = json.loads(result.out)
    assert list(done["stats"]["drafters"]) == ["layer-skip"]
    assert done["stats"]["accepted"] > 0


def test_a_draft_model_with_other_tokens(cli):
    args = ("generate", "the cat", *FAKE, "--draft-model", "fake:backwards", "--json")
    done = json.loads(cli(*args, "-k", "3").out)
    assert list(done["stats"]["drafters"]) == ["intersection"]
    assert done["stats"]["accepted"] > done["stats"]["tokens"] / 3
    refused = cli(*args, "--drafter", "model")
    assert refused.code == 2
    assert "goes with drafter 'intersection' or 'string-match'" in refused.err


def test_the_default_drafter_drafts(cli):
    done = json.loads(cli("generate", "the cat sat on the cat", *FAKE, "--json").out)
    assert done["stats"]["accepted"] > 0


@pytest.mark.parametrize("newline", ["", "\n", "\r\n"])
def test_prompts_from_elsewhere(newline, cli, tmp_path):
    prompt = "the cat\nsat"
    (tmp_path / "prompt").write_bytes((prompt + newline).encode())
    expected = json.loads(cli("generate", prompt, *FAKE, "--json").out)
    from_stdin = cli("generate", "-", *FAKE, "--json", stdin=(prompt + newline).encode())
    from_file = cli("generate", "--prompt-file", tmp_path / "prompt", *FAKE, "--json")
    assert json.loads(from_stdin.out)["prompt"] == expected["prompt"]
    assert json.loads(from_file.out)["prompt"] == expected["prompt"]
    assert json.loads(from_file.out)["text"] == expected["text"]


def test_chat_applies_the_template(cli):
    def prompt(*args):
        return json.loads(cli("generate", *args, *FAKE, "--json").out)["prompt"]

    assert prompt("hi", "--chat") == prompt("<user>hi\n")
    assert prompt("hi", "--chat", "--system", "be") == prompt("<system>be\n<user>hi\n")


def test_sampling_options_reach_the_request(cli):
    greedy = ("generate", "the cat", "-m", "fake", "-n", "30", "--temperature", "0")
    text = cli(*greedy).out
    assert cli(*greedy).out == text
    t = "\n abcdefghijklmnopqrstuvwxyz".index("t")
    assert "t" in text
    assert "t" not in cli(*greedy, "--ban", str(t)).out
    assert set(cli(*greedy, "--logit-bias", f"{t}=100").out) == {"t", "\n"}
    assert cli(*greedy, "--stop", "sat").out == text.split("sat")[0] + "\n"
    assert cli(*greedy, "--stop", "sat", "--stop", " ").out == text.split(" ")[0] + "\n"
    done = json.loads(cli(*greedy, "--stop-id", str(t), "--json").out)
    assert done["tokens"][-1] == t
    assert done["finish_reason"] == "stop"
    later = json.loads(cli(*greedy, "--stop-id", str(t), "--min-tokens", "9", "--json").out)
    assert len(later["tokens"]) >= 9


def test_the_models_own_defaults_give_way_to_options(cli):
    def log(*args):
        return cli("generate", "the", "-m", "fake:defaults", "-n", "2", "-v", *args).err

    assert "'temperature': 0.8" in log()
    assert "'temperature': 0.0" in log("--temperature", "0")


# ---------------------------------------------------------------- beside the answer


def test_v_says_more_on_standard_error(cli):
    plain = cli("generate", "the cat", *FAKE)
    result = cli("generate", "the cat", *FAKE, "-v")
    assert result.out == plain.out
    assert re.search(
        r"forerun: 40 tokens in \d+ target passes: [\d.]+ tokens per pass · ", result.err
    )
    assert ESCAPE not in result.err


def test_the_log_file_is_appended_to(cli, tmp_path):
    for _ in range(2):
        result = cli("generate", "the cat", *FAKE, "--log-file", tmp_path / "log")
    assert result.err == ""
    assert (tmp_path / "log").read_text().count(" INFO 40 tokens in ") == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_log_file_on_a_full_disk_is_said_once(cli):
    plain = cli("generate", "the cat", *FAKE)
    result = cli("generate", "the cat", *FAKE, "--log-file", "/dev/full")
    assert (result.code, result.out) == (0, plain.out)
    said = "forerun: --log-file /dev/full: no space left on device; the log ends here\n"
    assert result.err == said
    assert cli("generate", "the cat", *FAKE, "-v", "--log-file", "/dev/full").err.count(said) == 1


def test_the_trace_is_that_of_done(cli, tmp_path):
    path = tmp_path / "trace"
    path.write_text("old\n")
    done = json.loads(cli("generate", "the cat", *FAKE, "--trace", path, "--json").out)
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == done["trace"]
    assert all(Round.from_json(line).request == 0 for line in lines)


def test_a_trace_that_got_nothing_leaves_what_was_there(cli, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old\n")
    for path in (old, new):
        assert cli("generate", "", "-m", "fake", "--trace", path).code == 2
    assert old.read_text() == "old\n"
    assert not new.exists()


def test_a_trace_of_an_error_has_whole_lines(cli, tmp_path):
    path = tmp_path / "trace"
    assert cli("generate", "the", "-m", "fake:nan=20", "-k", "4", "--trace", path).code == 1
    rounds = [Round.from_json(line) for line in path.read_text().splitlines()]
    assert rounds[-1].position + len(rounds[-1].tokens) > 15


# ---------------------------------------------------------------- --compare


def test_compare_shows_both(cli):
    text = cli("generate", "the cat", *FAKE).out
    result = cli("generate", "the cat", *FAKE, "--compare")
    assert result.code == 0
    assert result.out.count(text) == 2
    assert "plain decoding" in result.out
    assert "speculative: suffix, as many tokens a round as pay" in result.out
    assert "identical, token for token" in result.out
    assert re.search(r"tokens per target pass instead of 1.00 · .* times as fast", result.out)
    assert result.out.endswith("\ntimes are of one run each: they vary with the machine's load\n")
    assert ESCAPE not in result.out


def test_compare_as_json(cli, tmp_path):
    path = tmp_path / "trace"
    result = cli("generate", "the cat", "-m", "fake", "--compare", "--json", "--trace", path)
    both = json.loads(result.out)
    assert both["identical"]
    assert both["plain"]["seed"] == both["speculative"]["seed"]
    assert both["plain"]["stats"]["drafted"] == 0 < both["speculative"]["stats"]["drafted"]
    assert set(both["plain"]) == set(both["speculative"]) == public(Completion)
    assert both["ratio"] > 0
    numbers = [Round.from_json(line).request for line in path.read_text().splitlines()]
    assert numbers == sorted(numbers)
    assert set(numbers) == {0, 1}


def test_compare_under_rejection_keeps_the_law_not_the_text(cli):
    said = cli("generate", "the cat", *FAKE, "--compare", "--verifier", "rejection").out
    assert re.search(r"different from token \d+ on: rejection keeps the law, not the text", said)
    greedy = cli("generate", "the cat", "-m", "fake", "--temperature", "0", "--verifier",
                 "rejection", "--compare").out  # fmt: skip
    assert "identical, token for token" in greedy


def test_compare_blames_rounding_only_where_the_text_was_promised():
    def done(tokens, verifier, finish_reason="length"):
        return Completion(text="", tokens=tokens, finish_reason=finish_reason, prompt=(0,), seed=0,
                          verifier=verifier, trace=())  # fmt: skip

    plain = done((1, 2, 3), "coupled")
    assert "from token 1 on: a pass over several rows rounds differently" in verdict(
        plain, done((1, 9, 3), "coupled"), greedy=False
    )
    assert "rounds differently" in verdict(plain, done((1, 9), "block"), greedy=True)
    assert "block keeps the law" in verdict(plain, done((1, 9), "block"), greedy=False)
    assert "identical as far as it went, 2 tokens" in verdict(
        plain, done((1, 2), "coupled", "cancelled"), greedy=False
    )
    assert "different from token 2 on" in verdict(plain, done((1, 2), "coupled"), greedy=False)


def test_compare_with_an_error(cli):
    result = cli("generate", "the", "-m", "fake:nan=20", "--compare")
    assert result.code == 1
    assert "speculative" not in result.out
    assert "position" in result.err
    result = cli("generate", "the", "-m", "fake:nan=20", "--compare", "--json")
    assert result.code == 1
    assert json.loads(result.out)["speculative"] is None


def test_verbose_says_what_was_drafted_and_what_passes_cost(cli):
    said = cli("generate", "the cat", *FAKE, "-v").err
    assert "forerun: fake: passes over 1, 2, … rows take 1.00, 1.02, 1.04" in said
    assert re.search(r"drafts a round: (none in \d+ rounds? · )?suffix \d+ in \d+, .*% acc", said)
    fixed = cli("generate", "the cat", *FAKE, "-v", "-k", "2").err
    assert "passes over" not in fixed
    assert re.search(r"suffix (1 in \d, )?2 in \d+; \d+% accepted", fixed)
    plain = cli("generate", "the cat", *FAKE, "-v", "-k", "0").err
    assert "drafts a round: none in 40 rounds\n" in plain


def test_auto_is_the_default(cli):
    def rounds(*args):
        done = json.loads(cli("generate", "the cat", *FAKE, "--json", *args).out)
        return [len(record["drafted"]) for record in done["trace"]]

    assert rounds() == rounds("-k", "auto") != rounds("-k", "4")
    assert "as many tokens a round as pay" in cli("generate", "the", *FAKE, "--compare").out
    assert "up to 3 tokens a round" in cli("generate", "the", *FAKE, "--compare", "-k", "3").out


def test_formats(cli, tmp_path):
    """The fake model never ends a text: formats without end, up to the budget."""
    pytest.importorskip("llguidance")
    lark, schema = tmp_path / "cat.lark", tmp_path / "schema.json"
    lark.write_text('start: "cat " start | "the " start | "x"')
    schema.write_text('{"type": "array", "items": {"type": "integer", "maximum": 99}}')
    for option, value, form in (
        ("--regex", "[a-f]{50,}", "[a-f]{40}"),
        ("--lark", lark, "((cat|the) ?)*(c|ca|t|th)?"),
        ("--json-schema", schema, r"\[[-\d, \n]*"),
    ):
        plain = cli("generate", "the cat", *FAKE, option, value, "-k", "0")
        drafted = cli("generate", "the cat", *FAKE, option, value, "-k", "3")
        assert plain.code == drafted.code == 0
        assert plain.out == drafted.out
        assert re.fullmatch(form + "\n", plain.out)
        assert cli("generate", "the cat", *FAKE, option, value, "-k", "3", "--compare").code == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("--regex", "(a", "unclosed group"),
        ("--lark", "start: b", 'unknown name: "b"'),
        ("--json-schema", "{", "the JSON schema is no JSON: .*line 1 column 2"),
        ("--json-schema", '{"type": "x"}', "Invalid type: x"),
    ],
)
def test_formats_that_are_none(name, text, said, cli, tmp_path):
    pytest.importorskip("llguidance")
    (tmp_path / "file").write_text(text)
    result = cli(
        "generate", "the cat", *FAKE, name, text if name == "--regex" else tmp_path / "file"
    )
    assert (result.code, result.out) == (2, "")
    assert re.search(said, result.err)
