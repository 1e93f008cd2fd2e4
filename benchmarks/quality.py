"""How far an engine's laws are from the file's own: KL, top-1 agreement, perplexity.

    python benchmarks/quality.py FOLDER MODEL.gguf --data TEXTS --engine reference
    python benchmarks/quality.py FOLDER MODEL.gguf --data TEXTS --engine llama.cpp --peers PEERS
    python benchmarks/quality.py FOLDER MODEL.gguf --data TEXTS --engine native
    python benchmarks/quality.py FOLDER                                             compare all

The reference is the float32 run of the dequantised file through transformers (the hf backend), so
that only an engine's own roundings count: of activations, sums, and caches. The texts are news and
code (`benchmarks/data.py` fetches them), in windows of 640 tokens. The first --skip positions of a
window do not count: at a text's first token some models' activations are so large that this one
position stands for half of an engine's mean. Logits are kept in FOLDER, float32, some gigabytes
each; each engine runs once.

    KL        mean of Σ p (log p − log q) over positions, p the reference's law, q the engine's
    top-1     share of positions with the same likeliest token
    ppl       exp of the mean −log q(next token)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

WINDOW = 640  # tokens; longer than gemma3's sliding window of 512
WINDOWS = 4
ROWS = 32  # of one pass
ENGINES = ("reference", "llama.cpp", "native")


def texts(data: Path) -> list[str]:
    """News, and code of HumanEval's solutions, in turn."""
    from forerun.bench.workloads import EDITED_FUNCTIONS, load, named

    news, code = named(["summary", "edit"])
    count = 8
    articles = [item.prompt.partition("\n\n")[2] for item in load(news, count=count, data=data)]
    files = [
        item.prompt.partition("```python\n")[2].removesuffix("\n```")
        for item in load(code, count=count * 2 // EDITED_FUNCTIONS + 3, data=data)
    ]
    return ["\n\n".join(articles), "\n\n\n".join(files)]


def windows(model: Path, data: Path) -> list[list[int]]:
    """Token ids; half of the windows are news, half are code."""
    from forerun.models.load import find

    tokenizer = find(model)[1]
    assert tokenizer is not None
    start = [tokenizer.bos] if tokenizer.adds_bos and tokenizer.bos is not None else []
    size, found = WINDOW - len(start), []
    for text in texts(data):
        ids = tokenizer.encode(text)
        if len(ids) < size * (WINDOWS // 2):
            sys.exit(f"the texts have {len(ids)} tokens, too few for {WINDOWS // 2} windows")
        found += [[*start, *ids[i * size : (i + 1) * size]] for i in range(WINDOWS // 2)]
    return found


def forerun_logits(
    model: Path, ids: list[list[int]], out: Path, backend: str, threads: int
) -> None:
    from numpy.lib.format import open_memmap

    from forerun.models.base import Step
    from forerun.models.load import load_model

    loaded = load_model(model, backend=backend, threads=threads, context=WINDOW)
    total = sum(len(window) for window in ids)
    kept = open_memmap(out, "w+", dtype="float32", shape=(total, loaded.vocab_size))
    row = 0
    for number, window in enumerate(ids):
        slot = loaded.open()
        for start in range(0, len(window), ROWS):
            piece = window[start : start + ROWS]
            (logits,) = loaded.extend([Step(slot=slot, tokens=piece, rows=len(piece))])
            loaded.keep(slot, start + len(piece))
            kept[row : row + len(piece)] = logits
            row += len(piece)
        loaded.close(slot)
        print(f"{model.stem}, {backend}: window {number + 1} of {len(ids)}", file=sys.stderr)
    kept.flush()


def llama_logits(model: Path, ids: list[list[int]], out: Path, threads: int) -> None:
    """Runs under the Python that has llama-cpp-python."""
    import llama_cpp
    from numpy.lib.format import open_memmap

    llama = llama_cpp.Llama(
        model_path=str(model),
        n_ctx=WINDOW,
        n_batch=ROWS,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=True,
        verbose=False,
    )
    total = sum(len(window) for window in ids)
    kept = open_memmap(out, "w+", dtype="float32", shape=(total, llama.n_vocab()))
    row = 0
    for number, window in enumerate(ids):
        llama.reset()
        llama.eval(window)
        kept[row : row + len(window)] = llama.scores[: len(window)]
        row += len(window)
        print(f"{model.stem}, llama.cpp: window {number + 1} of {len(ids)}", file=sys.stderr)
    kept.flush()


def collect(options: argparse.Namespace) -> None:
    """FOLDER/MODEL-ENGINE.npy, whole or not at all."""
    model, folder = options.model, options.folder
    place = folder / f"{model.stem}-ids.json"
    if not place.is_file():
        place.write_text(json.dumps(windows(model, options.data)))
    out = folder / f"{model.stem}-{options.engine}.npy"
    fresh = out.with_suffix(f".{os.getpid()}.part")
    try:
        if options.engine == "llama.cpp" and options.peers is not None:
            python = options.peers / "llama-cpp-python" / "bin" / "python"
            command = [str(python), __file__, str(folder), str(model), "--engine", "llama.cpp"]
            command += ["--threads", str(options.threads)]
            if subprocess.run(command).returncode:
                sys.exit("llama.cpp failed; what it said is above")
        elif options.engine == "llama.cpp":
            llama_logits(model, json.loads(place.read_text()), fresh, options.threads)
        else:
            backend = "hf" if options.engine == "reference" else options.engine
            ids = json.loads(place.read_text())
            forerun_logits(model, ids, fresh, backend, options.threads)
        if fresh.exists():
            fresh.replace(out)
    finally:
        fresh.unlink(missing_ok=True)


def compare(folder: Path, skip: int, json_out: bool) -> None:
    """A line for each model and engine whose logits are in FOLDER."""
    import numpy as np

    found = []
    for place in sorted(folder.glob("*-ids.json")):
        name = place.name.removesuffix("-ids.json")
        ids = json.loads(place.read_text())
        tables = {
            engine: np.load(path, mmap_mode="r")
            for engine in ENGINES
            if (path := folder / f"{name}-{engine}.npy").is_file()
        }
        if "reference" not in tables:
            continue
        size = min(table.shape[1] for table in tables.values())
        following = [token for window in ids for token in (*window[1:], -1)]
        sums = {engine: {"kl": [], "top1": [], "loss": []} for engine in tables}
        counted = [at >= skip for window in ids for at in range(len(window))]
        for row, token in enumerate(following):
            if not counted[row]:
                continue
            p = log_law(tables["reference"][row, :size])
            for engine, table in tables.items():
                q = log_law(table[row, :size])
                kept = sums[engine]
                kept["kl"].append(float((np.exp(p) * (p - q)).sum()))
                kept["top1"].append(int(p.argmax()) == int(q.argmax()))
                if token >= 0:
                    kept["loss"].append(-float(q[token]))
        for engine, kept in sums.items():
            count = len(kept["kl"])
            found.append(
                {
                    "model": name,
                    "engine": engine,
                    "positions": count,
                    "kl": float(np.mean(kept["kl"])),
                    "kl_error": float(np.std(kept["kl"]) / np.sqrt(count)),
                    "top1": float(np.mean(kept["top1"])),
                    "ppl": float(np.exp(np.mean(kept["loss"]))),
                }
            )
    if json_out:
        print(json.dumps(found))
        return
    print("| model | engine | positions | KL, mean ± standard error | top-1 | perplexity |")
    print("| --- | --- | --- | --- | --- | --- |")
    for f in found:
        print(
            f"| {f['model']} | {f['engine']} | {f['positions']} | {f['kl']:.2e} ± "
            f"{f['kl_error']:.1e} | {f['top1']:.2%} | {f['ppl']:.4f} |"
        )


def log_law(logits):  # type: ignore[no-untyped-def]
    import numpy as np

    logits = np.asarray(logits, dtype=np.float64)
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where logits are kept")
    parser.add_argument("model", type=Path, nargs="?", help="a GGUF file; none: compare")
    parser.add_argument("--engine", choices=ENGINES, default="reference")
    parser.add_argument("--data", type=Path, help="texts: see benchmarks/data.py")
    parser.add_argument("--peers", type=Path, help="see benchmarks/peers.py")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--skip", type=int, default=4, help="first positions of each window")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.model is None:
        compare(options.folder, options.skip, options.json)
    else:
        collect(options)


if __name__ == "__main__":
    main()
