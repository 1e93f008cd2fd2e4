"""Answers: each a text of its own, the same whoever else is answered; those given as they are."""

from __future__ import annotations

import pytest

from forerun.engine import Engine
from forerun.errors import TemplateError
from forerun.train.chats import Chat
from forerun.train.continuations import Continuations, given, user_turn
from forerun.train.texts import TextFile
from train import tiny

CHATS = [Chat(number=i, turns=("abc", "de")[: 1 + i % 2]) for i in range(5)]


def answered(model, path, chats, *, stopping=lambda: False, max_batch=4):
    with TextFile(path) as texts, Engine(model, num_draft=0, max_batch=max_batch) as engine:
        work = Continuations(engine, texts, seed=3, max_tokens=12, stopping=stopping)
        whole = work.run(chats)
        return whole, {text.name: text for text in texts}, work


def test_every_turn_is_answered_after_the_answer_before(model, tmp_path):
    whole, texts, _ = answered(model, tmp_path / "a.jsonl", CHATS)
    assert whole
    assert set(texts) == {"0.0", "1.0", "1.1", "2.0", "3.0", "3.1", "4.0"}
    first, second = texts["1.0"], texts["1.1"]
    start, stop = first.spans[0]
    said = [
        {"role": "user", "content": "abc"},
        {"role": "assistant", "content": model.tokenizer.decode(first.ids[start:stop])},
        {"role": "user", "content": "de"},
    ]
    assert second.ids[: second.spans[0][0]] == tuple(model.tokenizer.encode_chat(said))
    assert [texts[f"{i}.0"].temperature for i in range(4)] == [0.0, 1.0, 0.7, 0.0]


def test_stopped_and_taken_up_it_ends_with_the_same_texts(model, tmp_path):
    _, wanted, _ = answered(model, tmp_path / "a.jsonl", CHATS)
    path = tmp_path / "b.jsonl"
    looks = iter([False] * 3)
    whole, some, _ = answered(model, path, CHATS, stopping=lambda: next(looks, True), max_batch=1)
    assert not whole
    assert 0 < len(some) < len(wanted)
    whole, texts, work = answered(model, path, CHATS, max_batch=3)
    assert whole
    assert texts == wanted
    assert 0 < work.tokens < sum(text.answered for text in texts.values())


def test_a_chat_that_is_too_long_is_passed_over(model, tmp_path):
    chats = [Chat(number=0, turns=("a" * 1500,)), Chat(number=1, text="abc")]
    whole, texts, work = answered(model, tmp_path / "a.jsonl", chats)
    assert whole
    assert set(texts) == {"1.0"}
    assert work.refused == 1


def test_answers_that_are_there_are_marked(model, tmp_path):
    said = [("user", "ab"), ("assistant", "cd"), ("user", "e"), ("assistant", "fgh")]
    chat = Chat(number=7, before=tuple({"role": r, "content": c} for r, c in said))
    text = given(model, chat)
    marked = [model.tokenizer.decode(text.ids[a:b]) for a, b in text.spans]
    assert marked == ["cd", "fgh"]
    assert text.temperature is None
    whole, texts, work = answered(model, tmp_path / "a.jsonl", [chat])
    assert whole
    assert texts == {"7.0": text}
    assert work.tokens == 0


IMAGINED = [Chat(number=i, imagined=True) for i in range(24)]


def test_an_imagined_user_is_answered_like_any_other(model, tmp_path):
    whole, texts, work = answered(model, tmp_path / "a.jsonl", IMAGINED)
    assert whole
    assert work.refused == 0
    assert 5 < len(texts) < 24  # not all come to an end
    said = []
    for text in texts.values():
        start, stop = text.spans[0]
        before = model.tokenizer.decode(text.ids[:start])
        said.append(before)
        asked = [{"role": "user", "content": before}]
        assert text.ids[:start] == tuple(model.tokenizer.encode_chat(asked))
        assert 0 < stop - start <= 12
    assert len(set(said)) > 5
    assert {text.temperature for text in texts.values()} == {0.0, 1.0, 0.7}


def test_imagined_users_say_the_same_when_taken_up(model, tmp_path):
    _, wanted, _ = answered(model, tmp_path / "a.jsonl", IMAGINED)
    path = tmp_path / "b.jsonl"
    looks = iter([False] * 12)
    whole, some, _ = answered(model, path, IMAGINED, stopping=lambda: next(looks, True))
    assert not whole
    assert len(some) < len(wanted)
    whole, texts, _ = answered(model, path, IMAGINED, max_batch=7)
    assert whole
    assert texts == wanted


def test_where_the_user_speaks(model):
    tokenizer = model.tokenizer
    begun, end = user_turn(tokenizer)
    assert (begun, end) == (tokenizer.encode("<bos>", special=True), "<eos>")


@pytest.mark.parametrize("template", ["<bos>{{ messages|length }}<eos>", "{{ messages }}" * 2])
def test_a_template_that_hides_what_is_said(tmp_path, template):
    model = tiny.target(tmp_path, template=template)
    with pytest.raises(TemplateError, match="does not show once"):
        user_turn(model.tokenizer)
    whole, texts, work = answered(model, tmp_path / "a.jsonl", IMAGINED[:3])
    assert whole
    assert not texts
    assert work.refused == 3
