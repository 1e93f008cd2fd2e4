"""Many clients at once: `forerun serve` beside its own plain decoding and llama-server, in one run.

    python benchmarks/serving.py -m MODEL.gguf [--llama-server BINARY] [--data FOLDER]
        [--workload code] [--concurrency 1 4 8 16] [--items 16] [--repeats 3] [-n 128]

Every system is an OpenAI-compatible server on this machine, started once and idle while another is
asked. For each number of clients, each repeat asks the systems in turn (the order rotates) for the
same chat prompts, which no system has seen before; a client sends its next request when its last
has ended. Greedy, streamed.

    forerun        as it comes: suffix drafts, γ by cost
    forerun plain  the same server, asked with "speculative": false
    llama-server   the same file, --parallel as many as clients at most, no drafts

Prints medians with ranges over the repeats: tokens per second of all clients together, and its
ratio to own plain decoding in the same repeat; of all requests, p50 and p99 of the time to the
first piece of text and between pieces that follow each other.
"""

from __future__ import annotations

import argparse
import atexit
import http.client
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from forerun.bench import workloads

PATIENCE = 300  # seconds until a server must be ready


@dataclass(kw_only=True)
class Answered:
    """What became of one request; seconds."""

    tokens: int
    arrivals: list[float]  # of pieces of text, since it was sent


@dataclass(kw_only=True)
class System:
    """A server, and what is asked of it beside the prompt."""

    name: str
    port: int
    extra: dict[str, Any] = field(default_factory=dict)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def start(command: list[str], port: int) -> None:
    """A server that ends with this program; returns once it says that it is well."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(process.terminate)
    give_up = perf_counter() + PATIENCE
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        if process.poll() is not None or perf_counter() > give_up:
            raise SystemExit(f"{command[0]} did not start (exit code {process.poll()})")
        time.sleep(0.2)


def ask(system: System, prompt: str, max_tokens: int) -> Answered:
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **system.extra,
    }
    begin = perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", system.port, timeout=600)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"{system.name} answered {response.status}: {response.read()!r}")
    tokens, arrivals = 0, []
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        said = json.loads(line[6:])
        if said.get("usage"):
            tokens = int(said["usage"]["completion_tokens"])
        if any(choice["delta"].get("content") for choice in said.get("choices", [])):
            arrivals.append(perf_counter() - begin)
    connection.close()
    return Answered(tokens=tokens, arrivals=arrivals)


def run(system: System, prompts: list[str], clients: int, n: int) -> tuple[float, list[Answered]]:
    """Seconds until all are answered, and the answers."""
    waiting, answers, failures = deque(prompts), [], []

    def client() -> None:
        while True:
            try:
                prompt = waiting.popleft()
            except IndexError:
                return
            try:
                answers.append(ask(system, prompt, n))
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begin = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = perf_counter() - begin
    if failures:
        raise failures[0]
    return took, answers


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def median_and_range(values: list[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--llama-server", help="its binary; left out where not given")
    parser.add_argument("--draft-model", help="for forerun: drafts of suffix+model")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--workload", default="code")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--items", type=int, default=16, help="prompts in each repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-n", "--max-tokens", type=int, default=128)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=2048, help="tokens of each request")
    args = parser.parse_args()

    most = max(args.concurrency)
    sets = len(args.concurrency) * args.repeats
    items = workloads.load(
        workloads.named([args.workload])[0], count=sets * args.items, data=args.data
    )
    prompts = [item.prompt for item in items]
    if len(prompts) < sets * args.items:
        raise SystemExit(f"{args.workload} has {len(prompts)} prompts, not {sets * args.items}")

    port = free_port()
    command = [sys.executable, "-m", "forerun", "serve", "-m", args.model, "--port", str(port)]
    command += [
        "--prefix-memory",
        "0",  # both ways of asking it get the same prompts
        "--served-model-name",
        "any",
        "--max-batch",
        str(most),
        "-t",
        str(args.threads),
        "--drafter",
    ]
    command += (
        ["suffix+model", "--draft-model", args.draft_model] if args.draft_model else ["suffix"]
    )
    start(command, port)
    systems = [
        System(name="forerun", port=port),
        System(name="forerun plain", port=port, extra={"speculative": False}),
    ]
    if args.llama_server:
        port = free_port()
        command = [args.llama_server, "-m", args.model, "--port", str(port), "--host", "127.0.0.1"]
        command += ["-np", str(most), "-c", str(most * args.context), "--offline"]
        command += ["-t", str(args.threads), "-tb", str(args.threads)]
        start(command, port)
        systems.append(System(name="llama-server", port=port))
    for system in systems:  # costs are measured, weights are read
        run(system, ["Count to ten."], 1, 16)
    compare(systems, prompts, args)


def compare(systems: list[System], prompts: list[str], args: argparse.Namespace) -> None:
    print(
        f"{args.model}, {args.workload}, {args.items} prompts × {args.repeats}, greedy, "
        f"n = {args.max_tokens}"
    )
    print(
        "clients  system         tokens/s             ÷ own plain        first ms p50 p99"
        "    between ms p50 p99"
    )
    given = deque(prompts)
    for clients in args.concurrency:
        rates: dict[str, list[float]] = {system.name: [] for system in systems}
        answers: dict[str, list[Answered]] = {system.name: [] for system in systems}
        for repeat in range(args.repeats):
            mine = [given.popleft() for _ in range(args.items)]
            for i in range(len(systems)):
                system = systems[(i + repeat) % len(systems)]
                took, found = run(system, mine, clients, args.max_tokens)
                rates[system.name].append(sum(a.tokens for a in found) / took)
                answers[system.name] += found
        plain = rates["forerun plain"]
        for system in systems:
            first = [1e3 * a.arrivals[0] for a in answers[system.name] if a.arrivals]
            gaps = [
                1e3 * (later - earlier)
                for a in answers[system.name]
                for earlier, later in zip(a.arrivals, a.arrivals[1:])
            ]
            ratios = [rate / own for rate, own in zip(rates[system.name], plain)]
            print(
                f"{clients:7}  {system.name:13}  {median_and_range(rates[system.name], 1):20} "
                f"{median_and_range(ratios, 2):18} "
                f"{percentile(first, 0.5):8.0f} {percentile(first, 0.99):8.0f}   "
                f"{percentile(gaps, 0.5):8.1f} {percentile(gaps, 0.99):8.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
