"""A run that goes on from a head begins with what that head is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from forerun.errors import CapabilityError, ModelFileError, OptionError
from forerun.models.heads.load import read_any
from forerun.train.features import Taps
from forerun.train.forms import FORMS, made
from forerun.train.loop import initialised
from forerun.train.start import Start
from forerun.train.target import FrozenTarget
from train import tiny

IDS = np.arange(1, 63, 2)


def head(model, folder, form="eagle3"):
    target = FrozenTarget.of(model)
    chosen = (1, 2, 3) if form == "eagle3" else (4,)
    new = made(form, target, Taps(chosen=chosen, layers=4, hidden=64), len(IDS))
    initialised(new.head, 5, target.output[IDS])
    new.write(folder, IDS)
    return new


@pytest.mark.parametrize("form", FORMS)
def test_it_begins_as_the_head_is(model, tmp_path, form):
    before = head(model, tmp_path / "head", form)
    start = Start.read(str(tmp_path / "head"), model)
    assert start.form == form
    assert start.layers == before.config.taps
    assert start.ids.tolist() == IDS.tolist()
    taps = Taps(chosen=start.layers, layers=4, hidden=64)
    again = made(start.form, FrozenTarget.of(model), taps, len(start.ids))
    start.into(again)
    for (name, old), new in zip(before.head.named_parameters(), again.head.parameters()):
        np.testing.assert_allclose(new.detach(), old.detach().half(), err_msg=name)


def test_what_cannot_be_gone_on_with(model, tmp_path, monkeypatch):
    new = head(model, tmp_path / "head")
    other = tiny.target(tmp_path, seed=1, name="other.gguf")
    with pytest.raises(CapabilityError, match="was trained on a model of other weights"):
        Start.read(str(tmp_path / "head"), other)
    with pytest.raises(OptionError, match=r"--from shipped: no head for .* comes with forerun"):
        Start.read("shipped", model)
    with pytest.raises(ModelFileError, match="nowhere"):
        Start.read(str(tmp_path / "nowhere"), model)
    start = Start.read(str(tmp_path / "head"), model)
    for change in ({"norm_output": True}, {"feed_forward": 97}):
        odd = dataclasses.replace(new, config=dataclasses.replace(new.config, **change))
        with pytest.raises(OptionError, match=r"--from .*head is not of the form that is trained"):
            start.into(odd)
    assert read_any(tmp_path / "head").config == new.config
