"""What is wrong is said in one line, with what would be right, and an exit code."""

from __future__ import annotations

import importlib
import json
import os
import warnings

import pytest

FAKE = ("-m", "fake")

MISUSE = {
    # options of the command line
    "--temprature 1": "No such option: --temprature",
    "--top-k many": "Invalid value for '--top-k': 'many' is not a whole number",
    "--temperature hot": "Invalid value for '--temperature': 'hot' is not a number",
    "--seed": "Option '--seed' requires an argument",
    "-k -1": "num_draft must be a whole number from 0 (plain decoding) to 64, or 'auto', not -1",
    "-k 65": "--num-draft must be a whole number from 0 (plain decoding) to 64, or 'auto', not 65",
    "-k some": "Invalid value for '-k' / '--num-draft': 'some' is neither a whole number nor auto",
    "--drafter ngrm": "unknown drafter 'ngrm'; did you mean 'ngram'? Known: ",
    "--verifier blok": "unknown verifier 'blok'; did you mean 'block'? Known: ",
    "--max-memory lots": "--max-memory takes a size such as 2GiB, 500MB or 1048576, not 'lots'",
    "--logit-bias 5": "--logit-bias takes ID=NUMBER, such as 42=-3.5, not '5'",
    "-t 0": "--threads must be a whole number from 1 to ",
    "-t 100000": "--threads must be a whole number from 1 to ",
    "-c 0": "--context must be at least 1, not 0",
    # sampling
    "--temperature -1": "--temperature must be 0 (greedy) or from 1e-6 to 1e6 (1.0",
    "--temperature nan": "--temperature must be 0 (greedy) or from 1e-6",
    "--top-p 0": "--top-p must be above 0 and at most 1 (1 is off), not 0.0",
    "--top-k -1": "--top-k must be a whole number of at least 0 (0 is off), not -1",
    "--min-p 2": "--min-p must be between 0 (off) and 1, not 2.0",
    "--repetition-penalty 0": "--repetition-penalty must be from 1e-6 to 1e6 (1 is off), not 0.0",
    "-n 0": "--max-tokens must be a whole number of at least 1",
    "-n 3 --min-tokens 5": "--min-tokens (5) must be at most --max-tokens (3)",
    "--seed -1": "--seed must be a whole number from 0 below 2**128 (leave it out for a fresh one)"
    ", not -1",
    "--logit-bias 5=-inf": "--logit-bias 5=NUMBER: it must be a number from -1e6 to 1e6 (to forbid "
    "an id, use --ban), not -inf",
    "--ban -3": "--ban takes token ids, whole numbers from 0 up, not -3",
    "--ban 9999": "--ban names token id 9999; fake knows 0 to 76",
    "--stop-id 9999": "--stop-id names token id 9999; fake knows 0 to 76",
    "--logit-bias 9999=1": "--logit-bias names token id 9999; fake knows 0 to 76",
    # what does not go together
    "--drafter suffix+modle": "unknown drafter 'modle'; did you mean 'model'? Known: ",
    "--drafter suffix+suffix": "drafters joined by + are different ones, such as suffix+model",
    "--drafter suffix+model": "--drafter suffix+model needs --draft-model",
    "--drafter suffix+ngram --draft-model x": "--draft-model goes with --drafter model, not with "
    "--drafter suffix+ngram",
    "--drafter model": "--drafter model needs --draft-model",
    "--drafter prediction": "--drafter prediction needs --prediction-file",
    "--drafter ngram --draft-model fake": "--draft-model goes with --drafter model, not with "
    "--drafter ngram",
    "--drafter suffix --skip-layers 3": "--skip-layers goes with --drafter layer-skip, not with "
    "--drafter suffix",
    "--drafter layer-skip --skip-layers 0": "--skip-layers is how many layers to leave out, at "
    "least 1, or which of them",
    "--drafter layer-skip --skip-layers 3-": "Invalid value for '--skip-layers': '3-' is "
    "neither a number nor a list such as 3-12,15",
    "--drafter layer-skip --skip-layers 7": "of 8 layers at most 6 can be left out",
    "--drafter layer-skip --skip-layers 3,9": "layers are numbered 0 to 7, and 9 is none of them",
    "--drafter suffix --prediction-file x": "--prediction-file goes with --drafter prediction",
    "--compare --drafter none": "--compare needs a drafter and --num-draft above 0",
    "--compare -k 0": "--compare needs a drafter and --num-draft above 0",
    "--system be": "--system goes with --chat",
    "--prompt-file x": "two prompts: give either PROMPT or --prompt-file, not both",
    "--regex a --lark x": "--regex and --lark: an answer has one format, give one of them",
    # files
    "--prediction-file nowhere": "--prediction-file nowhere: no such file or directory",
    "--trace nowhere/trace": "--trace nowhere/trace cannot be written: no such file or directory",
    "--trace .": "--trace . cannot be written: is a directory",
    "--log-file nowhere/log": "--log-file nowhere/log cannot be written: no such file",
    "--json-schema nowhere": "--json-schema nowhere: no such file or directory",
    "--lark nowhere": "--lark nowhere: no such file or directory",
    # models
    "-m smolm2": "unknown model 'smolm2'; did you mean 'smollm2'?",
    "-m http://x/y": "forerun: http://x/y: there is no such file or folder",
    "-m nowhere/x.gguf": "nowhere/x.gguf: there is no such file",
    "-m fake:ids": "fake has no tokenizer: give the prompt as token ids",
    "-m fake:context=4": "the prompt has 6 tokens; fake has a context of 4",
}  # fmt: skip


