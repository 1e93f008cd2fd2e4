"""States on disk: those of the model, of whole texts, whatever a kill left."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from forerun.errors import CapabilityError, OptionError
from forerun.models.base import Step
from forerun.models.tabular import TabularModel
from forerun.train.features import StateFile, Taps
from train import tiny


def test_rows_are_the_model_s_states(model, tmp_path):
    texts = tiny.texts(3, length=9)
    states = StateFile(tmp_path / "s.f16", tiny.TAPS)
    assert states.compute(model, texts) == 3
    found, starts = states.read(texts)
    assert starts == [0, 8, 16]
    assert found.shape == (24, 4 * 64)
    model.tap((1, 2, 3, 4))
    slot = model.open()
    model.extend([Step(slot=slot, tokens=texts[1].ids)])
    wanted = model.features(slot)[:8].astype(np.float16)
    np.testing.assert_array_equal(found[8:16], wanted)


def test_a_kill_costs_the_text_that_was_being_written(model, tmp_path):
    texts, path = tiny.texts(4, length=9), tmp_path / "s.f16"
    StateFile(path, tiny.TAPS).compute(model, texts)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 5 // 8])
    assert len(StateFile(path, tiny.TAPS).read(texts)[1]) == 2
    read = []
    assert StateFile(path, tiny.TAPS).compute(model, texts, watch=read.append) == 4
    assert read == [8, 16]
    assert path.read_bytes() == whole


def test_stopped_it_says_how_far_it_came(model, tmp_path):
    texts, looks = tiny.texts(4, length=9), iter([False, True])
    states = StateFile(tmp_path / "s.f16", tiny.TAPS)
    assert states.compute(model, texts, stopping=lambda: next(looks)) == 1
    assert states.compute(model, texts[:1]) == 1


def test_too_little_room_is_told_before_the_work(model, tmp_path, monkeypatch):
    full = SimpleNamespace(free=1000)
    monkeypatch.setattr("forerun.train.features.shutil.disk_usage", lambda path: full)
    states = StateFile(tmp_path / "s.f16", tiny.TAPS)
    with pytest.raises(
        OptionError, match=r"the states of 4 texts take 0\.0 GB, .* 0\.0 GB are free"
    ):
        states.compute(model, tiny.texts(4, length=9))


def test_the_last_state_stands_in_the_file_once():
    last = Taps(chosen=(0, 4), layers=4, hidden=64)
    assert (last.asked, last.width, last.read) == ((0, 4), 128, 128)
    other = Taps(chosen=(4, 0), layers=4, hidden=64)
    assert (other.asked, other.width, other.read) == ((4, 0, 4), 192, 128)


def test_a_model_without_states_is_refused(tmp_path):
    class Bare:
        name = "bare"
        abilities = TabularModel(lambda prefix: (1.0,), vocab_size=1).abilities

    bare = Bare()
    bare.abilities = type(bare.abilities)(features=False)
    with pytest.raises(CapabilityError, match="bare hands out no hidden states"):
        StateFile(tmp_path / "s.f16", tiny.TAPS).compute(bare, tiny.texts(1))
