"""Processes that a command has started, and a look into its log."""

from __future__ import annotations

import json
from pathlib import Path


def descendants(pid: int) -> list[tuple[int, str]]:
    """(pid, command) of the processes below this one."""
    below: dict[int, list[int]] = {}
    names = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text()
                names[int(folder.name)] = (folder / "cmdline").read_text()
            except OSError:
                continue
            below.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        children = below.get(todo.pop(), [])
        found += [(child, names[child]) for child in children]
        todo += children
    return found


def events(log: Path, name: str) -> list[dict]:
    """Lines of a log that say so."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line for line in lines if line["event"] == name]
