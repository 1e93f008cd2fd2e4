r"""How each pre-tokenizer type of GGUF files cuts text before byte-pair merging.

A GGUF file names its type (`tokenizer.ggml.pre`) and nothing more, so the patterns must be known.
They apply in turn, each to every piece the ones before it left; what a pattern matches and what
lies between its matches become pieces of their own. Digits one by one, then words, for SmolLM2:

    "In 1999"  --\p{N}-->  "In ", 1, 9, 9, 9  --words-->  "In", " ", 1, 9, 9, 9

They are the patterns of the models' own tokenizer.json files, as llama.cpp quotes them; for each
type tests/data/pretokenizers.json holds llama.cpp's cuts. A type that is not here is an error: a
guess would shift tokens silently, and the model would see text it was never trained on.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

from forerun.errors import ModelFileError

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"  # English contractions
_REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(numbers: str) -> str:
    """Words with the one sign before them, as Llama 3 and Qwen 2 cut; they differ in `numbers`."""
    return (
        rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{numbers}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}"
    )


_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _cases(short: str, numbers: str) -> str:
    """Words cut where lower case turns to upper, as GPT-4o and Tekken cut."""
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{before}{_UPPER}*{_LOWER}+{short}|{before}{_UPPER}+{_LOWER}*{short}|{numbers}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_REST}"
    )


# Letters with case, as DeepSeek LLM lists them.
_DEEPSEEK_LETTERS = (
    "A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
    "\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-"
    "\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-"
    "\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f"
    "\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-"
    "\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-"
    "\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)


@dataclass(frozen=True, kw_only=True)
class PreTokenizer:
    """A pre-tokenizer type, and what it says about the tokenizer around it."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a piece that is a token is taken as it is, without merging
    adds_bos: bool = False  # where the file does not say

    def build(self) -> pre_tokenizers.PreTokenizer:
        cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.patterns]
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*cuts, as_bytes])


_DIGITS_AND_WORDS = PreTokenizer(patterns=(r"\p{N}", _GPT2))
_PLAIN = PreTokenizer(patterns=(_GPT2,))
_THREE_DIGITS = PreTokenizer(patterns=(_words(r"\p{N}{1,3}"),))
_LLAMA3 = PreTokenizer(patterns=_THREE_DIGITS.patterns, whole_words=True, adds_bos=True)
_ONE_DIGIT = PreTokenizer(patterns=(_words(r"\p{N}"),))
_GPT4O = PreTokenizer(patterns=(_cases(rf"{_SHORT}?", r"\p{N}{1,3}"),))

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "codeshell", "command-r", "exaone"), _DIGITS_AND_WORDS
    ),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais"), _PLAIN),
    **dict.fromkeys(("llama-bpe", "llama3", "falcon3"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), _THREE_DIGITS),
    "glm4": PreTokenizer(patterns=_THREE_DIGITS.patterns, whole_words=True),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2"), _ONE_DIGIT
    ),
    "qwen35": PreTokenizer(
        patterns=(
            rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
            rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_REST}",
        )
    ),
    "seed-coder": PreTokenizer(
        patterns=(
            rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_REST}",
        )
    ),
    "tekken": PreTokenizer(patterns=(_cases("", r"\p{N}"),), whole_words=True, adds_bos=True),
    **dict.fromkeys(("gpt-4o", "llama4"), _GPT4O),
    "deepseek-llm": PreTokenizer(
        patterns=(
            r"[\r\n]",
            rf"\s?[{_DEEPSEEK_LETTERS}]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            r"[一-龥ࠀ-一가-퟿]+",
            r"\p{N}+",
        )
    ),
    "deepseek-coder": PreTokenizer(
        patterns=(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}")
    ),
    "deepseek-v3": PreTokenizer(
        patterns=(
            r"\p{N}{1,3}",
            r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_REST}",
        )
    ),
    "falcon": PreTokenizer(patterns=(r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")),
    "default": PreTokenizer(
        patterns=(r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")
    ),
}


def pre_tokenizer(kind: str) -> PreTokenizer:
    """The type of that name. ModelFileError naming it and all known ones otherwise."""
    try:
        return PRE_TOKENIZERS[kind]
    except KeyError:
        raise ModelFileError(
            f"pre-tokenizer type {kind!r} is unknown, and guessing would change the tokens. "
            f"Known: {', '.join(sorted(PRE_TOKENIZERS))}"
        ) from None
