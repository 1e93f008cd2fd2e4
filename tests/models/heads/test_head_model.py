"""A head behind slots: the formula written out once more, and that company changes no bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forerun.certify.tiny_head import tiny_head
from forerun.errors import CapabilityError, VocabularyError
from forerun.models.base import Step
from forerun.models.heads.config import Llama3Scaling
from forerun.models.heads.graph import llama3_factors
from forerun.models.heads.model import HeadModel
from forerun.models.native.model import NativeModel
from models.heads.tiny_heads import stored_head, tiny_config
from models.native.small import PATHS
from models.tiny_gguf import write

V = 50
TEXT = tuple(int(x) for x in np.random.default_rng(2).integers(V, size=30))
KERNELS = ["numpy", *PATHS]
FORMS: list[dict[str, Any]] = [
    {},
    {"kind": "qwen3", "bias": True, "norm_before_residual": True},
    {"norm_output": True, "norm_before_fc": True, "rotation_scale": 2.0},
    {"fc_norm": True, "llama3": Llama3Scaling(factor=8.0, low=1.0, high=4.0, context=16)},
    {"draft_vocabulary": V, "taps": (3,)},
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("target") / "target.gguf",
        "llama", seed=1, vocabulary=V, heads=2, kv_heads=1, layers=3, types="Q8_0",
    )  # fmt: skip


def written_out(head: Any, embedding: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Logits [n − 1, D] after each pair of TEXT, all of them at once and in float64."""
    c, w = head.config, lambda name: head[name].astype(np.float64)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c.epsilon) * w(name)

    x = states[:-1].astype(np.float64)
    if c.norm_before_fc:
        x = norm(x, "input_norm.weight")
    if c.fc_norm:
        parts = np.split(x, len(c.taps), axis=1)
        x = np.hstack([norm(part, f"fc_norm.{i}.weight") for i, part in enumerate(parts)])
    x = x @ w("fc.weight").T
    n = len(x)
    angles = np.outer(np.arange(n), c.rotation_base ** (-np.arange(0, 32, 2) / 32))
    if c.llama3 is not None:
        angles = angles / llama3_factors(c.llama3, c.rotation_base, 32)
    turn = np.exp(1j * angles / c.rotation_scale)
    for i in range(head.layers):
        at = f"layers.{i}."
        if i == 0:
            e = norm(embedding[list(TEXT[1:])], f"{at}input_layernorm.weight")
            g = norm(x, f"{at}hidden_norm.weight")
            read = np.hstack([e, g])
            x = g if c.norm_before_residual else x
        else:
            read = norm(x, f"{at}input_layernorm.weight")
        q, k, v = (read @ w(f"{at}self_attn.{m}_proj.weight").T for m in "qkv")
        if c.bias:
            q, k, v = (y + w(f"{at}self_attn.{m}_proj.bias") for y, m in zip((q, k, v), "qkv"))
        q, k = q.reshape(n, 2, 32), k.reshape(n, 1, 32)
        if c.kind == "qwen3":
            q, k = norm(q, f"{at}self_attn.q_norm.weight"), norm(k, f"{at}self_attn.k_norm.weight")

        def turned(y: np.ndarray) -> np.ndarray:
            z = (y[..., :16] + 1j * y[..., 16:]) * turn[:, None]
            return np.concatenate([z.real, z.imag], axis=-1)

        scores = np.einsum("ihd,jd->hij", turned(q), turned(k)[:, 0]) / np.sqrt(32)
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jd->ihd", share, v).reshape(n, 64) @ (
            w(f"{at}self_attn.o_proj.weight").T
        )
        h = norm(x, f"{at}post_attention_layernorm.weight")
        gate = h @ w(f"{at}mlp.gate_proj.weight").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w(f"{at}mlp.up_proj.weight").T)) @ (
            w(f"{at}mlp.down_proj.weight").T
        )
    return norm(x, "norm.weight") @ w("lm_head.weight").T


