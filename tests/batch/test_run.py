"""Answers of a batch: those of the server, in any order and company, interrupted or not."""

from __future__ import annotations

import json
import threading

import pytest

from engine.fakes import END, speaks
from forerun import Engine, TabularModel
from forerun.batch import Batch, Desk, Output, Source
from forerun.batch.desk import derived_seed
from forerun.drafters import NgramDrafter
from forerun.errors import OptionError, RoundError
from server.fakes import Slow, lively, lively_model, serving

from .fakes import RUN, answers, run_batch, same, terms, written

CHAT = {"messages": [{"role": "user", "content": "hello"}]}
LINES = [
    {"prompt": "hello"},
    {"prompt": "hello"},
    CHAT,
    {"prompt": "hello", "temperature": 0, "max_tokens": 30},
    {"prompt": ["a", "b"], "n": 2, "custom_id": "x"},
    {"prompt": "abc", "seed": -1, "logprobs": 2, "echo": True},
    {"custom_id": "y", "method": "POST", "url": "/v1/chat/completions",
     "body": {**CHAT, "logprobs": True, "stop": "a", "return_token_ids": True}},
    {"prompt": "abc", "verifier": "rejection", "trace": True},
    {"prompt": "abc", "response_format": {"type": "regex", "regex": "[ab]{4}"}},
]  # fmt: skip
BAD = [b"no", {"prompt": "", "top_k": 1.5}, {"custom_id": "x", "prompt": "again"},
       {"prompt": "x", "model": "other"}, {"prompt": "x", "drafter": "suffix"}]  # fmt: skip


def engine(seconds=0.0, **options):
    return Engine(lively_model(seconds), NgramDrafter(), num_draft=3, **options)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return written(tmp_path_factory.mktemp("in") / "in.jsonl", *LINES, *BAD)


@pytest.fixture(scope="module")
def usual(source, tmp_path_factory):
    """Records by number."""
    out = tmp_path_factory.mktemp("out") / "out"
    with engine() as one:
        tally = run_batch(one, source, out)
    assert (tally.lines, tally.failed) == (len(LINES + BAD), len(BAD))
    return answers(out)


def test_records_are_the_servers_answers(usual):
    with serving(engine()) as server:
        for number, line in enumerate(LINES, start=1):
            body = line.get("body", line)
            path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
            found = usual[number]
            asked = {"max_tokens": 12, **body, "seed": found["seed"]}
            answer = server.ask(path, asked)
            assert answer.status == found["response"]["status_code"] == 200
            theirs, ours = answer.json, found["response"]["body"]
            assert ours["usage"]["completion_tokens"] == theirs["usage"]["completion_tokens"] > 0
            for one in (theirs, ours):
                for choice in one["choices"]:
                    choice.pop("trace", None)
            assert ours["choices"] == theirs["choices"]
            assert set(ours) == set(theirs)
            assert found["custom_id"] == line.get("custom_id")
            assert found["error"] is None


def test_errors(usual):
    bad = [usual[len(LINES) + i] for i in range(1, 6)]
    assert bad[0]["error"]["code"] == "invalid_json"
    assert bad[2]["error"] == {
        "code": "duplicate_custom_id",
        "message": "the custom_id is that of line 5, too: give each line its own",
    }
    assert all(record["response"] is None for record in (bad[0], bad[2]))
    said = [(bad[i]["response"], bad[i]["error"]) for i in (1, 3, 4)]
    assert [(r["status_code"], e) for r, e in said] == [(400, None), (404, None), (400, None)]
    assert [r["body"]["error"]["param"] for r, _ in said] == ["top_k", "model", None]
    assert "seed" not in bad[1]


def test_seeds(usual):
    assert [usual[n]["seed"] for n in (1, 2)] == [derived_seed("s", n) for n in (1, 2)]
    texts = [usual[n]["response"]["body"]["choices"][0]["text"] for n in (1, 2)]
    assert texts[0] != texts[1]
    assert usual[6]["seed"] == 2**64 - 1
    seeds = {derived_seed(run, n) for run in ("s", "t") for n in range(1000)}
    assert len(seeds) == 2000
    assert max(seeds) < 2**64


