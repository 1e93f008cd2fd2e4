"""Remembered texts in a file: there again, whole or not at all, and for nobody else."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from drafters.contract import ask, tabular
from forerun.drafters import HybridDrafter, NgramDrafter, SuffixDrafter, SuffixTreeDrafter
from forerun.drafters.memory_file import Vocabulary, memories, read, write
from forerun.drafters.text_memory import RememberedText, TextMemory
from forerun.errors import MemoryFileError

V = 1000
OWN = Vocabulary(model="mine", tokens="abc", size=V)
ROOM = 20 * RememberedText.size(20)


def text(start, count=20):
    return tuple(range(start, start + count))


def filled(*texts, limit=ROOM):
    memory = TextMemory(limit)
    for tokens, tenant in texts:
        memory.add(tokens, tenant)
    return memory


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memory"
    write(path, OWN, filled((text(0), ""), (text(100), "a"), (text(200), "b"), (text(300), "a")))
    return path


def test_what_was_written_is_there_again(file):
    memory = TextMemory(ROOM)
    assert read(file, OWN, [memory]).texts == 4
    assert memory.snapshot() == [
        ("", text(0)), ("a", text(100)), ("b", text(200)), ("a", text(300)),
    ]  # fmt: skip
    assert memory.bytes == 4 * RememberedText.size(20)


def test_tenants_are_kept_apart(file):
    memory = TextMemory(ROOM)
    read(file, OWN, [memory])
    assert [one.tokens for one in memory.texts("a")] == [text(300), text(100)]
    assert [one.tokens for one in memory.texts("b")] == [text(200)]
    assert [one.tokens for one in memory.texts()] == [text(0)]
    assert memory.texts("c") == ()


def test_a_smaller_limit_holds_the_last_used(file):
    memory = TextMemory(2 * RememberedText.size(20))
    read(file, OWN, [memory])
    assert memory.bytes <= memory.limit
    assert ("a", text(300)) in memory.snapshot()
    nothing = TextMemory(RememberedText.size(20) - 1)
    read(file, OWN, [nothing])
    assert nothing.snapshot() == []


def test_it_is_bounded_in_the_file_too(tmp_path):
    memory = filled(limit=3 * RememberedText.size(20))
    for start in range(0, 900, 20):
        memory.add(text(start), "a")
        write(tmp_path / "memory", OWN, memory)
    lines = (tmp_path / "memory").read_text().splitlines()
    assert len(lines) == 3 + 2


def test_only_its_owner_may_read_it(file):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    write(file, OWN, filled((text(0), "")))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_stays_a_link(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file)
    write(link, OWN, filled((text(0), "")))
    assert link.is_symlink()
    assert read(file, OWN, [TextMemory(ROOM)]).texts == 1


def test_no_file_and_an_empty_one_hold_nothing(tmp_path):
    memory = TextMemory(ROOM)
    assert read(tmp_path / "none", OWN, [memory]).texts == 0
    (tmp_path / "empty").touch()
    assert read(tmp_path / "empty", OWN, [memory]).texts == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "empty"], "nothing was left behind"


def test_another_models_texts_are_refused_by_name(file):
    before = file.read_bytes()
    with pytest.raises(MemoryFileError, match="remembers texts of mine, whose tokens are others"):
        read(file, Vocabulary(model="theirs", tokens="abd", size=V), [TextMemory(ROOM)])
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"my diary", b'{"a": 1}\n', b"[]\n", b"\x00\xff\n"])
def test_a_file_of_another_kind_is_left_alone(tmp_path, content):
    path = tmp_path / "diary"
    path.write_bytes(content)
    with pytest.raises(MemoryFileError, match="is no file of remembered texts"):
        read(path, OWN, [TextMemory(ROOM)])
    assert path.read_bytes() == content


def test_a_later_version_is_refused(file):
    first, rest = file.read_bytes().split(b"\n", 1)
    file.write_bytes(json.dumps(json.loads(first) | {"version": 2}).encode() + b"\n" + rest)
    with pytest.raises(MemoryFileError, match="is of version 2, this forerun reads 1"):
        read(file, OWN, [TextMemory(ROOM)])


def test_a_file_cut_anywhere_is_set_aside(file):
    whole = file.read_bytes()
    header = whole.index(b"\n") + 1
    for length in range(header, len(whole) - 1, 37):
        file.write_bytes(whole[:length])
        memory = TextMemory(ROOM)
        found = read(file, OWN, [memory])
        assert found.aside == file.with_name("memory.broken")
        assert found.aside.read_bytes() == whole[:length]
        assert not file.exists()
        assert memory.snapshot() == []
    file.write_bytes(whole[: header // 2])
    with pytest.raises(MemoryFileError, match="is no file of remembered texts"):
        read(file, OWN, [TextMemory(ROOM)])


def test_a_changed_token_is_noticed(file):
    file.write_bytes(file.read_bytes().replace(b"100,101", b"100,102"))
    assert read(file, OWN, [TextMemory(ROOM)]).aside is not None


def test_ids_that_the_model_does_not_have_are_no_texts(tmp_path):
    path = tmp_path / "memory"
    write(path, OWN, filled((text(V - 10), "")))
    assert read(path, OWN, [TextMemory(ROOM)]).aside is not None


@pytest.mark.parametrize("where", ["nowhere/memory", "."])
def test_a_place_that_cannot_be_written(tmp_path, where):
    with pytest.raises(MemoryFileError, match=r"cannot be written: no such file|is a folder"):
        read(tmp_path / where, OWN, [TextMemory(ROOM)])


WRITING = """
import sys
sys.path.insert(0, "tests")
from pathlib import Path
from drafters.test_memory_file import OWN, filled, text, write
memory = filled(*((text(start), "") for start in range(0, 900, 45)), limit=1 << 20)
print("ready", flush=True)
while True:
    write(Path(sys.argv[1]), OWN, memory)
