"""Lines by number, whatever the file holds."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.batch import Source, source
from forerun.errors import OptionError, SourceChangedError

from .fakes import written


@given(st.lists(st.binary(max_size=9), max_size=12), st.booleans(), st.sampled_from([4, 64]))
@settings(max_examples=150, deadline=None)
def test_lines_are_those_of_the_file(lines, ends, longest):
    lines = [line.replace(b"\n", b"") for line in lines]
    raw = b"\n".join(lines) + (b"\n" if ends else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "LONGEST", longest)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        with Source(None) as found:
            # a line is judged blank by as much of it as is read
            wanted = {
                n: line[: longest + 1].rstrip(b"\r\n")
                for n, line in enumerate(raw.split(b"\n"), start=1)
                if line[: longest + 1].strip()
            }
            assert list(found.numbers) == list(wanted)
            assert [found.read(i) for i in found.order()] == list(wanted.values())
            assert found.digest == hashlib.sha256(raw).hexdigest()
            assert found.last == max(wanted, default=0)


def test_repeated_custom_ids(tmp_path):
    lines = [{"custom_id": "a"}, {"custom_id": "b"}, b"", b"no", {"custom_id": "a"}, {"x": 1}, [1]]
    with Source(written(tmp_path / "in", *lines, {"custom_id": "a"}, {"custom_id": 1})) as found:
        used = {found.numbers[i]: found.used_before(i) for i in found.order()}
    assert used == {1: None, 2: None, 4: None, 5: 1, 6: None, 7: None, 8: 1, 9: None}


def test_equal_digests_of_unequal_ids(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_short_digest", lambda custom_id: 7)
    lines = [{"custom_id": name} for name in "aba"]
    with Source(written(tmp_path / "in", *lines)) as found:
        assert [found.used_before(i) for i in found.order()] == [None, None, 1]


def test_orders(tmp_path):
    with Source(written(tmp_path / "in", *range(50))) as found:
        assert list(found.order()) == list(range(50))
        assert list(found.order(3)) == [0, 1, 2]
        shuffled = list(found.order(shuffle=1))
        assert sorted(shuffled) == list(range(50)) != shuffled
        assert list(found.order(7, 1)) == shuffled[:7]
        assert list(found.order(shuffle=2)) != shuffled
        assert list(found.order(1000)) == list(range(50))


def test_an_empty_file(tmp_path):
    with Source(written(tmp_path / "in", b"", b"  ")) as found:
        assert (len(found), found.last, list(found.order())) == (0, 0, [])


def test_a_changed_file_is_noticed(tmp_path):
    path = written(tmp_path / "in", 1, 2)
    with Source(path) as found:
        assert found.read(1) == b"2"
        with path.open("ab") as file:
            file.write(b"3\n")
        with pytest.raises(SourceChangedError, match="was changed while it was read"):
            found.read(1)


def test_a_pipe_is_copied(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"1\n2\n",))
    writer.start()
    with Source(path) as found:
        assert [found.read(i) for i in (1, 0)] == [b"2", b"1"]
    writer.join()


def test_what_cannot_be_read(tmp_path):
    for path, why in ((tmp_path / "none", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(OptionError, match=f"FILE .* cannot be read: {why}"):
            Source(path)


def test_memory_does_not_grow_with_the_lines_length(tmp_path):
    path = written(tmp_path / "in", *({"prompt": "x" * 50_000} for _ in range(20)))
    with Source(path) as found:
        held = sum(len(a) * a.itemsize for a in vars(found).values() if hasattr(a, "itemsize"))
        assert held == 24 * 20
        assert json.loads(found.read(19))["prompt"] == "x" * 50_000
