"""A run as a record: plain JSON, with every sample, so that its numbers can be computed again.

    report = as_dict(runs, plan, command)      write(report, folder)      report.json, .md, .html

What this module does not know: how the record is shown (`markdown.py`, `page.py`).
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forerun.certify.contexts import Context
from forerun.certify.engines.base import Told
from forerun.certify.law_verdict import LawVerdict
from forerun.certify.outcome import EXIT, of_all, outcome
from forerun.certify.plan import Plan
from forerun.certify.run import CaseRun
from forerun.certify.tally import Part

SCHEMA = 2  # 2: what the engine told of each sample, diagnostics
JSON, MARKDOWN, HTML = "report.json", "report.md", "report.html"
CURVE = 200  # points of an e-process that are kept


def as_dict(runs: Sequence[CaseRun], plan: Plan, command: str = "") -> dict[str, Any]:
    """All there is to say, and the samples it was said from."""
    outcomes = [outcome(run, plan) for run in runs]
    word = of_all(outcomes)
    return {
        "schema": SCHEMA,
        "forerun": _version(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "command": command,
        "plan": {
            "minutes": plan.minutes,
            "level": plan.level,
            "seed": plan.seed,
            "trust_reference": plan.trust_reference,
            "tokens": plan.tokens,
        },
        "verdict": word,
        "exit_code": EXIT[word],
        "cases": [
            {**_case(run), "verdict": found.word, "why": found.why, "blamed": list(found.blamed)}
            for run, found in zip(runs, outcomes)
        ],
    }


def _version() -> str:
    import forerun  # at the end of its own import

    return forerun.__version__


def _case(run: CaseRun) -> dict[str, Any]:
    case, tally = run.case, run.tally
    off = run.off
    shown = run.failing or None
    return {
        "name": case.name,
        "engine": dict(case.engine.describe()),
        "engine_name": case.engine.name,
        "temperature_last": case.engine.traits.temperature_last,
        "models": dict(case.models),
        "vocabulary": case.reference.vocab_size,
        "prompts": [list(prompt) for prompt in case.prompts],
        "seconds": round(run.seconds, 1),
        "ended": run.ended,
        **numbers(run.tally.whole, run.tally.whole.test.verdict()),
        "history": _thinned(tally.whole.test.history),
        "uniform": tally.uniform.tolist(),
        "diagnostics": [vars(each).copy() for each in tally.diagnostics.found],
        "settings": [_setting(run, name) for name in run.settings],
        "off": None
        if off is None
        else {
            "whole": numbers(off.whole, off.whole.test.verdict()),
            "settings": {
                name: numbers(part, part.test.verdict()) for name, part in off.parts.items()
            },
            "history": _thinned(off.whole.test.history),
        },
        "off_error": run.off_error,
        "bits": None if run.bits is None else _verdict(run.bits),
        "seeds": None if run.seeds is None else _verdict(run.seeds),
        "worst_contexts": [_context(each) for each in tally.contexts.worst(8, shown)],
        "records": [_record(each) for each in run.records],
    }


def numbers(part: Part, verdict: LawVerdict) -> dict[str, Any]:
    """What a test says, in figures."""
    return {
        "tokens": verdict.tokens,
        "sequences": verdict.sequences,
        "level": verdict.level,
        "log_e": verdict.log_e,
        "peak_log_e": verdict.peak_log_e,
        "fault": part.fault,
        "sentence": verdict.sentence,
        "zeros": verdict.zero_count,
        "edges": part.edges,
        "broken": part.broken_count,
        "broken_first": [
            {
                "setting": each.setting,
                "prompt": list(each.prompt),
                "tokens": list(each.tokens),
                "why": each.why,
            }
            for each in part.broken
        ],
        "bets": [{"name": bet.name, "log_e": bet.log_e} for bet in verdict.bets[:5]],
        "alternatives": [
            {
                "name": each.name,
                "tokens": each.tokens,
                "mean_tv": each.mean_tv,
                "bound": each.bound,
                "log_e": each.log_e,
                "claim": each.claim,
                "excluded": each.excluded,
            }
            for each in verdict.alternatives
        ],
        "band": dict(verdict.band),
    }


def _setting(run: CaseRun, name: str) -> dict[str, Any]:
    each = run.settings[name]
    part = run.tally.part(name)
    return {
        "name": name,
        "sampling": _plain(each.setting.sampling),
        "num_draft": each.setting.num_draft,
        "lengths": list(each.setting.lengths),
        "requests": each.asked,
        "seconds": round(each.seconds, 2),
        "failed_attempts": each.failures,
        "ended": each.ended,
        "unable": each.unable,
        **numbers(part, part.test.verdict()),
    }


def _record(each: Any) -> dict[str, Any]:
    return {
        "setting": each.setting,
        "prompt": each.prompt_number,
        "sampling": _plain(each.sampling),
        "seed": each.seed,
        "off": each.off,
        "samples": [list(tokens) for tokens in each.samples],
        "told": [_told(one) for one in each.told],
    }


def _told(told: Told) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if told.depths is not None:
        found["depths"] = list(told.depths)
    if told.guesses is not None:
        found["guesses"] = list(told.guesses)
    if told.laws is not None:
        found["laws"] = [[[i, value] for i, value in law.items()] for law in told.laws]
    if told.end is not None:
        found["end"] = told.end
    return found


def told_of(plain: Mapping[str, Any]) -> Told:
    """Out of JSON again."""
    laws = plain.get("laws")
    return Told(
        depths=tuple(plain["depths"]) if "depths" in plain else None,
        guesses=tuple(plain["guesses"]) if "guesses" in plain else None,
        laws=None if laws is None else tuple({int(i): float(l) for i, l in law} for law in laws),
        end=plain.get("end"),
    )


def _verdict(verdict: Any) -> dict[str, Any]:
    found = {k: v for k, v in vars(verdict).items() if k not in ("partings", "differences")}
    found["sentence"] = verdict.sentence
    for name in ("partings", "differences"):
        if some := getattr(verdict, name, ()):
            found[name] = [_plain(vars(each)) for each in some[:10]]
    return found


def _context(each: Context) -> dict[str, Any]:
    return {
        "setting": each.setting,
        "sampling": each.sampling,
        "prompt": list(each.prompt),
        "output": list(each.output),
        "count": each.count,
        "z": each.z,
        "tokens": [{"id": t, "p": p, "frequency": f} for t, p, f in each.tokens],
    }


def _plain(value: Any) -> Any:
    """As JSON has it: keys of mappings are texts there."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value


def without_samples(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report, for those who read it rather than check it."""
    cases = [{k: v for k, v in case.items() if k != "records"} for case in report["cases"]]
    return _plain({**report, "cases": cases})  # type: ignore[no-any-return]


def sampling_of(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling keywords out of JSON again."""
    found = dict(plain)
    if "logit_bias" in found:
        found["logit_bias"] = {int(i): float(b) for i, b in found["logit_bias"].items()}
    return found


def _thinned(history: Sequence[tuple[int, float]]) -> list[list[float]]:
    step = max(len(history) // CURVE, 1)
    kept = list(history[::step])
    if history and kept[-1] != history[-1]:
        kept.append(history[-1])
    return [[tokens, log_e] for tokens, log_e in kept]


def write(report: Mapping[str, Any], folder: Path, texts: Mapping[str, str]) -> None:
    """report.json and what else there is, by file name; each is whole whenever it is looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {JSON: json.dumps(_plain(report), ensure_ascii=False, separators=(",", ":")), **texts}
    for name, text in files.items():
        fresh = folder / f".{name}.{os.getpid()}"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(folder / name)
