"""`NativeModel`: the contract of backends, memory and limits, and what each refusal says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from forerun import clib
from forerun.errors import CacheError, CapabilityError, ModelFileError, OptionError, PromptError
from forerun.models.base import Step
from forerun.models.load import load_model
from forerun.models.native import plan
from forerun.models.native.model import NativeModel
from models.contract import CONTRACT, name
from models.native.small import CASES, PATHS, TEXT, file, load, same_bits
from models.tiny_gguf import write

compiled = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")
KERNELS = (*PATHS, "numpy")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {case: file(folder, case) for case in CASES}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """One layer of two heads: 64 tokens take 2 · 2 · 32 · 64 halves."""
    return write(
        tmp_path_factory.mktemp("tiny") / "tiny.gguf", heads=2, kv_heads=2, layers=1, context=300
    )


# ------------------------------------------------------------------ the contract


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("case", CASES)
def test_contract(case, kernels, files):
    """All checks, with no tolerance at all."""

    def make(context=None, max_memory=None):
        for slot in list(model._slots):
            model.close(slot)
        model.context = context or 400
        model.max_memory = max_memory
        return model

    model = load(files[case], kernels)
    for check in CONTRACT:
        if kernels == "numpy" and name(check).startswith("any_life"):
            continue  # slow there; test_reference.py has the like
        check(make, 0.0)


@compiled
def test_all_paths_give_the_same_bits_and_numpy_nearly(files):
    for path in files.values():
        rows = []
        for kernels in KERNELS:
            model = load(path, kernels)
            rows.append(model.extend([Step(slot=model.open(), tokens=TEXT[:40])])[0])
        for other in rows[1:-1]:
            same_bits(other, rows[0])
        assert (rows[-1] != rows[0]).any()  # NumPy does not round activations
        assert np.abs(rows[-1] - rows[0]).max() < 0.25 * np.abs(rows[-1]).max()


# ------------------------------------------------------------------ options


@compiled
def test_what_was_loaded_is_told(tiny):
    model = load(tiny)
    assert model.path == PATHS[0]
    assert (model.name, model.vocab_size, model.context) == ("tiny", 23, 300)
    assert model.weight_bytes is not None
    assert abs(model.weight_bytes / tiny.stat().st_size - 1) < 0.2
    slow = load(tiny, "numpy", context=1000)
    assert (slow.path, slow.weight_bytes, slow.context) == ("numpy", None, 300)
    assert load(tiny, threads=2).cost_key != model.cost_key != slow.cost_key


@compiled
@pytest.mark.parametrize("kernels", ["sse2", "Numpy", ""])
def test_unknown_kernels_are_named(kernels, tiny):
    with pytest.raises(OptionError, match=rf"instruction path '{kernels}' is not here; .*portable"):
        load(tiny, kernels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "bfloat16"}, "dtype bfloat16 is for backend 'hf'"),
        ({"context": 0}, "context must be at least 1, not 0"),
        ({"context": 1.5}, "context must be at least 1, not 1.5"),
        ({"max_memory": 0}, "max_memory must be a positive number of bytes, not 0"),
        ({"max_memory": "1G"}, "not '1G'"),
        ({"eos": 23}, "eos 23 is not an id below vocab_size 23"),
    ],
)
def test_options_that_cannot_be(options, message, tiny):
    with pytest.raises(OptionError) as error:
        NativeModel.load(tiny, kernels="numpy", **options)
    assert message in str(error.value)


def test_other_devices_are_refused(tiny):
    with pytest.raises(OptionError, match="runs on the CPU, not on 'cuda'"):
        load_model(tiny, backend="native", device="cuda")


@compiled
def test_ends(tmp_path):
    path = write(tmp_path / "a.gguf", heads=2, tokenizer=True)
    assert load(path).eos == {1}
    assert load(path, eos=3).eos == {3}
    assert load(path, eos=(2, 4)).eos == {2, 4}
    assert load(write(tmp_path / "b.gguf", heads=2)).eos == frozenset()


# ------------------------------------------------------------------ memory and limits


@compiled
@pytest.mark.parametrize("kernels", [None, "numpy"])
def test_caches_grow_by_pages_and_go_with_their_slots(kernels, tiny):
    model = load(tiny, kernels)
    page = 2 * 2 * 32 * 64 * (2 if kernels is None else 4)
    assert model.cache_bytes == 0
    a, b = model.open(), model.open()
    assert model.cache_bytes == 2 * page
    model.extend([Step(slot=a, tokens=TEXT[:64], rows=0)])
    assert model.cache_bytes == 2 * page
    model.extend([Step(slot=a, tokens=TEXT[:1], rows=0), Step(slot=b, tokens=TEXT[:129], rows=0)])
    assert model.cache_bytes == 5 * page
    model.keep(b, 1)
    assert model.cache_bytes == 5 * page  # kept for what comes next
    model.close(b)
    assert model.cache_bytes == 2 * page
    model.close(a)
    assert model.cache_bytes == 0


@compiled
def test_memory_is_bounded_with_the_figures(tiny):
    page = 2 * 2 * 32 * 64 * 2
    with pytest.raises(OptionError, match=r"at least 16,384 bytes, the cache of 64 tokens"):
        load(tiny, max_memory=page - 1)
    model = load(tiny, max_memory=3 * page)
    a, b = model.open(), model.open()
    rows = model.extend([Step(slot=a, tokens=TEXT[:100])])[0]
    with pytest.raises(CacheError, match=r"of 3 slots would take 65,536 bytes.* is 49,152"):
        model.open()
    with pytest.raises(CacheError, match=r"of 2 slots would take 65,536 bytes.* is 49,152"):
        model.extend([Step(slot=a, tokens=TEXT[100:101]), Step(slot=b, tokens=TEXT[:65])])
    assert (model.length(a), model.length(b), model.cache_bytes) == (100, 0, 3 * page)
    model.keep(a, 0)
    same_bits(model.extend([Step(slot=a, tokens=TEXT[:100])])[0], rows)
    model.close(b)
    model.extend([Step(slot=a, tokens=TEXT[:92], rows=0)])
    assert model.cache_bytes == 3 * page


@compiled
@pytest.mark.parametrize("kernels", [None, "numpy"])
def test_room_that_rollbacks_left_is_given_up_for_others(kernels, tiny):
    page = 2 * 2 * 32 * 64 * (2 if kernels is None else 4)
    model = load(tiny, kernels, max_memory=3 * page)
    a, b = model.open(), model.open()
    row = model.extend([Step(slot=a, tokens=TEXT[:66], rows=1)])[0]
    model.keep(a, 60)
    assert model.fits([64, 128])
    model.extend([Step(slot=b, tokens=TEXT[:128], rows=0)])
    assert model.cache_bytes == 3 * page
    model.keep(b, 0)
    same_bits(model.extend([Step(slot=a, tokens=TEXT[60:66], rows=1)])[0], row)
    assert model.cache_bytes == 3 * page


@compiled
@pytest.mark.parametrize("kernels", [None, "numpy"])
def test_copies_across_pages(kernels, tiny):
    """Any stretch of a text of several pages, whole or in part, read on with the same bits."""
    model = load(tiny, kernels)
    text = (TEXT * 3)[:230]
    source, slot = model.open(), model.open()
    rows = model.extend([Step(slot=source, tokens=text)])[0]
    for start, stop, count in [
        (0, 200, 200), (0, 200, 131), (60, 70, 9), (64, 128, 64), (63, 64, 1), (1, 210, 209),
        (100, 140, 17), (128, 192, 63),
    ]:  # fmt: skip
        pages = model.save(source, start, stop)
        model.keep(slot, 0)
        model.extend([Step(slot=slot, tokens=text[:start], rows=0)])
        model.restore(slot, pages, count)
        after = start + count
        same_bits(model.extend([Step(slot=slot, tokens=text[after : after + 9])])[0],
                  rows[after : after + 9])  # fmt: skip
    assert pages.nbytes == 64 * 2 * 2 * 32 * (2 if kernels is None else 4)


@compiled
def test_memory_that_the_machine_lacks_changes_nothing(tiny, monkeypatch):
    model = load(tiny)
    a, b = model.open(), model.open()
    right = plan.Plan.reserve

    def reserve(self, slot, cells):
        if slot == b and cells > 64:
            raise MemoryError
        right(self, slot, cells)

    monkeypatch.setattr(plan.Plan, "reserve", reserve)
    before = model.cache_bytes
    with pytest.raises(CacheError, match="no memory for caches of 65,536 bytes"):
        model.extend([Step(slot=a, tokens=TEXT[:65]), Step(slot=b, tokens=TEXT[:65])])
    assert (model.cache_bytes, model.length(a)) == (before, 0)


@compiled
def test_no_memory_for_a_copy(tiny, monkeypatch):
    def scarce(*shape):
        raise MemoryError

    model = load(tiny)
    slot = model.open()
    model.extend([Step(slot=slot, tokens=TEXT[:9], rows=0)])
    monkeypatch.setattr(plan.Plan, "save", scarce)
    with pytest.raises(CacheError, match="no memory for a copy of 5 tokens"):
        model.save(slot, 2, 7)
    assert model.length(slot) == 9


@compiled
@pytest.mark.parametrize("kernels", [None, "numpy"])
def test_the_whole_context_can_be_used(kernels, tiny):
    model = load(tiny, kernels)
    slot = model.open()
    model.extend([Step(slot=slot, tokens=(TEXT * 2)[:299], rows=0)])
    last = model.extend([Step(slot=slot, tokens=(1,))])[0]
    assert np.isfinite(last).all()
    with pytest.raises(CacheError, match="would hold 301 tokens, its context is 300"):
        model.extend([Step(slot=slot, tokens=(1,))])
    assert model.length(slot) == 300


@compiled
@pytest.mark.parametrize("kernels", [None, "numpy"])
def test_steps_that_cannot_be_change_nothing(kernels, tiny):
    model = load(tiny, kernels)
    slot, other = model.open(), model.open()
    for bad in (23, -1, 1 << 40):
        with pytest.raises(PromptError, match=f"id {bad} is out of range; .* 0 to 22"):
            model.extend([Step(slot=other, tokens=(1,)), Step(slot=slot, tokens=(1, bad))])
    for parents in [(0, 0), (-2, 0), (-1,), (-1, 1)]:
        with pytest.raises(OptionError, match="are no tree"):
            model.extend([Step(slot=slot, tokens=(1, 2), parents=parents)])
    for rows in (-1, 3):
        with pytest.raises(OptionError, match=f"{rows} rows of 2 tokens"):
            model.extend([Step(slot=slot, tokens=(1, 2), rows=rows)])
    with pytest.raises(CacheError, match=r"slot 7 is not open; open slots: \[0, 1\]"):
        model.extend([Step(slot=7, tokens=(1,))])
    assert (model.length(slot), model.length(other)) == (0, 0)
    assert model.extend([]) == []
    assert model.extend([Step(slot=slot, tokens=())])[0].shape == (0, 23)


# ------------------------------------------------------------------ without the library


def test_a_missing_library_is_said_once_with_the_remedy(tiny, monkeypatch):
    why = "The C library was not built. run: python -m forerun.models.native.build"
    monkeypatch.setattr(clib, "why_missing", lambda: why)
    monkeypatch.setattr(clib, "library", lambda: None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = NativeModel.load(tiny)
        slot = model.open()
        for token in (1, 2, 3):
            model.extend([Step(slot=slot, tokens=(token,))])
    assert model.path == "numpy"
    (warning,) = said
    assert warning.category is RuntimeWarning
    assert str(warning.message) == f"tiny.gguf: {why}"
    with pytest.raises(CapabilityError, match=r"native\.build"):
        load(tiny, "portable")
    load(tiny, "numpy")  # asked for: nothing to warn of


@compiled
def test_heads_that_the_kernels_do_not_take(tmp_path):
    path = write(tmp_path / "a.gguf", types="Q8_0")  # 16 wide
    with pytest.warns(RuntimeWarning, match=r"heads are 16 wide, .* multiples of 32"):
        model = load(path)
    assert model.path == "numpy"
    with pytest.raises(CapabilityError, match=r"heads are 16 wide, .* multiples of 32"):
        load(path, PATHS[0])


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("kernels", KERNELS)
def test_truncated_files_are_refused(kernels, tmp_path):
    whole = write(tmp_path / "a.gguf", heads=2, types="Q4_0").read_bytes()
    bad = tmp_path / "bad.gguf"
    for length in (0, 3, 20, 100, 1000, len(whole) // 2, len(whole) - 40):
        bad.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=r"bad\.gguf"):
            load(bad, kernels)


@compiled
def test_tensors_that_cannot_be_are_named(tmp_path):
    def refused(error, message, **changes):
        path = write(tmp_path / "a.gguf", **{"heads": 2, **changes})
        with pytest.raises(error, match=message):
            load(path, PATHS[0])

    q, o = "blk.0.attn_q.weight", "blk.1.attn_output.weight"
    refused(ModelFileError, rf"tensor '{q}' \[64, 64\] is missing", tensors={q: None})
    refused(ModelFileError, rf"{o}.* has shape \[64, 32\]", tensors={o: (64, 32)})
    refused(CapabilityError, "has no place", tensors={"blk.0.ffn_gate_exps.weight": (64, 64)})
    with pytest.raises(ModelFileError, match="none"):
        NativeModel.load(tmp_path)


@compiled
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("types", ["F32", "Q8_0"])
def test_weights_that_are_not_finite_are_seen_in_the_logits(types, bad, tmp_path):
    """Of the texts that meet them; what is wrong with a law is said where it is made."""
    table = np.random.default_rng(0).standard_normal((23, 64)).astype(np.float32)
    table[5, 7] = bad
    head = np.ones((23, 64), dtype=np.float32)
    path = write(
        tmp_path / "a.gguf", heads=2, kv_heads=1, types=types, tied=False,
        tensors={"token_embd.weight": table, "output.weight": head},
    )  # fmt: skip
    for kernels in KERNELS:
        model = load(path, kernels)
        rows = model.extend([Step(slot=model.open(), tokens=(1, 2, 5, 3))])[0]
        assert np.isfinite(rows[:2]).all(), kernels
        assert not np.isfinite(rows[2:]).any(), kernels
