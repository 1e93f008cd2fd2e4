"""vLLM in this process (`LLM.generate`), with and without its `speculative_config`.

vLLM cannot turn speculation off for a request, so there are two of its engines: the plain one is
made when it is first asked for. All samples of a request go in at once and share batches.

Written against vLLM's documented interface (0.8 and later) and tested here with a stand-in alone:
no machine of this project runs vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forerun.certify.engines.base import Tokens, Traits, check_controls, sample_seed
from forerun.errors import MissingExtraError, PeerError


class VllmEngine:
    """A model and vLLM's `speculative_config`, such as {"method": "ngram",
    "num_speculative_tokens": 4, "prompt_lookup_max": 3}; `options` go to `LLM`."""

    def __init__(
        self,
        model: str,
        *,
        speculative_config: Mapping[str, Any],
        dtype: str = "float32",
        **options: Any,
    ) -> None:
        try:
            import vllm
        except ImportError as error:
            raise MissingExtraError(
                f"certifying vLLM needs it: pip install vllm ({error})"
            ) from None
        self._vllm, self._model = vllm, model
        self._config = dict(speculative_config)
        self._options = {"model": model, "dtype": dtype, **options}
        self._made: dict[bool, Any] = {}
        self._dtype = dtype
        method = self._config.get("method", "draft model" if "model" in self._config else "")
        self.name = f"vLLM ({method or 'plain'})"
        self.traits = Traits(drafts=False, precision=dtype)  # type: ignore[arg-type]

    def _llm(self, speculative: bool) -> Any:
        if speculative not in self._made:
            extra = {"speculative_config": self._config} if speculative else {}
            self._made[speculative] = self._vllm.LLM(**self._options, **extra)
        return self._made[speculative]

    def sample(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[Tokens]:
        check_controls(self, sampling)
        llm = self._llm(sampling.get("num_draft") != 0)
        params = [self._params(sampling, sample_seed(seed, i)) for i in range(n)]
        prompts = [{"prompt_token_ids": list(prompt_ids)} for _ in range(n)]
        try:
            outputs = llm.generate(prompts, params, use_tqdm=False)
        except Exception as error:
            raise PeerError(f"{self.name}: {type(error).__name__}: {error}") from error
        return [tuple(int(i) for i in output.outputs[0].token_ids) for output in outputs]

    def _params(self, sampling: Mapping[str, Any], seed: int) -> Any:
        named = {
            "temperature": sampling.get("temperature", 1.0),
            "top_k": sampling.get("top_k", 0) or -1,
            "top_p": sampling.get("top_p", 1.0),
            "min_p": sampling.get("min_p", 0.0),
            "repetition_penalty": sampling.get("repetition_penalty", 1.0),
            "presence_penalty": sampling.get("presence_penalty", 0.0),
            "frequency_penalty": sampling.get("frequency_penalty", 0.0),
            "min_tokens": sampling.get("min_tokens", 0),
            "max_tokens": sampling["max_tokens"],
            "seed": seed,
            "detokenize": False,
        }
        bias = {int(i): float(b) for i, b in sampling.get("logit_bias", {}).items()}
        bias |= {int(i): -1e6 for i in sampling.get("banned", ())}
        if bias:
            named["logit_bias"] = bias
        if stops := sampling.get("stop_ids"):
            named["stop_token_ids"] = sorted(stops)
        return self._vllm.SamplingParams(**named)

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "vllm",
            "version": self._vllm.__version__,
            "model": self._model,
            "dtype": self._dtype,
            "speculative_config": self._config,
        }

    def close(self) -> None:
        self._made.clear()
