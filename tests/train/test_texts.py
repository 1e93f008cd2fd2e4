"""Texts on disk."""

from __future__ import annotations

import pytest

from forerun.errors import OptionError
from forerun.train.texts import Text, TextFile

ONE = Text(name="0.0", ids=(1, 5, 9, 2), spans=((2, 4),), temperature=1.0)
TWO = Text(name="1.0", ids=(1, 2), spans=((1, 2),), temperature=None)


def test_what_was_written_is_there_again(tmp_path):
    with TextFile(tmp_path / "t.jsonl") as texts:
        texts.append(ONE)
        texts.append(TWO)
    with TextFile(tmp_path / "t.jsonl") as texts:
        assert list(texts) == [ONE, TWO]
        assert (texts.answered, texts.get("1.0"), texts.get("2.0")) == (3, TWO, None)


def test_half_a_line_is_cut_off(tmp_path):
    with TextFile(tmp_path / "t.jsonl") as texts:
        texts.append(ONE)
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(b'{"name": "1.0", "ids": [1')
    with TextFile(tmp_path / "t.jsonl") as texts:
        assert list(texts) == [ONE]
        texts.append(TWO)
    with TextFile(tmp_path / "t.jsonl") as texts:
        assert list(texts) == [ONE, TWO]


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"name": "0.0"}\n')
    with pytest.raises(OptionError, match=r"t\.jsonl, line 1 is damaged"):
        TextFile(tmp_path / "t.jsonl").__enter__()
