"""Prompts from files, and what is wrong with them."""

from __future__ import annotations

import pytest

from forerun.errors import OptionError
from forerun.plan.texts import BUILT_IN, LEAST, Asked, built_in, read, write
from plan.clocked import models


def test_a_text_is_one_prompt(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("Two lines\n\nof a prompt\n")
    assert read(file) == [Asked(name="a.txt", prompt="Two lines\n\nof a prompt")]
    (asked,) = read(file, chat=True)
    assert asked.prompt == [{"role": "user", "content": "Two lines\n\nof a prompt"}]


def test_a_line_each(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"prompt": "one"}\n\n{"messages": [{"role": "user", "content": "two"}]}\n')
    assert read(file) == [
        Asked(name="a.jsonl:1", prompt="one"),
        Asked(name="a.jsonl:3", prompt=[{"role": "user", "content": "two"}]),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "it is no utf-8 text"),
        (b'{"prompt": "a"}\n{"promt": "b"}', r'line 2: give {"prompt": "…"} or {"messages"'),
        (b'{"prompt": "a"}\n["b"]', "line 2: give"),
        (b'{"prompt": ""}', "line 1: give"),
        (b'{"messages": []}', "line 1: give"),
        (b'{"prompt": "a"', "line 1: .*; give a JSON object a line"),
    ],
)
def test_a_file_that_is_wrong(tmp_path, content, says):
    file = tmp_path / "a"
    file.write_bytes(content)
    with pytest.raises(OptionError, match=says):
        read(file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(OptionError, match="cannot be read: no such file"):
        read(tmp_path / "a")


def test_those_that_come_with_it_need_a_tokenizer():
    _, target, _ = models()
    with pytest.raises(OptionError, match="has no tokenizer"):
        built_in(target)
    assert {"edit", "summary", "code", "question"} == set(BUILT_IN)


def test_what_the_target_writes():
    clock, target, _ = models()
    text = write(target, Asked(name="a", prompt=[0, 1]), {"max_tokens": 20}, clock)
    assert len(text.output) == 20
    assert text.took == 1.0, "a pass of one row"
    assert write(target, Asked(name="a", prompt=[0]), {"max_tokens": LEAST - 1}, clock) is None
