"""`forerun serve`: an OpenAI-compatible server."""

from __future__ import annotations

import importlib
import logging
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from forerun.cli.interrupts import Interrupts
from forerun.cli.options import DRAFTING, MODEL, Settings, command
from forerun.cli.remembering import remembering
from forerun.cli.screen import Screen
from forerun.cli.session import Session
from forerun.cli.trace_file import TraceFile
from forerun.cli.values import number, parse_size, whole, whole_or_auto
from forerun.engine import Engine
from forerun.errors import MissingExtraError, OptionError
from forerun.models.files import sampled
from forerun.models.machine import usable_memory

KEY = "FORERUN_API_KEY"
SHARE = 4  # caches of a model may take a fourth of the machine's memory, if nothing is said
_SERVER, _LIMITS, _SAFETY = "Server", "Limits", "Who may ask, and what is told"
_RAY = "Several processes or machines"


def _option(panel: str, names: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(*names.split(), metavar=metavar, help=help, rich_help_panel=panel, **more)


# fmt: off
HOST = _option(
    _SERVER, "--host", "ADDRESS", "0.0.0.0 lets other machines ask: give --api-key then.",
)
PORT = _option(_SERVER, "--port", "N", "0: a free one, which is told.", parser=whole)
API_KEY = _option(
    _SAFETY, "--api-key", "KEY",
    f"Who may ask. Repeatable. {KEY} in the environment does the same, unseen by other "
    "users of the machine; keys are separated by commas there. \\[default: everybody]",
)
LOG_FILE = _option(
    "Output", "--log-file", "FILE", "Append the log to a file, instead of standard error.",
)


def serve(
    host: Annotated[str, HOST] = "127.0.0.1",
    port: Annotated[int, PORT] = 8000,
    served_model_name: Annotated[list[str] | None, _option(
        _SERVER, "--served-model-name", "NAME",
        "The name clients call the model by. Repeatable: all are taken, the first is given. "
        "\\[default: the model's]",
    )] = None,
    stream_pacing: Annotated[float | None, _option(
        _SERVER, "--stream-pacing", "MS",
        "Send streams in chunks of equal size, one every MS milliseconds: else the tokens in a "
        "packet tell eavesdroppers which guesses were accepted. \\[default: as tokens come]",
        parser=number,
    )] = None,
    default_max_tokens: Annotated[int, _option(
        _SERVER, "--default-max-tokens", "N", "Of a chat answer whose client names no limit.",
        parser=whole,
    )] = 1024,
    max_batch: Annotated[int, _option(
        _LIMITS, "--max-batch", "N", "Most answers that are written at once.", parser=whole,
    )] = 8,
    max_waiting: Annotated[int, _option(
        _LIMITS, "--max-waiting", "N", "Most that wait; further ones are told to come later (429).",
        parser=whole,
    )] = 512,
    prefix_memory: Annotated[str, _option(
        _LIMITS, "--prefix-memory", "SIZE",
        "Memory for what was read of earlier texts, so that those that begin alike are answered "
        "sooner. It comes on top of --max-memory; 0: none.",
    )] = "512MiB",
    max_body: Annotated[str, _option(
        _LIMITS, "--max-body", "SIZE", "Largest body of a request.",
    )] = "4MiB",
    timeout: Annotated[float, _option(
        _LIMITS, "--timeout", "SECONDS", "Longest time of a request, waiting included.",
        parser=number,
    )] = 600.0,
    api_key: Annotated[list[str] | None, API_KEY] = None,
    metrics_key: Annotated[list[str] | None, _option(
        _SAFETY, "--metrics-key", "KEY",
        "Who may see /metrics. Repeatable. \\[default: everybody, or nobody if there are API keys: "
        "counters tell one client what another's drafts came to]",
    )] = None,
    allowed_host: Annotated[list[str] | None, _option(
        _SAFETY, "--allowed-host", "NAME",
        "Names the server answers to, or *. Repeatable. "
        "\\[default: on 127.0.0.1 those of the machine itself, else any]",
    )] = None,
    share_prefixes: Annotated[bool, _option(
        _SAFETY, "--share-prefixes", "",
        "Share what was read between keys, too: times then tell one what another asked.",
    )] = False,
    cors_origin: Annotated[list[str] | None, _option(
        _SAFETY, "--cors-origin", "ORIGIN",
        "Web pages that may ask from a browser, such as https://example.org, or *. Repeatable.",
    )] = None,
    log_prompts: Annotated[bool, _option(
        _SAFETY, "--log-prompts", "", "Write prompts and answers into the log.",
    )] = False,
    ray: Annotated[str | None, _option(
        _RAY, "--ray", "\\[ADDRESS]",
        "Serve over Ray: without an address, or with local, over one of its own on this machine; "
        "auto: over the one that runs here. The same command with another model replaces the "
        "model. Needs the extra cluster.",
    )] = None,
    replicas: Annotated[Any, _option(
        _RAY, "--replicas", "N|auto",
        "Engines; auto: as many as the queue asks for. \\[default: 1]", parser=whole_or_auto,
    )] = None,
    cpus_per_replica: Annotated[int | None, _option(
        _RAY, "--cpus-per-replica", "N",
        "What Ray sets aside for each; also its threads, unless --threads says otherwise. "
        "\\[default: 1]", parser=whole,
    )] = None,
    gpus_per_replica: Annotated[float | None, _option(
        _RAY, "--gpus-per-replica", "N", "The same of GPUs. \\[default: 0]", parser=number,
    )] = None,
    fronts: Annotated[int | None, _option(
        _RAY, "--fronts", "N", "Processes that speak HTTP with clients. \\[default: 1]",
        parser=whole,
    )] = None,
    private_weights: Annotated[bool, _option(
        _RAY, "--private-weights", "",
        "Weights of its own for each, where those of a machine else have them in common: more "
        "memory, passes that are a few percent quicker.",
    )] = False,
    verbose: Annotated[int, _option(
        "Output", "-v --verbose", "", "Log every look at /health too.", count=True,
        show_default=False,
    )] = 0,
    log_file: Annotated[Path | None, LOG_FILE] = None,
    *,
    settings: Settings,
) -> None:
    # fmt: on
    """Serve a model to OpenAI's clients.

    Point any of them at http://127.0.0.1:8000/v1. The log is a JSON object a line. Ctrl-C or
    SIGTERM lets running answers end; a second one does not.

    Examples:

      forerun serve

      forerun serve -m model.gguf --draft-model small.gguf --api-key "$KEY" --host 0.0.0.0

      forerun serve --ray --replicas 4
    """
    server = extra("forerun serve")
    settings.check()
    if stream_pacing is not None and not stream_pacing > 0:
        raise OptionError(
            f"--stream-pacing must be a number of milliseconds above 0, not {stream_pacing:g}"
        )
    check_port(port)
    config = server.ServerConfig(
        models=tuple(served_model_name or [name_of(settings.model)]),
        api_keys=keys(api_key),
        metrics_keys=tuple(metrics_key or []),
        hosts=tuple(allowed_host or []),
        cors_origins=tuple(cors_origin or []),
        max_body=parse_size("--max-body", max_body),
        timeout=timeout,
        default_max_tokens=default_max_tokens,
        pacing=None if stream_pacing is None else stream_pacing / 1000,
        log_prompts=log_prompts,
    )
    kept = 0 if prefix_memory == "0" else parse_size("--prefix-memory", prefix_memory)
    spread = {
        "replicas": replicas, "cpus_per_replica": cpus_per_replica,
        "gpus_per_replica": gpus_per_replica, "fronts": fronts,
        "private_weights": private_weights or None,
    }  # fmt: skip
    if ray is None and (given := [name for name, value in spread.items() if value is not None]):
        raise OptionError(f"--{given[0].replace('_', '-')} goes with --ray")
    if ray is not None and settings.memory is not None:
        raise OptionError("--memory FILE is one process's to write: it does not go with --ray")
    limits = {
        "max_batch": max_batch,
        "max_waiting": max_waiting,
        "prefix_memory": kept,
        "share_prefixes": share_prefixes,
    }
    level = logging.DEBUG if verbose else logging.INFO
    if ray is not None:
        from forerun.cluster.serve import Layout, RayServer

        cpus = 1 if cpus_per_replica is None else cpus_per_replica
        layout = Layout(
            replicas=None if replicas == "auto" else 1 if replicas is None else replicas,
            cpus=cpus,
            gpus=gpus_per_replica or 0.0,
            fronts=1 if fronts is None else fronts,
            max_batch=max_batch,
            max_waiting=max_waiting,
            timeout=timeout,
        )
        alone = replace(settings, threads=settings.threads or cpus)
        with (
            server.logging_lines(log_file, texts=log_prompts, level=level),
            Interrupts(signal.SIGINT, signal.SIGTERM) as interrupts,
        ):
            RayServer(
                ray, layout, config,
                make=partial(opened, alone, share_weights=not private_weights, **limits),
                model=partial(computed, settings), share_prefixes=share_prefixes,
                host=host, port=port, log_file=log_file, log_level=level,
            ).run(lambda: interrupts.pressed)  # fmt: skip
        return
    engine = opened(settings, **limits)
    with (
        server.logging_lines(log_file, texts=log_prompts, level=level),
        remembering(settings, engine),
    ):
        server.Server(engine, config, host=host, port=port).run()


serve = command(serve, only=(MODEL, DRAFTING))


def extra(command: str) -> ModuleType:
    """The server's package; MissingExtraError, for `command`, where what it needs is not here."""
    try:
        return importlib.import_module("forerun.server")
    except ModuleNotFoundError as error:
        raise MissingExtraError.of(error.name or "fastapi", "server", command) from None


def opened(settings: Settings, **limits: Any) -> Engine:
    """An engine that has measured what it must."""
    engine = loaded(settings, Screen(), **limits)
    if engine.drafter is not None:
        engine.costs()  # now, not in the middle of the first requests
    return engine


def computed(settings: Settings) -> str:
    """A name for the model and for how it is computed: of two replicas of one name any may go on
    with what the other began."""
    from forerun.batch.identity import Identity
    from forerun.openai.endpoint import VERSION

    file = Path(settings.model)
    return Identity.of("", {
        "model": [name_of(settings.model), sampled(file) if file.is_file() else None],
        "backend": settings.backend, "dtype": settings.dtype, "device": settings.device,
        "context": settings.context, "forerun": VERSION,
    }).options  # fmt: skip


def loaded(settings: Settings, screen: Screen, **engine: Any) -> Engine:
    """The engine that `settings` ask for, with bounded caches. `engine` are further keywords of
    `Session`."""
    if settings.max_memory is None:
        settings = replace(settings, max_memory=_share())
    predicted = settings.predicted_text()
    with TraceFile(None) as trace:
        return Session(settings, screen, trace, predicted, **engine).engine


def check_port(port: int) -> None:
    if not 0 <= port < 65536:
        raise OptionError(f"--port must be from 0 to 65535, not {port}")


def name_of(model: str) -> str:
    """What clients call it: the name of a named or hub model, the stem of a file."""
    path = Path(model)
    return path.stem if path.suffix == ".gguf" else path.name if path.is_dir() else model


def keys(given: list[str] | None) -> tuple[str, ...]:
    """Those of the command line, and those of the environment."""
    return (*(given or []), *(key for key in os.environ.get(KEY, "").split(",") if key))


def _share() -> str | None:
    """Of the machine's memory, for the caches of each model; None where it is not known."""
    memory = usable_memory()
    return None if memory is None else str(memory // SHARE)
