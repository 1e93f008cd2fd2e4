"""`forerun certify`: is a speculative decoder lossless?

forerun certify --exact              forerun's own proof, by enumeration (`exact.py`)
forerun certify forerun              forerun by its samples, on tiny models and on yours
forerun certify http://…/v1 -m …     an endpoint; also transformers, llama-cpp-python, vllm,
                                     module:function (`sampled.py`)
forerun certify --check report.json  a report's numbers, computed again (`recheck.py`)
"""

from __future__ import annotations

import json as json_
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from forerun.certify import build
from forerun.certify.plan import Plan
from forerun.cli import exact as exact_
from forerun.cli.recheck import recheck
from forerun.cli.sampled import certify_by_samples
from forerun.cli.screen import Screen
from forerun.cli.session import cache_folder
from forerun.cli.values import number, whole, whole_or_auto
from forerun.errors import OptionError
from forerun.models.load import checked_threads

_PANEL = "Certifying an engine by its samples"


def _option(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, **more)


def certify(
    context: typer.Context,
    engine: Annotated[
        str | None,
        typer.Argument(
            metavar="ENGINE",
            help="forerun, transformers, llama-cpp-python, vllm, an address such as "
            "http://127.0.0.1:8000/v1, or module:function.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            metavar="",
            help="Enumerate forerun's production code under all its randomness.",
        ),
    ] = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            metavar="",
            help="With --exact: every case, some minutes; else a selection, or all of the named "
            "drafter or verifier.",
        ),
    ] = False,
    check_file: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="FILE",
            help="Compute a report's numbers again from its samples.",
        ),
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter",
            metavar="NAME",
            help="Of forerun: this drafter only. \\[default: all, and "
            "suffix or model with your models]",
        ),
    ] = None,
    verifier: Annotated[
        str | None,
        typer.Option(
            "--verifier",
            metavar="NAME",
            help="Of forerun: this verifier only. \\[default: all, and auto with your models]",
        ),
    ] = None,
    model: Annotated[
        str | None,
        _option(
            "-m",
            "--model",
            metavar="NAME|PATH",
            help="The target, as the engine knows it. \\[default: tiny models alone]",
        ),
    ] = None,
    head: Annotated[
        str | None,
        _option(
            "--head",
            metavar="FOLDER",
            help="The trained head of --drafter head. \\[default: the one that comes with forerun, "
            "if the model has one]",
        ),
    ] = None,
    draft_model: Annotated[
        str | None,
        _option(
            "--draft-model",
            metavar="NAME|PATH",
            help="The draft. Where it numbers its tokens as the "
            "target does, its law is known to the test.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        _option(
            "--reference",
            metavar="NAME|PATH|endpoint",
            help="The target for forerun's backends, which say its law; endpoint: the endpoint's "
            "own logprobs, where they cover all that may come. \\[default: --model]",
        ),
    ] = None,
    off: Annotated[
        str | None,
        _option(
            "--off",
            metavar="ADDRESS|ENTRY",
            help="The same engine with speculation off, where it cannot be turned off by request.",
        ),
    ] = None,
    num_draft: Annotated[
        Any,
        _option(
            "-k",
            "--num-draft",
            parser=whole_or_auto,
            metavar="N|auto",
            help="γ where a setting names none. \\[default: 4 for forerun, else the engine's own]",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        _option(
            "--option",
            metavar="KEY=VALUE",
            help="Of the engine's adapter, such as lookup=true; values "
            "are JSON or text. Repeatable.",
        ),
    ] = None,
    backend: Annotated[
        str,
        _option(
            "--backend",
            metavar="NAME",
            help="Of the reference, and of forerun: native or hf. \\[default: native where it can]",
        ),
    ] = "auto",
    dtype: Annotated[
        str,
        _option(
            "--dtype",
            metavar="NAME",
            help="Numbers the engine computes in: float32, bfloat16, float64.",
        ),
    ] = "float32",
    threads: Annotated[
        int | None,
        _option(
            "-t",
            "--threads",
            parser=whole,
            metavar="N",
            help="Of a pass.",
        ),
    ] = None,
    minutes: Annotated[
        float,
        _option(
            "--minutes",
            parser=number,
            metavar="M",
            help="How long it may take.",
        ),
    ] = 5.0,
    level: Annotated[
        float,
        _option(
            "--level",
            parser=number,
            metavar="P",
            help="Largest chance of a false alarm of the run.",
        ),
    ] = 1e-6,
    seed: Annotated[
        int | None,
        _option(
            "--seed",
            parser=whole,
            metavar="N",
            help="Of all samples. \\[default: a fresh one]",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        _option(
            "--setting",
            metavar="NAME",
            help="Of the matrix only this one. Repeatable. \\[default: all]",
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        _option(
            "--tokens",
            parser=whole,
            metavar="N",
            help="Most tokens of a setting. \\[default: as many as there is time for]",
        ),
    ] = None,
    no_tiny: Annotated[
        bool,
        _option(
            "--no-tiny",
            metavar="",
            help="No tiny models, only yours.",
        ),
    ] = False,
    trust_reference: Annotated[
        bool,
        _option(
            "--trust-reference",
            metavar="",
            help="Take the reference's word where speculation cannot be turned off to compare.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        _option(
            "--out",
            metavar="FOLDER",
            help="Keep report.json, report.md and report.html there.",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            metavar="",
            help="One JSON object on standard output.",
        ),
    ] = False,
    no_color: Annotated[
        bool,
        typer.Option(
            "--no-color",
            metavar="",
            help="No colours or styles.",
        ),
    ] = False,
) -> None:
    """Decide whether a speculative decoder is lossless.

    Samples of the engine are held against the target's law by an e-process: stop whenever you like,
    and a lossless engine is accused with a chance of at most --level. A matrix of settings, tiny
    models with known laws and your own, greedy text and seeds. Where a law fails with speculation
    on, the same settings run with it off: only what holds there is speculation's fault.

    Examples:

      forerun certify forerun --minutes 2

      forerun certify forerun -m smollm2 --drafter suffix --verifier block --minutes 5

      forerun certify http://127.0.0.1:8000/v1 -m NAME --reference model.gguf --out report

      forerun certify transformers -m FOLDER --draft-model FOLDER --out report

      forerun certify --exact --drafter suffix --verifier block

    Ctrl-C ends the sampling, and the verdict is on what there is.

    Exit code 0 lossless within the bound the verdict names, 1 not lossless, 2 could not decide, or
    usage.
    """
    screen = Screen(no_color=no_color)
    _one_of(engine, exact, check_file)
    if every and not exact:
        raise OptionError("--all goes with --exact: every case of the proof by enumeration")
    if exact:
        exact_.certify_exactly(screen, drafter, verifier, every=every, json=json)
        return
    if check_file is not None:
        recheck(screen, check_file, json=json)
        return
    assert engine is not None
    build.kind(engine)
    checked_threads(threads)
    plan = Plan(
        minutes=minutes,
        level=level,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        trust_reference=trust_reference,
        tokens=tokens,
    )
    wanted = build.Wanted(
        engine=engine,
        model=model,
        draft_model=draft_model,
        head=head,
        drafter=drafter,
        verifier=verifier,
        num_draft=num_draft,
        backend=backend,
        dtype=dtype,
        threads=threads,
        reference=reference,
        off=off,
        options=_options(option or []),
        settings=setting or [],
        cache=cache_folder(),
    )
    certify_by_samples(
        screen, wanted, plan, tiny=not no_tiny, out=out, json=json, args=context.obj or ()
    )


def _one_of(engine: str | None, exact: bool, check_file: Path | None) -> None:
    given = [name for name, there in (
        ("ENGINE", engine is not None), ("--exact", exact), ("--check", check_file is not None),
    ) if there]  # fmt: skip
    if len(given) != 1:
        what = "nothing to certify" if not given else f"{' and '.join(given)} exclude each other"
        raise OptionError(
            f"{what}: forerun certify ENGINE (such as forerun, or http://127.0.0.1:8000/v1), "
            "forerun certify --exact, or forerun certify --check report.json"
        )


def _options(given: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise OptionError(f"--option takes KEY=VALUE, such as lookup=true, not {text!r}")
        try:
            found[key.replace("-", "_")] = json_.loads(value)
        except json_.JSONDecodeError:
            found[key.replace("-", "_")] = value
    return found
