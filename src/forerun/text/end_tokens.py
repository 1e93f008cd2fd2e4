"""Which tokens end a text: those a model's files name, and those they forget to.

SmolLM2's file names `<|im_end|>` alone, yet the model ends raw text with `<|endoftext|>`; a
generation that does not stop there goes on into another document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Names that mean the end of a turn or a text in every vocabulary that has them as control tokens.
END_NAMES = (
    "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
    "<|return|>", "<|call|>", "<end_of_turn>", "<end_of_utterance>", "<eos>", "</s>", "<EOT>",
    "[EOT]", "[EOS]", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>",
)  # fmt: skip


def end_tokens(named: Iterable[int | None], control: Mapping[str, int]) -> frozenset[int]:
    """The ids that `named` gives (None: not given), and control tokens known by their name.

    Where `<|return|>` ends a text, `<|end|>` only ends one of its messages (OpenAI's harmony).
    """
    found = {i for i in named if i is not None}
    known = {name for name in END_NAMES if name in control}
    if "<|return|>" in known:
        known.discard("<|end|>")
    return frozenset(found | {control[name] for name in known})
