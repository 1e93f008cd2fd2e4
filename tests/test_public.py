"""The public surface, frozen: a change here is a change for every user."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
from importlib.resources import files

import pytest

import forerun
from forerun import Engine
from forerun.engine import EngineOptions


def signature(function):
    """Names, kinds and defaults, without annotations."""
    found = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def test_exports():
    assert sorted(forerun.__all__) == [
        "Completion", "Engine", "ForerunError", "Grammar", "Model", "Piece", "SamplingParams",
        "Step", "Stream", "TabularModel", "certify", "drafters", "errors", "load", "verifiers",
    ]  # fmt: skip
    for name in forerun.__all__:
        assert getattr(forerun, name).__doc__
    public = {name for name in vars(forerun) if not name.startswith("_")}
    submodules = {name for name in public if inspect.ismodule(getattr(forerun, name))}
    assert public - submodules <= {*forerun.__all__, "annotations"}


def test_no_unknown_attributes():
    with pytest.raises(AttributeError, match="genrate"):
        _ = forerun.genrate


def test_signatures():
    assert signature(forerun.load) == (
        "(model, drafter=None, *, draft_model=None, head=None, verifier='auto', num_draft='auto', "
        "max_batch=8, trace_heads=False, backend='auto', dtype='float32', device='cpu', "
        "threads=None, context=None, max_memory=None, prefix_memory=0, share_prefixes=False, "
        "max_waiting=None, cache=None, progress=None)"
    )
    assert signature(Engine) == (
        "(target, drafter=None, *, verifier='auto', num_draft='auto', max_batch=8, "
        "trace_heads=False, costs=None, cache=None, max_waiting=None, "
        "prefix_memory=0, share_prefixes=False)"
    )
    assert signature(Engine.generate) == "(self, prompt, **options)"
    assert signature(Engine.stream) == "(self, prompt, **options)"
    assert signature(Engine.generate_batch) == "(self, prompts, params=None)"
    assert signature(Engine.generate_choices) == "(self, prompt, n, **options)"
    assert signature(Engine.submit) == (
        "(self, prompt, *, listener=None, tenant='', deadline=None, **options)"
    )
    assert signature(Engine.submit_choices) == (
        "(self, prompt, n, *, listener=None, tenant='', deadline=None, **options)"
    )
    assert signature(Engine.submit_batch) == (
        "(self, prompts, n=1, *, listener=None, tenant='', deadline=None, **options)"
    )
    assert signature(Engine.drain) == "(self, timeout=None)"
    assert signature(forerun.Stream.wait) == "(self, timeout=None)"
    assert signature(forerun.Stream.cancel) == "(self, *, wait=True)"
    assert signature(forerun.TabularModel) == (
        "(next_law, vocab_size, eos=None, *, context=None, max_memory=None, tokenizer=None,"
        " name='tabular')"
    )
    assert signature(forerun.certify.exact_law) == (
        "(target, drafter=None, *, verifier='auto', num_draft=4, costs=None, prompt=(0,), "
        "max_tokens, company=(), **sampling)"
    )
    assert (
        signature(forerun.certify.plain_law)
        == "(target, *, prompt=(0,), max_tokens, grammar=None, **sampling)"
    )
    assert signature(forerun.certify.total_variation) == "(a, b)"


def test_drafters_signatures():
    assert signature(forerun.drafters.ModelDrafter) == "(model, *, sampling=None, prefix_memory=0)"
    intersection = signature(forerun.drafters.IntersectionDrafter)
    assert intersection == "(model, *, sampling=None, prefix_memory=0)"
    assert signature(forerun.drafters.StringMatchDrafter) == "(model, *, prefix_memory=0)"
    for kind in ("SampledTreeDrafter", "GreedyPlusOneTreeDrafter"):
        assert signature(getattr(forerun.drafters, kind)) == (
            "(model, *, shape=None, sampling=None, prefix_memory=0)"
        )
    for kind in ("LikeliestTreeDrafter", "JoinedTreeDrafter"):
        assert signature(getattr(forerun.drafters, kind)) == (
            "(model, *, depth=8, sampling=None, prefix_memory=0)"
        )
    assert signature(forerun.drafters.NgramDrafter) == "(*, longest=3, shortest=1)"
    assert signature(forerun.drafters.PredictionDrafter) == "(tokens, *, longest=8)"
    assert signature(forerun.drafters.SuffixDrafter) == (
        "(*, memory_bytes=0, max_match=32, draft_factor=2.0, min_probability=0.2)"
    )


def test_keywords():
    assert sorted(EngineOptions.__annotations__) == [
        "banned", "drafter", "frequency_penalty", "grammar", "logit_bias", "logprobs",
        "max_tokens", "min_p", "min_tokens", "num_draft", "prediction", "presence_penalty",
        "processors", "prompt_logprobs", "repetition_penalty", "resume", "seed", "stop", "stop_ids",
        "temperature", "top_k", "top_p", "trace_heads", "verifier",
    ]  # fmt: skip


def test_what_comes_back():
    done = Engine(forerun.TabularModel(lambda prefix: [0.5, 0.5], 2)).generate([0], max_tokens=3)
    assert sorted(vars(done)) == [
        "admitted", "cached_tokens", "choice", "ended", "error", "finish_reason", "logprobs",
        "prompt", "prompt_logprobs", "seed", "submitted", "text", "tokens", "trace", "verifier",
    ]  # fmt: skip
    assert sorted(done.usage) == ["completion_tokens", "prompt_tokens", "total_tokens"]
    assert isinstance(done, forerun.Completion)
    stream = Engine(forerun.TabularModel(lambda prefix: [0.5, 0.5], 2)).stream([0], max_tokens=3)
    assert isinstance(stream, forerun.Stream)
    piece = next(stream)
    assert isinstance(piece, forerun.Piece)
    assert sorted(vars(piece)) == ["at", "kinds", "logprobs", "parts", "round", "text", "tokens"]


def test_typed():
    assert files("forerun").joinpath("py.typed").is_file()


def test_version():
    assert importlib.metadata.version("forerun") == forerun.__version__


def test_import_needs_no_torch():
    """The base install has none, and starting is quick."""
    heavy = ["torch", "transformers", "gguf", "typer", "rich", "scipy"]
    script = f"import sys, forerun; print(*[m for m in {heavy} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=True
    )
    assert found.stdout.split() == []


def test_plain_decoding_and_lookup_need_no_torch():
    script = (
        "import sys; sys.modules['torch'] = None; import forerun;"
        "m = forerun.TabularModel(lambda p: [.5, .5], 2);"
        "e = forerun.load(m, drafter='ngram');"
        "print(len(e.generate([0, 1, 0], max_tokens=9).tokens))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=True
    )
    assert found.stdout.strip() == "9"
