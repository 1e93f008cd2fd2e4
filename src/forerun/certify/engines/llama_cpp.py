"""llama-cpp-python: plain, and its prompt lookup (`LlamaPromptLookupDecoding`).

It cuts (top-k, top-p, min-p) before it applies the temperature, which the traits say; its penalties
look back over a window and count the prompt, so they are not among the controls. Ends, banned ids
and biases are done here, in its `logits_processor` and around its stream of tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forerun.certify.engines.base import Tokens, Traits, check_controls, sample_seed
from forerun.errors import MissingExtraError, PeerError

_NEGATIVE = -1e30


class LlamaCppEngine:
    """A GGUF file. `lookup` drafts by look-up, `num_draft` tokens at a time."""

    def __init__(
        self,
        model: str | Path,
        *,
        lookup: bool = True,
        num_draft: int = 10,
        context: int = 512,
        threads: int | None = None,
    ) -> None:
        try:
            import llama_cpp
            from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
        except ImportError as error:
            raise MissingExtraError(
                f"certifying llama-cpp-python needs it: pip install llama-cpp-python ({error})"
            ) from None
        self._version = llama_cpp.__version__
        self._settings = {
            "model_path": str(model),
            "n_ctx": context,
            "n_threads": threads,
            "n_threads_batch": threads,
            "verbose": False,
        }
        self._make, self._lookup = llama_cpp.Llama, LlamaPromptLookupDecoding
        self._listed = llama_cpp.LogitsProcessorList
        self._model, self._num_draft, self._drafts = str(model), num_draft, lookup
        self._made: dict[bool, Any] = {}
        plain = self._llama(False)
        self._vocabulary = llama_cpp.llama_model_get_vocab(plain.model)
        self._ends = llama_cpp.llama_vocab_is_eog
        self.name = f"llama-cpp-python ({'lookup' if lookup else 'plain'})"
        self.traits = Traits(
            controls=frozenset({
                "temperature", "top_k", "top_p", "min_p", "logit_bias", "banned", "min_tokens",
                "max_tokens", "stop_ids",
            }),
            drafts=lookup,
            precision="quantised",
            temperature_last=True,
        )  # fmt: skip

    def _llama(self, lookup: bool) -> Any:
        if lookup not in self._made:
            drafter = self._lookup() if lookup else None
            self._made[lookup] = self._make(
                **self._settings, draft_model=drafter, logits_all=lookup
            )
        return self._made[lookup]

    def sample(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[Tokens]:
        check_controls(self, sampling)
        try:
            return [self._one(prompt_ids, sampling, sample_seed(seed, i)) for i in range(n)]
        except Exception as error:
            raise PeerError(f"{self.name}: {type(error).__name__}: {error}") from error

    def _one(self, prompt_ids: Sequence[int], sampling: Mapping[str, Any], seed: int) -> Tokens:
        gamma = sampling.get("num_draft", self._num_draft)
        llama = self._llama(self._drafts and gamma != 0)
        if llama.draft_model is not None:
            llama.draft_model.num_pred_tokens = gamma
        llama.reset()
        llama.set_seed(seed)
        ends = set(sampling.get("stop_ids", ()))
        tokens: list[int] = []
        stream = llama.generate(
            list(prompt_ids),
            temp=sampling.get("temperature", 1.0),
            top_k=sampling.get("top_k", 0),
            top_p=sampling.get("top_p", 1.0),
            min_p=sampling.get("min_p", 0.0),
            repeat_penalty=1.0,
            logits_processor=self._processor(len(prompt_ids), sampling, ends),
        )
        for token in stream:
            tokens.append(int(token))
            ended = token in ends or self._ends(self._vocabulary, token)
            if ended or len(tokens) == sampling["max_tokens"]:
                break
        stream.close()
        return tuple(tokens)

    def _processor(self, start: int, sampling: Mapping[str, Any], ends: set[int]) -> Any:
        """Biases, bans, and ends held back, as its logits processor; None: nothing to do."""
        bias, banned = sampling.get("logit_bias", {}), sampling.get("banned", ())
        least = sampling.get("min_tokens", 0)
        if not (bias or banned or least):
            return None

        def process(ids: Any, logits: Any) -> Any:
            for token, number in bias.items():
                logits[token] += number
            held = [*banned]
            if len(ids) - start < least:
                own = [t for t in range(len(logits)) if self._ends(self._vocabulary, t)]
                held += [*ends, *own]
            for token in held:
                logits[token] = _NEGATIVE
            return logits

        return self._listed([process])

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "llama-cpp-python",
            "version": self._version,
            "model": self._model,
            "lookup": self._drafts,
            "num_draft": self._num_draft,
        }

    def close(self) -> None:
        for llama in self._made.values():
            llama.close()
