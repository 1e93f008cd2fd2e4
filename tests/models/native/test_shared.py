"""Packed weights in a file that processes share: the same bits, one file, and nothing half made."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from forerun import clib
from forerun.errors import ModelFileError
from forerun.models.base import Step
from forerun.models.load import load_model
from forerun.models.native import plan, shared
from forerun.models.native.kernels import Matrix
from forerun.models.native.model import NativeModel
from models.native.small import CASES, file
from models.tiny_gguf import write

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")
TOKENS = (5, 9, 2, 7)


@pytest.fixture
def tiny(tmp_path):
    return write(tmp_path / "tiny.gguf", heads=2, kv_heads=2, layers=2, context=300)


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.usefixtures("quiet")
def test_every_matrix_is_in_the_file_and_packed_once(tiny, tmp_path, monkeypatch):
    count, pack = [0], Matrix.packed

    def counted(*given):
        count[0] += 1
        return pack(*given)

    monkeypatch.setattr(Matrix, "packed", counted)
    first = NativeModel(tiny, share=tmp_path)
    assert count[0] == len(first._runner.matrices) > 10
    second = NativeModel(tiny, share=tmp_path)
    assert count[0] == len(first._runner.matrices)
    maps = [
        [int(end, 16) for end in line.split()[0].split("-")]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.split()[1] == "r--s" and line.endswith(".packed")
    ]
    for matrix in (*first._runner.matrices.values(), *second._runner.matrices.values()):
        at = matrix.c.data
        assert at % 64 == 0
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
@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "longer", "tail", "killed"])
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
        case "tail":
            place.write_bytes(raw[-20:])
        case "killed":  # while it was written
            place.unlink()
            place.with_suffix(".part").write_bytes(raw[:1000])
    assert (own == logits(NativeModel(tiny, share=tmp_path))).all()
    assert place.read_bytes() == raw
    assert len(packed(tmp_path)) == 1
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.usefixtures("quiet")
def test_another_model_under_the_same_name_makes_room(tiny, tmp_path):
    """Of the same size and age, too. Who has the old one mapped keeps it."""
    age = tiny.stat().st_mtime_ns
    old = NativeModel(tiny, share=tmp_path / "share")
    before = logits(old)
    size = tiny.stat().st_size
    write(tiny, heads=2, kv_heads=2, layers=2, context=300, seed=1)
    os.utime(tiny, ns=(age, age))
    assert (tiny.stat().st_size, tiny.stat().st_mtime_ns) == (size, age)
    new = NativeModel(tiny, share=tmp_path / "share")
    assert (logits(new) == logits(NativeModel(tiny))).all()
    assert not (logits(new) == before).all()
    assert (logits(old) == before).all()
    assert len(packed(tmp_path / "share")) == 1


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("what", ["library", "machine"])
def test_another_library_or_machine_has_its_own(tiny, tmp_path, monkeypatch, what):
    NativeModel(tiny, share=tmp_path)
    (before,) = packed(tmp_path)
    if what == "machine":
        monkeypatch.setattr(shared.platform, "node", lambda: "another")
    else:
        build = type("", (), {"fr_build": staticmethod(lambda: b"another")})
        monkeypatch.setattr(shared, "library", lambda: build)
    NativeModel(tiny, share=tmp_path)
    assert len(packed(tmp_path)) == (2 if what == "machine" else 1)
    assert (before in packed(tmp_path)) == (what == "machine")


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk(tiny, tmp_path, monkeypatch):
    """What is written goes nowhere."""
    own = logits(NativeModel(tiny))
    opened = Path.open

    def full(path, mode="r", **how):
        return opened(Path("/dev/full") if path.suffix == ".part" else path, mode, **how)

    monkeypatch.setattr(Path, "open", full)
    with pytest.warns(RuntimeWarning, match="weights are not shared.*No space left"):
        model = NativeModel(tiny, share=tmp_path / "share")
    assert (own == logits(model)).all()
    assert not packed(tmp_path / "share")


def test_a_model_that_is_replaced_while_it_is_packed(tiny, tmp_path, monkeypatch):
    made = plan.Plan

    def slow(*given, **how):
        found = made(*given, **how)
        os.utime(tiny, ns=(0, next(ages)))
        return found

    ages = iter(range(1, 99))
    monkeypatch.setattr(plan, "Plan", slow)
    with pytest.warns(RuntimeWarning, match="not shared.*replaced while it was read"):
        shared.shared_matrices(tiny, tmp_path, lambda: plan.Plan(*small(tiny), threads=1).matrices)
    assert not packed(tmp_path)


def small(path):
    from forerun.models.gguf import read_gguf
    from forerun.models.native.hyperparameters import read_hyperparameters

    opened = read_gguf(path)
    return opened, read_hyperparameters(opened)


def test_without_locks(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "LOCKS", False)
    with pytest.warns(RuntimeWarning, match="not shared. this system has no locks"):
        assert not NativeModel(tiny, share=tmp_path).shares_weights


def test_what_is_wrong_with_the_model_is_said_as_ever(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFileError):
        NativeModel(tmp_path / "bad.gguf", share=tmp_path / "share")


@pytest.mark.usefixtures("quiet")
def test_the_table_names_what_the_file_holds(tiny, tmp_path):
    model = NativeModel(tiny, share=tmp_path)
    raw = packed(tmp_path)[0].read_bytes()
    size = int.from_bytes(raw[-28:-20], "little")
    table = json.loads(raw[-28 - size : -28])
    assert {name: (kind, rows, width) for name, kind, rows, width, _ in table} == {
        name: (m.kind, m.rows, m.width) for name, m in model._runner.matrices.items()
    }


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
