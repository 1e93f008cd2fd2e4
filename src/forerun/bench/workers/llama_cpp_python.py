"""llama-cpp-python. Modes: plain, and lookup (its LlamaPromptLookupDecoding).

Passes are timed around llama_decode alone, copying of logits and Python left out. It has no way to
take a draft model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import Any

import llama_cpp
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


class Watch:
    """Times the decode calls of a Llama, and counts their rows."""

    def __init__(self, llama: Any) -> None:
        self.passes: list[tuple[float, float, int]] = []
        decode: Callable[[Any], None] = llama._ctx.decode

        def watched(batch: Any) -> None:
            start = perf_counter()
            decode(batch)
            llama_cpp.llama_synchronize(llama.ctx)
            self.passes.append((start, perf_counter() - start, batch.batch.n_tokens))

        llama._ctx.decode = watched


class Engine:
    def __init__(self, model: str, draft_model: str | None, threads: int, context: int) -> None:
        self._settings = {
            "model_path": model,
            "n_ctx": context,
            "n_threads": threads,
            "n_threads_batch": threads,
            "verbose": False,
        }
        self._made: dict[bool, tuple[Any, Watch]] = {}
        self._llama(lookup=False)

    def info(self) -> dict[str, Any]:
        said = llama_cpp.llama_print_system_info().decode()  # "CPU : AVX2 = 1 | FMA = 1 | …"
        features = re.findall(r"(\w+) = 1", said)
        return {"version": llama_cpp.__version__, "path": " ".join(features)}

    def generate(
        self,
        mode: str,
        num_draft: int | None,
        prompt: list[int],
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int | None,
        stop_ids: list[int],
    ) -> dict[str, Any]:
        llama, watch = self._llama(lookup=mode == "lookup")
        if mode == "lookup":
            llama.draft_model.num_pred_tokens = num_draft or 10
        llama.reset()
        llama.set_seed(seed if seed is not None else 0)
        watch.passes.clear()
        tokens, arrivals = [], []
        start = perf_counter()
        sampled = llama.generate(
            prompt, temp=temperature, top_p=top_p, top_k=0, min_p=0.0, repeat_penalty=1.0
        )
        for token in sampled:
            tokens.append(int(token))
            arrivals.append([perf_counter() - start, 1])
            if len(tokens) == max_tokens or token in stop_ids:
                break
        sampled.close()
        first = start + arrivals[0][0]
        later = [(seconds, rows) for began, seconds, rows in watch.passes if began >= first]
        drafted = sum(rows - 1 for _, rows in later)
        return {
            "tokens": tokens,
            "arrivals": arrivals,
            "passes": len(later),
            "drafted": drafted,
            "accepted": max(len(tokens) - 1 - len(later), 0),
            "model_seconds": sum(seconds for seconds, _ in later),
            "expected": None,
        }

    def passes(self, ids: list[int], rows: int, times: int) -> list[float]:
        llama, watch = self._llama(lookup=False)
        llama.reset()
        llama.eval(ids)
        seconds = []
        for _ in range(times):
            llama._batch.set_batch(batch=ids[:rows], n_past=len(ids), logits_all=True)
            llama._ctx.decode(llama._batch)
            seconds.append(watch.passes[-1][1])
            llama._ctx.kv_cache_seq_rm(-1, len(ids), -1)
        llama.reset()
        return seconds

    def prompt(self, ids: list[int]) -> float:
        llama, _ = self._llama(lookup=False)
        llama.reset()
        start = perf_counter()
        llama.eval(ids)
        seconds = perf_counter() - start
        llama.reset()
        return seconds

    def _llama(self, *, lookup: bool) -> tuple[Any, Watch]:
        if lookup not in self._made:
            drafter = LlamaPromptLookupDecoding() if lookup else None
            llama = llama_cpp.Llama(**self._settings, draft_model=drafter, logits_all=lookup)
            self._made[lookup] = llama, Watch(llama)
        return self._made[lookup]
