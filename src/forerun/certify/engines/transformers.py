"""transformers' `generate`: plain, assisted by a model (of the same vocabulary or not), prompt
lookup.

    TransformersEngine("folder", assistant="other folder")            same vocabulary
    TransformersEngine("folder", assistant="other", prune=False)      different ones, found by
    itself TransformersEngine("folder", lookup=True)

With different vocabularies transformers cuts the assistant's head down to the tokens both have
(`AssistantToTargetTranslator`, `assistant_prune_lm_head`); `prune=False` leaves the head whole,
through the class's own cache and no patch.

What transformers has under other rules is not among the controls: presence and frequency penalties.
The random numbers are torch's own of the process, so that calls run one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forerun.certify.engines.base import Tokens, Traits, check_controls, sample_seed
from forerun.errors import MissingExtraError, OptionError, PeerError

_PURPOSE = "certifying transformers"

_OF_ASSISTANTS = (
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
)  # fmt: skip
"""What of an assistant's configuration says how far it drafts; generate itself changes it too."""


class TransformersEngine:
    """A causal model and how its text is drafted.

    model, assistant   folders or hub ids
    lookup             prompt lookup in place of an assistant
    prune              None: as transformers has it by default; False: the assistant's head is whole
    num_draft          γ; None: transformers' own way of choosing it
    """

    def __init__(
        self,
        model: str | Path,
        *,
        assistant: str | Path | None = None,
        lookup: bool = False,
        prune: bool | None = None,
        num_draft: int | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        try:
            import torch
            import transformers
        except ImportError:
            raise MissingExtraError.of("transformers", "hf", _PURPOSE) from None
        if assistant is not None and lookup:
            raise OptionError("transformers drafts by an assistant or by lookup, not by both")
        self._torch, self._versions = torch, (transformers.__version__, torch.__version__)
        if threads is not None:
            torch.set_num_threads(threads)
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        self._names = {
            "model": str(model),
            "assistant": None if assistant is None else str(assistant),
        }
        self._lookup, self._num_draft, self._prune = lookup, num_draft, prune
        kind = {"dtype": getattr(torch, dtype)}
        auto = transformers.AutoModelForCausalLM
        self._target = auto.from_pretrained(str(model), **kind).to(device).eval()
        self._draft: Any = None
        self._tokenizers: dict[str, Any] = {}
        if assistant is not None:
            self._draft = auto.from_pretrained(str(assistant), **kind).to(device).eval()
            self._tokenizers = self._different(transformers, str(model), str(assistant))
            given = self._draft.generation_config
            self._defaults = {name: getattr(given, name, None) for name in _OF_ASSISTANTS}
        how = "lookup" if lookup else "plain" if assistant is None else "assisted"
        if self._tokenizers:
            how += ", different vocabularies" + (", head whole" if prune is False else "")
        self.name = f"transformers ({how})"
        self._dtype, self._device = dtype, device
        self.traits = Traits(
            controls=frozenset({
                "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "logit_bias",
                "banned", "min_tokens", "max_tokens", "stop_ids",
            }),
            drafts=assistant is not None or lookup,
            precision="float32" if dtype == "float32" else dtype,  # type: ignore[arg-type]
        )  # fmt: skip

    def _different(self, transformers: Any, model: str, assistant: str) -> dict[str, Any]:
        """Tokenizers, where the two number their tokens differently."""
        sizes = [m.config.get_text_config().vocab_size for m in (self._target, self._draft)]
        try:
            mine, theirs = (
                transformers.AutoTokenizer.from_pretrained(path) for path in (model, assistant)
            )
        except (OSError, ValueError) as error:
            if sizes[0] == sizes[1]:
                return {}  # models that know only ids
            raise OptionError(
                f"{model} has {sizes[0]} tokens and {assistant} {sizes[1]}, and tokenizers cannot "
                f"be loaded to translate between them: {error}"
            ) from error
        if sizes[0] == sizes[1] and mine.get_vocab() == theirs.get_vocab():
            return {}
        if self._prune is False:
            cache = transformers.generation.candidate_generator.AssistantVocabTranslatorCache
            # what is in the cache is taken, whatever a later call asks for
            self._translator = cache.get_translator(
                mine, theirs, sizes[0], assistant_model=self._draft, assistant_prune_lm_head=False
            )
        return {"tokenizer": mine, "assistant_tokenizer": theirs}

    def sample(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[Tokens]:
        check_controls(self, sampling)
        options = self._options(sampling)
        torch = self._torch
        ids = torch.tensor([list(prompt_ids)], device=self._device)
        found = []
        for i in range(n):
            torch.manual_seed(sample_seed(seed, i))
            try:
                with torch.inference_mode():
                    out = self._target.generate(ids, attention_mask=torch.ones_like(ids), **options)
            except Exception as error:
                raise PeerError(f"{self.name}: {type(error).__name__}: {error}") from error
            found.append(tuple(out[0, len(prompt_ids) :].tolist()))
        return found

    def _options(self, sampling: Mapping[str, Any]) -> dict[str, Any]:
        """transformers' keywords; every one that could come from the model's own file is set."""
        temperature = sampling.get("temperature", 1.0)
        own = self._target.generation_config.eos_token_id
        eos = [] if own is None else [own] if isinstance(own, int) else list(own)
        ends = sorted({*eos, *sampling.get("stop_ids", ())})
        options: dict[str, Any] = {
            "max_new_tokens": sampling["max_tokens"],
            "min_new_tokens": sampling.get("min_tokens") or None,
            "do_sample": temperature > 0,
            "eos_token_id": ends or None,
            "pad_token_id": 0,
            "num_beams": 1,
            "repetition_penalty": sampling.get("repetition_penalty", 1.0),
        }
        if temperature > 0:
            options |= {
                "temperature": float(temperature),
                "top_k": sampling.get("top_k", 0),
                "top_p": sampling.get("top_p", 1.0),
                "min_p": sampling.get("min_p") or None,
            }
        if bias := sampling.get("logit_bias"):
            options["sequence_bias"] = {(int(i),): float(b) for i, b in bias.items()}
        if banned := sampling.get("banned"):
            options["suppress_tokens"] = sorted(banned)
        return options | self._drafting(sampling.get("num_draft", self._num_draft))

    def _drafting(self, gamma: int | None) -> dict[str, Any]:
        if gamma == 0 or (self._draft is None and not self._lookup):
            return {}
        if self._lookup:
            return {"prompt_lookup_num_tokens": 10 if gamma is None else gamma}
        config, chosen = self._draft.generation_config, dict(self._defaults)
        if gamma is not None:
            chosen |= {
                "num_assistant_tokens": gamma,
                "num_assistant_tokens_schedule": "constant",
                "assistant_confidence_threshold": 0.0,
            }
        for name, value in chosen.items():
            setattr(config, name, value)
        return {"assistant_model": self._draft, **self._tokenizers}

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "transformers",
            "transformers": self._versions[0],
            "torch": self._versions[1],
            "dtype": self._dtype,
            "how": self.name,
            **self._names,
        }

    def close(self) -> None:
        pass
