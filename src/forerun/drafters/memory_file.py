"""What suffix drafters remember, in a file between runs.

    {"format": "forerun texts", "version": 1, "model": "smollm2", "tokens": "9f2c…"}
    {"tenant": "", "text": [1, 504, 28, …]}            the least recently used first
    …
    {"sha256": "…"}                                    of all lines before

The file takes the place of the one before it in one step, so that whoever is killed leaves one of
the two, whole. It holds what users wrote: nobody but its owner may read it (mode 0600). Tenants
stay apart in it, under the names the memory has for them (of a server, digests of API keys).

Ids mean something under one vocabulary alone. The digest of that stands in the file; texts of
another are refused by name. A file of another kind is refused too, and never written over. One
of this kind that is damaged is set aside as FILE.broken, and nothing is remembered.

What this module does not know: when it is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.drafters.base import Drafter, parts
from forerun.drafters.lookup import RememberingDrafter
from forerun.drafters.text_memory import TextMemory
from forerun.errors import MemoryFileError
from forerun.models.base import Model

FORMAT, VERSION = "forerun texts", 1


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What a model's ids stand for, as far as a digest can say."""

    model: str
    tokens: str
    size: int

    @classmethod
    def of(cls, model: Model) -> Vocabulary:
        """By the name of each id; without a tokenizer, by the model's own name."""
        digest, tokenizer = hashlib.sha256(), model.tokenizer
        if tokenizer is None:
            digest.update(f"{model.name}, {model.vocab_size} ids".encode())
        else:
            for i in range(tokenizer.vocab_size):
                name = tokenizer.token_text(i).encode(errors="surrogateescape")
                digest.update(len(name).to_bytes(4, "little") + name)
        return cls(model=model.name, tokens=digest.hexdigest(), size=model.vocab_size)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was read: how many texts, and where a damaged file lies now."""

    texts: int = 0
    aside: Path | None = None


def memories(drafter: Drafter | None) -> list[TextMemory]:
    """Those of the drafters that remember anything."""
    found = [
        part.memory for part in parts(drafter).values() if isinstance(part, RememberingDrafter)
    ]
    return [memory for memory in found if memory.limit > 0]


def read(path: Path, vocabulary: Vocabulary, into: Iterable[TextMemory]) -> Found:
    """Fill memories with a file's texts, as far as their limits reach; no file, no texts.

    MemoryFileError for a file that is none of this kind, or of another vocabulary, and where it
    cannot be read or written.
    """
    check_writable(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Found()
    except OSError as error:
        raise MemoryFileError(f"{path} cannot be read: {_reason(error)}") from None
    if not data:
        return Found()
    _check(path, _header(path, data), vocabulary)
    texts = _texts(data, vocabulary.size)
    if texts is None:
        aside = path.with_name(f"{path.name}.broken")
        os.replace(path, aside)
        return Found(aside=aside)
    for memory in into:
        for tenant, tokens in texts:
            memory.restore(tokens, tenant)
    return Found(texts=len(texts))


def write(path: Path, vocabulary: Vocabulary, memory: TextMemory) -> None:
    """The memory as it is, in place of what the file held. OSError where that cannot be."""
    path = Path(os.path.realpath(path))
    lines = [
        {
            "format": FORMAT,
            "version": VERSION,
            "model": vocabulary.model,
            "tokens": vocabulary.tokens,
        },
        *({"tenant": tenant, "text": tokens} for tenant, tokens in memory.snapshot()),
    ]
    digest = hashlib.sha256()
    handle, fresh = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as out:
            for line in lines:
                data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
                digest.update(data)
                out.write(data)
            out.write(json.dumps({"sha256": digest.hexdigest()}).encode() + b"\n")
            out.flush()
            os.fsync(out.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def check_writable(path: Path) -> None:
    """MemoryFileError where a file could not take this one's place."""
    if path.is_dir():
        raise MemoryFileError(f"{path} is a folder: give a file")
    try:
        handle, fresh = tempfile.mkstemp(
            prefix=f".{path.name}-", dir=Path(os.path.realpath(path)).parent
        )
    except OSError as error:
        raise MemoryFileError(
            f"{path} cannot be written: {_reason(error)}; give a file in a folder that exists"
        ) from None
    os.close(handle)
    os.unlink(fresh)


def _header(path: Path, data: bytes) -> dict[str, Any]:
    first, _, _ = data.partition(b"\n")
    with contextlib.suppress(ValueError):
        found = json.loads(first)
        if isinstance(found, dict) and found.get("format") == FORMAT:
            return found
    raise MemoryFileError(
        f"{path} is no file of remembered texts, and is left as it is: give another"
    )


def _check(path: Path, header: dict[str, Any], vocabulary: Vocabulary) -> None:
    if header.get("version") != VERSION:
        raise MemoryFileError(
            f"{path} is of version {header.get('version')!r}, this forerun reads {VERSION}: "
            "give another file"
        )
    if header.get("tokens") != vocabulary.tokens:
        raise MemoryFileError(
            f"{path} remembers texts of {header.get('model')}, whose tokens are others than those "
            f"of {vocabulary.model}: give each its own file"
        )


def _texts(data: bytes, size: int) -> list[tuple[str, list[int]]] | None:
    """Tenant and tokens of each text; None for a file that is not whole."""
    body, _, last = data.rstrip(b"\n").rpartition(b"\n")
    try:
        if json.loads(last) != {"sha256": hashlib.sha256(body + b"\n").hexdigest()}:
            return None
        lines = [json.loads(line) for line in body.split(b"\n")[1:]]
        texts = [(str(line["tenant"]), [int(token) for token in line["text"]]) for line in lines]
    except (ValueError, KeyError, TypeError):
        return None
    return texts if all(0 <= t < size for _, tokens in texts for t in tokens) else None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
