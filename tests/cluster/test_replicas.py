"""The two ends of a batch over Ray, with blocks carried by hand: what runs without Ray."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from contextlib import closing
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from batch.fakes import answers, run_batch, same, terms, written
from forerun import Engine
from forerun.batch import Identity, Output, Source
from forerun.cli.app import with_address
from forerun.cluster import batch, replica
from forerun.cluster.batch import RayBatch, Replica, Replicas
from forerun.drafters import NgramDrafter
from forerun.errors import ReplicaError
from server.fakes import lively_model

OPTIONS = {"model": "tiny"}
RUN = Identity.of("0" * 64, OPTIONS)
PARTS = (lambda: Engine(lively_model(), NgramDrafter(), num_draft=3), lambda: OPTIONS, terms(RUN))


class RayError(Exception):
    pass


class ByHand:
    """Ray Data's part: blocks through one replica, as NumPy arrays."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self, change=lambda number, block: block):
        self.data, self._change, self.sizes = self, change, []

    def ActorPoolStrategy(self, **options):
        return options

    def from_items(self, rows, override_num_blocks):
        self.sizes.append(len(rows))
        self._blocks = [
            list(b) for b in np.array_split(np.array(rows, object), override_num_blocks)
        ]
        return self

    def map_batches(self, replica, fn_constructor_args, **options):
        self._replica = partial(replica, *fn_constructor_args)
        return self

    def iter_batches(self, **options):
        with closing(self._replica()) as replica:
            for number, rows in enumerate(self._blocks):
                block = {name: np.array([row[name] for row in rows], object) for name in rows[0]}
                yield self._change(number, replica(block))


@pytest.fixture
def source(tmp_path):
    lines = [{"prompt": f"{i}", "custom_id": f"{i % 38}"} for i in range(40)]
    return written(tmp_path / "in.jsonl", *lines, b"no", {"prompt": "a", "n": 3})


def by_hand(monkeypatch, source, out, ray, parts=PARTS, **options):
    monkeypatch.setattr(batch, "_ray", lambda address: ray)
    with Source(source) as lines, Output(out, RUN, lines.last) as output:
        work = RayBatch("local", Replicas(1, 1, 0), lines, output, **options)
        return work.run(lines.order(), *parts), work.tally


def test_the_answers_are_those_of_one_process(monkeypatch, source, tmp_path):
    whole, tally = by_hand(monkeypatch, source, tmp_path / "out", ray := ByHand())
    assert (whole, tally.lines, tally.failed, ray.sizes) == (True, 42, 3, [42])
    assert tally.tokens > tally.accepted > 0
    with PARTS[0]() as engine:
        monkeypatch.setattr("batch.fakes.RUN", RUN)
        monkeypatch.setattr("batch.fakes.terms", lambda: terms(RUN))
        alone = run_batch(engine, source, tmp_path / "alone")
    assert (alone.tokens, alone.lines, alone.failed) == (tally.tokens, 42, 3)
    assert same(answers(tmp_path / "out"), answers(tmp_path / "alone"))


def test_chunks_bound_what_is_in_rays_memory(monkeypatch, source, tmp_path):
    monkeypatch.setattr(batch, "CHUNK", 300)
    by_hand(monkeypatch, source, tmp_path / "out", ray := ByHand())
    assert len(ray.sizes) > 3
    assert sum(ray.sizes) == 42


def test_stopping_and_going_on(monkeypatch, source, tmp_path):
    out, seen = tmp_path / "out", []
    options = {"stopping": lambda: len(seen) > 0, "watch": seen.append}
    whole, tally = by_hand(monkeypatch, source, out, ByHand(), **options)
    assert not whole
    assert 0 < tally.lines < 42
    whole, rest = by_hand(monkeypatch, source, out, ByHand())
    assert whole
    assert tally.lines + rest.lines == len(answers(out)) == 42


def test_replicas_of_two_kinds_end_the_run(monkeypatch, source, tmp_path):
    def other(number, block):
        return block | {"maker": ["forerun-9"] * len(block["maker"])} if number else block

    with pytest.raises(ReplicaError, match=r"replicas differ: forerun-0\.1\.0 and forerun-9"):
        by_hand(monkeypatch, source, tmp_path / "out", ByHand(other))
    assert 0 < len(answers(tmp_path / "out")) < 42


def test_what_ray_says_is_its_last_line(monkeypatch, source, tmp_path):
    def broken(number, block):
        raise RayError("Traceback\n  …\nRoundError: a round broke off\n")

    with pytest.raises(ReplicaError, match=r"^Ray: RoundError: a round broke off$"):
        by_hand(monkeypatch, source, tmp_path / "out", ByHand(broken))


def test_a_replica_with_another_model_does_not_start():
    with pytest.raises(ReplicaError, match="is not the driver's"):
        Replica(PARTS[0], lambda: {"model": "other"}, terms(RUN))


@pytest.mark.parametrize(
    "command", [["run", "in", "-o", "out", "--ray"], ["serve", "--ray", "--replicas", "2"]]
)
def test_without_ray(tmp_path, command):
    written(tmp_path / "in", {"prompt": "a"})
    code = (
        "import sys; sys.modules['ray'] = None; from forerun.cli.app import run;"
        f"sys.exit(run({command}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert found.returncode == 2
    assert "--ray needs ray: pip install 'forerun[cluster]'" in found.stderr
    assert found.stderr.count("\n") == 1


def test_ray_without_an_address_is_one_of_its_own():
    for args, meant in (
        (["--ray"], ["--ray", "local"]),
        (["serve", "--ray", "--replicas", "2"], ["serve", "--ray", "local", "--replicas", "2"]),
        (["--ray", "-v", "--ray"], ["--ray", "local", "-v", "--ray", "local"]),
        (["--ray", "10.0.0.1:6379"], ["--ray", "10.0.0.1:6379"]),
        (["--ray=auto", "-v"], ["--ray=auto", "-v"]),
    ):
        assert with_address(args) == meant


def test_a_replica_whose_engine_is_stuck_is_not_well(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(replica.time, "monotonic", lambda: clock[0])
    with PARTS[0]() as engine:
        one = replica.EngineReplica(lambda: engine, lambda: "model", "model", "tiny")
        status = engine.status()
        monkeypatch.setattr(engine, "status", lambda: status)
        one.check_health()
        status = dataclasses.replace(status, running=1, turns=status.turns + 1)
        for clock[0] in (1000.0, 1119.0):
            one.check_health()
        clock[0] = 1121.0
        with pytest.raises(ReplicaError, match="the engine has taken no turn for 121 s"):
            one.check_health()
        status = dataclasses.replace(status, turns=status.turns + 1)
        one.check_health()
        status = dataclasses.replace(status, running=0)
        clock[0] = 9000.0
        one.check_health()


def test_an_engine_replica_of_another_model_does_not_start():
    with pytest.raises(ReplicaError, match="is not that of the command"):
        replica.EngineReplica(PARTS[0], lambda: "other", "model", "tiny")
