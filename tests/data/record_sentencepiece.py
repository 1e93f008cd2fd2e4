"""Record what llama.cpp makes of odd texts with small SentencePiece vocabularies, once.

    python record_sentencepiece.py

needs llama-cpp-python and gguf, which the tests do not. It makes vocabularies, writes each as a
GGUF file without tensors, and keeps llama.cpp's ids of each text as raw text (`ids`) and, where
they differ, with special tokens parsed (`special`), in sentencepiece.json beside itself.

Some vocabularies are random, with few different scores, so that many pairs are alike and only their
places decide; in some, characters are no tokens though pairs of them are. All begin with `<unk>`,
`<s>`, `</s>` and the 256 bytes. Left out is what llama.cpp does unlike SentencePiece: merging
letters into a control token, and taking the longest of overlapping user-defined tokens first.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

HEAD = [["<unk>", 0.0, 2], ["<s>", 0.0, 3], ["</s>", 0.0, 3]]
HEAD += [[f"<0x{byte:02X}>", 0.0, 6] for byte in range(256)]

TEXTS = [
    "", " ", "  ", "   ", " " * 9, "a", " a", "a ", "  a  ", "a b", "a  b", "ab", "abc", "abcab",
    "cab bac", "aaaa", "aaaaa", "abababab", "bcabcab", "\n", "\n\n", "a\nb", "a\n\n\nb", "\t", "a\tb",
    "\r\n", "\x00", "a\x00b", "é", "aé", "éé", "ab é", "e\u0301", "😀", "😀😀", "a😀b", "👨‍👩‍👧", "你好",
    "日本語 ab", "\ufeffa", "\u00a0a", "\u3000", "▁", "▁a", "a▁b", "▁ ▁", "<0x0A>", "<0x61>", "<unk>",
    "<s>", "</s>", "a<s>b", "<s>a</s> b", "<s> a", "<s><s>", "<tag>", "a<tag>b", " <tag> a",
    "<tag><tag>", "<tagg>ab", "<tag", "tag>", "<call>ab<tag> c", "a>▁<b", "a> <b", "x> <x", "abc\U0010ffff",
    "hello world", "Hello  world", "hello, hello\nhello", "the cat  sat\n\n\non   the mat",
]  # fmt: skip

HELLO = [
    ["▁", -20.0, 1], ["h", -21.0, 1], ["e", -22.0, 1], ["l", -23.0, 1], ["o", -24.0, 1],
    ["w", -25.0, 1], ["r", -26.0, 1], ["d", -27.0, 1], ["he", -2.0, 1], ["ll", -1.0, 1],
    ["lo", -0.0, 1], ["hell", -6.0, 1], ["hello", -7.0, 1], ["▁hello", -8.0, 1], ["▁w", -3.0, 1],
    ["or", -4.0, 1], ["ld", -5.0, 1], ["▁wor", -9.0, 1], ["▁world", -10.0, 1], ["▁▁", -11.0, 1],
    ["▁▁▁", -12.0, 1], ["▁▁▁▁", -13.0, 1], ["unused", -1.0, 5], ["😀😀", -1.0, 1], ["본", -3.0, 1],
    ["a", -30.0, 1], ["b", -31.0, 1], ["ab", -32.0, 1], [">▁<", -0.5, 1], [">▁", -1.5, 1],
]  # fmt: skip
USER = [
    ["<tag>", -1000.0, 4], ["<tagg>", -1000.0, 4], ["\n\n", -1000.0, 4], ["\n\n\n", -1000.0, 4],
    ["  ", -1000.0, 4], ["   ", -1000.0, 4], ["\t", -1000.0, 4], ["<call>", 0.0, 3],
]  # fmt: skip


def pieces(source: random.Random, alphabet: str, count: int, scores: list[float]) -> list[Any]:
    """Random tokens; the characters themselves are among them or not, as it falls."""
    words = [
        "".join(source.choices(alphabet, k=source.choice([1, 2, 2, 3, 3, 4]))) for _ in range(count)
    ]
    return [[word, source.choice(scores), 1] for word in dict.fromkeys(words)]


def vocabularies() -> list[dict[str, Any]]:
    source = random.Random(7)
    made = [
        {"name": "words", "space_first": True, "pieces": HELLO},
        {"name": "words, no space first", "space_first": False, "pieces": HELLO},
        {"name": "whole tokens", "space_first": False, "pieces": HELLO + USER},
        {"name": "whole tokens, space first", "space_first": True, "pieces": HELLO + USER},
        {"name": "bytes alone", "space_first": True, "pieces": []},
    ]
    random_ones = [
        ("abc", [-1.0, -2.0]),
        ("abc▁", [0.0, -1.0, -2.0, -3.0]),
        ("ab▁é😀", [-1.0]),
        ("ab▁<>", [0.5, -0.0, 0.0, -1e30, -1000.0]),
    ]
    made += [
        {
            "name": f"random {alphabet}" + (", space first" if space_first else ""),
            "space_first": space_first,
            "pieces": pieces(source, alphabet, 30, scores),
        }
        for alphabet, scores in random_ones
        for space_first in (True, False)
    ]
    for vocabulary in made:
        letters = "".join(sorted({c for piece in vocabulary["pieces"] for c in piece[0]}))
        letters = (letters.replace("▁", " ").replace("\n", "") or "ab") + "x"
        vocabulary["texts"] = TEXTS + ["".join(source.choices(letters, k=24)) for _ in range(24)]
    return made


def write_vocabulary(path: Path, pieces: list[Any], space_first: bool) -> None:
    import gguf

    tokens, scores, types = zip(*HEAD, *pieces)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(space_first)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def record(path: Path, texts: list[str]) -> list[dict[str, Any]]:
    import llama_cpp

    model, vectors = llama_cpp.Llama(str(path), vocab_only=True, verbose=False), []
    for text in texts:
        ids, parsed = (
            model.tokenize(text.encode(), add_bos=False, special=special) if text else []
            for special in (False, True)
        )
        vectors.append({"text": text, "ids": ids} | ({"special": parsed} if parsed != ids else {}))
    return vectors


if __name__ == "__main__":
    import llama_cpp

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for i, made in enumerate(vocabularies()):
            path = Path(folder) / f"{i}.gguf"
            write_vocabulary(path, made["pieces"], made["space_first"])
            vectors = record(path, made.pop("texts"))
            found.append({**made, "vectors": vectors})
    text = json.dumps(
        {
            "reference": f"llama-cpp-python {llama_cpp.__version__}",
            "call": "Llama(path, vocab_only=True).tokenize(text, add_bos=False, special=...)",
            "made_by": Path(__file__).name,
            "head": "<unk> (type 2), <s> and </s> (3), <0x00> to <0xFF> (6), all with score 0",
            "vocabularies": found,
        },
        separators=(",", ":"),
    )
    (Path(__file__).parent / "sentencepiece.json").write_text(text + "\n")
