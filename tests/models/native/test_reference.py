"""The NumPy runner against transformers' own modules, in float64 and float32; rows and company."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from forerun.models.base import Step
from forerun.models.gguf import read_gguf
from forerun.models.native import reference
from forerun.models.native.dequantise import TYPES
from forerun.models.native.hyperparameters import read_hyperparameters
from forerun.models.native.reference import Reference
from forerun.models.native.rows import lay_out
from models.native.hf_twin import exactly, rows, states, twin
from models.tiny_gguf import Q4_K_M, Q4_K_M_NARROW, write

TEXT = tuple(random.Random(8).choices(range(23), k=40))
TREE = (7, 2, 2, 9, 11, 4, 5, 1, 0, 3)  # a chain first, then branches
PARENTS = (-1, 0, 0, 1, 1, 3, 5, 6, 7, -1)

CASES: dict[str, dict[str, Any]] = {
    "llama": {"architecture": "llama"},
    "llama-untied-biased": {"architecture": "llama", "tied": False, "bias": True},
    "llama-heads-of-their-own-width": {"architecture": "llama", "head_width": 24, "kv_heads": 1},
    "llama-no-groups": {"architecture": "llama", "kv_heads": 4},
    "mistral": {"architecture": "llama", "window": 6},
    "qwen2": {"architecture": "qwen2"},
    "qwen2-untied": {"architecture": "qwen2", "tied": False, "kv_heads": 1},
    "qwen3": {"architecture": "qwen3"},
    "qwen3-narrow": {"architecture": "qwen3", "head_width": 10, "heads": 6, "kv_heads": 3},
    "gemma3": {"architecture": "gemma3", "layers": 7},
    "gemma3-all-local": {"architecture": "gemma3", "layers": 2, "window": 1},
    "gemma3-other-periods": {
        "architecture": "gemma3",
        "layers": 4,
        "period": 2,
        "metadata": {"rope.freq_base_swa": 30.0},
    },
}


def runner(path: Path, dtype: Any = np.float64, **options: Any) -> Reference:
    file = read_gguf(path)
    made = Reference(file, read_hyperparameters(file), dtype=dtype, **options)
    for slot in range(3):
        made.reserve(slot, 64)
    return made


def read(made: Reference, *steps: Step, lengths: tuple[int, ...] = (0, 0, 0)) -> np.ndarray:
    return made.run(lay_out(steps, lengths[: len(steps)]))


def near(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    """Within `tolerance` of the logits' size."""
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize("case", CASES)
def test_float64_is_exact(case, tmp_path):
    path = write(tmp_path / "a.gguf", **CASES[case])
    with exactly():
        theirs = rows(twin(path), TEXT)
    assert theirs.dtype == np.float64
    near(read(runner(path), Step(slot=0, tokens=TEXT)), theirs, 1e-11)


@pytest.mark.parametrize("case", CASES)
def test_features_are_the_hidden_states(case, tmp_path):
    path = write(tmp_path / "a.gguf", **CASES[case])
    made, layers = runner(path), CASES[case].get("layers", 3)
    with exactly():
        theirs = states(twin(path), TEXT)
    assert len(theirs) == layers + 1
    for behind in ((0,), (layers,), (1, 0, layers)):
        made.tap(behind)
        read(made, Step(slot=0, tokens=TEXT, rows=0))
        expected = np.hstack([theirs[n] for n in behind])
        assert made.features.dtype == np.float32
        near(made.features, expected, 1e-6)  # they are handed out as float32


@pytest.mark.parametrize("case", CASES)
def test_float32_is_near(case, tmp_path):
    path = write(tmp_path / "a.gguf", **CASES[case])
    ours = read(runner(path, np.float32), Step(slot=0, tokens=TEXT))
    assert ours.dtype == np.float32
    near(ours, rows(twin(path), TEXT), 2e-5)


@pytest.mark.parametrize("kind", [*TYPES, "mix", "narrow mix"])
def test_every_type_of_tensor(kind, tmp_path):
    types = {"mix": Q4_K_M, "narrow mix": Q4_K_M_NARROW}.get(kind, kind)
    wide = {"hidden": 256, "feed_forward": 256, "layers": 2} if kind.endswith(("_K", "mix")) else {}
    path = write(tmp_path / "a.gguf", "gemma3", tied=False, types=types, **wide)
    with exactly():
        theirs = rows(twin(path), TEXT)
    near(read(runner(path), Step(slot=0, tokens=TEXT)), theirs, 1e-11)


def test_linear_rope_scaling(tmp_path):
    scaling = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    for architecture in ("llama", "gemma3"):
        path = write(tmp_path / "a.gguf", architecture, layers=7, metadata=scaling)
        plain = write(tmp_path / "b.gguf", architecture, layers=7)
        linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}
        local = {"rope_type": "default", "rope_theta": 10_000.0}
        if architecture == "gemma3":  # local layers are not stretched
            linear = {"full_attention": linear, "sliding_attention": local}
        with exactly():
            theirs = rows(twin(path, rope_parameters=linear), TEXT)
        ours = read(runner(path), Step(slot=0, tokens=TEXT))
        near(ours, theirs, 1e-11)
        assert np.abs(ours - read(runner(plain), Step(slot=0, tokens=TEXT))).max() > 0.01


