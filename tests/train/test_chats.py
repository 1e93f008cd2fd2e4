"""A user's file of prompts and chats: whatever is wrong is said with its line."""

from __future__ import annotations

import pytest

from forerun.errors import OptionError
from forerun.train.chats import read_chats

CASES = {
    "{": "line 2 is not valid JSON in UTF-8",
    '{"text": "a"}': 'line 2 must be an object with either "prompt", a text, or "messages"',
    '{"prompt": ""}': 'line 2: "prompt" must be a text of at least one letter',
    '{"messages": []}': 'line 2: "messages" must be a list of at least one message',
    '{"messages": [{"role": "poet", "content": "a"}]}': 'line 2: each message needs a "role"',
    '{"messages": [{"role": "user"}]}': 'line 2: each message needs its "content" as text',
    '{"messages": [{"role": "system", "content": "a"}]}': "line 2: the last message must be of",
}


@pytest.mark.parametrize("line", CASES)
def test_what_is_wrong_is_named(tmp_path, line):
    path = tmp_path / "chats.jsonl"
    path.write_text('{"prompt": "a"}\n' + line + "\n")
    with pytest.raises(OptionError, match=f"--data .*chats.jsonl, {CASES[line]}"):
        read_chats("--data", path)


def test_a_file_that_is_empty_or_not_there(tmp_path):
    with pytest.raises(OptionError, match=r"--eval .* cannot be read: no such file"):
        read_chats("--eval", tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(OptionError, match=r"empty\.jsonl is empty"):
        read_chats("--data", tmp_path / "empty.jsonl")


def test_prompts_questions_and_answered_chats(tmp_path):
    path = tmp_path / "chats.jsonl"
    user, system, said = (
        {"role": role, "content": role} for role in ("user", "system", "assistant")
    )
    path.write_text(
        '{"prompt": "Once"}\n\n'
        f'{{"messages": [{system}, {user}]}}\n{{"messages": [{user}, {said}]}}'.replace("'", '"')
    )
    text, question, answered = read_chats("--data", path)
    assert (text.text, text.answers) == ("Once", 1)
    assert (question.before, question.turns, question.answers) == ((system,), ("user",), 1)
    assert (answered.before, answered.answers) == ((user, said), 0)
    assert [chat.number for chat in (text, question, answered)] == [0, 1, 2]
