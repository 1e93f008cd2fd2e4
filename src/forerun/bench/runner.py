"""Runs workloads on systems side by side, and keeps a report of what is there so far.

    for repeat, sampling, workload, item:  each system in turn, another one first each time

Engines run in processes of their own, all alive at once, one computing at a time. What fails is
left out from then on, and said in the report. Ctrl-C ends the run; the report is of what there is.

This module does not know how engines work, or what a report looks like.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forerun.decode
from forerun.bench import passes as passes_
from forerun.bench import systems as systems_
from forerun.bench.figures import Run
from forerun.bench.passes import Passes, rotated
from forerun.bench.plan import SAMPLINGS, Plan, Record
from forerun.bench.process import Process
from forerun.bench.systems import System
from forerun.bench.workloads import Item, load
from forerun.errors import OptionError, PeerError
from forerun.models import store
from forerun.models.load import find
from forerun.text.tokenizer import Tokenizer

WARM_UP = 8  # tokens that each system writes before anything counts
PASS_CONTEXT = 512  # tokens of text before the rows of `passes`


@dataclass(frozen=True, kw_only=True)
class Step:
    """One item under one sampling in one repeat."""

    repeat: int
    sampling: str
    workload: str
    item: Item
    prompt: Sequence[int]
    seed: int


def run(
    plan: Plan,
    *,
    save: Callable[[Record], None] = lambda record: None,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    fetched: store.Progress | None = None,
    logs: Path | None = None,
) -> Record:
    """Measure. `save` is called with what there is whenever there is more of it; `progress` with
    steps done and in all, and what comes next. Raises for what is wrong before anything runs."""
    plan.check()
    model, tokenizer = find(plan.model, cache=plan.cache, progress=fetched)
    if tokenizer is None:
        raise OptionError(f"{plan.model} has no tokenizer; a workload is text")
    draft = None
    if plan.draft_model is not None:
        draft = str(find(plan.draft_model, cache=plan.cache, progress=fetched)[0])
    steps = list(_steps(plan, tokenizer))
    record = Record(plan=plan, load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None)
    with ExitStack() as stack:
        if logs is None:
            logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="forerun-bench-")))
        longest = max([len(s.prompt) + plan.max_tokens for s in steps], default=0)
        opening = {
            "model": str(model),
            "draft_model": draft,
            "threads": plan.threads,
            "context": -(-(max(longest, PASS_CONTEXT) + 128) // 256) * 256,
        }
        try:
            processes = _open(plan, record, stack, logs, opening, progress)
            save(record)
            if plan.passes:
                _measure_passes(plan, record, processes, tokenizer, model, save, progress)
            _warm_up(plan, record, processes, steps, tokenizer, progress)
            for number, step in enumerate(steps):
                what = f"repeat {step.repeat + 1}: {step.workload} {step.item.id} {step.sampling}"
                progress(number, len(steps), what)
                _one(plan, record, processes, step, number, tokenizer)
                save(record)
            record.complete = True
            progress(len(steps), len(steps), "done")
        except KeyboardInterrupt:
            record.interrupted = True
        save(record)
    return record


def _steps(plan: Plan, tokenizer: Tokenizer) -> Iterator[Step]:
    loaded = {w.name: load(w, count=plan.items, data=plan.data) for w in plan.workloads}
    prompts = {
        (name, item.id): prompt_ids(tokenizer, item.prompt)
        for name, items in loaded.items()
        for item in items
    }
    for repeat in range(plan.repeats):
        for sampling in plan.samplings:
            for name, items in loaded.items():
                for number, item in enumerate(items):
                    yield Step(
                        repeat=repeat,
                        sampling=sampling,
                        workload=name,
                        item=item,
                        prompt=prompts[name, item.id],
                        seed=plan.seed + number,
                    )


def prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """A chat of one message; for a model without a template, the text and a line's end."""
    if tokenizer.chat_template is not None:
        return tokenizer.encode_chat([{"role": "user", "content": prompt}])
    start = [tokenizer.bos] if tokenizer.adds_bos and tokenizer.bos is not None else []
    return [*start, *tokenizer.encode(prompt + "\n\n")]