def test_llama_3s_factors(tmp_path):
    """A converter writes by what each frequency is divided."""
    llama3 = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    with exactly():
        config = twin(write(tmp_path / "a.gguf"), rope_parameters=llama3).config
        stretched = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")[0].numpy()
    plain = 500.0 ** (-np.arange(0, 16, 2) / 16)
    factors = (plain / stretched).astype(np.float32)
    assert len(set(factors)) > 2  # some as they were, some divided by 8, some in between
    path = write(tmp_path / "b.gguf", tensors={"rope_freqs.weight": factors})
    with exactly():
        module = twin(path, rope_parameters=llama3)
        frequencies = module.model.rotary_emb.inv_freq
        frequencies.copy_(frequencies.new(plain / factors))  # rounded as the file has them
        theirs = rows(module, TEXT)
    near(read(runner(path), Step(slot=0, tokens=TEXT)), theirs, 1e-11)


def test_a_part_of_a_head_turns(tmp_path):
    """Against the same weights where the frequencies of the rest are divided to nothing."""
    part = write(tmp_path / "a.gguf", metadata={"rope.dimension_count": 8})
    still = np.array([1, 1, 1, 1, 1e30, 1e30, 1e30, 1e30], dtype=np.float32)
    base = 500.0**2  # 8 of 16 values turn as the first 8 of 16 do with the square
    whole = write(
        tmp_path / "b.gguf", metadata={"rope.freq_base": base}, tensors={"rope_freqs.weight": still}
    )
    ours, theirs = (read(runner(path), Step(slot=0, tokens=TEXT)) for path in (part, whole))
    near(ours, theirs, 1e-11)
    plain = read(runner(write(tmp_path / "c.gguf")), Step(slot=0, tokens=TEXT))
    assert np.abs(ours - plain).max() > 0.01


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_the_same_bits_in_any_company(case, dtype, tmp_path):
    """Chains in chunks, ragged batches, trees: each row equals that of its text read alone."""
    path = write(tmp_path / "a.gguf", **CASES[case])
    made = runner(path, dtype)
    alone = read(runner(path, dtype), Step(slot=0, tokens=TEXT))
    for a, b in [(0, 1), (1, 9), (9, 12), (12, 40)]:
        chunk = read(made, Step(slot=1, tokens=TEXT[a:b]), lengths=(a,))
        np.testing.assert_array_equal(chunk, alone[a:b])
    ways = paths(PARENTS)
    for before in (0, 3, 12):
        company = read(
            made,
            Step(slot=1, tokens=TEXT[20:23], rows=2),
            Step(slot=0, tokens=TREE, parents=PARENTS),
            Step(slot=2, tokens=TEXT[:5], rows=0),
            lengths=(20, before, 0),
        )
        np.testing.assert_array_equal(company[:2], alone[21:23])
        for row, way in zip(company[2:], ways, strict=True):
            text = TEXT[:before] + tuple(TREE[i] for i in way)
            fresh = read(runner(path, dtype), Step(slot=0, tokens=text, rows=1))
            np.testing.assert_array_equal(row, fresh[0])
        read(made, Step(slot=0, tokens=TEXT[before : before + 9], rows=0), lengths=(before,))


@pytest.mark.parametrize("case", ["llama", "gemma3", "mistral"])
def test_a_path_is_moved_together(case, tmp_path):
    path = write(tmp_path / "a.gguf", **CASES[case])
    for way in paths(PARENTS):
        made = runner(path, np.float32)
        read(made, Step(slot=0, tokens=TEXT[:9], rows=0))
        read(made, Step(slot=0, tokens=TREE, parents=PARENTS, rows=0), lengths=(9,))
        made.move(0, 9, way)
        made.reserve(0, 9 + len(way) + 2)  # less room, and what is there stays
        ours = read(made, Step(slot=0, tokens=(3, 8)), lengths=(9 + len(way),))
        text = (*TEXT[:9], *(TREE[i] for i in way), 3, 8)
        fresh = read(runner(path, np.float32), Step(slot=0, tokens=text, rows=2))
        np.testing.assert_array_equal(ours, fresh)


def test_room_is_exactly_what_was_reserved(tmp_path):
    made = runner(write(tmp_path / "a.gguf"), np.float32)
    assert made.bytes_per_cell == 2 * 3 * 2 * 16 * 4
    assert made.cells(0) == 64
    made.reserve(0, 5)
    assert made.cells(0) == 5
    made.reserve(0, 0)
    assert made.cells(0) == made.cells(9) == 0
    with pytest.raises(MemoryError):
        made.reserve(1, 1 << 50)
    assert made.cells(1) == 64


def test_matrices_past_the_limit_are_dequantised_anew(tmp_path, monkeypatch):
    path = write(tmp_path / "a.gguf", "qwen2", types="Q4_0")
    seen: list[int] = []
    plain = reference.dequantise

    def counted(raw: Any, kind: str) -> Any:
        seen.append(raw.size)
        return plain(raw, kind)

    monkeypatch.setattr(reference, "dequantise", counted)
    counts = {}
    results = []
    for memory in (0, 200_000, 1 << 30):
        made = runner(path, np.float32, memory=memory)
        results.append(read(made, Step(slot=0, tokens=TEXT, rows=3)))
        seen.clear()
        read(made, Step(slot=1, tokens=TEXT[:1]))
        counts[memory] = len(seen)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    assert counts[0] == 1 + 3 * 7 + 1  # the token's row, each matrix, the head
    assert counts[1 << 30] == 1
    assert 1 < counts[200_000] < counts[0]


def test_infinite_weights_warn_of_nothing(tmp_path):
    """What is wrong with the logits is said where they become a law."""
    table = np.full((23, 64), np.inf, dtype=np.float32)
    path = write(tmp_path / "a.gguf", tensors={"token_embd.weight": table})
    assert np.isnan(read(runner(path), Step(slot=0, tokens=(1, 2)))).all()


def paths(parents: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for i, parent in enumerate(parents):
        found.append((*(found[parent] if parent >= 0 else ()), i))
    return found
