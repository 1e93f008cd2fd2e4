"""One replica and two of `forerun serve --ray`, beside the server without Ray, under the same load.

    python benchmarks/replicas.py [--streams 32] [--batch 16] [--requests 96] [--tokens 96]
        [--replicas 1 2] [--model smollm2] [--drafter none]

Every replica has one thread. Prints a JSON line for each: tokens per second of all streams, seconds
to the first token and between tokens, processor seconds of each kind of process per 1,000 tokens,
and the memory of each replica.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

KINDS = {
    "replicas": "ServeReplica:forerun:replicas", "front": "ServeReplica:forerun:fronts",
    "proxy": "ProxyActor", "controller": "ServeController", "raylet": "raylet/raylet",
    "gcs": "gcs_server", "server": "forerun",
}  # fmt: skip
TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--replicas", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--drafter", default="none")
    args = parser.parse_args()
    for count in (None, *args.replicas):
        with tempfile.TemporaryDirectory() as folder:
            ray = [] if count is None else ["--ray", "--replicas", str(count)]
            found = one(Path(folder) / "log", ray, args)
        print(json.dumps({"replicas": count, **found}), flush=True)


def one(log: Path, more: list[str], args: argparse.Namespace) -> dict[str, object]:
    command = [
        sys.executable, "-m", "forerun", "serve", "-t", "1", "--port", "0", "--log-file", log,
        "--max-batch", str(args.batch), "-m", args.model, "--drafter", args.drafter, *more,
    ]  # fmt: skip
    asked = time.perf_counter()
    served = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)
    try:
        url = None
        while url is None:
            time.sleep(0.2)
            lines = log.read_text().splitlines() if log.exists() else []
            told = [line for line in map(json.loads, lines) if line["event"] == "serving"]
            url = told[-1]["url"] if told else None
        start = time.perf_counter() - asked
        load(url, args.streams, args.streams, 8)  # warm
        before = processes(served.pid)
        began = time.perf_counter()
        firsts, gaps, tokens = load(url, args.streams, args.requests, args.tokens)
        seconds = time.perf_counter() - began
        after = processes(served.pid)
        used: dict[str, float] = defaultdict(float)
        for pid, (kind, spent) in after.items():
            used[kind] += spent - before.get(pid, (kind, 0.0))[1]
        firsts, gaps = sorted(firsts), sorted(gaps)
        return {
            "tokens_per_second": round(tokens / seconds, 1),
            "seconds": round(seconds, 1),
            "start": round(start, 1),  # of the command, until it serves
            "first_token": [round(median(firsts), 3), round(firsts[-len(firsts) // 20], 3)],
            "between_tokens": [round(median(gaps), 4), round(gaps[-len(gaps) // 20], 4)],
            "cpu_per_1000_tokens": {k: round(1000 * v / tokens, 2) for k, v in used.items()},
            "memory_mib": [memory(pid) for pid, (kind, _) in after.items() if kind == "replicas"],
        }
    finally:
        served.send_signal(signal.SIGINT)
        served.wait(120)


def load(url: str, streams: int, requests: int, tokens: int) -> tuple[list, list, int]:
    """Seconds to first tokens and between tokens, and how many there were."""
    numbers, firsts, gaps, count = iter(range(requests)), [], [], [0]

    def client() -> None:
        for number in numbers:
            body = {
                "prompt": f"Chapter {number}. The", "max_tokens": tokens, "min_tokens": tokens,
                "stream": True, "return_token_ids": True,
            }  # fmt: skip
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
            asked = time.perf_counter()
            connection.request(
                "POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"}
            )
            last = None
            for line in connection.getresponse():
                if not line.startswith(b"data: {"):
                    continue
                ids = len(json.loads(line[6:])["choices"][0].get("token_ids") or ())
                if ids:
                    now = time.perf_counter()
                    firsts.append(now - asked) if last is None else gaps.extend(
                        [(now - last) / ids] * ids
                    )
                    last = now
                    count[0] += ids
            connection.close()

    threads = [threading.Thread(target=client) for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return firsts, gaps, count[0]


def processes(root: int) -> dict[int, tuple[str, float]]:
    """(kind, processor seconds) of a process and those below it."""
    parents, found = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                name = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents[int(folder.name)] = int(stat[1])
            kind = next((kind for kind, mark in KINDS.items() if mark in name), "other")
            found[int(folder.name)] = (kind, (int(stat[11]) + int(stat[12])) / TICK)
    below = {root}
    for _ in range(8):
        below |= {pid for pid, parent in parents.items() if parent in below}
    return {pid: found[pid] for pid in below if pid in found}


def memory(pid: int) -> list[float]:
    """MiB that a process has in memory, and its part of that; of what two share, half."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return [
        round(int(re.search(rf"(?m)^{name}:\s+(\d+)", text)[1]) / 1024, 1)
        for name in ("Rss", "Pss")
    ]


if __name__ == "__main__":
    main()
