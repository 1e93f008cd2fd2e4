"""How much of what is possible verifiers took, from recorded rounds of laws that are known."""

from __future__ import annotations

import numpy as np
import pytest

from forerun import Engine, TabularModel
from forerun.bench import oracle
from forerun.drafters import (
    GreedyPlusOneTreeDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    SampledTreeDrafter,
)
from forerun.errors import OptionError
from forerun.numerics import transport

P, Q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.5, 0.2, 0.1])
DRAFT = TabularModel(lambda prefix: Q, 4)


def rounds(drafter, verifier, tokens=900, p=P, **options):
    target = TabularModel(lambda prefix: p, len(p))
    engine = Engine(target, drafter, verifier=verifier, num_draft=2)
    return engine.generate([0], max_tokens=tokens, seed=3, **options).trace


def nodes(found, where):
    (one,) = [kept for (_, _, place), kept in found.items() if place == where]
    return one.to_dict()


@pytest.mark.parametrize("heads", [False, True])
def test_a_chain_is_bounded_by_the_distance_of_the_laws(heads):
    found = oracle.fold(rounds(ModelDrafter(DRAFT), "rejection", trace_heads=heads))
    for where in ("root", "below"):
        said = nodes(found, where)
        assert said["bound"] == pytest.approx(transport.independent(P, Q, 1), abs=0.05)
        assert said["share"] == pytest.approx(1, abs=0.05), "it reaches its bound"
        assert said["untold"] == 0


def test_children_without_replacement_need_the_laws():
    drafter = SampledTreeDrafter(DRAFT, shape=(2,))
    (said,) = [one.to_dict() for one in oracle.fold(rounds(drafter, "recursive")).values()]
    assert said["nodes"] <= 1, "the last round has room for one"
    assert said["untold"] > 100
    found = oracle.fold(rounds(drafter, "recursive", trace_heads=True))
    said = nodes(found, "root")
    assert said["untold"] == 0
    assert said["bound"] == pytest.approx(transport.without_replacement(P, Q, 2), abs=0.01)
    assert said["taken"] <= said["bound"] + 4 * said["error"]
    assert 0.7 < said["share"] < 0.95


def test_greedy_plus_one_reaches_its_bound():
    drafter = GreedyPlusOneTreeDrafter(DRAFT, shape=(2,))
    said = nodes(oracle.fold(rounds(drafter, "greedy_plus_one")), "root")
    assert said["bound"] == pytest.approx(transport.greedy_plus_one(P, Q, 2), abs=0.05)
    assert said["share"] == pytest.approx(1, abs=0.05)


def test_of_what_is_not_drawn_the_bound_is_its_mass():
    said = nodes(oracle.fold(rounds(LikeliestTreeDrafter(DRAFT, depth=1), "coupled")), "root")
    assert said["bound"] == pytest.approx(P[0] + P[1], abs=0.01)
    assert said["share"] == pytest.approx(1, abs=0.06)


def test_heads_that_are_cut_do_not_tell():
    flat = np.full(20, 0.05)
    draft = TabularModel(lambda prefix: flat, 20)
    drafter = SampledTreeDrafter(draft, shape=(2,))
    trace = rounds(drafter, "recursive", 60, flat, trace_heads=True)
    said = nodes(oracle.fold(trace), "root")
    assert said["untold"] > 10
    assert said["nodes"] <= 1


def test_verifiers_of_whole_paths_are_bounded_at_the_root_alone():
    found = oracle.fold(rounds(ModelDrafter(DRAFT), "block"))
    assert {where for _, _, where in found} == {"root"}


def test_a_table_and_files(tmp_path):
    path = tmp_path / "trace.jsonl"
    trace = rounds(ModelDrafter(DRAFT), "rejection", 60)
    path.write_text("".join(record.to_json() + "\n" for record in trace))
    assert len(oracle.read([path, path])) == 2 * len(trace)
    shown = oracle.to_markdown(oracle.fold(oracle.read([path])))
    assert "| rejection | model | " in shown
    assert shown.count("\n") == 3
    assert oracle.to_list(oracle.fold(trace))[0]["verifier"] == "rejection"


def test_what_is_no_trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("{}\n")
    with pytest.raises(OptionError, match="line 1: trace schema None"):
        oracle.read([path])
    with pytest.raises(OptionError, match="cannot be read: no such file"):
        oracle.read([tmp_path / "none"])
