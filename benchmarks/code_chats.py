"""Chats about Python functions, out of installed sources: what a head of a coder is trained on.

    python benchmarks/code_chats.py FOLDER [FOLDER …] --out code.jsonl [--count 1200]
    forerun train coder.gguf --data code.jsonl -o head-of-coder

Each is a short function with a docstring that stands by itself, and its answer is the function as
it was written. A third asks as the workload `code` of `forerun bench` does, with signature and
docstring; the others give name and summary only, so that the answer is long beside what is asked.
Functions of HumanEval's names are left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forerun.bench.workloads import WORKLOADS, load, to_complete

LINES = range(6, 45)  # of a function


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="Python sources, with all below")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1200)
    parser.add_argument("--data", type=Path, help="the folder of benchmarks/data.py")
    options = parser.parse_args()
    items = load(WORKLOADS["code"], count=1000, data=options.data)
    judged = {line for item in items for line in item.prompt.splitlines()}
    names = {line.split("(")[0].removeprefix("def ") for line in judged if line.startswith("def ")}
    found: dict[str, Function] = {}
    for folder in options.folders:
        for file in sorted(folder.rglob("*.py")):
            for function in functions(file):
                if function.name not in names:
                    found.setdefault(function.name, function)
    chosen = list(found.values())
    random.Random(0).shuffle(chosen)
    with options.out.open("w", encoding="utf-8") as out:
        for i, one in enumerate(chosen[: options.count]):
            short = f"Write a Python function: `{one.name}`. {one.summary}"
            prompt = short if i % 3 else to_complete(one.head)
            messages = [
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": f"```python\n{one.source}\n```"},
            ]
            out.write(json.dumps({"messages": messages}) + "\n")
    print(f"{options.out}: {min(len(chosen), options.count)} of {len(chosen)} functions")


@dataclass(frozen=True, kw_only=True)
class Function:
    """`head`: signature and docstring; `summary`: the docstring's first paragraph."""

    name: str
    head: str
    summary: str
    source: str


def functions(file: Path) -> Iterator[Function]:
    """Those that will do."""
    try:
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("test"):
            continue
        doc, text = ast.get_docstring(node), ast.get_source_segment(source, node)
        if not doc or not text or text.count("\n") + 1 not in LINES or len(doc) > 500:
            continue
        documented = node.body[0].end_lineno
        if documented is None or len(node.body) < 2:
            continue
        head = "\n".join(source.splitlines()[node.lineno - 1 : documented])
        summary = " ".join(doc.split("\n\n")[0].split())
        yield Function(name=node.name, head=head, summary=summary, source=text)


if __name__ == "__main__":
    main()
