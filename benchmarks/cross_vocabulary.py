"""What a draft model of another family brings: shared tokens, acceptance, tokens per pass.

    python benchmarks/cross_vocabulary.py qwen05.gguf smollm2.gguf

γ = 4, no sampling controls but temperature; request i has seed i. "same": whether the first text of
each row, where it is greedy or coupled, is that of plain decoding.
"""

from __future__ import annotations

import argparse
from typing import Any

import forerun
from forerun.drafters import drafter
from forerun.models.load import load_model
from forerun.text.vocabulary import common

PROMPTS = {
    "chat": (
        "What is a prime number?",
        "Explain recursion in two sentences.",
        "Name three rivers in Europe and where they end.",
        "Write a short story about a lighthouse keeper.",
        "Why is the sky blue?",
    ),
    "code": (
        "Write a Python function that reverses a linked list.",
        "Write a Python function that counts words in a file.",
        "Write a SQL query for the ten best customers by revenue.",
    ),
}
ROWS = (
    ("intersection", "coupled", 0.0),
    ("string-match", "coupled", 0.0),
    ("intersection", "block", 1.0),
    ("intersection", "coupled", 1.0),
    ("string-match", "coupled", 1.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("-n", "--max-tokens", type=int, default=48)
    args = parser.parse_args()
    target, draft = load_model(args.target, threads=2), load_model(args.draft, threads=2)
    both = len(common(target.tokenizer, draft.tokenizer))
    print(f"{both} common tokens of {target.vocab_size} and {draft.vocab_size}")
    plain = forerun.Engine(target)
    for name, verifier, temperature in ROWS:
        for kind, prompts in PROMPTS.items():
            engine = forerun.Engine(
                target, drafter(name, model=draft), verifier=verifier, num_draft=4
            )
            found: list[Any] = []
            for seed, prompt in enumerate(prompts):
                options = {"max_tokens": args.max_tokens, "temperature": temperature, "seed": seed}
                talk = [{"role": "user", "content": prompt}]
                found.append(engine.generate(talk, **options))
                if seed == 0 and verifier == "coupled":
                    alone = plain.generate(talk, verifier="coupled", **options)
                    same = alone.tokens == found[0].tokens
            stats = [done.stats for done in found]
            drafted, accepted = sum(s.drafted for s in stats), sum(s.accepted for s in stats)
            tokens, rounds = sum(s.tokens for s in stats), sum(s.rounds for s in stats)
            print(
                f"{name:13} {verifier:8} T = {temperature:.0f} {kind}: {accepted} of {drafted}"
                f" accepted ({accepted / drafted:.2f}), {tokens / rounds:.2f} tokens a pass"
                + (f", same {same}" if verifier == "coupled" else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
