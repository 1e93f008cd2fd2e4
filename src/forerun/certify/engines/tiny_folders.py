"""Tiny transformers models with random weights, made on the spot, for engines that load folders.

    pair = write(folder, seed=1)                    a Llama and its draft, which number ids alike
    pair = write(folder, seed=1, vocabularies=True) a draft with another vocabulary, and tokenizers

Their laws are those of real attention, and a pass takes a millisecond. The same seed makes the
same files. The target is kept twice: with its tokenizer for the engine, and bare for the
reference, which needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.errors import MissingExtraError

WIDTH, LAYERS, HEADS = 32, 2, 4
CONTEXT = 256
SHARED = 20  # words that both have, where the vocabularies differ


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where a pair lies."""

    target: Path
    draft: Path
    bare: Path  # the target without a tokenizer
    vocabulary: int
    eos: int


def write(folder: Path, *, seed: int, vocabulary: int = 32, vocabularies: bool = False) -> Folders:
    """Write target and draft below `folder`."""
    try:
        import torch
        import transformers
    except ImportError:
        raise MissingExtraError.of("transformers", "hf", "making tiny models") from None
    transformers.utils.logging.disable_progress_bar()
    eos = vocabulary - 1
    words = [f"w{i}" for i in range(vocabulary - 1)] + ["</s>"]
    theirs = vocabulary
    if vocabularies:
        # of the other's words some are the same, under other ids
        others = [f"d{i}" for i in range(vocabulary // 2)] + words[:SHARED][::-1] + ["</s>"]
        theirs = len(others)
    places = {name: folder / name for name in ("target", "draft", "bare")}
    with torch.random.fork_rng():
        for number, (name, size) in enumerate((("target", vocabulary), ("draft", theirs))):
            torch.manual_seed(1000 * seed + number)
            model = transformers.LlamaForCausalLM(_config(transformers, size, eos=size - 1))
            model.save_pretrained(places[name])
            if name == "target":
                model.save_pretrained(places["bare"])
    if vocabularies:
        _tokenizer(words).save_pretrained(places["target"])
        _tokenizer(others).save_pretrained(places["draft"])
    return Folders(
        target=places["target"],
        draft=places["draft"],
        bare=places["bare"],
        vocabulary=vocabulary,
        eos=eos,
    )


def _config(transformers: Any, vocabulary: int, eos: int) -> Any:
    return transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.25,  # laws far from flat
        bos_token_id=None,
        eos_token_id=eos,
        pad_token_id=None,
        tie_word_embeddings=False,
    )


def _tokenizer(words: list[str]) -> Any:
    """Whole words between spaces."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    plain = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0])
    )
    plain.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="</s>")