def _open(
    plan: Plan,
    record: Record,
    stack: ExitStack,
    logs: Path,
    opening: Mapping[str, Any],
    progress: Callable[[int, int, str], None],
) -> dict[str, Process]:
    """A process for each engine, its models loaded."""
    processes: dict[str, Process] = {}
    engines = {system.engine.name: system.engine for system in plan.systems}
    heads = {system.engine.name for system in plan.systems if system.needs_head}
    needing = {system.engine.name for system in plan.systems if system.needs_draft_model}
    for number, (name, engine) in enumerate(engines.items()):
        progress(number, len(engines), f"loading {plan.model} in {name}")
        command, settings = systems_.command(engine, plan.peers)
        if engine.peer is None and plan.cache is not None:
            settings["cache"] = str(plan.cache)
        if name in heads:  # "": the one that comes with forerun
            settings["head"] = "" if plan.head is None else str(plan.head)
        threads = {"OMP_NUM_THREADS": str(plan.threads), "OPENBLAS_NUM_THREADS": "1"}
        process = Process(name, command, log=logs / f"{name}.log", environment=threads)
        stack.callback(process.close)
        wanted = opening if name in needing else {**opening, "draft_model": None}
        with _failing(record, name):
            record.engines[name] = process.call("open", **wanted, **settings)
            processes[name] = process
    return processes


def _measure_passes(
    plan: Plan,
    record: Record,
    processes: Mapping[str, Process],
    tokenizer: Tokenizer,
    model: Path | str,
    save: Callable[[Record], None],
    progress: Callable[[int, int, str], None],
) -> None:
    text = Path(forerun.decode.__file__).read_text(encoding="utf-8")  # a text that is always there

    def into(passes: Passes) -> None:
        record.passes = passes
        progress(len(passes.bandwidth), 2 * plan.repeats, "passes")
        save(record)

    record.passes = passes_.measure(
        processes,
        ids=tokenizer.encode(text)[:PASS_CONTEXT],
        repeats=plan.repeats,
        threads=plan.threads,
        weight_bytes=passes_.weight_bytes(model),
        into=into,
    )


def _warm_up(
    plan: Plan,
    record: Record,
    processes: Mapping[str, Process],
    steps: Sequence[Step],
    tokenizer: Tokenizer,
    progress: Callable[[int, int, str], None],
) -> None:
    """The first use of a system starts servers, measures costs, fills caches."""
    for number, system in enumerate(plan.systems if steps else ()):
        progress(number, len(plan.systems), f"warming up {system.name}")
        if system.engine.name in processes:
            with _failing(record, system.name):
                _ask(plan, processes[system.engine.name], system, steps[0], tokenizer, WARM_UP)


def _one(
    plan: Plan,
    record: Record,
    processes: Mapping[str, Process],
    step: Step,
    number: int,
    tokenizer: Tokenizer,
) -> None:
    by_name = {system.name: system for system in plan.systems}
    for name in rotated(list(by_name), number):
        system = by_name[name]
        if name in record.failures or system.engine.name not in processes:
            continue
        with _failing(record, name):
            process = processes[system.engine.name]
            answer = _ask(plan, process, system, step, tokenizer, plan.max_tokens)
            if not answer["arrivals"]:
                raise PeerError(f"{name} wrote nothing for {step.item.id}")
            record.runs.append(
                Run.of(
                    answer,
                    workload=step.workload,
                    sampling=step.sampling,
                    system=name,
                    item=step.item.id,
                    repeat=step.repeat,
                    prompt_tokens=len(step.prompt),
                )
            )


def _ask(
    plan: Plan,
    process: Process,
    system: System,
    step: Step,
    tokenizer: Tokenizer,
    max_tokens: int,
) -> Any:
    temperature, top_p = SAMPLINGS[step.sampling]
    return process.call(
        "generate",
        mode=system.mode,
        num_draft=system.num_draft,
        prompt=list(step.prompt),
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=step.seed,
        stop_ids=sorted(tokenizer.eos),
    )


@contextmanager
def _failing(record: Record, name: str) -> Iterator[None]:
    """Notes why something failed, and goes on."""
    try:
        yield
    except PeerError as error:
        record.failures.setdefault(name, str(error))
