"""Drafts from texts that a file kept: the law of the output is the target's all the same."""

from __future__ import annotations

import itertools

import pytest

from certify.tables import PROMPT, controls, target
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import SuffixDrafter, SuffixTreeDrafter
from forerun.drafters.memory_file import Vocabulary, memories, read, write
from forerun.drafters.text_memory import TextMemory
from forerun.verifiers import VERIFIERS, verifier

HORIZON = 3
KINDS = {"suffix": SuffixDrafter, "suffix-tree": SuffixTreeDrafter}


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    """A drafter that has read what another one kept of texts like the prompt."""

    def make(kind, vocabulary):
        path = tmp_path_factory.mktemp("kept") / "memory"
        kept = TextMemory(1 << 16)
        for text in itertools.product(range(vocabulary), repeat=2):
            kept.add((*PROMPT * 3, *text, *text))
        named = Vocabulary.of(target(vocabulary))
        write(path, named, kept)
        drafter = KINDS[kind](memory_bytes=1 << 16)
        assert read(path, named, memories(drafter)).texts == vocabulary**2
        return drafter

    return make


@pytest.mark.parametrize("control", controls(2))
@pytest.mark.parametrize(
    ("kind", "judge"),
    [
        (kind, judge)
        for kind, made in KINDS.items()
        for judge in VERIFIERS
        if verifier(judge).judges(made.traits.drawn, made.traits.chain)
    ],
)
def test_it_is_exact(remembering, kind, judge, control):
    drafter = remembering(kind, 2)
    common = {"prompt": PROMPT * 3, "max_tokens": HORIZON, **controls(2)[control]}
    found = exact_law(target(2), drafter, verifier=judge, num_draft=2, **common)
    assert total_variation(found, plain_law(target(2), **common)) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_it_does_draft_from_them(remembering, kind):
    drafter = remembering(kind, 3)
    drafter.begin(0, PROMPT * 3)
    assert drafter.outlook(0, 3 * len(PROMPT), 4).most > 0
    drafter.end(0)
