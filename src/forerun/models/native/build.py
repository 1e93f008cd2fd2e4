"""Compile `csrc/` into the one shared library, with the machine's own C compiler.

    python -m forerun.models.native.build [OUT] [--cc CC]

Every C file of the folder is one translation unit. All get the same plain flags; a file named for
an instruction path (`*_avx512.c`, `*_avx2.c`, `*_neon.c`) also gets that path's, and is left out on
machines of another kind. So the library runs on any machine of its kind, whatever its generation:
which path is used is decided when it runs, and nothing is ever built with `-march=native`. No
fused multiply-adds but those written, no fast-math: the compiler must not choose the bits.

What this module does not know: forerun. The build hook loads it by its path, before anything is
installed, so it imports the standard library alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).with_name("csrc")
LIBRARY = "libforerun.dylib" if sys.platform == "darwin" else "libforerun.so"
PLACE = Path(__file__).parents[2] / LIBRARY  # where forerun looks for it: beside its clib.py

FLAGS = [
    *("-std=c11", "-O3", "-ffp-contract=off", "-fno-fast-math"),
    *("-fno-trapping-math", "-fno-math-errno"),  # flags that are never read; the values stay
    *("-fvisibility=hidden", "-fPIC", "-pthread", "-Wall", "-Wextra"),
]

AVX2 = "-mavx2 -mfma -mf16c"
PATHS = {
    "avx512": ("x86_64", f"-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni {AVX2}"),
    "avx2": ("x86_64", AVX2),
    "neon": ("aarch64", "-march=armv8.2-a+dotprod+fp16"),
}
"""Instruction paths by the end of a file's name: the kind of machine, and the flags."""


class BuildError(Exception):
    """The library could not be built; the message is one line."""


def compiler(cc: str | None = None) -> list[str]:
    """The C compiler's command: `cc`, else the environment's CC, else what is found."""
    if named := cc or os.environ.get("CC"):
        command = shlex.split(named)
        if command and shutil.which(command[0]):
            return command
        raise BuildError(f"C compiler {named!r} not found")
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise BuildError("no C compiler found (cc, gcc or clang; or set CC)")


def machine(command: Sequence[str]) -> str:
    """The kind of machine the compiler compiles for: x86_64, aarch64, …"""
    triple = _run([*command, "-dumpmachine"]).strip()
    kind = triple.split("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(kind, kind)


def units(kind: str, sources: Path = SOURCES) -> list[tuple[Path, list[str]]]:
    """The C files for that kind of machine, each with its flags."""
    chosen = []
    for file in sorted(sources.glob("*.c")):
        only, extra = PATHS.get(file.stem.rpartition("_")[2], (kind, ""))
        if only == kind:
            chosen.append((file, [*FLAGS, *extra.split()]))
    return chosen


def fingerprint(kind: str, sources: Path = SOURCES) -> str:
    """A hash of sources and flags; the library tells its own by `fr_build`."""
    digest = hashlib.sha256()
    flags = {file.name: flags for file, flags in units(kind, sources)}
    for file in sorted(sources.iterdir()):
        if file.suffix in (".c", ".h"):
            text = file.read_bytes()
            head = f"{file.name} {flags.get(file.name)} {len(text)}\n"
            digest.update(head.encode() + text)
    return digest.hexdigest()[:16]


def build(out: Path = PLACE, cc: str | None = None, sources: Path = SOURCES) -> str:
    """Compile the library to `out`, which is replaced in one step; returns the kind of machine.

    BuildError where there is no compiler, or it fails. What it warns of goes to stderr.
    """
    if os.name == "nt":
        raise BuildError("the C library is not built on Windows")
    command = compiler(cc)
    kind = machine(command)
    mark = f'-DFR_BUILD="{fingerprint(kind, sources)}"'
    with tempfile.TemporaryDirectory(prefix="forerun-build-") as folder:
        compiles = [
            [*command, *flags, mark, "-c", str(file), "-o", f"{folder}/{file.stem}.o"]
            for file, flags in units(kind, sources)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, compiles))
        objects = [each[-1] for each in compiles]
        library = f"{folder}/{out.name}"
        _run([*command, "-shared", "-pthread", *objects, "-o", library, "-lm"])
        _replace(Path(library), out)
    return kind


def _replace(new: Path, out: Path) -> None:
    """By a rename within one folder: a process that has the old library open keeps it."""
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        shutil.copy(new, beside)
        os.replace(beside, out)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise BuildError(f"cannot write {out}: {error.strerror}") from None


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        said = next((line for line in lines if "error:" in line), lines[-1])
        raise BuildError(f"{command[0]} failed: {said}")
    sys.stderr.write(done.stderr)
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, default=PLACE, metavar="OUT")
    parser.add_argument("--cc", help="the C compiler (default: CC, else cc, gcc or clang)")
    options = parser.parse_args()
    try:
        build(options.out, options.cc)
    except BuildError as error:
        print(f"forerun's C library was not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
