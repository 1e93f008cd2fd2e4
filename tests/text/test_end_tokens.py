"""Which tokens end a text."""

from __future__ import annotations

from forerun.text.end_tokens import end_tokens


def test_named_and_known() -> None:
    assert end_tokens([5, None], {"</s>": 2, "<pad>": 0}) == {5, 2}


def test_harmonys_end_of_a_message_ends_no_text() -> None:
    control = {"<|return|>": 1, "<|end|>": 2, "<|call|>": 3}
    assert end_tokens([1], control) == {1, 3}
    assert end_tokens([], {"<|end|>": 2}) == {2}
