"""transformers. Modes: plain, assisted (by the draft model), and lookup (prompt_lookup_num_tokens).

A GGUF file is dequantised to `dtype` when it is loaded. Passes are timed around `forward`.
"""

from __future__ import annotations

import os
from time import perf_counter
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM


class Watch:
    """When each forward of a model began, how long it took, and its rows."""

    def __init__(self, model: Any) -> None:
        self.passes: list[tuple[float, float, int]] = []
        forward = model.forward

        def watched(*args: Any, **kwargs: Any) -> Any:
            ids = kwargs.get("input_ids", args[0] if args else None)
            start = perf_counter()
            out = forward(*args, **kwargs)
            rows = 1 if ids is None else int(ids.shape[1])
            self.passes.append((start, perf_counter() - start, rows))
            return out

        model.forward = watched

    def since(self, moment: float) -> list[tuple[float, int]]:
        return [(seconds, rows) for start, seconds, rows in self.passes if start >= moment]


class Streamer:
    """Notes when tokens are delivered; the prompt comes first and is not counted."""

    def __init__(self) -> None:
        self.start = perf_counter()
        self.arrivals: list[list[float]] = []
        self._prompt = True

    def put(self, value: Any) -> None:
        if self._prompt:
            self._prompt = False
        else:
            self.arrivals.append([perf_counter() - self.start, int(value.numel())])

    def end(self) -> None:
        pass


class Engine:
    def __init__(
        self, model: str, draft_model: str | None, threads: int, context: int, dtype: str
    ) -> None:
        torch.set_num_threads(threads)
        transformers.utils.logging.disable_progress_bar()
        self.dtype = dtype
        self.target = self._load(model)
        self.draft = self._load(draft_model) if draft_model else None
        self.watch = Watch(self.target)
        self.draft_watch = Watch(self.draft) if self.draft is not None else None

    def info(self) -> dict[str, Any]:
        return {
            "version": transformers.__version__,
            "path": f"torch {torch.__version__}, {self.dtype}",
        }

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
        options: dict[str, Any] = {"max_new_tokens": max_tokens, "eos_token_id": stop_ids or None}
        options |= {"do_sample": temperature > 0, "pad_token_id": 0, "repetition_penalty": 1.0}
        if temperature > 0:
            options |= {"temperature": temperature, "top_p": top_p, "top_k": 0}
        if mode == "lookup":
            options |= {"prompt_lookup_num_tokens": num_draft or 10}
        if mode == "assisted":
            assert self.draft is not None
            options |= {"assistant_model": self.draft}
            if num_draft is not None:
                self.draft.generation_config.num_assistant_tokens = num_draft
                self.draft.generation_config.num_assistant_tokens_schedule = "constant"
                self.draft.generation_config.assistant_confidence_threshold = 0.0
        torch.manual_seed(seed or 0)
        watches = [w for w in (self.watch, self.draft_watch) if w is not None]
        for watch in watches:
            watch.passes.clear()
        ids = torch.tensor([prompt])
        streamer = Streamer()
        with torch.inference_mode():
            out = self.target.generate(
                ids, attention_mask=torch.ones_like(ids), streamer=streamer, **options
            )
        tokens = out[0, len(prompt) :].tolist()
        first = streamer.start + streamer.arrivals[0][0]
        later = self.watch.since(first)
        drafted = sum(rows - 1 for _, rows in later) if mode != "plain" else 0
        delivered = sum(count for _, count in streamer.arrivals[1:])
        return {
            "tokens": tokens,
            "arrivals": streamer.arrivals,
            "passes": len(later),
            "drafted": drafted,
            "accepted": int(max(delivered - len(later), 0)),
            "model_seconds": sum(seconds for w in watches for seconds, _ in w.since(first)),
            "expected": None,
        }

    def passes(self, ids: list[int], rows: int, times: int) -> list[float]:
        with torch.inference_mode():
            cache = transformers.DynamicCache(config=self.target.config)
            self.target(input_ids=torch.tensor([ids]), past_key_values=cache, logits_to_keep=1)
            new, seconds = torch.tensor([ids[:rows]]), []
            for _ in range(times):
                start = perf_counter()
                self.target(input_ids=new, past_key_values=cache)
                seconds.append(perf_counter() - start)
                cache.crop(-rows)
        return seconds

    def prompt(self, ids: list[int]) -> float:
        with torch.inference_mode():
            start = perf_counter()
            self.target(input_ids=torch.tensor([ids]), logits_to_keep=1)
            return perf_counter() - start

    def _load(self, path: str) -> Any:
        place: dict[str, Any] = {"pretrained_model_name_or_path": path}
        if os.path.isfile(path):
            folder, file = os.path.split(path)
            place = {"pretrained_model_name_or_path": folder, "gguf_file": file}
        model = AutoModelForCausalLM.from_pretrained(**place, dtype=getattr(torch, self.dtype))
        return model.eval()
