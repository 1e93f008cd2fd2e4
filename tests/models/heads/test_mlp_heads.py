"""Heads without attention: on disk, the formula written out once more, bits, and drafts of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forerun
from forerun.certify import exact_law, plain_law, suite, total_variation
from forerun.certify.tiny_head import tiny_mlp_head
from forerun.drafters import HeadDrafter
from forerun.errors import CapabilityError, ModelFileError
from forerun.models.base import Step
from forerun.models.heads.checkpoint import CONFIG, offsets
from forerun.models.heads.load import load_head
from forerun.models.heads.mlp_checkpoint import FORMS, MLPConfig, read_mlp_head, write_mlp_head
from forerun.models.heads.mlp_model import MLPHeadModel
from forerun.models.native.model import NativeModel
from models.native.small import PATHS
from models.tiny_gguf import write

V, H = 50, 64
each_form = pytest.mark.parametrize("form", FORMS)


def tiny_config(form: str, **changes: Any) -> MLPConfig:
    numbers: dict[str, Any] = {
        "hidden": H, "width": H if form == "medusa" else 96, "depths": 3, "taps": (3,),
        "vocabulary": V, "draft_vocabulary": 20, "target": "tiny",
    }  # fmt: skip
    return MLPConfig(form=form, **(numbers | changes))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("target") / "target.gguf",
        "llama", seed=1, vocabulary=V, heads=2, kv_heads=1, layers=3, types="Q8_0",
    )  # fmt: skip


def stored(folder: Path, form: str, bits: int = 16, **changes: Any) -> MLPConfig:
    config = tiny_config(form, **changes)
    head = tiny_mlp_head(config)
    write_mlp_head(folder, config, {**head.tensors, **offsets(head.ids, V)}, bits=bits)
    return config


@each_form
@pytest.mark.parametrize("bits", [8, 16])
def test_what_was_written_is_read(tmp_path: Path, form: str, bits: int) -> None:
    config = stored(tmp_path, form, bits, fingerprint="ab/cd")
    head, drawn = read_mlp_head(tmp_path), tiny_mlp_head(config)
    assert head.config == config
    np.testing.assert_array_equal(head.ids, drawn.ids)
    for name, values in drawn.tensors.items():
        within = 0.006 if bits == 8 and values.ndim == 2 else 0.001
        assert (np.abs(head[name] - values) <= within * np.abs(values).max()).all()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("speculators_model_type", "mlp", "'mlp' is none of hydra, blockwise, medusa"),
        ("depths", 0, "depths must be"),
        ("hidden", True, "hidden must be"),
        ("taps", [1, 2], "taps must be one layer"),
        ("epsilon", None, "epsilon must be"),
        ("width", 32, r"'heads.0.up.weight' is \[96, 128\], where \[32, 128\]"),
    ],
)
def test_configurations_that_cannot_be(tmp_path: Path, name: str, value: Any, said: str) -> None:
    stored(tmp_path, "hydra")
    config = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps(config | {name: value}))
    with pytest.raises(ModelFileError, match=said):
        read_mlp_head(tmp_path)


def unit(x: Any) -> Any:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-6)


@each_form
def test_the_formula(file: Path, form: str) -> None:
    """Of a text, two drafted tokens, and nothing behind the third."""
    target, head = NativeModel(file, kernels="numpy", threads=1), tiny_mlp_head(tiny_config(form))
    target.tap((3,))
    slot, own = target.open(), MLPHeadModel(head, target, kernels="numpy", exact=True)
    target.extend([Step(slot=slot, tokens=(4, 8, 15), rows=0)])
    f = unit(target.features(slot)[-1])
    table = np.stack([target._runner._weights.row("token_embd.weight", i) for i in range(V)])
    here = own.open()
    feed, drafted = own.feature(target.features(slot))[-1:], [16, 23, 42, 7]
    for depth, token in enumerate(drafted):
        logits = own.extend([Step(slot=here, tokens=(token,), feed=feed)])[0][0]
        feed = own.features(here)[-1:]
        if depth == 3:
            assert (logits == -np.inf).all()
            break
        seen = [f, *(unit(table[t]) for t in drafted[: depth + 1])] if form == "hydra" else [f]
        y = head[f"heads.{depth}.up.weight"] @ np.concatenate(seen)
        y = y / (1 + np.exp(-y))
        if form != "medusa":
            y = head[f"heads.{depth}.down.weight"] @ y
        expected = head["lm_head.weight"] @ (unit(f + y) * head["norm.weight"])
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)
        assert np.abs(logits).max() > 1


@each_form
@pytest.mark.parametrize("kernels", ["numpy", *PATHS])
def test_company_changes_no_bit(file: Path, form: str, kernels: str) -> None:
    target, head = NativeModel(file, threads=1), tiny_mlp_head(tiny_config(form))
    model = MLPHeadModel(head, target, kernels=kernels)
    dice = np.random.default_rng(3)
    feed = model.feature(dice.standard_normal((9, H), dtype=np.float32))
    one, other = model.open(), model.open()
    alone = [
        model.extend([Step(slot=one, tokens=(t,), feed=feed[t : t + 1])])[0][0] for t in range(9)
    ]
    behind = model.features(one)
    rows, more = model.extend(
        [
            Step(slot=other, tokens=range(9), feed=feed),
            Step(slot=one, tokens=(3, 5), parents=(-1, -1), feed=behind[[2, 4]]),
        ]
    )
    np.testing.assert_array_equal(rows, np.stack(alone))
    np.testing.assert_array_equal(model.features(other), behind)
    model.keep(one, 9)
    again = model.extend([Step(slot=one, tokens=(5,), feed=behind[4:5])])[0]
    np.testing.assert_array_equal(again[0], more[1])
    model.keep(other, 0)
    model.close(one)
    with pytest.raises(CapabilityError, match="caches nothing"):
        model.save(other, 0, 1)


@each_form
@pytest.mark.parametrize("drafter", ["head", "head-tree", "suffix+head-sampled-tree"])
def test_texts_are_those_of_plain_decoding(
    file: Path, tmp_path: Path, form: str, drafter: str
) -> None:
    target = NativeModel(file, threads=1)
    stored(tmp_path, form, fingerprint=target.fingerprint)
    assert isinstance(load_head(tmp_path, target), MLPHeadModel)
    plain = forerun.load(target)
    for options in ({"temperature": 0}, {"seed": 3}, {"seed": 4, "top_p": 0.9}):
        expected = plain.generate([1, 2, 3], max_tokens=25, **options)
        for gamma in (1, 2, 6, "auto"):
            engine = forerun.load(target, drafter, head=tmp_path, num_draft=gamma)
            done = engine.generate([1, 2, 3], max_tokens=25, **options)
            assert done.tokens == expected.tokens
            assert gamma == "auto" or done.stats.drafted > 0


@each_form
@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled", "traversal"])
def test_the_exact_law(form: str, verifier: str) -> None:
    """Of drafts as deep as it has networks, and of longer ones that were asked for."""
    options: dict[str, Any] = {"prompt": (0, 1, 1, 0, 1), "max_tokens": 4, "temperature": 0.7}
    target = suite.target(3)
    drafter = HeadDrafter(suite.mlp_head(3, form))
    found = exact_law(target, drafter, verifier=verifier, num_draft=3, **options)
    assert total_variation(found, plain_law(target, **options)) < 1e-12