@pytest.mark.parametrize("shuffle", [1, 2])
def test_neither_order_nor_company_matters(source, usual, tmp_path, shuffle):
    with (
        Engine(lively_model(), max_batch=shuffle) as other,
        Source(source) as lines,
        Output(tmp_path / "out", RUN, lines.last) as output,
    ):
        work = Batch(other, Desk(other, terms()), lines, output)
        assert work.run(lines.order(4, shuffle))
        assert work.tally.lines == 4
        assert work.run(lines.order(shuffle=shuffle))
    found = answers(tmp_path / "out")
    tied = {8, len(LINES) + 5}  # `rejection` depends on γ and drafter; a drafter that is not there
    assert same(*({n: r for n, r in one.items() if n not in tied} for one in (found, usual)))


def test_few_lines_are_in_memory(tmp_path):
    path = written(tmp_path / "in", *({"prompt": f"{i}"} for i in range(60)))
    most = 0
    with (
        engine(max_batch=3) as one,
        Source(path) as lines,
        Output(tmp_path / "out", RUN, lines.last) as output,
    ):
        work = Batch(one, Desk(one, terms()), lines, output)
        listen = work._listen

        def count(stream):
            nonlocal most
            most = max(most, len(work._asked))
            listen(stream)

        work._listen = count
        assert work.run(lines.order())
        assert 3 <= most <= 6
        assert not work._begun


def test_stopping_ends_what_has_begun_and_leaves_the_rest(tmp_path):
    path = written(tmp_path / "in", *({"prompt": f"{i}", "max_tokens": 40} for i in range(30)))
    stopping = threading.Event()
    with engine(0.005, max_batch=2) as one:
        with Source(path) as lines, Output(tmp_path / "out", RUN, lines.last) as output:
            work = Batch(
                one, Desk(one, terms()), lines, output, stopping=stopping.is_set,
                watch=lambda tally: tally.tokens > 60 and stopping.set(),
            )  # fmt: skip
            assert not work.run(lines.order())
        some = answers(tmp_path / "out")
        assert 0 < len(some) < 30
        assert all(record["response"]["status_code"] == 200 for record in some.values())
        assert one.status().running + one.status().waiting == 0
        run_batch(one, path, tmp_path / "out")
        run_batch(one, path, tmp_path / "whole")
    assert same(answers(tmp_path / "out"), answers(tmp_path / "whole"))


def test_a_round_that_breaks_off_ends_the_run(tmp_path):
    class Breaking(Slow):
        left = 25

        def extend(self, steps):
            self.left -= 1
            if self.left == 0:
                raise RuntimeError("out of luck")
            return super().extend(steps)

    model = Breaking(lively, lively_model().vocab_size, frozenset({END}), name="tiny")
    model.tokenizer = lively_model().tokenizer
    path = written(tmp_path / "in", *({"prompt": f"{i}"} for i in range(30)))
    with Engine(model, max_batch=3) as one:
        with pytest.raises(RoundError, match="out of luck"):
            run_batch(one, path, tmp_path / "out")
        assert 0 < (some := len(answers(tmp_path / "out"))) < 30
        assert run_batch(one, path, tmp_path / "out").lines == 30 - some
    assert all(r["response"]["status_code"] == 200 for r in answers(tmp_path / "out").values())


def test_nan_is_that_lines_error(tmp_path):
    def law(prefix):
        p = lively(prefix)
        return p * float("nan") if prefix[0] == 4 + ord("z") else p

    model = TabularModel(law, lively_model().vocab_size, frozenset({END}), name="tiny")
    model.tokenizer = lively_model().tokenizer
    path = written(tmp_path / "in", *({"prompt": letter} for letter in "abzc"))
    with Engine(model) as one:
        tally = run_batch(one, path, tmp_path / "out")
    assert (tally.lines, tally.failed) == (4, 1)
    response = answers(tmp_path / "out")[3]["response"]
    assert response["status_code"] == 500
    assert "NaN" in json.dumps(response["body"])


def test_no_tokenizer():
    model = speaks(lively)
    model.tokenizer = None
    with Engine(model) as one, pytest.raises(OptionError, match="has no tokenizer: a batch needs"):
        Desk(one, terms())


def test_a_doubled_write_is_a_bug(tmp_path):
    with Output(tmp_path / "out", RUN, 2) as output:
        output.write(1, b"x\n")
        with pytest.raises(AssertionError):
            output.write(1, b"x\n")
