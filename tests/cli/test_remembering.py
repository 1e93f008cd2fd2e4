"""--memory FILE on the command line."""

from __future__ import annotations

import json
import logging
import stat

import pytest

from forerun.cli import remembering
from forerun.cli.options import Settings
from forerun.drafters.memory_file import Vocabulary
from forerun.drafters.text_memory import TextMemory

ASK = ["generate", "the cat sat on the m", "-m", "fake", "-n", "24", "--temperature", "0", "--json"]
FIXED = ["-k", "4"]


def accepted(result):
    assert result.code == 0, result.err
    return json.loads(result.out)["stats"]["accepted"]


@pytest.mark.parametrize("drafter", ["suffix", "suffix-tree", "suffix+ngram"])
def test_the_second_time_it_is_known(cli, tmp_path, drafter):
    file = tmp_path / "memory"
    args = [*ASK, *FIXED, "--drafter", drafter, "--memory", file]
    first, second = cli(*args), cli(*args)
    assert accepted(second) > accepted(first)
    assert json.loads(first.out)["text"] == json.loads(second.out)["text"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert accepted(cli(*ASK, *FIXED, "--drafter", drafter)) == accepted(first), "without it, not"


def test_a_chat_remembers_its_answers(cli, tmp_path):
    file = tmp_path / "memory"
    result = cli("chat", "-m", "fake", "-n", "8", "--memory", file, stdin=b"one\ntwo\n")
    assert result.code == 0
    assert len(file.read_text().splitlines()) == 2 + 2


def test_another_models_file_is_refused(cli, tmp_path):
    file = tmp_path / "memory"
    assert cli(*ASK, "--memory", file).code == 0
    args = [one if one != "fake" else "fake:backwards" for one in ASK]
    result = cli(*args, "--memory", file)
    assert result.code == 2
    assert "remembers texts of fake, whose tokens are others than those of fake" in result.err
    assert len(result.err.splitlines()) == 1


def test_a_damaged_one_is_set_aside_and_told(cli, tmp_path):
    file = tmp_path / "memory"
    assert cli(*ASK, "--memory", file).code == 0
    file.write_bytes(file.read_bytes()[:-20])
    result = cli(*ASK, "--memory", file)
    assert result.code == 0
    assert f"is damaged: it is set aside as {file}.broken" in result.err
    assert len(file.read_text().splitlines()) == 3, "and a new one was begun"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--memory", "m", "--drafter", "ngram"], "--memory goes with --drafter suffix"),
        (["--memory", "nowhere/m"], "nowhere/m cannot be written: no such file"),
        (["--memory", "m", "--memory-size", "many"], "--memory-size takes a size"),
    ],
)
def test_what_is_asked_wrongly(cli, args, says):
    result = cli(*ASK, *args)
    assert result.code == 2
    assert says in result.err


def test_it_is_written_now_and_then(tmp_path):
    memory = TextMemory(1 << 16)
    own = Vocabulary(model="m", tokens="t", size=100)
    keeper = remembering.Keeper(Settings(memory=tmp_path / "m"), own, memory, every=0.01)
    keeper.start()
    memory.add([1, 2, 3])
    while not (tmp_path / "m").exists():
        keeper.join(0.01)
    memory.add([4, 5, 6])
    keeper.end()
    assert not keeper.is_alive()
    assert "[4,5,6]" in (tmp_path / "m").read_text()


def test_a_place_that_vanished_costs_no_answer(tmp_path, capsys):
    memory = TextMemory(1 << 16)
    own = Vocabulary(model="m", tokens="t", size=100)
    keeper = remembering.Keeper(Settings(memory=tmp_path / "gone" / "m"), own, memory)
    keeper.start()
    memory.add([1, 2, 3])
    keeper.end()
    assert "cannot be written: no such file" in capsys.readouterr().err


def test_nothing_is_done_where_nothing_is_to_be_kept():
    with remembering.remembering(Settings(), None):
        logging.getLogger("forerun").debug("within")
