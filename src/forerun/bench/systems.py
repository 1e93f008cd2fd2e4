"""What a system is called, and how its process is started.

    ENGINE:MODE          native:suffix, llama-cpp-python:lookup
    ENGINE:MODE@GAMMA    native:model@4, native:suffix+model@auto, transformers:assisted@5

ENGINE is a backend of forerun or a peer; MODE is plain or a way to draft; GAMMA is the number of
drafted tokens (without it, the engine's own default). Systems of one engine share a process, and
so the weights.

This module does not know what is measured.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forerun.drafters import DRAFTERS, with_head, with_model
from forerun.errors import OptionError, UnknownNameError
from forerun.models.load import BACKENDS

PLAIN = "plain"
AUTO = "auto"
_WORKERS = Path(__file__).parent / "workers"
_BUILD = "python benchmarks/peers.py FOLDER {} (in forerun's sources), and give --peers FOLDER"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine that can be measured: a backend of forerun, or a peer."""

    name: str
    what: str
    modes: tuple[str, ...]  # those that may be joined with "+" apart from plain
    draft_modes: frozenset[str] = frozenset()  # those that need a draft model
    worker: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    peer: str | None = None  # folder under --peers; None: forerun itself

    @property
    def joins(self) -> bool:
        """Whether several modes can be joined with "+"."""
        return self.peer in (None, "llama-server")


def _own(backend: str) -> Engine:
    drafters = tuple(n for n in DRAFTERS if n not in ("none", "prediction"))
    return Engine(
        name=backend,
        what=f"forerun, {backend} backend",
        modes=(PLAIN, *drafters),
        draft_modes=frozenset(with_model(drafters)),
        worker="forerun_engine.py",
        settings={"backend": backend},
    )


def _transformers(name: str, dtype: str) -> Engine:
    return Engine(
        name=name,
        what=f"transformers, {dtype}",
        modes=(PLAIN, "lookup", "assisted"),
        draft_modes=frozenset({"assisted"}),
        worker="transformers_peer.py",
        settings={"dtype": dtype},
        peer="transformers",
    )


_PEERS = (
    Engine(
        name="llama-cpp-python",
        what="llama.cpp under Python",
        modes=(PLAIN, "lookup"),
        worker="llama_cpp_python.py",
        peer="llama-cpp-python",
    ),
    Engine(
        name="llama-server",
        what="llama.cpp's server",
        modes=(
            PLAIN, "draft-simple", "ngram-simple", "ngram-short", "ngram-map-k", "ngram-mod",
            "ngram-cache",
        ),
        draft_modes=frozenset({"draft-simple"}),
        worker="llama_server.py",
        peer="llama-server",
    ),
    _transformers("transformers", "float32"),
    _transformers("transformers-bf16", "bfloat16"),
)  # fmt: skip

ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (*(_own(name) for name in BACKENDS), *_PEERS)
}


@dataclass(frozen=True, kw_only=True)
class System:
    """One way to decode that is measured."""

    engine: Engine
    mode: str
    num_draft: int | str | None = None  # None: the engine's own default

    @property
    def name(self) -> str:
        gamma = "" if self.num_draft is None else f"@{self.num_draft}"
        return f"{self.engine.name}:{self.mode}{gamma}"

    @property
    def needs_head(self) -> bool:
        return self.engine.peer is None and bool(with_head(self.mode.split("+")))

    @property
    def needs_draft_model(self) -> bool:
        return bool(self.engine.draft_modes & set(self.mode.split("+")))


def parse(name: str) -> System:
    """The system of that name. UnknownNameError lists the engines, or the modes of the engine."""
    head, _, gamma = name.partition("@")
    engine_name, _, mode = head.partition(":")
    if engine_name not in ENGINES:
        raise UnknownNameError.of("engine", engine_name, ENGINES)
    engine = ENGINES[engine_name]
    mode = mode or PLAIN
    parts = mode.split("+")
    for part in parts:
        if part not in engine.modes:
            raise UnknownNameError.of(f"mode of {engine_name}", part, engine.modes)
    if len(parts) > 1 and (not engine.joins or PLAIN in parts or len(set(parts)) < len(parts)):
        raise OptionError(f"{name}: these modes cannot be joined; {engine_name} has {engine.modes}")
    return System(engine=engine, mode=mode, num_draft=_gamma(name, gamma, engine))


def _gamma(name: str, text: str, engine: Engine) -> int | str | None:
    if not text:
        return None
    if text == AUTO and engine.peer is None:
        return AUTO
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        auto = ", or auto" if engine.peer is None else ""
        raise OptionError(f"{name}: after @ comes a number from 1 to 64{auto}, not {text!r}")
    return int(text)


def command(engine: Engine, peers: Path | None) -> tuple[list[str], dict[str, Any]]:
    """What starts the engine's process, and the settings that its worker gets besides the models.

    OptionError says how to get a peer that is not there.
    """
    settings = dict(engine.settings)
    worker = [str(_WORKERS / "serve.py"), str(_WORKERS / engine.worker)]
    if engine.peer is None:
        return [sys.executable, *worker], settings
    home = peers / engine.peer if peers is not None else None
    if engine.peer == "llama-server":
        binary = home / "bin" / "llama-server" if home is not None else None
        if binary is None or not binary.is_file():
            raise _missing(engine, home)
        return [sys.executable, *worker], settings | {"binary": str(binary)}
    python = home / "bin" / "python" if home is not None else None
    if python is not None and python.is_file():
        return [str(python), *worker], settings
    if engine.peer == "transformers" and importlib.util.find_spec("transformers") is not None:
        return [sys.executable, *worker], settings  # the one that the hf backend uses
    raise _missing(engine, home)


def _missing(engine: Engine, home: Path | None) -> OptionError:
    where = "no --peers folder was given" if home is None else f"{home} does not hold it"
    return OptionError(
        f"the peer {engine.name} is not there: {where}. It is built by "
        + _BUILD.format(engine.peer)
    )
