"""A tiny random target with a chat template, and texts of its own."""

from __future__ import annotations

import numpy as np

from forerun.models.load import load_model
from forerun.train.batches import Corpus
from forerun.train.features import StateFile, Taps
from forerun.train.texts import Text
from models import tiny_gguf

TEMPLATE = (
    "{% for m in messages %}<bos>{{ m.content }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<bos>{% endif %}"
)
TAPS = Taps(chosen=(1, 2, 3), layers=4, hidden=64)


def target(folder, *, seed=0, name="tiny.gguf", template=TEMPLATE):
    """V = 64: letters, and pairs of them."""
    path = tiny_gguf.write(
        folder / name, seed=seed, vocabulary=64, layers=4, heads=2, kv_heads=1, context=512,
        tokenizer=True, metadata={".tokenizer.chat_template": template},
    )  # fmt: skip
    return load_model(path, threads=1)


def texts(count, *, seed=0, length=40):
    """Random ids; the second half of each is the answer."""
    dice = np.random.default_rng(seed)
    return [
        Text(
            name=f"{i}.0",
            ids=tuple(dice.integers(2, 64, length).tolist()),
            spans=((length // 2, length),),
            temperature=1.0,
        )
        for i in range(count)
    ]


def corpus(model, folder, given):
    states = StateFile(folder / "states.f16", TAPS)
    assert states.compute(model, given) == len(given)
    return Corpus(given, *states.read(given), TAPS)
