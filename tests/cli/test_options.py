"""The frozen list of commands and options, and how values are read."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from forerun.cli.app import app
from forerun.cli.options import Settings, spoken
from forerun.cli.values import (
    decode,
    number_or_ranges,
    parse_size,
    size_text,
    without_last_newline,
)
from forerun.drafters import DRAFTERS
from forerun.errors import OptionError
from forerun.models.cores import usable_cores
from forerun.verifiers import VERIFIERS

SHARED = {
    "-m --model", "--backend", "--dtype", "--device", "-t --threads", "-c --context",
    "--max-memory",
    "--drafter", "--draft-model", "--head", "--prediction-file", "--memory", "--memory-size",
    "--skip-layers",
    "-k --num-draft", "--verifier",
    "--temperature", "--top-k", "--top-p", "--min-p", "--repetition-penalty",
    "--presence-penalty", "--frequency-penalty", "--logit-bias", "--ban", "--seed",
    "-n --max-tokens", "--min-tokens", "--stop", "--stop-id",
    "--json", "--trace", "-v --verbose", "--log-file", "--no-color", "--system",
}  # fmt: skip

SURFACE = {
    "": {"--version"},
    "generate": {
        "PROMPT", "--prompt-file", "--chat", "--compare", "--json-schema", "--regex", "--lark",
        *SHARED,
    },
    "chat": SHARED,
    "run": {
        "FILE", "-o --out", "-n --max-tokens", "--seed", "--limit", "--shuffle-seed",
        "--served-model-name", "--max-batch", "--prefix-memory", "-v --verbose", "--log-file",
        "--no-color", "--ray", "--replicas", "--cpus-per-replica", "--gpus-per-replica",
        "--private-weights",
        "-m --model", "--backend", "--dtype", "--device", "-t --threads", "-c --context",
        "--max-memory", "--drafter", "--draft-model", "--head", "--prediction-file", "--memory",
        "--memory-size", "--skip-layers", "-k --num-draft", "--verifier",
    },
    "serve": {
        "--host", "--port", "--served-model-name", "--stream-pacing", "--default-max-tokens",
        "--max-batch", "--max-waiting", "--max-body", "--timeout", "--api-key", "--metrics-key",
        "--allowed-host",
        "--cors-origin", "--prefix-memory", "--share-prefixes", "--log-prompts", "-v --verbose",
        "--log-file", "--ray", "--replicas", "--cpus-per-replica", "--gpus-per-replica", "--fronts",
        "--private-weights",
        "-m --model", "--backend", "--dtype", "--device", "-t --threads", "-c --context",
        "--max-memory", "--drafter", "--draft-model", "--head", "--prediction-file", "--memory",
        "--memory-size", "--skip-layers", "-k --num-draft", "--verifier",
    },
    "play": {
        "--host", "--port", "--no-model", "--no-open", "--api-key", "--log-file",
        "-m --model", "--backend", "--dtype", "--device", "-t --threads", "-c --context",
        "--max-memory", "--drafter", "--draft-model", "--head", "--prediction-file", "--memory",
        "--memory-size", "--skip-layers", "-k --num-draft", "--verifier",
    },
    "plan": {
        "MODEL", "--prompts", "--chat", "--draft-model", "--head", "--temperature", "--top-p",
        "-n --max-tokens", "--slots", "--minutes", "--check", "--backend", "--dtype", "--device",
        "-t --threads", "--plot", "--json", "--no-color",
    },
    "bench": {
        "--list", "--workload", "--system", "-m --model", "--draft-model", "--head", "--sampling",
        "--passes", "--repeats", "--items", "-n --max-tokens", "-t --threads", "--seed", "--data",
        "--peers", "--out", "--plot", "--oracle", "--json", "--no-color",
    },
    "certify": {
        "ENGINE", "--exact", "--all", "--check", "--drafter", "--verifier", "-m --model",
        "--draft-model", "--head", "--reference", "--off", "-k --num-draft", "--option",
        "--backend", "--dtype", "-t --threads", "--minutes", "--level", "--seed", "--setting",
        "--tokens", "--no-tiny", "--trust-reference", "--out", "--json", "--no-color",
    },
    "train": {
        "MODEL", "-o --out", "--minutes", "--data", "--from-traces", "--eval", "--from", "--form",
        "--layers", "--draft-vocab", "--feed-forward", "-t --threads", "--seed", "--json",
        "--no-color",
    },
    "models": {"--json", "--no-color"},
    "models pull": {"NAME", "--no-color"},
    "models cost": {
        "NAME", "--backend", "--dtype", "--device", "-t --threads", "--refresh", "--json",
        "--no-color",
    },
}  # fmt: skip
"""An option that is not listed here does not exist. Names are kept stable: DESIGN, section 7."""


def surface(command, name=""):
    own = {
        " ".join(p.opts) if p.param_type_name == "option" else p.name.upper()
        for p in command.params
        if p.name != "help"
    }
    found = {name: own}
    for sub in getattr(command, "commands", {}).values():
        found |= surface(sub, f"{name} {sub.name}".strip())
    return found


def test_commands_and_options_are_frozen():
    assert surface(typer.main.get_command(app)) == SURFACE


@pytest.mark.parametrize("command", SURFACE)
def test_help_has_every_option(command, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    result = cli(*command.split(), "--help")
    assert result.code == 0
    assert result.err == ""
    for option in SURFACE[command]:
        assert option.split()[-1] in result.out


def test_help_names_every_drafter_and_verifier(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    said = cli("generate", "--help").out
    assert all(name in said for name in (*DRAFTERS, *VERIFIERS, "auto"))


def test_version(cli):
    assert cli("--version").out == "forerun 0.1.0\n"
    assert "generate" in cli().out


@pytest.mark.parametrize(
    "args", ["['--help']", "['models']", "['certify', '--exact', '--drafter', 'ngram']"]
)
def test_torch_is_not_imported(args):
    code = f"import sys; from forerun.cli.app import run; assert run({args}) == 0; "
    code += "assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("3-5", (3, 4, 5)), ("3-4,9", (3, 4, 9)), ("4,", (4,)), ("0,2", (0, 2))],
)
def test_numbers_or_ranges(text, value):
    assert number_or_ranges(text) == value


@pytest.mark.parametrize("text", ["", ",", "a", "3-", "-3", "5-3", "1,,2", "0-99999", "1.5"])
def test_what_is_no_list_of_numbers(text):
    with pytest.raises(typer.BadParameter, match=r"is neither a number nor a list such as 3-12,15"):
        number_or_ranges(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1048576", 2**20), ("2GiB", 2**31), ("500MB", 5 * 10**8), ("1.5g", 3 * 2**29),
     ("64 KiB", 2**16), ("7b", 7)],
)  # fmt: skip
def test_sizes(text, size):
    assert parse_size("--max-memory", text) == size


@pytest.mark.parametrize("text", ["", "2 parsecs", "-1GiB", "0", "0.1b", "1e9"])
def test_sizes_that_are_none(text):
    with pytest.raises(OptionError, match=r"--max-memory (takes a size such as|must be at least)"):
        parse_size("--max-memory", text)


def test_small_texts():
    assert [size_text(n) for n in (7, 1000, 98_362_432, 3 * 10**12)] == [
        "7 bytes", "1.0 kB", "98.4 MB", "3.0 TB",
    ]  # fmt: skip
    assert without_last_newline("a\n\n") == "a\n"
    assert without_last_newline("a\r\n") == "a"
    assert without_last_newline("a\r") == "a\r"
    with pytest.raises(OptionError, match="it is not UTF-8 text: byte 0xff at position 1"):
        decode("it", b"a\xff")


def test_messages_speak_of_options():
    assert spoken("top_p must be above 0") == "--top-p must be above 0"
    assert spoken("min_tokens (5) must be at most max_tokens (3)") == (
        "--min-tokens (5) must be at most --max-tokens (3)"
    )
    assert spoken("seed must be None (a fresh one) or 1 or 2, not 3") == (
        "--seed must be 1 or 2 (leave it out for a fresh one), not 3"
    )
    assert spoken("a GPU has none; use device='cpu'") == "a GPU has none; use --device cpu"
    assert spoken("no space; choose another cache folder").endswith("folder with FORERUN_CACHE")
    assert spoken("none: give head, the folder of one") == "none: give --head, the folder of one"
    assert spoken("model fake is gone") == "model fake is gone"
    assert spoken("banned names token id 9") == "--ban names token id 9"


def test_settings_under_the_librarys_names():
    settings = Settings(
        temperature=0.5, ban=[3], stop=["x"], stop_id=[4], logit_bias=["7=-1.5"], min_tokens=2
    )
    assert settings.sampling() == {
        "temperature": 0.5, "banned": [3], "stop": ["x"], "stop_ids": [4],
        "logit_bias": {7: -1.5}, "min_tokens": 2, "max_tokens": 256,
    }  # fmt: skip
    assert Settings(max_memory="1KiB", threads=3).loading() == {
        "backend": "auto", "dtype": "float32", "device": "cpu", "threads": 3, "context": None,
        "max_memory": 1024,
    }  # fmt: skip


def machine(root, *, cores, quota=None, group="", v1=None):
    """A root folder that says which physical core each cpu is on, and the cgroup's quota."""
    for cpu, core in enumerate(cores):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{core}\n")
        (topology / "physical_package_id").write_text("0\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"4:cpu,cpuacct:{group}\n0::{group}\n")
    if quota:
        folder = root / f"sys/fs/cgroup{group}"
        folder.mkdir(parents=True)
        (folder / "cpu.max").write_text(quota)
    if v1:
        folder = root / "sys/fs/cgroup/cpu"
        folder.mkdir(parents=True)
        (folder / "cpu.cfs_quota_us").write_text(f"{v1}\n")
        (folder / "cpu.cfs_period_us").write_text("100000\n")


@pytest.mark.parametrize(
    ("options", "cores"),
    [
        ({"cores": [0, 0, 1, 1]}, 2),  # two threads a core
        ({"cores": [0, 1, 2, 3]}, 4),
        ({"cores": [0, 1, 2, 3], "quota": "250000 100000\n"}, 2),
        ({"cores": [0, 1, 2, 3], "quota": "max 100000\n"}, 4),
        ({"cores": [0, 1, 2, 3], "quota": "50000 100000\n"}, 1),
        ({"cores": [0, 1, 2, 3], "quota": "300000 100000\n", "group": "/a/b"}, 3),
        ({"cores": [0, 1, 2, 3], "v1": "200000"}, 2),
        ({"cores": [0, 1, 2, 3], "v1": "-1"}, 4),
    ],
)
def test_usable_cores(options, cores, tmp_path, monkeypatch):
    monkeypatch.setattr("forerun.models.cores._affinity", lambda: {0, 1, 2, 3})
    machine(tmp_path, **options)
    assert usable_cores(tmp_path) == cores


def test_cores_outside_of_the_affinity_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr("forerun.models.cores._affinity", lambda: {1, 2})
    machine(tmp_path, cores=[0, 1, 2, 3])
    assert usable_cores(tmp_path) == 2
    assert usable_cores(tmp_path / "nothing") == 2
