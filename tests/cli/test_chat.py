"""`forerun chat` over a pipe: each line a turn; what is remembered, and what is dropped."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from cli.fakes import Tokenizer
from forerun.cli.chat import Conversation, turn_seed

FAKE = ("-m", "fake", "--temperature", "0", "-n", "12")


def answers(result):
    return [json.loads(line) for line in result.out.splitlines()]


def prompts(result):
    return [Tokenizer().decode(done["prompt"]) for done in answers(result)]


def test_each_line_is_a_turn(cli):
    result = cli("chat", *FAKE, stdin=b"hi\n\n  \nthe cat\r\n")
    assert result.code == 0
    assert result.err == ""
    assert [len(line) for line in result.out.splitlines()] == [12, 12]
    assert "\x1b" not in result.out
    assert "> " not in result.out


def test_the_conversation_is_kept(cli):
    result = cli("chat", *FAKE, "--json", "--system", "be", stdin=b"one\ntwo")
    first, second = answers(result)
    assert prompts(result) == [
        "<system>be\n<user>one\n",
        f"<system>be\n<user>one\n<assistant>{first['text']}\n<user>two\n",
    ]
    assert second["finish_reason"] == "length"


def test_a_turn_reads_nothing_twice(cli):
    """The template begins answers in other words than their prompts end, so that the pages of an
    answer serve no further turn here."""
    done = answers(cli("chat", *FAKE, "--json", "--system", "be", stdin=b"one\ntwo\nthree"))
    for before, after in pairwise(done):
        assert after["cached_tokens"] == len(before["prompt"])
    assert done[0]["cached_tokens"] == 0
    without = answers(cli("chat", *FAKE, "--json", "--max-memory", "64KiB", stdin=b"one\ntwo"))
    assert without[1]["cached_tokens"] > 0


def test_reset_forgets_all_but_the_system_message(cli):
    result = cli("chat", *FAKE, "--json", "--system", "be", stdin=b"one\n/reset\ntwo\n")
    assert prompts(result)[1] == "<system>be\n<user>two\n"
    assert "the conversation is forgotten" in result.err


def test_exit_and_help(cli):
    result = cli("chat", *FAKE, stdin=b"/help\n/exit\nthe cat\n")
    assert (result.code, result.out) == (0, "")
    assert all(name in result.err for name in ("/help", "/reset", "/exit"))


def test_unknown_commands_are_not_messages(cli):
    result = cli("chat", *FAKE, "--json", stdin=b"/rest\n/etc is what?\n")
    assert "no command /rest; did you mean /reset?" in result.err
    assert prompts(result) == ["<user>/etc is what?\n"]


def test_no_input_at_all(cli):
    assert cli("chat", *FAKE).code == 0


def test_the_oldest_turns_are_dropped(cli):
    lines = [f"line {i}" for i in range(6)]
    args = ("chat", "-m", "fake:context=100", *FAKE[2:], "--system", "be", "--json")
    result = cli(*args, stdin="\n".join(lines).encode())
    assert result.code == 0
    seen = prompts(result)
    assert len(seen) == 6
    for line, prompt in zip(lines, seen):
        assert prompt.startswith("<system>be\n")
        assert prompt.endswith(f"<user>{line}\n")
        assert len(prompt) + 12 <= 100
    assert "line 0" in seen[1]
    assert "line 0" not in seen[5]
    assert (
        "the conversation has outgrown the context of 100 tokens: the oldest turn was dropped"
        in (result.err)
    )


def test_room_is_at_most_half_the_context(cli):
    """With the default of 256 tokens an answer would fill this context alone."""
    result = cli("chat", "-m", "fake:context=100", "--json", stdin=b"one\ntwo\n")
    assert "the oldest turn was dropped" in result.err
    assert len(answers(result)) == 2


def test_dropping_stops_at_what_fits():
    conversation = Conversation("s", [("a", "b"), ("c", "d"), ("e", "f")])
    assert conversation.drop_until(lambda messages: len(messages) <= 4, "g") == 2
    assert [m["content"] for m in conversation.messages("g")] == ["s", "e", "f", "g"]
    assert conversation.drop_until(lambda messages: False, "g") == 1
    assert conversation.turns == []


def test_a_message_too_long_for_the_context(cli):
    result = cli("chat", "-m", "fake:context=30", stdin=b"x" * 40)
    assert result.code == 2
    assert "fake has a context of 30" in result.err


def test_an_error_in_an_answer(cli):
    result = cli("chat", "-m", "fake:nan=20", stdin=b"the\nmore\n")
    assert result.code == 1
    assert "position" in result.err
    assert result.out.count("\n") == 1


def test_lines_that_are_not_text(cli):
    result = cli("chat", *FAKE, stdin=b"fine\n\xff\n")
    assert result.code == 2
    assert "line 2 of standard input is not UTF-8 text" in result.err


def test_a_model_without_a_chat_template(cli):
    result = cli("chat", "-m", "fake:ids", stdin=b"hi\n")
    assert result.code == 2
    assert "fake has no chat template; forerun generate takes plain text" in result.err


def test_the_trace_counts_answers(cli, tmp_path):
    path = tmp_path / "trace"
    cli("chat", *FAKE, "--trace", path, stdin=b"one\ntwo\n")
    numbers = [json.loads(line)["request"] for line in path.read_text().splitlines()]
    assert set(numbers) == {0, 1}


@pytest.mark.parametrize("option", ["--compare", "--prompt-file", "--chat"])
def test_options_of_generate_alone(option, cli):
    assert cli("chat", option).code == 2


def test_each_turn_has_a_seed_of_its_own(cli):
    """Earlier answers are part of a turn's prompt, and know the noise that wrote them."""
    lines = b"one\ntwo\n/reset\none\n"
    sampled = ("-m", "fake", "--temperature", "1", "-n", "12", "--json", "--seed", "7")
    first = [done["seed"] for done in answers(cli("chat", *sampled, stdin=lines))]
    again = [done["seed"] for done in answers(cli("chat", *sampled, stdin=lines))]
    assert first == again
    assert first[0] == 7
    assert len(set(first)) == 3
    assert turn_seed(None, 3) is None
