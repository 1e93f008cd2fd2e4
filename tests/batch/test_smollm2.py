"""The real model: every line of a batch is the text it would be alone, decoded plainly."""

from __future__ import annotations

import pytest

from forerun import load

from .fakes import answers, run_batch, written

pytestmark = pytest.mark.model


def test_lines_are_what_they_are_alone(smollm2_path, tmp_path):
    talk = [{"role": "user", "content": "Name three colours."}]
    lines = [
        {"prompt": "Once upon a time"},
        {"prompt": "Once upon a time"},
        {"prompt": "one two three one two three one two", "temperature": 0},
        {"messages": talk, "temperature": 0.7, "top_p": 0.9},
        {"prompt": "The sea", "repetition_penalty": 1.2, "seed": 5},
    ]
    source = written(tmp_path / "in", *({"return_token_ids": True, **line} for line in lines))
    engine = load(str(smollm2_path), drafter="suffix", threads=1)
    with engine:
        run_batch(engine, source, tmp_path / "out")
        engine_alone = load(str(smollm2_path), threads=1)
        with engine_alone:
            for number, found in answers(tmp_path / "out").items():
                line = dict(lines[number - 1])
                prompt = line.pop("prompt", None) or line.pop("messages")
                asked = {"max_tokens": 12, **line, "seed": found["seed"], "num_draft": 0}
                alone = engine_alone.generate(prompt, **asked)
                body = found["response"]["body"]
                assert body["choices"][0]["token_ids"] == list(alone.tokens)
                assert body["system_fingerprint"].endswith(f"-{engine.target.path}")