@pytest.mark.parametrize("options", MISUSE)
def test_misuse(options, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli("generate", "prompt", *FAKE, *options.split())
    assert result.code == 2
    assert result.out == ""
    assert MISUSE[options].replace("num_draft", "--num-draft") in result.err
    assert result.err.startswith("forerun: ")
    assert result.err.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["generate", *FAKE],
            "no prompt: give PROMPT, - for standard input, or --prompt-file FILE",
        ),
        (["generate", *FAKE, ""], "the prompt is empty and fake has no beginning-of-text token"),
        (["generate", *FAKE, "--prompt-file", "none"], "--prompt-file none: no such file"),
        (["generate", *FAKE, "a", "b"], "unexpected extra argument(s) (b); see forerun generate"),
        (["generate", *FAKE, "--chat", "refuse"], "the chat template refuses these messages"),
        (["generate", "x", "-m", ""], "a model needs a name: a named model (smollm2), a .gguf"),
        (["generate", *FAKE, "é\udcff"], "PROMPT is not valid UTF-8: byte 0xff at position 2"),
        (["generate", *FAKE, "x", "--stop", "\udc80"], "--stop is not valid UTF-8: byte 0x80 at"),
        (["generate", *FAKE, "x", "--chat", "--system", "a\udcff"], "--system is not valid UTF-8"),
        (["chat", *FAKE, "--system", "a\udcff"], "--system is not valid UTF-8"),
        (["generte"], "No such command 'generte'"),
        (["--bogus"], "No such option: --bogus"),
        (["chat", "hello"], "unexpected extra argument(s) (hello); see forerun chat --help"),
        (["certify"], "nothing to certify: forerun certify ENGINE"),
        (["certify", "forerun", "--exact"], "ENGINE and --exact exclude each other"),
        (["certify", "forrun"], "unknown engine 'forrun'; did you mean 'forerun'?"),
        (["certify", "forerun", "--minutes", "0"], "minutes must be above 0, not 0.0"),
        (["certify", "forerun", "--level", "2"], "level must be between 0 and 1"),
        (["certify", "forerun", "--setting", "top-q"], "unknown setting 'top-q'; did you mean"),
        (["certify", "forerun", "--option", "lookup"], "--option takes KEY=VALUE"),
        (["certify", "forerun", "--drafter", "suffix", "--verifier", "sure"], "unknown verifier"),
        (["certify", "certify.faulty:sound", "--option", "speed=9"], "takes no option speed"),
        (["certify", "forerun", "--no-tiny"], "forerun cannot be given tiny models"),
        (["certify", "nosuch:thing"], "module nosuch cannot be imported"),
        (["certify", "--check", "none.json"], "--check none.json: no such file or directory"),
        (["certify", "--exact", "--drafter", "sufix"], "did you mean 'suffix'?"),
        (["certify", "--exact", "--verifier", "cupled"], "did you mean 'coupled'?"),
        (["models", "pull", "smolm2"], "unknown model 'smolm2'; did you mean 'smollm2'?"),
        (["models", "pull"], "Missing argument 'NAME'"),
        (["models", "cost"], "Missing argument 'NAME|PATH'"),
        (["models", "cost", "smolm2"], "unknown model 'smolm2'; did you mean 'smollm2'?"),
        (["models", "cost", "fake", "-t", "0"], "--threads must be a whole number from 1 to"),
    ],
)
def test_misuse_of_commands(args, said, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli(*args)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1


def test_the_nearest_option_is_suggested(cli):
    assert "--temperature" in cli("generate", "x", "--temprature", "1").err


@pytest.mark.parametrize("args", [["-"], ["--prompt-file", "prompt"]])
def test_a_prompt_that_is_not_text(args, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt").write_bytes(b"ab\xff")
    result = cli("generate", *FAKE, *args, stdin=b"ab\xff")
    assert result.code == 2
    assert "is not UTF-8 text: byte 0xff at position 2" in result.err


def test_a_corrupt_model_file(cli, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\x03\x00")
    result = cli("generate", "x", "-m", tmp_path / "bad.gguf")
    assert result.code == 2
    assert "bad.gguf" in result.err
    assert result.err.count("\n") == 1


def test_no_network(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    result = cli("models", "pull", "smollm2")
    assert result.code == 2
    assert "'smollm2' could not be fetched" in result.err
    assert "Check the network" in result.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# ---------------------------------------------------------------- while it runs


def test_an_error_while_generating_keeps_the_text(cli):
    whole = cli("generate", "the", *FAKE, "-n", "60", "--seed", "1").out
    result = cli("generate", "the", "-m", "fake:nan=20", "-n", "60", "--seed", "1")
    assert result.code == 1
    assert 10 < len(result.out) < 30
    assert whole.startswith(result.out[:-1])
    assert result.err.startswith("forerun: fake, position ")
    assert "slot 0: " in result.err
    assert result.err.count("\n") == 1


def test_an_error_while_generating_as_json(cli):
    result = cli("generate", "the", "-m", "fake:nan=20", "--seed", "1", "--json")
    done = json.loads(result.out)
    assert result.code == 1
    assert done["finish_reason"] == "error"
    assert done["error"]["type"] == "LawError"
    assert done["error"]["message"] in result.err
    assert done["usage"]["completion_tokens"] == len(done["tokens"]) > 10


def test_an_error_in_the_first_round(cli):
    result = cli("generate", "the", "-m", "fake:nan=0")
    assert (result.code, result.out) == (1, "\n")
    assert "position 3" in result.err


@pytest.mark.parametrize("more", [[], ["--json"], ["--compare"], ["--compare", "--json"]])
@pytest.mark.parametrize("quirk", ["fake:room=5", "fake --ban 9999", "fake:context=4"])
def test_what_is_found_before_the_first_token_leaves_standard_output_alone(more, quirk, cli):
    result = cli("generate", "the cat", "-m", *quirk.split(), *more)
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1


def test_memory_that_ends_while_it_runs(cli):
    result = cli("generate", "the", "-m", "fake:room=20", "-n", "60", "--seed", "1")
    assert result.code == 1
    assert len(result.out) > 10
    assert "no memory for so many tokens: raise --max-memory" in result.err
    done = json.loads(cli("generate", "the", "-m", "fake:room=20", "-n", "60", "--json").out)
    assert done["error"]["type"] == "CacheError"


@pytest.mark.parametrize("debug", [False, True])
def test_a_traceback_only_on_demand(debug, cli, monkeypatch):
    if debug:
        monkeypatch.setenv("FORERUN_DEBUG", "1")
    result = cli("generate", "the", "-m", "fake:broken")
    assert result.code == 1
    assert "forerun: RuntimeError: out of luck (FORERUN_DEBUG=1 shows where)" in result.err
    assert ("Traceback" in result.err) == debug


def test_vv_shows_tracebacks_too(cli):
    assert "Traceback" in cli("generate", "x", *FAKE, "-vv", "--top-p", "0").err
    assert "Traceback" not in cli("generate", "x", *FAKE, "-v", "--top-p", "0").err


def test_a_warning_is_one_line(monkeypatch, capsys):
    app = importlib.import_module("forerun.cli.app")

    def warned(args, debug):
        warnings.warn("it will be slow", RuntimeWarning, stacklevel=1)
        return 0

    monkeypatch.setattr(app, "_run", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert app.run([]) == 0
    assert capsys.readouterr().err == "forerun: it will be slow\n"
