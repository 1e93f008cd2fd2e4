"""Adapters: what they ask of their library, and what they make of its answers. Libraries that are
not here are stood in for by the least that the adapter touches."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from forerun.certify.engines.base import SEEDS, Traits, check_controls, sample_seed
from forerun.certify.engines.own import OwnEngine
from forerun.certify.engines.python import PythonEngine, find
from forerun.certify.tiny import random_pair
from forerun.drafters import ModelDrafter
from forerun.errors import CapabilityError, MissingExtraError, OptionError, PeerError


def test_seeds_never_repeat():
    assert len({sample_seed(7, i) for i in range(20_000)}) == 20_000
    assert all(0 <= sample_seed(SEEDS - 1, i) < SEEDS for i in range(100))
    assert sample_seed(sample_seed(5, 3), 4) == sample_seed(5, 7)  # a request's samples in a row


def test_controls_are_checked():
    engine = SimpleNamespace(
        name="this one",
        traits=Traits(controls=frozenset({"max_tokens"}), drafts=False, switches=False),
    )
    check_controls(engine, {"max_tokens": 3})
    with pytest.raises(CapabilityError, match="this one has no top_k, top_p"):
        check_controls(engine, {"max_tokens": 3, "top_p": 0.5, "top_k": 3})
    with pytest.raises(CapabilityError, match="cannot turn speculation off"):
        check_controls(engine, {"num_draft": 0})
    with pytest.raises(CapabilityError, match="how many tokens to draft"):
        check_controls(engine, {"num_draft": 4})


# ------------------------------------------------------------------ forerun, and callables


def test_forerun_itself():
    pair = random_pair(vocabulary=8, seed=1)
    engine = OwnEngine(pair.target(), ModelDrafter(pair.draft()), verifier="coupled", num_draft=3)
    found = engine.sample([1, 2], 3, {"max_tokens": 5, "temperature": 1.2}, 9)
    assert [len(tokens) for tokens in found] == [5, 5, 5]
    assert len(set(found)) > 1
    assert found == engine.sample(
        [1, 2], 3, {"max_tokens": 5, "temperature": 1.2, "num_draft": 0}, 9
    )
    assert found[1:] == engine.sample(
        [1, 2], 2, {"max_tokens": 5, "temperature": 1.2}, sample_seed(9, 1)
    )
    assert engine.traits.seeds
    assert engine.describe()["verifier"] == "coupled"
    engine.close()


def test_a_callable():
    def sample(prompt_ids, n, sampling, seed):
        if sampling.get("top_k"):
            raise NotImplementedError("no top-k here")
        if sampling["max_tokens"] == 9:
            raise RuntimeError("lost")
        return np.full((n, sampling["max_tokens"]), seed % 4)

    def plain(prompt_ids, n, sampling, seed):
        return [[0]] * n

    engine = PythonEngine(sample)
    assert engine.sample([1], 2, {"max_tokens": 2}, 6) == [(2, 2), (2, 2)]
    assert not engine.traits.switches
    assert PythonEngine(sample, plain).sample([1], 1, {"max_tokens": 2, "num_draft": 0}, 6) == [
        (0,)
    ]
    with pytest.raises(CapabilityError, match="no top-k here"):
        engine.sample([1], 1, {"max_tokens": 2, "top_k": 3}, 6)
    with pytest.raises(PeerError, match="RuntimeError: lost"):
        engine.sample([1], 1, {"max_tokens": 9}, 6)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (7, "must give 2 lists"),
        ([[1]], "gave 1 samples where 2"),
        ([[1], ["a"]], "'a', which is no"),
    ],
)
def test_a_callable_that_answers_wrongly(answer, said):
    engine = PythonEngine(lambda prompt_ids, n, sampling, seed: answer)
    with pytest.raises(PeerError, match=said):
        engine.sample([1], 2, {"max_tokens": 2}, 6)


def test_entry_points():
    assert find("certify.faulty:sound").controls == {"max_tokens"}
    for entry, said in (
        ("certify.faulty", "module:function"),
        ("no.such:thing", "module no.such cannot be imported"),
        ("certify.faulty:nothing", "there is no 'nothing'"),
        ("certify.faulty:__name__", "cannot be called"),
    ):
        with pytest.raises(OptionError, match=said):
            find(entry)


# ------------------------------------------------------------------ stand-ins


@pytest.fixture
def fake_vllm(monkeypatch):
    module = ModuleType("vllm")
    module.__version__, module.made, module.asked = "0.11", [], []

    class LLM:
        def __init__(self, **options):
            self.options = options
            module.made.append(options)

        def generate(self, prompts, params, use_tqdm):
            module.asked.append((prompts, params))
            speculative = "speculative_config" in self.options
            return [
                SimpleNamespace(outputs=[SimpleNamespace(token_ids=[int(speculative), p.seed % 5])])
                for p in params
            ]

    module.LLM, module.SamplingParams = LLM, lambda **named: SimpleNamespace(**named)
    monkeypatch.setitem(sys.modules, "vllm", module)
    return module


def test_vllm(fake_vllm):
    from forerun.certify.engines.vllm import VllmEngine

    engine = VllmEngine("a/model", speculative_config={"method": "ngram"}, enforce_eager=True)
    assert fake_vllm.made == []
    sampling = {"max_tokens": 2, "top_k": 0, "min_p": 0.1, "stop_ids": [4, 3], "banned": [7],
                "logit_bias": {5: -1.0}}  # fmt: skip
    found = engine.sample([1, 2], 2, sampling, 10)
    assert found == [(1, 10 % 5), (1, sample_seed(10, 1) % 5)]
    [(prompts, params)] = fake_vllm.asked
    assert prompts == [{"prompt_token_ids": [1, 2]}] * 2
    assert (params[0].top_k, params[0].min_p, params[0].stop_token_ids) == (-1, 0.1, [3, 4])
    assert params[0].logit_bias == {5: -1.0, 7: -1e6}
    assert engine.sample([1, 2], 1, {"max_tokens": 2, "num_draft": 0}, 10) == [(0, 0)]
    assert [("speculative_config" in made) for made in fake_vllm.made] == [True, False]
    assert engine.name == "vLLM (ngram)"
    engine.close()


@pytest.fixture
def fake_llama_cpp(monkeypatch):
    module, speculative = ModuleType("llama_cpp"), ModuleType("llama_cpp.llama_speculative")
    module.__version__, module.llama_model_get_vocab = "0.3", lambda model: None
    module.llama_vocab_is_eog = lambda vocabulary, token: token == 9
    module.LogitsProcessorList = list
    speculative.LlamaPromptLookupDecoding = lambda: SimpleNamespace(num_pred_tokens=None)

    class Llama:
        def __init__(self, *, draft_model, **options):
            self.draft_model, self.model, self.options = draft_model, None, options

        def reset(self): ...

        def close(self): ...

        def set_seed(self, seed):
            self.dice = np.random.default_rng(seed)

        def generate(self, ids, *, logits_processor, **options):
            self.asked, ids = options, list(ids)
            while True:
                logits = np.zeros(10)
                for process in logits_processor or ():
                    logits = process(ids, logits)
                allowed = np.flatnonzero(logits > -1e20)
                ids.append(int(self.dice.choice(allowed)))
                yield ids[-1]

    module.Llama = Llama
    monkeypatch.setitem(sys.modules, "llama_cpp", module)
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_speculative", speculative)
    return module


def test_llama_cpp(fake_llama_cpp):
    from forerun.certify.engines.llama_cpp import LlamaCppEngine

    engine = LlamaCppEngine("some.gguf", num_draft=5)
    found = engine.sample([1, 2], 40, {"max_tokens": 6}, 3)
    assert all(9 not in tokens[:-1] for tokens in found)  # the end comes last
    assert all(len(tokens) == 6 or tokens[-1] == 9 for tokens in found)
    assert any(len(tokens) < 6 for tokens in found)
    assert engine._llama(True).draft_model.num_pred_tokens == 5
    assert engine._llama(True).options["logits_all"]
    held = engine.sample(
        [1, 2], 40, {"max_tokens": 6, "min_tokens": 4, "banned": [0], "stop_ids": [3]}, 3
    )
    assert all(len(tokens) >= 4 and 0 not in tokens for tokens in held)
    assert all(len(tokens) == 6 or tokens[-1] in (3, 9) for tokens in held)
    assert engine._llama(False).draft_model is None
    assert engine.sample([1], 1, {"max_tokens": 2, "num_draft": 0}, 3)
    assert engine.traits.temperature_last
    engine.close()


@pytest.mark.parametrize(
    ("module", "make", "said"),
    [
        ("vllm", lambda: __import__("forerun.certify.engines.vllm", fromlist="x").VllmEngine(
            "m", speculative_config={}), "pip install vllm"),
        ("llama_cpp", lambda: __import__("forerun.certify.engines.llama_cpp", fromlist="x")
         .LlamaCppEngine("m"), "pip install llama-cpp-python"),
        ("transformers", lambda: __import__("forerun.certify.engines.transformers", fromlist="x")
         .TransformersEngine("m"), r"pip install 'forerun\[hf\]'"),
    ],
)  # fmt: skip
def test_a_library_that_is_missing_is_named(module, make, said, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=said):
        make()
