"""Makes a head small enough to come with forerun, from the folder of a training run.

    forerun train smollm2 -o run --minutes 60
    python benchmarks/ship_head.py run src/forerun/models/heads/checkpoints/smollm2

Of the ids that can be drafted it keeps those that the run's answers use most, as many as fit; rows
of the output matrix do not depend on each other, so that nothing is trained anew. Weights are
stored in 8 bits, which is what the kernels run.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from forerun.models.heads.checkpoint import Head, offsets, read_head, write_head
from forerun.train.texts import TextFile

MOST = 10_000_000  # bytes


def pruned(head: Head, kept: np.ndarray) -> tuple[dict[str, np.ndarray], int]:
    """Tensors with the draft ids of the target's `kept` alone."""
    rows = np.isin(head.ids, kept)
    tensors = {name: head[name] for name in head.tensors}
    tensors["lm_head.weight"] = tensors["lm_head.weight"][rows]
    ids = head.ids[rows]
    return tensors | offsets(ids, head.config.vocabulary), len(ids)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--most", type=int, default=MOST, metavar="BYTES")
    options = parser.parse_args()
    head = read_head(options.run / "head")
    with TextFile(options.run / "texts.jsonl") as texts:
        counts = Counter(id for text in texts for a, b in text.spans for id in text.ids[a:b])
    often = sorted(head.ids.tolist(), key=lambda id: (-counts[id], id))
    size = len(often)
    while True:
        tensors, count = pruned(head, np.array(often[:size]))
        write_head(options.out, replace(head.config, draft_vocabulary=count), tensors, bits=8)
        taken = sum(file.stat().st_size for file in options.out.iterdir())
        if taken <= options.most:
            break
        size -= max((taken - options.most) // (head.config.hidden + 10), 1)
    covered = sum(counts[id] for id in often[:size]) / max(counts.total(), 1)
    print(json.dumps({"bytes": taken, "ids": count, "of the answers' tokens": round(covered, 4)}))


if __name__ == "__main__":
    main()
