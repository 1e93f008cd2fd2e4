"""transformers' adapter with tiny models: plain, assisted, lookup, and different vocabularies."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.certify import check, report
from forerun.certify.build import Wanted
from forerun.certify.engines.tiny_folders import write
from forerun.certify.engines.transformers import TransformersEngine
from forerun.certify.plan import Plan
from forerun.certify.reference import Reference
from forerun.certify.references import references
from forerun.certify.run import certify
from forerun.certify.tiny_cases import tiny
from forerun.errors import CapabilityError, OptionError, PeerError
from forerun.models.load import load_model

PROMPT = (3, 5, 3, 5, 3)


@pytest.fixture(scope="module")
def same(tmp_path_factory):
    return write(tmp_path_factory.mktemp("same"), seed=1)


@pytest.fixture(scope="module")
def reference(same):
    return Reference(load_model(same.bare, backend="hf", threads=1))


def engine_of(folders, **options):
    return TransformersEngine(folders.target, threads=1, **options)


def test_the_same_seed_makes_the_same_models(same, tmp_path):
    again = write(tmp_path, seed=1)
    name = "model.safetensors"
    assert (again.target / name).read_bytes() == (same.target / name).read_bytes()
    assert (again.bare / name).read_bytes() == (same.bare / name).read_bytes()


@pytest.mark.parametrize("how", ["plain", "assisted", "lookup"])
def test_greedy_text_is_the_references(how, same, reference):
    options = {"assisted": {"assistant": same.draft}, "lookup": {"lookup": True}}.get(how, {})
    engine = engine_of(same, **options)
    sampling = {"max_tokens": 8, "temperature": 0.0, "logit_bias": {4: -2.0}, "banned": [9]}
    if how != "plain":
        sampling["num_draft"] = 3
    [tokens] = engine.sample(PROMPT, 1, sampling, 0)
    sampling.pop("num_draft", None)
    [places] = reference.places(PROMPT, [tokens], sampling)
    assert [place.token for place in places] == [int(np.argmax(place.p)) for place in places]
    assert how in engine.name
    assert engine.describe()["engine"] == "transformers"


def test_sampled_text(same, reference):
    engine = engine_of(same, assistant=same.draft)
    sampling = {
        "max_tokens": 10, "temperature": 1.4, "top_k": 12, "top_p": 0.9, "stop_ids": [2],
        "min_tokens": 3, "repetition_penalty": 1.3, "num_draft": 2,
    }  # fmt: skip
    found = engine.sample(PROMPT, 6, sampling, 4)
    assert found == engine.sample(PROMPT, 6, sampling, 4)
    assert len(set(found)) > 1
    sampling.pop("num_draft")
    for tokens, places in zip(found, reference.places(PROMPT, found, sampling)):
        assert len(tokens) == 10 or tokens[-1] in (2, same.eos)
        assert len(tokens) >= 3
        assert all(place.p[place.token] > 0 for place in places)
    with pytest.raises(CapabilityError, match="has no presence_penalty"):
        engine.sample(PROMPT, 1, {"max_tokens": 2, "presence_penalty": 1.0}, 0)


def test_a_number_of_drafts_is_that_requests_alone(same):
    engine = engine_of(same, assistant=same.draft)
    config = engine._draft.generation_config
    before = config.num_assistant_tokens, config.assistant_confidence_threshold
    engine.sample(PROMPT, 1, {"max_tokens": 6, "num_draft": 1}, 0)
    assert (config.num_assistant_tokens, config.assistant_confidence_threshold) == (1, 0.0)
    engine._drafting(None)
    assert (config.num_assistant_tokens, config.assistant_confidence_threshold) == before


@pytest.mark.parametrize("prune", [None, False])
def test_different_vocabularies(prune, tmp_path):
    folders = write(tmp_path, seed=2, vocabularies=True)
    engine = engine_of(folders, assistant=folders.draft, prune=prune)
    rows = engine._draft.get_output_embeddings()
    [tokens] = engine.sample(PROMPT, 1, {"max_tokens": 12}, 0)
    assert all(0 <= token < folders.vocabulary for token in tokens)
    assert (engine._draft.get_output_embeddings() is rows) == (prune is False)
    assert "different vocabularies" in engine.name


def test_a_tiny_case_and_its_reference_made_again(tmp_path):
    wanted = Wanted(engine="transformers", settings=["γ = 8", "top-k"])
    [case] = tiny(wanted, tmp_path / "one", seed=5)
    plan = Plan(minutes=1.0, tokens=60)
    made = report.as_dict(certify([case], plan), plan)
    assert not made["cases"][0]["fault"]
    assert made["cases"][0]["bits"]["status"] == "same"
    assert case.draft is not None
    again = check.mismatches(
        made, lambda models, last: references(models, last, None, tmp_path / "two")
    )
    assert again == []


def test_what_cannot_be(same, tmp_path):
    with pytest.raises(OptionError, match="not by both"):
        engine_of(same, assistant=same.draft, lookup=True)
    other = write(tmp_path, seed=3, vocabulary=24)
    with pytest.raises(OptionError, match=r"has 32 tokens and .* 24"):
        engine_of(same, assistant=other.draft)
    with pytest.raises(PeerError):
        engine_of(same).sample([99], 1, {"max_tokens": 2}, 0)