def tapped(file: Path, taps: tuple[int, ...]) -> tuple[NativeModel, np.ndarray]:
    """A target, and its features of TEXT."""
    target = NativeModel(file, kernels="numpy", threads=1)
    target.tap(taps)
    slot = target.open()
    target.extend([Step(slot=slot, tokens=TEXT, rows=0)])
    return target, target.features(slot)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_the_formula(file: Path, form: dict[str, Any], layers: int) -> None:
    head = tiny_head(tiny_config(**form), layers=layers)
    target, states = tapped(file, head.config.taps)
    model = HeadModel(head, target, kernels="numpy", exact=True)
    slot = model.open()
    feed = model.feature(states[:-1])
    logits = model.extend([Step(slot=slot, tokens=TEXT[1:], feed=feed)])[0]
    table = np.stack([target._runner._weights.row("token_embd.weight", i) for i in range(V)])
    np.testing.assert_allclose(logits, written_out(head, table, states), rtol=0, atol=1e-4)
    assert np.abs(logits).max() > 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kernels", "exact", "within"), [
    *[(path, True, 0.01) for path in PATHS],  # keys and values are cached in 16 bits
    *[(path, False, 0.05) for path in KERNELS],
])  # fmt: skip
def test_kernels_and_8_bits_come_close(
    file: Path, kernels: str, exact: bool, within: float, form: dict[str, Any]
) -> None:
    """By their root mean square."""
    head = tiny_head(tiny_config(**form))
    target, states = tapped(file, head.config.taps)
    found = []
    for model in (
        HeadModel(head, target, kernels="numpy", exact=True),
        HeadModel(head, target, kernels=kernels, exact=exact),
    ):
        slot = model.open()
        feed = model.feature(states[:-1])
        found.append(model.extend([Step(slot=slot, tokens=TEXT[1:], feed=feed)])[0])
    assert np.square(found[1] - found[0]).mean() < within**2 * np.square(found[0]).mean()


@pytest.mark.parametrize("kernels", KERNELS)
def test_company_changes_no_bit(file: Path, kernels: str) -> None:
    """One pair at a time, all at once, beside another slot, as branches of a tree."""
    head = tiny_head(tiny_config())
    target, states = tapped(file, head.config.taps)
    model = HeadModel(head, target, kernels=kernels)
    one, whole, other = model.open(), model.open(), model.open()
    feed = model.feature(states[:-1])
    np.testing.assert_array_equal(
        feed, np.vstack([model.feature(states[i : i + 1]) for i in range(len(feed))])
    )
    alone = [
        model.extend([Step(slot=one, tokens=(t,), feed=feed[i : i + 1])])[0][0]
        for i, t in enumerate(TEXT[1:])
    ]
    both = model.extend(
        [
            Step(slot=whole, tokens=TEXT[1:], feed=feed),
            Step(slot=other, tokens=TEXT[3:5], feed=feed[7:9]),
        ]
    )[0]
    np.testing.assert_array_equal(both, np.stack(alone))
    np.testing.assert_array_equal(model.features(one), model.features(whole))
    model.keep(whole, 10)
    step = Step(slot=whole, tokens=(7, TEXT[11], 3), parents=(-1, -1, 1), feed=feed[[10, 10, 11]])
    branches = model.extend([step])[0]
    np.testing.assert_array_equal(branches[1], alone[10])
    np.testing.assert_array_equal(model.features(whole, 10)[1], model.features(one)[10])


def test_what_it_was_not_trained_on_is_refused_by_name(file: Path, tmp_path: Path) -> None:
    target = NativeModel(file, threads=1)
    print_ = target.fingerprint
    with pytest.raises(CapabilityError, match=r"of 32 values, where there are 64 .*on tiny"):
        HeadModel(tiny_head(tiny_config(hidden=32, heads=1)), target)
    with pytest.raises(CapabilityError, match=r"behind 4 layers, where there are 3"):
        HeadModel(tiny_head(tiny_config(taps=(1, 4))), target)
    with pytest.raises(VocabularyError, match=r"drafts id \d+, where there are 50 tokens"):
        HeadModel(tiny_head(tiny_config(vocabulary=90, draft_vocabulary=60)), target)
    HeadModel(tiny_head(tiny_config(fingerprint=print_)), target)
    with pytest.raises(CapabilityError, match=r"other weights .*forerun train"):
        HeadModel(tiny_head(tiny_config(fingerprint="0123/")), target)
    other = write(
        tmp_path / "other.gguf",
        "llama", seed=9, vocabulary=V, heads=2, kv_heads=1, layers=3, types="Q8_0",
    )  # fmt: skip
    head = HeadModel(tiny_head(tiny_config()), target)
    assert head.fit(NativeModel(file, threads=1)).fingerprint == print_
    with pytest.raises(CapabilityError, match="loaded for another model than other"):
        head.fit(NativeModel(other, threads=1))


def test_usual_taps(file: Path, tmp_path: Path) -> None:
    """Of a checkpoint that leaves them to who runs it."""
    model = HeadModel(stored_head(tmp_path, taps=None), NativeModel(file, threads=1))
    assert model.taps == (2, 1, 0)


def test_quick_pairs_turn_as_they_did_and_slow_ones_slower() -> None:
    scaling = Llama3Scaling(factor=8.0, low=1.0, high=4.0, context=8192)
    factors = llama3_factors(scaling, 500_000.0, 128)
    assert factors[0] == 1
    assert factors[-1] == 8
    assert (np.diff(factors) >= -1e-12).all()
    between = (factors > 1) & (factors < 8)
    assert between.any()
