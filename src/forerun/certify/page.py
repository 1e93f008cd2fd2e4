"""A report as one HTML page that stands alone: no scripts, no fonts, nothing fetched.

What this module does not know: how the numbers came about. It reads the record (`report.as_dict`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from forerun.certify import figures
from forerun.certify.law_verdict import power
from forerun.certify.markdown import (
    diagnostics,
    e_value,
    engine_line,
    failing,
    place_of,
    token_shares,
)

Json = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1d1d1b; --soft: #5c5c58; --paper: #fdfdfb; --line: #d9d9d3;
  --good: #2c6e3f; --bad: #a5341c; --open: #8a6410; --panel: #f4f4f0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e4; --soft: #a9a9a3; --paper: #191918;
  --line: #3c3c39; --good: #7fc992; --bad: #f0937d; --open: #e0b75c; --panel: #232321; }
  figure { background: #f4f4f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.2rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; } h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
.lossless { color: var(--good); } .not { color: var(--bad); } .undecided { color: var(--open); }
p.soft, figcaption, .soft { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .8rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { white-space: nowrap; } td.n, th.n { text-align: right; }
tr.bad td { color: var(--bad); font-weight: 600; }
pre { background: var(--panel); padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }
"""


def to_html(report: Json) -> str:
    """Needs matplotlib: MissingExtraError without it."""
    plan = report["plan"]
    parts = [
        f"<h1 class={_kind(report['verdict'])}>{_text(report['verdict'])}</h1>",
        f"<p class=soft>forerun {_text(report['forerun'])} · {_text(report['time'])} · "
        f"{plan['minutes']:g} minutes · seed {plan['seed']} · false alarm of the whole run ≤ "
        f"{plan['level']:g}</p>",
    ]
    if len(report["cases"]) > 1:
        rows = [[c["name"], c["verdict"], f"{c['tokens']:,}", e_value(c)] for c in report["cases"]]
        bad = [c["verdict"] == "not lossless" for c in report["cases"]]
        parts.append(_table(["case", "verdict", "tokens", "e-value"], rows, bad, numbers={2, 3}))
    parts += [_case(case) for case in report["cases"]]
    if report["command"]:
        parts.append(f"<h2>Again</h2><pre>{_text(report['command'])}</pre>")
    parts.append(
        "<h2>How to read this</h2><p>A lossless engine's e-value stays small: the chance that it "
        "ever reaches the threshold is at most the false-alarm level, whenever one looks. "
        "Contexts that are furthest off are shown for people; with many contexts some are far off "
        "by chance.</p>"
    )
    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(report['verdict'])} – forerun certify</title>\n<style>{_STYLE}</style>\n"
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _case(case: Json) -> str:
    about = [
        ("engine", engine_line(case)),
        ("law", case["sentence"]),
        ("seeds", (case["seeds"] or {}).get("sentence", "")),
        ("bits", (case["bits"] or {}).get("sentence", "")),
        ("speculation off", (case["off"] or {}).get("whole", {}).get("sentence", "")),
        *(("diagnostics", said) for said in diagnostics(case)),
        ("on the edge of a cut", f"{case['edges']:,} tokens, left out" if case["edges"] else ""),
    ]  # fmt: skip
    rows = "".join(f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in about if v)
    parts = [
        f"<section><h2>{_text(case['name'])}: <span class={_kind(case['verdict'])}>"
        f"{_text(case['verdict'])}</span></h2>",
        f"<p>{_text(case['why'])}.</p><dl>{rows}</dl>",
        _figure(figures.processes(case), "The e-process over tokens, all settings together."),
        _figure(
            figures.calibration(case),
            "Calibration of u: flat, and within the dotted band, under a lossless engine. Grey: "
            "three standard deviations of a bar.",
        ),
        _settings(case),
        _failing(case),
        _alternatives(case["alternatives"]),
        _contexts(case["worst_contexts"]),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _settings(case: Json) -> str:
    if not case["settings"]:
        return ""
    rows = []
    for each in case["settings"]:
        off = (case["off"] or {}).get("settings", {}).get(each["name"])
        rows.append([
            each["name"], f"{each['tokens']:,}", e_value(each), str(each["zeros"] or ""),
            str(each["broken"] or ""), "" if off is None else f"{e_value(off)} ({off['tokens']:,})",
            "FAULT" if each["fault"] else (each["ended"] or ""),
        ])  # fmt: skip
    header = ["setting", "tokens", "e-value", "p = 0", "broken", "off: e-value (tokens)", ""]
    bad = [each["fault"] for each in case["settings"]]
    return "<h3>Settings</h3>" + _table(header, rows, bad, numbers={1, 2, 3, 4})


def _failing(case: Json) -> str:
    found = failing(case)
    if not found:
        return ""
    items = "".join(f"<li>{_text(said)}</li>" for said in found)
    return f"<h3>Minimal failing cases</h3><ul>{items}</ul>"


def _alternatives(some: Sequence[Json]) -> str:
    if not some:
        return ""
    rows = [
        [
            each["name"], f"{each['tokens']:,}", f"{each['mean_tv']:.3g}", f"{each['bound']:.3g}",
            "yes" if each["excluded"] else "", power(each["log_e"]),
        ]
        for each in some
    ]  # fmt: skip
    header = [
        "fault", "positions", "its mean TV", "at most here",
        f"excluded at TV ≥ {some[0]['claim']:g}", "e-value for it",
    ]  # fmt: skip
    return "<h3>Named faults</h3>" + _table(header, rows, [False] * len(rows), numbers={1, 2, 3, 5})


def _contexts(some: Sequence[Json]) -> str:
    if not some:
        return ""
    rows = [
        [
            place_of(each), str(each["prompt"]), str(each["output"]), str(each["count"]),
            token_shares(each["tokens"]),
            f"{each['z']:+.1f}",
        ]
        for each in some
    ]  # fmt: skip
    header = ["setting", "prompt", "output before", "times", "token: p / frequency", "σ"]
    return "<h3>Contexts furthest off</h3>" + _table(
        header, rows, [False] * len(rows), numbers={3, 5}
    )


def _table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    bad: Sequence[bool],
    *,
    numbers: set[int],
) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if i in numbers else ''}>{_text(cell)}</{tag}>"
            for i, cell in enumerate(row)
        )

    lines = [
        f"<tr{' class=bad' if wrong else ''}>{cells('td', row)}</tr>"
        for row, wrong in zip(rows, bad)
    ]
    return (
        f"<div class=wide><table><thead><tr>{cells('th', header)}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{_text(caption)}</figcaption></figure>"


def _kind(verdict: str) -> str:
    return verdict.split()[0]


def _text(value: Any) -> str:
    return escape(str(value))
