"""How much memory this process may use: the machine's, or less by cgroup limit.

What this module does not know: how much of it others use at the moment.
"""

from __future__ import annotations

from pathlib import Path

from forerun.models.cores import cgroups, read


def usable_memory(root: Path = Path("/")) -> int | None:
    """Bytes; None where the system does not say. `root` is where /sys and /proc are looked for."""
    found = [*_of_machine(root), *_limits(root)]
    return min(found, default=None)


def _of_machine(root: Path) -> list[int]:
    for line in (read(root / "proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return [1024 * int(rest.split()[0])]
    return []


def _limits(root: Path) -> list[int]:
    """Of cgroups, version 2 and 1. Every one above this process's counts."""
    folders = [
        (cgroups(root, "0::", root / "sys/fs/cgroup"), "memory.max"),
        (cgroups(root, "memory", root / "sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    ]
    said = [read(folder / name) for among, name in folders for folder in among]
    return [int(limit) for limit in said if limit is not None and limit.isdecimal()]
