"""Packed weights in a file that processes share: the same bits, one file, and nothing half made."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from forerun import clib
from forerun.models.base import Step
from forerun.models.load import load_model
from forerun.models.native import shared
from forerun.models.native.kernels import Arena
from forerun.models.native.model import NativeModel
from models.native.small import CASES, file
from models.tiny_gguf import write

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")
TOKENS = (5, 9, 2, 7)


@pytest.fixture
def tiny(tmp_path):
    return write(tmp_path / "tiny.gguf", heads=2, kv_heads=2, layers=2, context=300)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(Arena, "PIECE", 1 << 20)


@pytest.fixture
def quiet():
    """No warning is allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def logits(model):
    found = model.extend([Step(slot=model.open(), tokens=TOKENS, rows=len(TOKENS))])[0]
    return np.asarray(found).copy()


def packed(folder):
    return sorted(folder.glob("*.packed"))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("case", CASES)
def test_the_bits_are_those_of_weights_of_its_own(case, tmp_path):
    """Of the process that packs, and of one that finds it done."""
    model = file(tmp_path, case)
    own = logits(NativeModel(model))
    share = tmp_path / "share"
    first, second = NativeModel(model, share=share), NativeModel(model, share=share)
    assert (own == logits(first)).all()
    assert (own == logits(second)).all()
    assert first.shares_weights
    assert second.shares_weights
    assert first.weight_bytes == second.weight_bytes
    assert [f.suffix for f in sorted(share.iterdir())] == [".packed", ".lock"]


@pytest.mark.usefixtures("quiet")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_it_is_packed_once(tiny, tmp_path):
    """Of the second model, every matrix lies in pages of the file that nobody wrote."""
    NativeModel(tiny, share=tmp_path)
    before = packed(tmp_path)[0].stat()
    model = NativeModel(tiny, share=tmp_path)
    after = packed(tmp_path)[0].stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    maps = [
        [int(end, 16) for end in line.split()[0].split("-")]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.split()[1] == "r--s" and line.endswith(".packed")
    ]
    matrices = model._runner._matrices.values()
    assert matrices
    for matrix in matrices:
        at = matrix.c.data
        assert any(a <= at and at + matrix.size <= b for a, b in maps)


def test_processes_that_start_together(tiny, tmp_path):
    """All get the same bits, whoever of them packs."""
    own = logits(NativeModel(tiny))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        found = pool.map(partial(in_a_process, tiny), [tmp_path / "share"] * 6)
    assert all((own == each).all() for each in found)
    assert len(packed(tmp_path / "share")) == 1


def in_a_process(model, share):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return logits(NativeModel(model, share=share))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "longer", "killed"])
def test_a_damaged_file_is_made_anew(tiny, tmp_path, damage):
    own = logits(NativeModel(tiny))
    NativeModel(tiny, share=tmp_path)
    place = packed(tmp_path)[0]
    raw = bytearray(place.read_bytes())
    flipped = raw.copy()
    flipped[100] ^= 1
    match damage:
        case "cut":
            place.write_bytes(raw[:-40])
        case "flipped":
            place.write_bytes(flipped)
        case "emptied":
            place.write_bytes(b"")
        case "longer":
            place.write_bytes(raw + raw[-28:])
        case "killed":  # while it was packed
            place.unlink()
            place.with_suffix(".part").write_bytes(raw[:1000])
    assert (own == logits(NativeModel(tiny, share=tmp_path))).all()
    assert place.read_bytes() == raw
    assert len(packed(tmp_path)) == 1
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.usefixtures("quiet")
def test_another_version_makes_room(tiny, tmp_path):
    """A model's file that was replaced; who has the old one mapped keeps it."""
    old = NativeModel(tiny, share=tmp_path / "share")
    before = logits(old)
    write(tiny, heads=2, kv_heads=2, layers=2, context=300, seed=1)
    os.utime(tiny, ns=(0, 10**18))
    new = NativeModel(tiny, share=tmp_path / "share")
    assert (logits(new) == logits(NativeModel(tiny))).all()
    assert not (logits(new) == before).all()
    assert (logits(old) == before).all()
    assert len(packed(tmp_path / "share")) == 1


def test_two_models_do_not_disturb_each_other(tiny, tmp_path):
    other = write(tmp_path / "other.gguf", heads=2, kv_heads=2, layers=1, context=300)
    share = tmp_path / "share"
    for path in (tiny, other, tiny):
        NativeModel(path, share=share)
    assert len(packed(share)) == 2


def test_a_folder_that_cannot_be_used(tiny, tmp_path):
    """It runs with weights of its own, and says why."""
    own = logits(NativeModel(tiny))
    place = tmp_path / "a file"
    place.write_text("")
    with pytest.warns(RuntimeWarning, match=r"tiny\.gguf: weights are not shared.*a file"):
        model = NativeModel(tiny, share=place)
    assert not model.shares_weights
    assert (own == logits(model)).all()


def test_a_full_disk(tiny, tmp_path, monkeypatch):
    own = logits(NativeModel(tiny))

    def full(arena, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shared.SharedArena, "_more", full)
    with pytest.warns(RuntimeWarning, match="weights are not shared.*No space left"):
        model = NativeModel(tiny, share=tmp_path / "share")
    assert (own == logits(model)).all()
    assert not packed(tmp_path / "share")
    assert not list((tmp_path / "share").glob("*.part"))


def test_what_is_taken_later_is_its_own(tmp_path, tiny):
    model = NativeModel(tiny, share=tmp_path / "share")
    assert type(model._runner._arena) is Arena


@pytest.mark.usefixtures("quiet")
def test_load_model_shares_in_its_cache_folder(tmp_path):
    tiny = write(tmp_path / "tiny.gguf", heads=2, kv_heads=2, tokenizer=True)
    own = load_model(tiny, cache=tmp_path / "cache")
    assert not own.shares_weights
    assert not (tmp_path / "cache" / "packed").exists()
    model = load_model(tiny, cache=tmp_path / "cache", share_weights=True)
    assert model.shares_weights
    assert packed(tmp_path / "cache" / "packed")
    assert model.cost_key != own.cost_key
