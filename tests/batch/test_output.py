"""Whole records, each once, whatever a death left behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.batch import Output
from forerun.errors import OptionError

from .fakes import OTHER_INPUT, OTHER_OPTIONS, RUN, record

LAST = 9


def opened(path, run=RUN, **options):
    return Output(path, run, LAST, **options)


def numbers(output):
    return [n for n in range(LAST + 1) if output.done[n]]


@given(
    st.lists(st.integers(1, LAST), unique=True, min_size=1),
    st.text(max_size=5),
    st.floats(0, 1),
    st.sampled_from([b"", b"\0", b"\0" * 40, b"\0\0\n", b"\n"]),
)
@settings(max_examples=200, deadline=None)
def test_a_death_at_any_byte(tmp_path_factory, order, text, share, zeros):
    """What is cut off anywhere, and followed by what a disk may leave, keeps all whole records and
    nothing else; and it can be gone on with."""
    path = tmp_path_factory.mktemp("torn") / "out"
    records = [record(n, custom_id=text) for n in order]
    raw = b"".join(records)
    cut = round(share * len(raw))
    whole = [r for i, r in enumerate(records) if len(b"".join(records[: i + 1])) <= cut]
    left = raw[:cut]
    torn = left[len(b"".join(whole)) :]
    if zeros == b"\n" and torn.endswith(b"}"):
        zeros = b""  # the end of line that was missing would make it whole
    path.write_bytes(left + (zeros if torn or zeros.strip(b"\n") else b""))
    with opened(path) as output:
        assert numbers(output) == sorted(order[: len(whole)])
        assert output.found == len(whole)
        assert path.read_bytes() == b"".join(whole)
        assert output.dropped == len(torn + (zeros if torn or zeros.strip(b"\n") else b""))
        for n in order[len(whole) :]:
            output.write(n, record(n))
    with opened(path) as output:
        assert numbers(output) == sorted(order)
        assert output.dropped == 0


@given(st.binary(min_size=1, max_size=60))
@settings(max_examples=150, deadline=None)
def test_other_files_are_left_alone(tmp_path_factory, raw):
    start = f'{{"id":"batch_req_{RUN}_'.encode()
    if start.startswith(raw.rstrip(b"\r\n\0")):
        raw = b"x" + raw
    path = tmp_path_factory.mktemp("other") / "out"
    path.write_bytes(raw)
    with pytest.raises(OptionError, match="something else than records"):
        opened(path)
    assert path.read_bytes() == raw


def test_something_else_between_records(tmp_path):
    path = tmp_path / "out"
    for middle in (b"{}\n", record(2)[:-20] + b"\n", b"\n"):
        path.write_bytes(raw := record(1) + middle + record(3))
        with pytest.raises(OptionError, match="something else than records"):
            opened(path)
        assert path.read_bytes() == raw


@pytest.mark.parametrize(
    ("run", "why"),
    [(OTHER_INPUT, "answers to another input"), (OTHER_OPTIONS, "made with other options")],
)
@pytest.mark.parametrize("keep", [None, -9])
def test_outputs_of_other_runs_are_refused(tmp_path, run, why, keep):
    path = tmp_path / "out"
    path.write_bytes(raw := record(1, run) + record(2, run)[:keep])
    with pytest.raises(OptionError, match=why):
        opened(path)
    assert path.read_bytes() == raw
    path.write_bytes(torn := record(1) + record(2, run)[:-9])
    with pytest.raises(OptionError, match="something else than records"):
        opened(path)
    assert path.read_bytes() == torn


def test_doubled_and_impossible_lines(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(record(1) + record(2) + record(1))
    with pytest.raises(OptionError, match="two records of line 1"):
        opened(path)
    path.write_bytes(record(LAST + 1))
    with pytest.raises(OptionError, match=f"record of line {LAST + 1}, which is not there"):
        opened(path)


def test_what_is_there_is_counted(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(
        record(1) + record(2, response=None, error={"code": "x"})
        + record(3, response={"status_code": 400, "body": {}})
    )  # fmt: skip
    with opened(path) as output:
        assert (output.found, output.failed, output.makers) == (3, 2, {"forerun-0-x"})


def test_lines_may_be_taken_out(tmp_path):
    """To have them done again."""
    path = tmp_path / "out"
    path.write_bytes(record(1) + record(3))
    with opened(path) as output:
        output.write(2, record(2))
    with opened(path) as output:
        assert numbers(output) == [1, 2, 3]


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "out"
    with opened(path), pytest.raises(OptionError, match="being written by another run"):
        opened(path)
    opened(path).close()


def test_the_disk_is_told_once_a_second(tmp_path, monkeypatch):
    synced, now = [], [0.0]
    monkeypatch.setattr(os, "fsync", synced.append)
    with opened(tmp_path / "out", clock=lambda: now[0]) as output:
        for n in range(1, 4):
            output.write(n, record(n))
        assert synced == []
        now[0] = 1.0
        output.sync()
        output.sync()
        assert len(synced) == 1
        output.write(4, record(4))
    assert len(synced) == 2


def test_what_cannot_be_written(tmp_path):
    for path in (tmp_path / "no" / "out", tmp_path):
        with pytest.raises(OptionError, match=r"--out .* cannot be written"):
            opened(path)

    with pytest.raises(OptionError, match="is no file: give one, or - for standard output"):
        opened("/dev/null")


def test_standard_output_is_written_as_it_is():
    code = (
        "from batch.fakes import *\n"
        "with Output(None, RUN, 3) as output:\n"
        "    assert not output.resumes\n"
        "    output.write(2, record(2))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    assert done.stdout == record(2)
