"""Record what llama.cpp makes of odd prompts, once: the reference for tests/text.

    python record_tokens.py SmolLM2-135M-Instruct.Q4_1.gguf

needs llama-cpp-python and gguf, which those tests do not. It writes beside itself

- smollm2_tokens.json: the ids of each prompt as raw text (`ids`) and, where they differ, with
  special tokens parsed (`special`);
- pretokenizers.json: where each pre-tokenizer type cuts the short prompts, as lengths in bytes.
  They are seen through a vocabulary made for it: every substring of the prompts is a token, and
  any two that meet merge, so a piece always ends as one token.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KINDS = (
    "smollm", "starcoder", "refact", "codeshell", "command-r", "exaone",
    "gpt-2", "phi-2", "mpt", "olmo", "jais",
    "llama-bpe", "llama3", "falcon3", "dbrx", "smaug-bpe", "chatglm-bpe", "glm4",
    "qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "qwen35", "grok-2",
    "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "tekken", "gpt-4o", "llama4",
    "seed-coder", "bailingmoe", "default",
)  # fmt: skip

PROMPTS = [
    "Hello", " Hello", "  Hello", "   Hello", "Hello ", "Hello  ", "Hello world", "Hello  world",
    "Hello, world!", " ", "  ", "   ", "    ", "        ", " " * 17, " " * 64, "\n", "\n\n",
    "\n\n\n", "\t", "\t\t", "\t\t\tx", "\r", "\r\n", "\r\n\r\n", "a\r\nb", "a\r\n\r\nb\r\n",
    "a\rb", " \n", "\n ", " \n ", "\n \n", "  \n  x", "x \n", "x\n\n y", "a\tb", "a \t b",
    "\u00a0", "a\u00a0b", "a\u2003b", "\u2003\u2003x", "\u3000x", "a\u3000\u3000b", "\u2028x\u2029",
    "a\x85b", "\x0b\x0c", "\x1c\x1d\x1e\x1f", "\ufeffx",
    "1", "12", "123", "1234567890", "In 1999", "In  1999", "x1y22z333", "3.14159", "1,000,000",
    "$1,234.56", "2 + 2 = 4", " 7", "  7", "   42 ", "a 1 b  2 c   3", "\n1", "\n\n12", "1\n2\n3",
    "12:34:56", "2024-02-29T12:00:00Z", "0x1F", "1e-9", "v1.2.3-rc4", "No. 5", "5th", "the 21st",
    "²", "x²", "x² + y³", "½ cup", "①②③", "Ⅷ", "٣٤٥", "१२३", "三百", "𝟘𝟙𝟚", "１２３", "٪",
    "Chapter 12.", "-5", "+5", "#42", "50%", "(3)", "[10]", "100km", "H2O", "3D", "4x4",
    "I'm", "don't", "we'll", "they've", "it's", "he'd", "you're", "I'M", "DON'T", "'tis", "rock'n'roll",
    "’s", "it’s", "o'clock", "y'all'd've", "'", "''", "'s", " 's", "'S", "'ſ", "dogs' tails",
    "!", "!!", "!!!", "...", "…", "?!", "a!b", " !", "  !", "--", "—", "a—b", "«guillemets»",
    "“quotes”", "(paren)", "[x]{y}<z>", "a/b\\c", "`code`", "~~~", "***bold***", "# Title\n\n- item",
    "|a|b|\n|-|-|", "@user #tag", "http://example.com/a?b=c&d=e#f", "me@example.com", "C:\\Users\\x",
    "def f(x):\n    return x + 1\n", "if (a && b) {\n\tc();\n}\n", "for i in range(10):\n        print(i)",
    "int main() { return 0; }", "x = [1, 2, 3]  # list", "SELECT * FROM t WHERE id=42;",
    "<div class=\"a\">\n  <p>hi</p>\n</div>", "{\"a\": [1, 2.5, null]}", "a_b_c", "camelCaseWords",
    "snake_case_1", "CONSTANT_CASE", "kebab-case", "λx.x", "→ ← ↔", "∀x∈ℝ", "√2 ≈ 1.414", "±", "€5",
    "£5", "¥500", "₿", "°C", "©®™",
    "😀", "😀😀", " 😀", "hi😀", "hi 😀 there", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇨🇭", "🇨🇭🇫🇷", "❤️", "☺", "🧑🏿‍🚀!",
    "1️⃣", "🤷‍♂️ 2", "\u200d", "\ufe0f",
    "你好", "你好，世界！", "中文 and English", "我有3个苹果", " 你好", "日本語テキスト", "カタカナ ひらがな", "한국어 텍스트",
    "ㅎㅎ", "漢字かな交じり文123", "𠀀𠀁", "Việt Nam", "ไทยภาษา", "हिन्दी पाठ", "বাংলা", "தமிழ்", "မြန်မာ",
    "مرحبا بالعالم", "שלום עולם", "مرحبا 123 hello", "\u202eabc\u202c", "\u200fשלום", "Привет, мир!",
    "Ελληνικά", "Ärger über Öl", "naïve café", "nai\u0308ve cafe\u0301", "e\u0301", "\u0301", "a\u0301\u0302",
    " \u0301", "Å Å Å", "ﬁ ligature", "ß ẞ", "İıĞğ", "ǆ ǅ Ǆ", "Z͑ͫ̓a̴l͡go", "zero\u200bwidth",
    "soft\u00adhyphen", "\x00", "a\x00b", "\x01\x02\x7f", "\ue000", "\U000f0000", "\ufffd", "\U0010ffff",
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>user\nHi<|im_end|>\n", "<|unknown|>",
    "a<|im_end|>b", " <|im_end|> ", "<|im_end|><|im_end|>", "<|im_end", "|im_end|>", "<repo_name>x",
    "<reponame>", "<jupyter_code>1", "<s>", "</s>", "[INST]", "<file_sep>\n", "<|im_start|>  \n 1",
    "The quick brown fox jumps over the lazy dog.", "THE QUICK BROWN FOX", "tHe QuIcK",
    "supercalifragilisticexpialidocious", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ĠĊ", "Ġhello", "Ã©",
    "a b  c   d    e     f      g", "tab\tand  spaces\n\n\tmix \r\n end", "x" * 100, "ab" * 40, "= = = ==",
    "   leading and trailing   ", "line one\nline two\n\nline four\n", "\n    indented\n        more\n",
    "mixed中文and😀emoji123 456", "Dr. Smith's 3rd visit cost $45.60 (incl. 7.7% VAT).",
]  # fmt: skip


def byte_letters() -> list[str]:
    """GPT-2's printable letter for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def write_vocabulary(path: Path, kind: str, prompts: list[str]) -> list[str]:
    """A GGUF file without tensors, in which every piece of the prompts is a single token."""
    import gguf

    letters = byte_letters()
    tokens, merges = dict.fromkeys(letters), {}
    for prompt in prompts:
        word = "".join(letters[b] for b in prompt.encode())
        for start in range(len(word)):
            for end in range(start + 2, len(word) + 1):
                tokens[word[start:end]] = None
                for cut in range(start + 1, end):
                    merges[f"{word[start:cut]} {word[cut:end]}"] = None
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(kind)
    writer.add_token_list(list(tokens))
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges(list(merges))
    writer.add_add_bos_token(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return list(tokens)


def open_model(path: Path) -> Any:
    import llama_cpp

    return llama_cpp.Llama(str(path), vocab_only=True, verbose=False)


def ids(model: Any, text: str, special: bool = False) -> list[int]:
    found: list[int] = model.tokenize(text.encode(), add_bos=False, special=special)
    return found


def record_smollm2(path: Path) -> list[dict[str, Any]]:
    model, vectors = open_model(path), []
    for text in PROMPTS:
        entry: dict[str, Any] = {"text": text, "ids": ids(model, text)}
        if (parsed := ids(model, text, special=True)) != entry["ids"]:
            entry["special"] = parsed
        vectors.append(entry)
    return vectors


def record_cuts(prompts: list[str]) -> list[dict[str, Any]]:
    families: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            tokens = write_vocabulary(path := Path(folder) / f"{kind}.gguf", kind, prompts)
            model = open_model(path)
            cuts = [[len(tokens[i]) for i in ids(model, text)] for text in prompts]
            families.setdefault(json.dumps(cuts), []).append(kind)
    return [{"kinds": kinds, "cuts": json.loads(cuts)} for cuts, kinds in families.items()]


def write(name: str, model: str, **found: Any) -> None:
    import llama_cpp

    made = {
        "reference": f"llama-cpp-python {llama_cpp.__version__}",
        "call": "Llama(path, vocab_only=True).tokenize(text, add_bos=False, special=...)",
        "model": model,
        "made_by": Path(__file__).name,
    }
    text = json.dumps({**made, **found}, separators=(",", ":"))
    (HERE / name).write_text(text + "\n")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    write("smollm2_tokens.json", path.name, vectors=record_smollm2(path))
    short = [text for text in PROMPTS if len(text.encode()) <= 24]
    write("pretokenizers.json", "made up", prompts=short, families=record_cuts(short))