"""


def test_killed_in_the_middle_of_a_write(tmp_path):
    path = tmp_path / "memory"
    write(path, OWN, filled((text(0), "")))
    for wait in (0.0, 0.003, 0.01):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(wait)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        found = read(path, OWN, [TextMemory(1 << 20)])
        assert found.aside is None
        assert found.texts in (1, 20)


def test_a_full_disk_leaves_what_was_there(file, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(file, OWN, filled((text(0), "")))
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_vocabulary_is_what_its_ids_stand_for():
    def model(names, name="m"):
        tokenizer = SimpleNamespace(vocab_size=len(names), token_text=names.__getitem__)
        return SimpleNamespace(name=name, vocab_size=len(names), tokenizer=tokenizer)

    one = Vocabulary.of(model(["a", "b", "c"]))
    assert Vocabulary.of(model(["a", "b", "c"], "other")).tokens == one.tokens
    for names in (["a", "c", "b"], ["a", "b"], ["a", "b", "c", "d"], ["ab", "", "c"]):
        assert Vocabulary.of(model(names)).tokens != one.tokens
    assert Vocabulary.of(tabular()).tokens != one.tokens


def test_who_remembers():
    small, large = SuffixDrafter(memory_bytes=100), SuffixTreeDrafter(memory_bytes=200)
    assert [memory.limit for memory in memories(HybridDrafter([small, large]))] == [100, 200]
    assert memories(HybridDrafter([SuffixDrafter(), NgramDrafter()])) == []
    assert memories(None) == []


@pytest.mark.parametrize("make", [SuffixDrafter, SuffixTreeDrafter])
def test_drafts_come_from_what_was_read(file, make):
    drafter = make(memory_bytes=1 << 16)
    read(file, OWN, memories(drafter))
    prompt = [7, *text(103, 4)]
    drafter.begin(0, prompt, tenant="a")
    drafter.begin(1, prompt, tenant="b")
    drafter.begin(2, prompt, tenant="a", recall=False)
    asked = [ask(slot, prompt, (), num_draft=2) for slot in range(3)]
    found = [proposal.tree.tokens for proposal in drafter.propose(asked)]
    assert found == [(107, 108), (), ()]
