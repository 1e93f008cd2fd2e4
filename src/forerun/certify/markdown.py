"""A report for people to read as text.

What this module does not know: how the numbers came about. It reads the record (`report.as_dict`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forerun.certify.law_verdict import power

Json = Mapping[str, Any]


def to_markdown(report: Json) -> str:
    plan = report["plan"]
    lines = [
        f"# {report['verdict']}",
        "",
        f"forerun {report['forerun']}, {report['time'][:10]}, {plan['minutes']:g} minutes, "
        f"seed {plan['seed']}, false alarm of the whole run ≤ {plan['level']:g}.",
        "",
    ]
    if report["command"]:
        lines += ["Again:", "", "```sh", report["command"], "```", ""]
    if len(report["cases"]) > 1:
        rows = [(c["name"], c["verdict"], f"{c['tokens']:,}", e_value(c)) for c in report["cases"]]
        lines += [*table(("case", "verdict", "tokens", "e-value"), rows), ""]
    for case in report["cases"]:
        lines += _case(case)
    return "\n".join(lines).rstrip() + "\n"


def _case(case: Json) -> list[str]:
    lines = [f"## {case['name']}: {case['verdict']}", "", f"{case['why']}.", ""]
    lines += [f"- engine: {engine_line(case)}", f"- law: {case['sentence']}"]
    lines += [f"- seeds: {case['seeds']['sentence']}"] if case["seeds"] else []
    lines += [f"- bits: {case['bits']['sentence']}"] if case["bits"] else []
    if case["off"] is not None:
        lines += [f"- speculation off: {case['off']['whole']['sentence']}"]
    if case["edges"]:
        lines += [
            f"- {case['edges']} tokens stood on the edge of a cut and were left out, with what "
            "came behind them in their texts"
        ]
    failed = sum(each["failed_attempts"] for each in case["settings"])
    lines += [f"- failed attempts, asked again with the same seed: {failed}"] if failed else []
    lines += [f"- {said}" for said in diagnostics(case)]
    lines += [""]
    lines += [*_settings(case), ""] if case["settings"] else []
    lines += _failing(case)
    lines += _alternatives(case["alternatives"])
    lines += _contexts(case["worst_contexts"])
    return lines


def _settings(case: Json) -> list[str]:
    rows = []
    for each in case["settings"]:
        off = (case["off"] or {}).get("settings", {}).get(each["name"])
        said = "FAULT" if each["fault"] else "" if each["tokens"] else "not run"
        if each["unable"] or (each["ended"] and not each["tokens"]):
            said = f"left out: {each['ended']}"
        rows.append(
            (
                each["name"],
                f"{each['tokens']:,}",
                e_value(each),
                str(each["zeros"] or ""),
                str(each["broken"] or ""),
                "" if off is None else f"{e_value(off)} ({off['tokens']:,})",
                said,
            )
        )
    header = ("setting", "tokens", "e-value", "p = 0", "broken", "off: e-value (tokens)", "")
    return table(header, rows)


def minimal(case: Json, setting: str | None = None) -> str | None:
    """The smallest case in which a fault shows: setting, prompt, what was expected and seen."""
    for each in case["settings"]:
        if each["fault"] and setting in (None, each["name"]) and each["broken_first"]:
            first = each["broken_first"][0]
            where = f"prompt {first['prompt']}, output {first['tokens']}"
            return f"{each['name']}: {where}: {first['why']}"
    for context in case["worst_contexts"]:
        if setting in (None, context["setting"]):
            return _described(context)
    return None


def failing(case: Json) -> list[str]:
    """Minimal failing cases of the settings that fail; of all together, where none does alone."""
    names = [each["name"] for each in case["settings"] if each["fault"]]
    if not names and not case["fault"]:
        return []
    return [said for name in names or [None] if (said := minimal(case, name))]


def _failing(case: Json) -> list[str]:
    found = failing(case)
    return ["Minimal failing cases:", "", *(f"- {said}" for said in found), ""] if found else []


def _described(context: Json) -> str:
    first = context["tokens"][0]
    return (
        f"{place_of(context)}: after prompt {context['prompt']} and output {context['output']}, "
        f"expected token {first['id']} with p = {first['p']:.4g}, observed "
        f"{first['frequency']:.4g} of {context['count']} times ({context['z']:+.1f} σ)"
    )


def place_of(context: Json) -> str:
    """The setting of a context, and its sampling."""
    sampling = context["sampling"]
    return f"{context['setting']} ({sampling})" if sampling else str(context["setting"])


def _alternatives(some: Sequence[Json]) -> list[str]:
    if not some:
        return []
    rows = [
        (
            each["name"],
            f"{each['tokens']:,}",
            f"{each['mean_tv']:.3g}",
            f"{each['bound']:.3g}",
            "yes" if each["excluded"] else "",
            power(each["log_e"]),
        )
        for each in some
    ]
    claim = some[0]["claim"]
    header = (
        "fault", "positions", "its mean TV", "at most here", f"excluded at TV ≥ {claim:g}",
        "e-value for it",
    )  # fmt: skip
    return [*table(header, rows), ""]


def _contexts(some: Sequence[Json]) -> list[str]:
    if not some:
        return []
    rows = []
    for each in some[:5]:
        shown = token_shares(each["tokens"])
        where = f"{place_of(each)}, {_short(each['prompt'])} {each['output']}"
        rows.append((where, str(each["count"]), shown, f"{each['z']:+.1f}"))
    header = ("furthest off: setting, prompt, output", "times", "token: p / frequency", "σ")
    return [*table(header, rows), ""]


def diagnostics(case: Json) -> list[str]:
    """Tests at numbers of tokens fixed beforehand, a line each."""
    return [
        f"u of the first {at['tokens']:,} tokens: chi-square p = {at['chi_square_p']:.2g}, "
        f"Anderson-Darling p = {at['anderson_darling_p']:.2g} (diagnostics: they decide nothing)"
        for at in case["diagnostics"]
    ]


def engine_line(case: Json) -> str:
    """What the engine says of itself."""
    return ", ".join(f"{k} {v}" for k, v in case["engine"].items() if v not in (None, {}, ""))


def token_shares(tokens: Sequence[Json]) -> str:
    """p of some tokens beside how often they came."""
    return ", ".join(f"{t['id']}: {t['p']:.3g} / {t['frequency']:.3g}" for t in tokens[:4])


def e_value(numbers: Json) -> str:
    """The largest e-value there was."""
    if numbers["zeros"] or numbers["broken"]:
        return "∞"
    return power(numbers["peak_log_e"]) if numbers["tokens"] else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, without the columns that are empty throughout."""
    kept = [i for i in range(len(header)) if i == 0 or any(row[i] for row in rows)]
    return [
        "| " + " | ".join(header[i] for i in kept) + " |",
        "| " + " | ".join("---" for _ in kept) + " |",
        *("| " + " | ".join(_cell(row[i]) for i in kept) + " |" for row in rows),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _short(prompt: Sequence[int]) -> str:
    shown = ", ".join(map(str, prompt[-6:]))
    return f"[{'… ' if len(prompt) > 6 else ''}{shown}]"
