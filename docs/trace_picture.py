"""Draws rounds of a real trace as an SVG: docs/trace.svg in the README is made by it.

    python docs/trace_picture.py docs/trace.svg

One line a round: drafted tokens (kept, or struck out), then the target's own: a correction, or a
bonus when all drafts were kept. The picture shows the ROUNDS in a row that kept the most.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

import forerun
from forerun.trace import Round

PROMPT = "Write a Python class for a stack with push, pop and peek, and a short example of its use."
ROUNDS = 12
CHAR, HEIGHT, GAP, LEFT = 8.4, 24, 6, 80
LOOK = {  # kind -> fill, border, legend
    "accepted": ("#d9f2dd", "#2f8f46", "drafted, kept"),
    "rejected": ("#f0f0f0", "#a0a0a0", "drafted, dropped"),
    "residual": ("#fff0c2", "#c08a00", "the target's correction"),
    "bonus": ("#d5eefb", "#1f7fb0", "the target's bonus"),
}


def cells(record: Round, text) -> list[tuple[str, str, str]]:
    """(kind, text, title) of a round's tokens, in the order they stand in the text."""
    row = []
    for draft in record.drafted:
        kind = "accepted" if draft.accepted else "rejected"
        row.append((kind, text(draft.token), f"p = {draft.p:.3f}, drafted with q = {draft.q:.3f}"))
    if record.kinds[-1] != "accepted":
        row.append((record.kinds[-1], text(record.tokens[-1]), ""))
    return row


def box(x: float, y: float, kind: str, label: str, title: str) -> tuple[str, float]:
    fill, border, _ = LOOK[kind]
    width = CHAR * len(label) + 10
    style = {"accepted": "underline", "rejected": "line-through"}.get(kind, "none")
    weight = "bold" if kind == "residual" else "normal"
    return (
        f'<g><title>{escape(title)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{HEIGHT - 4}" rx="4" fill="{fill}" stroke="{border}"/>'
        f'<text x="{x + 5:.1f}" y="{y + 14}" xml:space="preserve" text-decoration="{style}" '
        f'font-weight="{weight}">{escape(label)}</text></g>',
        width,
    )


def picture(rounds: list[Round], text) -> str:
    parts, y, widest = [], 10, 640.0
    for record in rounds:
        x = float(LEFT)
        parts.append(f'<text x="8" y="{y + 14}" fill="#808080">pass {record.index + 1}</text>')
        for kind, label, title in cells(record, text):
            drawn, width = box(x, y, kind, label, title)
            parts.append(drawn)
            x += width + GAP
        widest = max(widest, x)
        y += HEIGHT
    y, x = y + 8, float(LEFT)
    for kind, (_, _, legend) in LOOK.items():
        drawn, width = box(x, y, kind, legend, "")
        parts.append(drawn)
        x += width + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(widest, x):.0f}" height="{y + 34}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#202020">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def main(out: Path) -> None:
    engine = forerun.load("smollm2", "suffix")
    done = engine.generate(
        [{"role": "user", "content": PROMPT}], seed=7, temperature=0.2, max_tokens=160
    )
    tokenizer = engine.target.tokenizer
    kept = [record.kinds.count("accepted") for record in done.trace]
    starts = range(max(len(kept) - ROUNDS, 0) + 1)
    best = max(starts, key=lambda i: sum(kept[i : i + ROUNDS]))
    rounds = list(done.trace[best : best + ROUNDS])
    tokens = sum(len(record.tokens) for record in rounds)
    print(f"{len(rounds)} passes, {tokens} tokens")
    out.write_text(picture(rounds, lambda i: tokenizer.token_text(i).replace("\n", "⏎")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
