"""The options that `generate`, `chat` and `serve` share, each written once: `Settings`.

A command takes `settings: Settings`; `command` shows typer its fields as options in their place.
`sampling()` and `loading()` say what the options mean, under the library's names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from forerun.cli.values import (
    checked_text,
    number,
    number_or_ranges,
    parse_biases,
    parse_size,
    read_text,
    whole,
    whole_or_auto,
)
from forerun.drafters import names, with_head, with_memory, with_model
from forerun.drafters.layer_skip import checked_skip
from forerun.engine.choices import AUTO, checked_num_draft
from forerun.errors import OptionError, UnknownNameError
from forerun.models.cores import usable_cores
from forerun.models.load import checked_threads
from forerun.sampling import SamplingParams
from forerun.verifiers import VERIFIERS


def _option(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **more)


PROMPT, DRAFTING = "Prompt", "Drafting: changes the speed, never the law"
MODEL, _LAW = "Model", "Sampling"
_END, _OUT = "Ending", "Output"
DTYPE = "Numbers the model computes in: float32, bfloat16 or float64."
DEVICE = "Where the model runs: cpu or cuda."
BACKEND = "native (GGUF files, on the CPU) or hf (transformers). \\[default: native where it can]"
THREADS = "Threads of a pass. \\[default: the physical cores this process may use]"
_OWN = "\\[default: the model's own, else {}]"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What was asked for on the command line. None: not given."""

    # fmt: off
    model: Annotated[str, _option(
        MODEL, "-m", "--model", metavar="NAME|PATH",
        help="A named model, a GGUF file, a model folder, or a hub id.",
    )] = "smollm2"
    backend: Annotated[str, _option(
        MODEL, "--backend", metavar="NAME", help=BACKEND,
    )] = "auto"
    dtype: Annotated[str, _option(
        MODEL, "--dtype", metavar="NAME",
        help=DTYPE,
    )] = "float32"
    device: Annotated[str, _option(
        MODEL, "--device", metavar="NAME", help=DEVICE,
    )] = "cpu"
    threads: Annotated[int | None, _option(
        MODEL, "-t", "--threads", parser=whole, metavar="N",
        help=THREADS,
    )] = None
    context: Annotated[int | None, _option(
        MODEL, "-c", "--context", parser=whole, metavar="N",
        help="Most tokens of prompt and answer. \\[default: all the model can]",
    )] = None
    max_memory: Annotated[str | None, _option(
        MODEL, "--max-memory", metavar="SIZE",
        help="Most memory of each model's cache, such as 2GiB. \\[default: no limit; of serve, "
        "play and run a fourth of the machine's memory]",
    )] = None

    drafter: Annotated[str | None, _option(
        DRAFTING, "--drafter", metavar="NAME",
        help="Who guesses ahead: none, model, ngram, suffix or prediction; layer-skip, the model "
        "itself with fewer layers; or several joined by +, such as suffix+model, of which each "
        "round uses the one that promises most; or trees, suffix-tree, and a draft model's: tree, "
        "joined-tree, sampled-tree, greedy-plus-one-tree; or a draft model with other tokens: "
        "intersection, string-match; or a trained head: head, head-tree, head-joined-tree, "
        "head-sampled-tree, head-greedy-plus-one-tree. \\[default: suffix; with --draft-model "
        "model, or intersection where its tokens are others; with --head, or where forerun brings "
        "one, suffix+head; with --prediction-file prediction]",
    )] = None
    draft_model: Annotated[str | None, _option(
        DRAFTING, "--draft-model", metavar="NAME|PATH", help="A smaller model, best of "
        "the same family.",
    )] = None
    head: Annotated[Path | None, _option(
        DRAFTING, "--head", metavar="FOLDER", help="A head trained on the model, as forerun train "
        "writes it, or of the speculators library's EAGLE-3 form. \\[default: the one that "
        "comes with forerun, if the model has one]",
    )] = None
    prediction_file: Annotated[Path | None, _option(
        DRAFTING, "--prediction-file", metavar="FILE", help="A text that the answer will resemble, "
        "such as the old version of a file.",
    )] = None
    memory: Annotated[Path | None, _option(
        DRAFTING, "--memory", metavar="FILE", help="Draft from earlier requests' texts too, and "
        "keep them in this file between runs; for suffix and suffix-tree. It holds what users "
        "wrote.",
    )] = None
    memory_size: Annotated[str, _option(
        DRAFTING, "--memory-size", metavar="SIZE", help="Most memory those texts take, of all keys "
        "together.",
    )] = "64MiB"
    skip_layers: Annotated[Any, _option(
        DRAFTING, "--skip-layers", parser=number_or_ranges, metavar="N|LIST",
        help="What layer-skip leaves out: so many layers, or these, from 0 on, such as 3-12,15. "
        "\\[default: what proves best of several sets]",
    )] = None
    num_draft: Annotated[Any, _option(
        DRAFTING, "-k", "--num-draft", parser=whole_or_auto, metavar="N|auto",
        help="Tokens guessed per target pass; 0: none. auto: as many as promise most tokens per "
        "second, from what passes cost, which is measured when a model is first used.",
    )] = AUTO
    verifier: Annotated[str, _option(
        DRAFTING, "--verifier", metavar="NAME",
        help="How guesses are judged: auto, rejection, block or coupled; trees by coupled, "
        "traversal, recursive or greedy_plus_one. auto takes coupled for greedy and seeded text, "
        "which then is the same with any drafter.",
    )] = AUTO

    temperature: Annotated[float | None, _option(
        _LAW, "--temperature", parser=number, metavar="T",
        help=f"0 is greedy. {_OWN.format('1.0')}",
    )] = None
    top_k: Annotated[int | None, _option(
        _LAW, "--top-k", parser=whole, metavar="N",
        help=f"Only the N likeliest; 0: off. {_OWN.format('off')}",
    )] = None
    top_p: Annotated[float | None, _option(
        _LAW, "--top-p", parser=number, metavar="P",
        help=f"Only the likeliest that reach P together; 1: off. {_OWN.format('off')}",
    )] = None
    min_p: Annotated[float | None, _option(
        _LAW, "--min-p", parser=number, metavar="P",
        help=f"Only those at least P times as likely as the first; 0: off. {_OWN.format('off')}",
    )] = None
    repetition_penalty: Annotated[float | None, _option(
        _LAW, "--repetition-penalty", parser=number, metavar="R",
        help=f"Above 1: fewer tokens of prompt and answer again. {_OWN.format('1.0')}",
    )] = None
    presence_penalty: Annotated[float | None, _option(
        _LAW, "--presence-penalty", parser=number, metavar="A",
        help="Off the logit of each token of the answer. \\[default: 0]",
    )] = None
    frequency_penalty: Annotated[float | None, _option(
        _LAW, "--frequency-penalty", parser=number, metavar="A",
        help="The same, times its count in the answer. \\[default: 0]",
    )] = None
    logit_bias: Annotated[list[str] | None, _option(
        _LAW, "--logit-bias", metavar="ID=NUMBER", help="Added to a token's logit. Repeatable.",
    )] = None
    ban: Annotated[list[int] | None, _option(
        _LAW, "--ban", parser=whole, metavar="ID",
        help="A token that is never written. Repeatable.",
    )] = None
    seed: Annotated[int | None, _option(
        _LAW, "--seed", parser=whole, metavar="N",
        help="The same seed, the same text. \\[default: a fresh one]",
    )] = None

    max_tokens: Annotated[int, _option(
        _END, "-n", "--max-tokens", parser=whole, metavar="N", help="Most tokens of an answer.",
    )] = 256
    min_tokens: Annotated[int | None, _option(
        _END, "--min-tokens", parser=whole, metavar="N",
        help="The answer cannot end before. \\[default: 0]",
    )] = None
    stop: Annotated[list[str] | None, _option(
        _END, "--stop", metavar="TEXT", help="Ends the answer, before it. Repeatable.",
    )] = None
    stop_id: Annotated[list[int] | None, _option(
        _END, "--stop-id", parser=whole, metavar="ID",
        help="A token that ends the answer. Repeatable.",
    )] = None

    json: Annotated[bool, _option(
        _OUT, "--json", metavar="", help="One JSON object on standard output for each answer.",
    )] = False
    trace: Annotated[Path | None, _option(
        _OUT, "--trace", metavar="FILE", help="What happened in each round, a JSON line each.",
    )] = None
    verbose: Annotated[int, _option(
        _OUT, "-v", "--verbose", count=True, metavar="", show_default=False,
        help="Say more, on standard error; -vv: tracebacks too.",
    )] = 0
    log_file: Annotated[Path | None, _option(
        _OUT, "--log-file", metavar="FILE", help="Append the log to a file.",
    )] = None
    no_color: Annotated[bool, _option(
        _OUT, "--no-color", metavar="",
        help="No colours or styles; NO_COLOR in the environment does the same.",
    )] = False
    # fmt: on

    def check(self) -> None:
        """Raise OptionError for what is wrong whatever the model, before anything is loaded."""
        checked_num_draft(self.num_draft)
        for text in self.stop or []:
            checked_text("--stop", text)
        checked_threads(self.threads)
        if self.context is not None and self.context < 1:
            raise OptionError(f"--context must be at least 1, not {self.context}")
        if self.verifier not in (AUTO, *VERIFIERS):
            raise UnknownNameError.of("verifier", self.verifier, [AUTO, *VERIFIERS])
        drafters = names(self.drafter_name)
        skips = "layer-skip" in drafters
        for option, value, goes_with, there in (
            ("--draft-model", self.draft_model, "model", bool(with_model(drafters))),
            ("--prediction-file", self.prediction_file, "prediction", "prediction" in drafters),
            ("--skip-layers", self.skip_layers, "layer-skip", skips),
        ):
            if value is not None and not there:
                raise OptionError(
                    f"{option} goes with --drafter {goes_with}, not with --drafter "
                    f"{self.drafter_name}"
                )
            if value is None and there and option != "--skip-layers":
                raise OptionError(f"--drafter {self.drafter_name} needs {option}")
        if self.head is not None and not with_head(drafters):
            raise OptionError(
                f"--head goes with --drafter head, not with --drafter {self.drafter_name}"
            )
        if self.memory is not None and not with_memory(drafters):
            raise OptionError(
                "--memory goes with --drafter suffix or suffix-tree, alone or joined with others, "
                f"not with --drafter {self.drafter_name}"
            )
        parse_size("--memory-size", self.memory_size)
        checked_skip(self.skip_layers)
        SamplingParams.of(self.sampling())
        self.loading()

    @property
    def drafter_name(self) -> str:
        if self.drafter is not None:
            return self.drafter
        if self.draft_model is not None:
            return "model" if self.head is None else "model+head"
        if self.head is not None:
            return "suffix+head"
        return "suffix" if self.prediction_file is None else "prediction"

    @property
    def plain(self) -> bool:
        """Whether nothing will be drafted."""
        return self.drafter_name == "none" or self.num_draft == 0

    def predicted_text(self) -> str | None:
        """What --prediction-file holds."""
        if self.prediction_file is None:
            return None
        return read_text("--prediction-file", self.prediction_file)

    def sampling(self) -> dict[str, Any]:
        """The sampling keywords that were given, under the library's names."""
        renamed = {"banned": self.ban, "stop_ids": self.stop_id, "stop": self.stop}
        if self.logit_bias:
            renamed["logit_bias"] = parse_biases(self.logit_bias)  # type: ignore[assignment]
        alike = (
            "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
            "frequency_penalty", "seed", "max_tokens", "min_tokens",
        )  # fmt: skip
        given = {name: getattr(self, name) for name in alike} | renamed
        return {name: value for name, value in given.items() if value not in (None, [])}

    def loading(self) -> dict[str, Any]:
        """Keywords of `load_model`."""
        limit = self.max_memory
        return {
            "backend": self.backend,
            "dtype": self.dtype,
            "device": self.device,
            "threads": usable_cores() if self.threads is None else self.threads,
            "context": self.context,
            "max_memory": None if limit is None else parse_size("--max-memory", limit),
        }


