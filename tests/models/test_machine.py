"""Memory that a process may use, as Linux tells it."""

from __future__ import annotations

import pytest

from forerun.models.machine import usable_memory

MEMINFO = "MemTotal:       16384 kB\nMemFree:         100 kB\n"
MACHINE = 16384 << 10


@pytest.mark.parametrize(
    ("files", "bytes_"),
    [
        ({}, MACHINE),
        ({"sys/fs/cgroup/memory.max": "max"}, MACHINE),
        ({"sys/fs/cgroup/memory.max": "5000"}, 5000),
        ({"sys/fs/cgroup/a/memory.max": "4000", "sys/fs/cgroup/a/b/memory.max": "max"}, 4000),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
        ({"sys/fs/cgroup/memory/c/memory.limit_in_bytes": "3000"}, 3000),
    ],
)
def test_usable_memory(tmp_path, files, bytes_):
    told = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a/b\n4:memory:/c\n", **files}
    for name, text in told.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert usable_memory(tmp_path) == bytes_


def test_a_system_that_does_not_say(tmp_path):
    assert usable_memory(tmp_path) is None
