"""Records the runs that the page's chapter 9 shows without a model: real rounds of SmolLM2.

    python web/record.py            writes web/public/recordings/NAME.json

The draft model is SmolLM2 itself, of which every third layer's feed-forward weights are rounded
once more, from 16 levels to 8: a coarser model with laws of its own, in the same file format. A
recording is what the page writes too when a run is saved (web/src/trace/recording.ts): what was
asked, the rounds as `forerun generate --trace` writes them, and the text of every id.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import forerun
from forerun.drafters import ModelDrafter
from forerun.models import store
from forerun.models.cost import processor
from forerun.models.gguf import read_gguf
from forerun.models.load import load_model
from forerun.trace import ids

PLACE = Path(__file__).parent / "public/recordings"
VERSION = 1  # of the format
DRAFT = "SmolLM2-135M-Instruct, every third feed-forward layer at 3 bits"
LEVELS = 8

RUNS: dict[str, dict[str, Any]] = {
    "sampled": {
        "prompt": "Why is the sky blue?", "chat": True, "drafter": "model",
        "verifier": "rejection", "num_draft": 4, "temperature": 0.8, "seed": 11, "max_tokens": 48,
    },
    "block": {
        "prompt": "Why is the sky blue?", "chat": True, "drafter": "model",
        "verifier": "block", "num_draft": 4, "temperature": 0.8, "seed": 11, "max_tokens": 48,
    },
    "suffix": {
        "prompt": "Write the numbers from 1 to 12, each on a line, like this: Number 1 is odd. "
        "Number 2 is even.", "chat": True, "drafter": "suffix",
        "verifier": "rejection", "num_draft": 6, "temperature": 0.6, "seed": 3, "max_tokens": 60,
    },
    "coupled": {
        "prompt": "Once upon a time, in a village by the sea,", "chat": False, "drafter": "model",
        "verifier": "coupled", "num_draft": 4, "temperature": 0.7, "seed": 5, "max_tokens": 48,
    },
}  # fmt: skip


def rounded(source: Path, out: Path, levels: int = LEVELS) -> Path:
    """The file with the codes of some Q4_1 tensors on `levels` of their 16 values."""
    file = read_gguf(source)
    step = 15 / (levels - 1)
    code = [round(round(c / step) * step) for c in range(16)]
    table = np.array([code[b >> 4] << 4 | code[b & 15] for b in range(256)], np.uint8)
    content = np.frombuffer(source.read_bytes(), np.uint8).copy()
    for tensor in file.tensors.values():
        layer = re.match(r"blk\.(\d+)\.ffn", tensor.name)
        if tensor.type == "Q4_1" and layer is not None and int(layer[1]) % 3 == 0:
            # blocks of 20 bytes: scale and least value, then 32 codes
            blocks = content[tensor.offset : tensor.offset + tensor.size].reshape(-1, 20)
            blocks[:, 4:] = table[blocks[:, 4:]]
    out.write_bytes(content.tobytes())
    return out


def short(value: Any) -> Any:
    """Numbers to six digits: what is shown needs no more, and files get half as long."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [short(one) for one in value]
    if isinstance(value, dict):
        return {name: short(one) for name, one in value.items()}
    return value


def record(engine: forerun.Engine, run: dict[str, Any], draft: str | None) -> dict[str, Any]:
    options = {
        name: run[name] for name in ("verifier", "num_draft", "temperature", "seed", "max_tokens")
    }
    prompt = [{"role": "user", "content": run["prompt"]}] if run["chat"] else run["prompt"]
    engine.generate(
        "Hello", drafter=run["drafter"], max_tokens=8
    )  # the first rounds of all are slow
    done = engine.generate(prompt, drafter=run["drafter"], **options)
    tokenizer, costs = engine.target.tokenizer, engine.costs()
    named = sorted({token for record in done.trace for token in ids(record)})
    stats = done.stats
    print(f"{run['verifier']}, {run['drafter']}: {stats.rounds} rounds, {stats.tokens} tokens, "
          f"{stats.acceptance_rate:.2f} accepted")  # fmt: skip
    return {
        "recording": VERSION,
        "recorded": datetime.date.today().isoformat(),
        "machine": processor(),
        "model": "SmolLM2-135M-Instruct, Q4_1",
        **({} if draft is None else {"draft": draft}),
        **run,
        "text": done.text,
        "costs": {
            "target_seconds": short(list(costs.target[:16])),
            "draft_seconds": {n: short(list(s[:16])) for n, s in costs.draft.items()},
        },
        "words": {str(token): tokenizer.token_text(token) for token in named},
        "rounds": [short(json.loads(record.to_json())) for record in done.trace],
    }


def main(names: list[str]) -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    source = store.pull("smollm2")
    target = load_model(source)
    with tempfile.TemporaryDirectory() as folder:
        small = load_model(rounded(source, Path(folder) / "rounded.gguf"))
        for name, run in RUNS.items():
            if names and name not in names:
                continue
            model = run["drafter"] == "model"
            drafter = ModelDrafter(small) if model else run["drafter"]
            with forerun.Engine(target, drafter, trace_heads=True) as engine:
                found = record(engine, run, DRAFT if model else None)
            text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
            (PLACE / f"{name}.json").write_text(text + "\n", encoding="utf-8")
            print(f"  {name}.json: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
