"""Names of systems, and what starts their processes."""

from __future__ import annotations

import sys

import pytest

from forerun.bench.systems import ENGINES, command, parse
from forerun.errors import OptionError, UnknownNameError


@pytest.mark.parametrize(
    ("name", "engine", "mode", "num_draft"),
    [
        ("hf", "hf", "plain", None),
        ("hf:suffix", "hf", "suffix", None),
        ("hf:suffix+model@auto", "hf", "suffix+model", "auto"),
        ("llama-cpp-python:lookup@4", "llama-cpp-python", "lookup", 4),
        ("llama-server:ngram-mod+draft-simple", "llama-server", "ngram-mod+draft-simple", None),
        ("transformers-bf16:assisted@5", "transformers-bf16", "assisted", 5),
    ],
)
def test_names(name, engine, mode, num_draft):
    system = parse(name)
    assert (system.engine.name, system.mode, system.num_draft) == (engine, mode, num_draft)
    assert parse(system.name) == system
    assert system.needs_draft_model == ("model" in mode or "draft" in mode or "assist" in mode)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hff:suffix", "unknown engine 'hff'; did you mean 'hf'"),
        ("hf:sufix", "unknown mode of hf 'sufix'; did you mean 'suffix'.*ngram"),
        ("llama-cpp-python:draft", "unknown mode of llama-cpp-python 'draft'.*lookup, plain"),
        ("hf:plain+suffix", "cannot be joined"),
        ("hf:suffix+suffix", "cannot be joined"),
        ("transformers:lookup+assisted", "cannot be joined"),
        ("hf:suffix@0", "from 1 to 64, or auto, not '0'"),
        ("transformers:lookup@auto", "from 1 to 64, not 'auto'"),
    ],
)
def test_wrong_names_say_what_is_right(name, says):
    with pytest.raises((UnknownNameError, OptionError), match=says):
        parse(name)


def test_forerun_runs_under_this_python():
    line, settings = command(ENGINES["hf"], None)
    assert line[0] == sys.executable
    assert settings == {"backend": "hf"}


def test_peers_run_under_their_own_python(tmp_path):
    python = tmp_path / "llama-cpp-python" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert command(ENGINES["llama-cpp-python"], tmp_path)[0][0] == str(python)
    binary = tmp_path / "llama-server" / "bin" / "llama-server"
    binary.parent.mkdir(parents=True)
    binary.touch()
    line, settings = command(ENGINES["llama-server"], tmp_path)
    assert (line[0], settings) == (sys.executable, {"binary": str(binary)})


@pytest.mark.parametrize("name", ["llama-cpp-python", "llama-server"])
def test_missing_peers_say_how_to_get_them(name, tmp_path):
    with pytest.raises(OptionError, match=rf"no --peers folder.*peers.py FOLDER {name}"):
        command(ENGINES[name], None)
    with pytest.raises(OptionError, match="does not hold it"):
        command(ENGINES[name], tmp_path)
