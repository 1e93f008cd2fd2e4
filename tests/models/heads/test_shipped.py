"""Heads that come with forerun, and where they are taken by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import forerun
from forerun.errors import CapabilityError, OptionError
from forerun.models.gguf import read_gguf
from forerun.models.heads import shipped as shipped_
from forerun.models.heads.checkpoint import read_head
from forerun.models.heads.load import load_head
from forerun.models.heads.model import HeadModel
from forerun.models.native.model import NativeModel
from forerun.text.tokenizer import Tokenizer
from models.heads.tiny_heads import stored_head
from models.tiny_gguf import write

V = 50


@pytest.fixture
def target(tmp_path: Path) -> NativeModel:
    file = write(
        tmp_path / "target.gguf",
        "llama", seed=1, vocabulary=V, heads=2, kv_heads=1, layers=3, types="Q8_0",
    )  # fmt: skip
    return NativeModel(file, threads=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shipped_, "FOLDER", tmp_path / "heads")
    return tmp_path / "heads"


def test_found_by_the_target_s_fingerprint(target: NativeModel, folder: Path) -> None:
    assert shipped_.shipped(target) is None
    with pytest.raises(OptionError, match="no head for target comes with forerun"):
        load_head(None, target)
    stored_head(folder / "other", fingerprint="0123/")
    stored_head(folder / "own", fingerprint=target.fingerprint)
    shipped_._by_fingerprint.cache_clear()
    assert shipped_.shipped(target) == folder / "own"
    assert load_head(None, target).head.path == folder / "own"
    assert load_head(folder / "own", target).taps == (1, 0, 2)
    with pytest.raises(CapabilityError, match="other weights"):
        load_head(folder / "other", target)
    made = HeadModel(read_head(folder / "own"), target)
    assert load_head(made, target) is made
    shipped_._by_fingerprint.cache_clear()


def test_load_takes_heads(target: NativeModel, folder: Path) -> None:
    stored_head(folder / "own", fingerprint=target.fingerprint)
    shipped_._by_fingerprint.cache_clear()
    given, alone = folder / "own", {"max_tokens": 12, "temperature": 0}
    plain = forerun.load(target).generate([1, 2, 3], **alone)
    for drafter, head, names in (
        (None, given, {"suffix", "head"}),
        ("head", given, {"head"}),
        ("head", None, {"head"}),
        ("suffix+head-tree", None, {"suffix", "head-tree"}),
    ):
        engine = forerun.load(target, drafter, head=head, num_draft=3)
        assert set(engine.drafter.parts if "+" in engine.drafter.name else {drafter}) == names
        assert engine.generate([1, 2, 3], **alone).tokens == plain.tokens
    with pytest.raises(OptionError, match="head goes with drafter 'head', not with 'ngram'"):
        forerun.load(target, "ngram", head=given)
    with pytest.raises(OptionError, match=r"need a drafter, such as 'model\+head'"):
        forerun.load(target, head=given, draft_model=target)
    shipped_._by_fingerprint.cache_clear()


def test_what_is_shipped_can_be_read() -> None:
    for config in shipped_.FOLDER.glob("*/config.json"):
        head = read_head(config.parent)
        assert head.config.fingerprint
        assert sum(file.stat().st_size for file in config.parent.iterdir()) <= 10_000_000


@pytest.mark.model
def test_smollm2_has_one(smollm2_path: Path) -> None:
    """It drafts what is accepted, and changes no token."""
    target = NativeModel(
        smollm2_path, tokenizer=Tokenizer.from_gguf(read_gguf(smollm2_path).metadata)
    )
    found = shipped_.shipped(target)
    assert found is not None
    assert found.name == "smollm2"
    prompt = target.tokenizer.encode_chat([{"role": "user", "content": "What is a prime number?"}])
    alone = {"max_tokens": 40, "temperature": 0}
    plain = forerun.load(target).generate(prompt, **alone)
    drafted = forerun.load(target, "head", num_draft=4).generate(prompt, **alone)
    assert drafted.tokens == plain.tokens
    assert len(drafted.trace) < 0.8 * len(plain.trace)
