"""Trees of up to 64 nodes in front of the real model: the text is plain decoding's."""

from __future__ import annotations

import pytest

from forerun import Engine
from forerun.drafters import SuffixTreeDrafter
from forerun.models.load import load_model

pytestmark = pytest.mark.model

LIST = "apple, banana, cherry; apple, banana, grape; apple, banana, cherry; apple, "
CODE = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n"
REQUESTS = [
    (LIST, {"temperature": 0.0, "max_tokens": 90}),
    (CODE, {"temperature": 0.0, "max_tokens": 24}),
    (LIST, {"temperature": 0.9, "seed": 4, "max_tokens": 80}),
    (CODE, {"temperature": 0.7, "top_p": 0.9, "seed": 5, "max_tokens": 24}),
]


@pytest.fixture(scope="module")
def target(smollm2_path):
    return load_model(smollm2_path)


def test_texts_are_those_of_plain_decoding(target):
    plain = [Engine(target).generate(prompt, **options).tokens for prompt, options in REQUESTS]
    engine = Engine(target, SuffixTreeDrafter(min_probability=0.0), num_draft=64)
    alone = [engine.generate(prompt, **options) for prompt, options in REQUESTS]
    together = engine.generate_batch(*map(list, zip(*REQUESTS)))
    for done, expected in zip([*alone, *together], plain * 2, strict=True):
        assert done.verifier == "coupled"
        assert done.tokens == expected
    widths = [len(one.drafted) for done in alone for one in done.trace]
    assert max(widths) == 64
    assert any(
        len(one.drafted) == 64 > len({node.parent for node in one.drafted})
        for done in alone for one in done.trace
    ), "no branches"  # fmt: skip
    assert all(done.stats.mean_accepted > 0 for done in alone)
