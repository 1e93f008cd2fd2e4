"""How many threads help: physical cores this process may use, by affinity and by cgroup quota.

Two threads on one core share its arithmetic units, so a pass gains nothing from the second; beyond
a container's quota they only take turns.
"""

from __future__ import annotations

import math
import os
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> int:
    """At least 1. `root` is where /sys and /proc are looked for."""
    cpus = _affinity()
    cores = {_core(root, cpu) for cpu in cpus}
    quota = _quota(root)
    return max(1, len(cores) if quota is None else min(len(cores), math.floor(quota)))


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _core(root: Path, cpu: int) -> tuple[str, str]:
    """The physical core of a cpu: (package, core), or the cpu itself where nothing says."""
    topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    package, core = read(topology / "physical_package_id"), read(topology / "core_id")
    return ("cpu", str(cpu)) if package is None or core is None else (package, core)


def _quota(root: Path) -> float | None:
    """Cpus' worth of time this process may use; None: no limit. Every cgroup above it counts."""
    found = [*_quotas_v2(root), *_quotas_v1(root)]
    return min(found, default=None)


def _quotas_v2(root: Path) -> list[float]:
    found = []
    for folder in cgroups(root, "0::", root / "sys/fs/cgroup"):
        words = (read(folder / "cpu.max") or "max").split()
        if words[0] != "max":
            found.append(int(words[0]) / int(words[1]))
    return found


def _quotas_v1(root: Path) -> list[float]:
    found = []
    for folder in cgroups(root, "cpu", root / "sys/fs/cgroup/cpu"):
        quota, period = read(folder / "cpu.cfs_quota_us"), read(folder / "cpu.cfs_period_us")
        if quota is not None and period is not None and int(quota) > 0:
            found.append(int(quota) / int(period))
    return found


def cgroups(root: Path, controller: str, mount: Path) -> list[Path]:
    """This process's cgroup of a hierarchy and those above it."""
    place = ""
    for line in (read(root / "proc/self/cgroup") or "").splitlines():
        number, names, path = line.split(":", 2)
        if controller in (f"{number}:{names}:", *names.split(",")):
            place = path
    folders = [mount]
    for name in Path(place.lstrip("/")).parts:
        folders.append(folders[-1] / name)
    return folders


def read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