def command(
    function: Callable[..., None], only: Collection[str] | None = None
) -> Callable[..., None]:
    """`function(…, settings)` with the fields of `Settings` as options in its signature.

    `only` those of some panels; the other fields keep their defaults.
    """
    own_hints = get_type_hints(function, include_extras=True)
    hints = get_type_hints(Settings, include_extras=True)
    own = [p for p in inspect.signature(function).parameters.values() if p.name != "settings"]
    shown = [p.replace(annotation=own_hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
    wanted = [f for f in fields(Settings) if only is None or _panel(hints[f.name]) in only]
    for field in wanted:
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        shown.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=hints[field.name],
            )
        )

    def run(**values: Any) -> None:
        settings = Settings(**{field.name: values.pop(field.name) for field in wanted})
        function(**values, settings=settings)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def _panel(hint: Any) -> str:
    """Where an option stands in the help."""
    panel: str = get_args(hint)[1].rich_help_panel
    return panel


_SPOKEN = {f.name: "--" + f.name.replace("_", "-") for f in fields(Settings) if f.name != "model"}
_SPOKEN |= {"banned": "--ban", "stop_ids": "--stop-id", "skip": "--skip-layers"}
_SPOKEN |= {  # of `serve`
    name: "--" + name.replace("_", "-")
    for name in ("max_batch", "max_waiting", "prefix_memory", "share_prefixes", "cors_origin",
                 "default_max_tokens", "timeout", "log_file")
}  # fmt: skip

_PHRASES = {
    r"^logit_bias\[(-?\d+)\] ": r"--logit-bias \1=NUMBER: it ",
    r"\buse banned\b": "use --ban",
    r"None \(a fresh one\) or (.*?), not\b": r"\1 (leave it out for a fresh one), not",
    r"\buse (device|dtype)='([\w:.-]+)'": r"use --\1 \2",
    r"\buse backend '(\w+)'": r"use --backend \1",
    r"give head, the folder": "give --head, the folder",
    r"choose another cache folder": "choose another cache folder with FORERUN_CACHE",
}


def spoken(message: str) -> str:
    """A library's message with its keywords under the names of options."""
    for phrase, said in _PHRASES.items():
        message = re.sub(phrase, said, message)
    first, _, rest = message.partition(" ")
    message = f"{_SPOKEN.get(first, first)} {rest}" if rest else message
    for name in sorted((n for n in _SPOKEN if "_" in n), key=len, reverse=True):
        message = re.sub(rf"(?<![\w-]){name}\b", _SPOKEN[name], message)
    return message
